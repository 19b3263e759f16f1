"""The kinds of claims, one a module."""
