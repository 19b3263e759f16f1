"""Two studies, or two runs of one, side by side: what changed in the spec, and which numbers moved."""

from __future__ import annotations

from reporter.diff.comparison import Comparison, compare
from reporter.diff.show import show

__all__ = ["Comparison", "compare", "show"]
