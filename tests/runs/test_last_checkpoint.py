"""The last checkpoint is the last that the study lists, whatever it is called, for everything that reads only one."""

import shutil

import pytest
from runs.conftest import select


@pytest.fixture
def measure(study, run, store, out, tmp_path):
    """Return a function that measures checkpoints of these names, of step 0 and of step 2 of a training in turn."""
    (first,) = (out / "cache" / "models").glob("*/step-000000")

    def measured(names, only=("m",), metrics="[loss]", more=""):
        for number, name in enumerate(names):
            for source in (first.with_name(f"step-00000{number % 2 * 2}"), first.with_name("tokenizer")):
                shutil.copytree(source, tmp_path / "m" / name, dirs_exist_ok=True)
        models = ("models:\n", f"models:\n  m: {{path: m, checkpoints: [{', '.join(names)}]}}\n")
        outcome, log = run(study(models, metrics=metrics, views="[text tokens]", more=more), only=only)
        assert outcome.failed == 0, log
        return select(store, "SELECT checkpoint, is_last FROM models WHERE model = 'm' ORDER BY position")

    return measured


@pytest.mark.answers
def test_everything_reads_the_checkpoint_that_is_listed_last(measure, store):
    more = (
        "skip: {s: {corpus: nested, blocks: [1], texts: 10}}\n"
        "claims: {c: {says: So., value: {metric: loss.lm, model: m, corpus: nested}, above: 0}}"
    )
    names = ("step1", "step512", "main")
    assert measure(names, (), "[loss, anisotropy]", more) == [(name, name == "main") for name in names]
    losses = "SELECT value FROM layer_metrics WHERE (statistic, corpus, checkpoint) = ('lm', 'nested', '{}')"
    (last,), (other,) = (select(store, losses.format(name)) for name in ("main", "step512"))
    assert select(store, "SELECT value FROM claims") == [pytest.approx(last)] and last != other
    for table in ("layers WHERE is_last AND", "block_answers WHERE"):
        assert select(store, f"SELECT DISTINCT checkpoint FROM {table} model = 'm'") == ["main"]


@pytest.mark.parametrize(
    ("studies", "order"),
    [
        ([("step10", "step9", "step2")], ["step2", "step9", "step10"]),  # known steps: as in training
        (["ab", "cba"], [*"cba"]),  # other names: as in the study, to which one is added
        ([("step10",), ("step9",)], ["step10", "step9"]),  # a training deleted what is not in the study any more
    ],
)
def test_which_checkpoint_is_the_last(measure, studies, order):
    for names in studies:
        shown = measure(names, ("m", "nested"))
    assert shown == [(name, name == order[-1]) for name in order]
