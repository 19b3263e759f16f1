"""Toy models: small ones that a study trains itself, to see what a metric does where the truth is known."""
