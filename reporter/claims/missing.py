"""A claim cannot be tested, and why."""

from __future__ import annotations


class Missing(Exception):
    """Numbers that a claim needs are not there; the text says which, for people."""
