"""Metrics: one short file each, a pure function from observables to values."""


# Analyses of single tokens, sentences and vocabularies: what a corpus average hides.
