"""What changed, in numbers whose answer is known; and which numbers the answer looks at."""

import pytest
from judge.sentences.changed import FROM_2, cosines, number, reading

from reporter.judge.questions.changed import CHANGED
from reporter.judge.questions.question import answered


def say(**given):
    answer = answered(CHANGED, "s", reading(**given))
    (row,) = answer.tables["change_answers"]
    return row, answer.boxes[0].says, answer


def test_the_first_layer_that_moved_is_named():
    row, _, _ = say(distances=[0, 0, 0.2, 0.1, 0.15], loss=(0.3, 0.2, 0.4), tokens=["`", "the"])
    assert (row["changed"], row["first_layer"], row["noise"], row["words"]) == (True, 2, "rounding", '["␣furious"]')


def test_blocks_with_the_weights_of_the_base_are_named():
    hashes = '{"embeddings": "a", "1": "b", "2": "c", "3": "d", "4": "e"}'
    row, _, _ = say(distances=FROM_2, weights=(hashes.replace('"c"', '"x"'), hashes))
    assert row["untouched"] == "1, 3–4, embedding" and say(distances=[0, 0.1, 0.1])[0]["untouched"] is None


SLIGHT, ROUGH, FAR = {"loss": (0.001, -0.002, 0.004)}, {"deviation": 0.01}, [0.1, 0.2, 0.5, 0.6, 0.9]


CHANGES = [
    ([0, 0.0001, 0.0002, 0.0002, 0.0002], SLIGHT, None, "rounding"),
    (FAR, {"seeds": [0.1, 0.19, 0.2, 0.3, 0.3]}, 2, "seed"),  # at layer 1 they overlap
    (FAR, {"seeds": FAR}, None, "seed"),
    ([0, 0.004, 0.005, 0.006, 0.007], ROUGH, None, "precision"),
    ([0, 0, 0.005, 0.006, 0.007], ROUGH, 2, "rounding"),  # the first block shows the same batches
    ([0, 0.004, 0.2, 0.006, 0.007], ROUGH, 2, "precision"),
]


@pytest.mark.parametrize(("distances", "more", "first", "noise"), CHANGES)
def test_a_change_has_to_exceed_the_noise_that_there_is(distances, more, first, noise):
    row, _, _ = say(distances=distances, **more)
    assert (row["changed"], row["first_layer"], row["noise"]) == (first is not None, first, noise)


def moved(*moves):
    """Numbers of four layers, which are 10 ± 0.6, and how much more they are of the tuned model."""
    numbers = [number("old", layer, 10.0, 0.6) for layer in range(4)]
    return numbers + [number("new", layer, 10.0 + move, 0.6) for layer, move in enumerate(moves)]


def test_numbers_count_where_their_intervals_hold_for_all_layers():
    _, _, answer = say(distances=[0.1, 0.1, 0.2, 0.2, 0.2], numbers=moved(0.1, 1.0, 5.0, 0.0))
    (row,) = answer.tables["changed_numbers"]
    # One of four moves beyond 0.6·√2·2.5/1.96 = 1.08; that of 1.0 would have passed alone.
    assert (row["layer"], row["value"], row["beyond"], row["layers"]) == (2, 5.0, 1, 4)
    half = 0.6 * 2**0.5 * 2.4977 / 1.95996
    assert (row["ci_low"], row["ci_high"]) == (pytest.approx(5 - half, rel=1e-4), pytest.approx(5 + half, rel=1e-4))
    # It declares no minimum meaningful difference: a hundredth of the mean size of the eight, (4·10 + 46.1)/8.
    assert row["smallest"] == pytest.approx(0.01 * 86.1 / 8) and row["largest"] == pytest.approx(5 / row["smallest"])
    assert not row["paired"]


