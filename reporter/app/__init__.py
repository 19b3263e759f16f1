"""The names that ``import reporter`` offers to a program or a notebook, beside the command line."""
