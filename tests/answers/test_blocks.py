"""Which blocks can go, said of losses whose answer is known."""

from __future__ import annotations

import pytest

from reporter.answers import answered
from reporter.answers.blocks import BLOCKS


def without(blocks: str, change: float, half: float) -> dict:
    of = {"model": "dec", "checkpoint": "final", "item": "trial", "by": "angle", "proposal": 1, "tokens": 400}
    ends = {"change": change, "change_low": change - half, "change_high": change + half}
    return of | ends | {"many": len(blocks.split("–")), "blocks": blocks, "whole": 4.5, "least": "3, 1, 2"}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([without("3", 0.0, 0.0), without("2–3", 0.4, 0.1)], "Block 3 can go: the loss is no higher without."),
        ([without("3", 0.3, 0.1)], "No set of blocks that was tried goes for free."),
        # Few texts show no loss, which is not yet to show that there is none.
        (
            [without("3", 0.02, 0.05)],
            "Block 3 may go: nothing beyond chance is lost without, though up to +0.07 is not",
        ),
    ],
)
def test_a_block_can_go_only_where_no_loss_worth_a_word_is_left_open(rows, said):
    (box,) = answered(BLOCKS, "s", lambda sql: rows if "FROM skipped_blocks" in sql else []).boxes
    assert said in box.says
