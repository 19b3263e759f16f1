"""Altair, imported when something is drawn: it takes half a second, and a file of a metric is also read for a check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        def __getattr__(self, name: str) -> Any:
            import altair

            return getattr(altair, name)

    alt = _Altair()

__all__ = ["alt"]
