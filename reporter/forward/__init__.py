"""Send token batches through a model and show its hidden states to observables."""
