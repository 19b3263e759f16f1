"""Metrics: one short file each, a pure function from observables to values."""
