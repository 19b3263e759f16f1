"""Measure what transformer layers do to text: one study in, a database and a report out."""

__version__ = "0.1.0"
