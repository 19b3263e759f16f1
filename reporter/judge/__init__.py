"""Statements of a study, tested against its numbers."""

from __future__ import annotations

from reporter.judge.judging import judge, rows_of
from reporter.store.schema import Verdict

__all__ = ["Verdict", "judge", "rows_of"]