def test_numbers_of_layers_whose_states_did_not_move_are_not_listed_as_changed():
    """A number that refers to the last layer differs at layers before the change, and says nothing about them."""
    _, _, answer = say(distances=[0, 0, 0.2, 0.2, 0.2], numbers=moved(5.0, 5.0, 4.0, 0.0))
    (row,) = answer.tables["changed_numbers"]
    assert (row["layer"], row["value"], row["beyond"], row["layers"]) == (2, 4.0, 1, 2)
    _, _, answer = say(distances=[0, 0, 0, 0, 0.2], numbers=moved(5.0, 5.0, 4.0, 1.0))
    assert not answer.tables["changed_numbers"]


def test_the_layer_that_is_shown_is_the_one_that_the_sentence_speaks_of():
    """The one that moves most of those beyond, not the one that is surest."""
    numbers = []
    for layer, (move, half) in enumerate(((0.2, 0.1), (0.006, 1e-4), (0.055, 0.01), (0.02, 0.01))):
        name = "motion.step_cosine"  # the first within its interval, the second the surest
        numbers += [number("old", layer, 0.9, 0.3 if layer == 0 else half, name)]
        numbers += [number("new", layer, 0.9 - move, half, name)]
    _, _, answer = say(distances=[0.1, 0.1, 0.2, 0.2, 0.2], numbers=numbers)
    (row,) = answer.tables["changed_numbers"]
    assert (row["layer"], row["value"], row["beyond"]) == (2, pytest.approx(-0.055), 3)
    assert row["largest"] == pytest.approx(5.5)


def test_numbers_without_intervals_show_their_largest_change():
    few = [row | {"ci_low": None, "ci_high": None} for row in moved(0.0, 0.1, 2.0, 0.5)]
    _, _, answer = say(distances=[0, 0.1, 0.2, 0.2, 0.2], numbers=few)
    (row,) = answer.tables["changed_numbers"]
    assert (row["layer"], row["value"], row["ci_low"], row["beyond"]) == (2, 2.0, None, 0)
    assert answer.boxes[0].rows[0][4] == "+2"


# The distances of copies of MiniLM and SmolLM2, as measured; without a head the verdict is by the largest.
COPIES = [
    (0.0079, "indistinguishable"),  # bf16
    (0.039, "small"),  # int8
    (0.063, "small"),  # noise of 5 % of the weights in a block
    (0.124, "changed"),  # of 20 %
]


@pytest.mark.parametrize(("distance", "verdict"), COPIES)
def test_without_a_head_the_verdict_is_by_the_states_and_the_loss(distance, verdict):
    def of(loss=(0.001, 0.0005, 0.002)):
        return say(distances=[0, 0, *[distance / 1.1] * 3], numbers=cosines(0.0004), loss=loss)

    row, _, answer = of()
    assert row["changed"] and row["small"] == (verdict != "changed") and row["verdict"] == verdict
    assert ("0.01", "1 of 3") in [one[-2:] for one in answer.boxes[0].rows], "the first step changed nothing"
    for loss in ((0.008, 0.005, 0.011), (0.001, None, None)):
        assert of(loss=loss)[0]["verdict"] == "changed"


VERDICTS = [
    ((4e-4, 2e-4, 9e-4), FROM_2, "indistinguishable"),
    ((4e-4, 2e-4, 2e-3), FROM_2, "small"),
    ((0.008, 0.006, 0.012), FROM_2, "changed"),
    ((0.008, 0.006, 0.012), [0] * 5, "changed"),
    ((4e-4, None, None), FROM_2, "changed"),  # without an interval
]


@pytest.mark.parametrize(("divergence", "distances", "verdict"), VERDICTS)
def test_the_verdict_is_by_the_upper_end_of_the_divergence(divergence, distances, verdict):
    row, _, _ = say(distances=distances, divergence=divergence)
    assert (row["median"], row["median_high"]) == (0.0004, 0.0005) and row["largest_share"] == pytest.approx(0.1)
    assert row["verdict"] == verdict
