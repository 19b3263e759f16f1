"""Bounds on loading: what a configuration claims is held against the weights' headers, and time is limited."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reporter.core.errors import ReporterError
from reporter.models.model_folder import CONFIG

LOADING_MINUTES = 15.0
MINUTES_PER_GIGABYTE = 2.0

_LAYERS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
_WIDTHS = ("hidden_size", "d_model", "intermediate_size", "ffn_dim", "d_ff", "vocab_size", "max_position_embeddings")
_PACKED = 8  # numbers of 4 bits in one of 32


@dataclass(frozen=True)
class Header:
    """What the headers of safetensors files say, which are read without their weights.

    Args:
        tensors: how many there are.
        integers: how many numbers of them are integers.
        floats: how many are not.
        largest: the largest dimension.
    """

    tensors: int
    integers: int
    floats: int
    largest: int


def read_headers(files: Sequence[Path]) -> Header:
    """Read the headers of weights; an index among the files is passed over."""
    from safetensors import SafetensorError, safe_open

    numbers, tensors, largest = {True: 0, False: 0}, 0, 0
    for file in files:
        if file.suffix != ".safetensors":
            continue
        try:
            with safe_open(str(file), framework="pt") as content:  # compares its header with its size
                for name in content.keys():  # noqa: SIM118 (no mapping)
                    tensor = content.get_slice(name)
                    shape = tensor.get_shape()
                    tensors, largest = tensors + 1, max(largest, *shape, 0) if shape else largest
                    numbers[tensor.get_dtype()[:1] in "IU"] += math.prod(shape)
        except (SafetensorError, OSError) as error:
            raise ReporterError(f"{file} is damaged: {error}; fetch or save it again") from error
    return Header(tensors, numbers[True], numbers[False], largest)


def refuse_claims(config: Any, header: Header, folder: Path) -> None:
    """Refuse a configuration that claims more than the weights can hold, before anything of it is built.

    Every layer has a weight of its own, or shares those of others, of which there are several; no width is larger than
    the largest dimension of a weight. The table of positions may be computed, so that only absurd ones are refused.
    """
    for part in {id(settings): settings for settings in (config, _text(config))}.values():
        for name in _LAYERS:
            claimed = getattr(part, name, None)
            if isinstance(claimed, int) and claimed > header.tensors:
                raise ReporterError(
                    f"{folder}: {CONFIG} says {claimed:,} layers ({name}), and there are {header.tensors:,} weights in "
                    "all; weights and configuration do not belong together"
                )
        for name in _WIDTHS:
            claimed = getattr(part, name, None)
            most = header.largest * _PACKED if name != "max_position_embeddings" else 1 << 30
            if isinstance(claimed, int) and claimed > most:
                raise ReporterError(
                    f"{folder}: {CONFIG} says {name} {claimed:,}, and the largest dimension of its weights is "
                    f"{header.largest:,}; weights and configuration do not belong together"
                )


def _text(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


@contextmanager
def limited(folder: Path, minutes: float = LOADING_MINUTES) -> Iterator[None]:
    """Break off what is done inside after ``minutes``, and ``MINUTES_PER_GIGABYTE`` more for each of weights.

    It works in the main thread of systems with alarms; elsewhere there is no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    size = sum(file.stat().st_size for file in folder.glob("*") if file.suffix in (".safetensors", ".bin", ".gguf"))
    allowed = minutes + MINUTES_PER_GIGABYTE * size / 1e9

    def late(number: int, frame: Any) -> None:
        raise ReporterError(
            f"loading it took longer than {allowed:.3g} minutes, the limit for {size / 1e9:.3g} GB of weights; "
            "copy it to a faster disk, or look at its configuration"
        )

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, allowed * 60)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
