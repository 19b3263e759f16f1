"""Which device this machine has to offer."""

from __future__ import annotations

from reporter.errors import ReporterError


def pick_device(asked: str) -> str:
    """Return the device to run on: the one asked for, or the best there is.

    Args:
        asked: ``auto``, ``cpu``, ``mps``, ``cuda`` or ``cuda:N``.

    Raises:
        ReporterError: if this machine does not have it.
    """
    import torch

    if asked == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = asked.partition(":")
    there = {"cpu": 1, "mps": int(torch.backends.mps.is_available()), "cuda": torch.cuda.device_count()}[kind]
    if int(number or 0) >= there:
        raise ReporterError(f"run.device is {asked!r}, which this machine does not have; write `device: auto`")
    return asked
