"""The database: one DuckDB file with commented tables, safe writes and sandboxed reads."""

from reporter.store.database import Store
from reporter.store.rows import CellKey, CellName, CellRecord, joined
from reporter.store.sandbox import query, query_frame, stream, write_parquet

__all__ = [
    "CellKey",
    "CellName",
    "CellRecord",
    "Store",
    "joined",
    "query",
    "query_frame",
    "stream",
    "write_parquet",
]
