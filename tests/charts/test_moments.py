from reporter.charts.layout import CheckpointName, moments


def names(*given):
    return [CheckpointName(*one) for one in given]


def test_single_checkpoints_have_one_moment():
    (only,) = moments(names(("bert", "final", None), ("gpt2", "final", None)))
    assert (only.label, only.shown) == ("last", {"bert": "final", "gpt2": "final"})


def test_a_model_shows_its_latest_checkpoint_not_later_than_the_step():
    found = moments(
        names(("a", "s0", 0), ("a", "s100", 100), ("b", "s50", 50), ("b", "s200", 200), ("c", "final", None))
    )
    assert [moment.label for moment in found] == ["step 0", "step 50", "step 100", "last (step 200)"]
    assert found[0].shown == {"a": "s0", "c": "final"}, "b has nothing that early; c has but one and stays"
    assert found[2].shown == {"a": "s100", "b": "s50", "c": "final"}
    assert found[3].shown == {"a": "s100", "b": "s200", "c": "final"}


def test_checkpoints_without_a_step_go_by_their_name():
    found = moments(names(("a", "early", None), ("a", "late", None), ("b", "final", None)))
    assert [moment.label for moment in found] == ["early", "last (late)"]
    assert found[0].shown == {"a": "early", "b": "final"}
