"""How layers and blocks are named."""

from reporter.core.places import end, place, places, ranges, tag


def test_a_step_is_named_after_the_block_that_makes_it():
    assert (place(0), place(3), place(3, step=True)) == ("the embedding", "layer 3", "block 4")
    assert (tag(0), tag(3), tag(3, step=True), tag(0, step=True)) == ("embedding", "layer 03", "block 04", "block 01")
    assert (end(0, 30), end(30, 30), end(29, 30)) == ("the embedding", "the last layer", "layer 29")
    assert (end(0, 30, step=True), end(29, 30, step=True)) == ("the first block", "the last block")


def test_neighbours_are_written_by_their_ends():
    assert places([17], step=True, blocks=30) == "block 18 of 30"
    assert places([6, 3, 7, 8], blocks=12) == "layers 3 and 6–8 of 12"
    assert (places([0]), places([0, 1, 2], blocks=4)) == ("the embedding", "the embedding and layers 1–2 of 4")
    assert ranges([6, 5, 1, 1, 3], commas=True) == "1, 3, 5–6"
