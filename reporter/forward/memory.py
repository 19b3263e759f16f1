"""What to do when memory does not suffice: which errors say so, and the one that the pass itself raises."""

from __future__ import annotations

from reporter.errors import ReporterError

_SAID = ("defaultcpuallocator: can't allocate", "not enough memory", "out of memory")  # by torch, on any device


class OutOfMemoryError(ReporterError):
    """Memory did not suffice to show states to the observables, which may have seen some of them.

    Args:
        tokens: of how many tokens, padding included.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__(f"memory does not suffice for the states of {tokens:,} tokens at once")
        self.tokens = tokens


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory did not suffice, of the host or of the device."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error).lower() for said in _SAID)
