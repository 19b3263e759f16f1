"""Statements of a study, tested against its numbers."""
