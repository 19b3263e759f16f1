"""Ranges: runs of consecutive shards that are measured by themselves, by whoever comes first.

Where they begin and end depends on the texts alone, never on how many workers there are: what each range leaves is
merged in their order, so numbers are the same to the last bit however the work was shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reporter.texts.tokens import Shard

RANGE_SHARDS = 32  # about 4 million tokens: what it leaves is written in a small part of the time that it takes
MOST_RANGES = 64  # of a corpus, each longer in a larger one: so much is on disk, and merged, at most


@dataclass(frozen=True)
class Range:
    """Consecutive shards of a corpus.

    Args:
        index: its place among the ranges.
        shards: its shards, one at least.
    """

    index: int
    shards: tuple[Shard, ...]

    @property
    def start(self) -> int:
        """Its first text."""
        return self.shards[0].start

    @property
    def stop(self) -> int:
        """The text after its last one."""
        return self.shards[-1].stop


def ranges(shards: Sequence[Shard]) -> list[Range]:
    """Cut the shards of a corpus into ranges, at most ``MOST_RANGES`` of them."""
    size = max(RANGE_SHARDS, -(-len(shards) // MOST_RANGES))
    starts = range(0, len(shards), size)
    return [Range(index, tuple(shards[start : start + size])) for index, start in enumerate(starts)]
