"""Send token batches through a model and show its hidden states to observables."""


# Small mergeable summaries of hidden states, kept while texts stream through a model.
