"""The names that ``import reporter`` offers to a program or a notebook, beside the command line."""

import reporter.metrics  # noqa: F401  (declares its tables to the store)
