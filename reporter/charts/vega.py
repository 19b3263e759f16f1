"""Altair, imported when something is drawn: it takes half a second, and a file of a metric is also read for a check."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        def __getattr__(self, name: str) -> Any:
            import altair

            return getattr(altair, name)

        def layer(self, *charts: Any, **said: Any) -> Any:
            """Altair's ``layer``, in a third of the time.

            Each step of making a layered chart (and there are seven until it is JSON) copies all of its layers to the
            last leaf. Nobody changes the encoding and the mark of a layer any more, and those are most of it. What
            takes part in Python's protocol of copies may say that it is its own copy.
            """
            for chart in charts:
                for part in ("encoding", "mark"):
                    own = getattr(chart, part, None)
                    if hasattr(own, "copy"):  # neither absent nor undefined
                        object.__setattr__(own, "__deepcopy__", lambda memo, own=own: own)
            return self.__getattr__("layer")(*charts, **said)

    alt = _Altair()


__all__ = ["alt", "unvalidated"]


def unvalidated() -> AbstractContextManager[None]:
    """Draw without Altair's own validation, which takes longer than all the rest; the tests draw every kind with it."""
    from altair.utils.schemapi import debug_mode

    found: AbstractContextManager[None] = debug_mode(False)
    return found
