"""Analyses of a model's vectors that need no pass over texts: of its tokens, positions and token types."""
