"""Tables as other libraries have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from reporter.imports import optional

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["pandas", "polars", "arrow"]


def as_form(frame: pd.DataFrame, form: Form) -> Any:
    """Return a table as a pandas or Polars DataFrame, or as an Arrow table, in which missing integers are missing.

    Args:
        frame: the table.
        form: ``pandas``, ``polars`` or ``arrow``.

    Raises:
        UsageError: the form is none of these, or its package is not installed.
    """
    if form == "pandas":
        return frame
    table = optional("pyarrow", "arrow", "a table of Arrow or Polars").Table.from_pandas(
        frame.convert_dtypes(), preserve_index=False
    )
    return table if form == "arrow" else optional("polars", "polars", "a table of Polars").from_arrow(table)
