"""Small mergeable summaries of hidden states, kept while texts stream through a model."""
