"""Analyses of single tokens, sentences and vocabularies: what a corpus average hides."""
