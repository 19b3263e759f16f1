"""What a paper, a talk or a mail takes from a report: figures, tables, the methods, the works to cite."""

from __future__ import annotations

from reporter.export.write import Wanted, export

__all__ = ["Wanted", "export"]
