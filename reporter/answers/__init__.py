"""Answers: what to do with a model, decided from the numbers of a study that are there already.

A decision is one file of this room and one line in ``registry.py``. It reads the database, yields rows of a table of
its own, and says what they come to in boxes; a box becomes a part of the report's page, and lines of Markdown.
"""

from __future__ import annotations

from reporter.answers.decision import Answer, Box, Decision, Lacks, Read, answered, boxes_of
from reporter.answers.registry import decisions
from reporter.answers.stated import STATED, stated

__all__ = ["STATED", "Answer", "Box", "Decision", "Lacks", "Read", "answered", "boxes_of", "decisions", "stated"]
