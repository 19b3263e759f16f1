"""What a plan says that it will take, against counting by hand."""

from __future__ import annotations

import pytest

from reporter.runs.estimate import TOKENS_PER_WORD, estimate
from reporter.runs.planner import plan_study

METRICS = "metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]"
ANALYSES = """
journeys: {j: {text: the cat sleeps}}
groups: {a: [one two, three], b: [four, five six]}
clouds: {c: {corpora: [nested, inline], sample: 10}}
vocabulary: {models: [dec]}
"""


@pytest.fixture
def planned(study, tmp_path):
    return lambda *replace: plan_study(study(*replace), tmp_path / "results")


def test_analyses_are_counted(planned):
    plan = planned((METRICS, "metrics: none" + ANALYSES), ("views: [words, all]\n", ""))
    found = estimate(plan)
    models = 3  # two checkpoints of one, one of the other
    nested, inline = plan.texts["nested"], plan.texts["inline"]
    clouds = nested.words * TOKENS_PER_WORD * 10 / 40 + inline.words * TOKENS_PER_WORD
    words = 3 + 3 * 6
    assert found.analyses == 3 * models + 1
    assert found.analysed == pytest.approx(models * (clouds + words * TOKENS_PER_WORD), rel=0.03)
    assert (found.tokens, found.passes) == (0, 0)
    assert found.memory and found.seconds
    assert f"about {found.analysed:,} tokens in 10 cells of analyses; " in found.line()


def test_passes_are_counted_once_for_all_metrics(planned):
    found = estimate(planned())
    assert (found.passes, found.analyses, found.analysed) == (6, 0, 0)


def test_static_embeddings_read_no_text(planned):
    plan = planned((METRICS, "metrics: none\nvocabulary: {models: [dec]}"), ("views: [words, all]\n", ""))
    assert (estimate(plan).analyses, estimate(plan).analysed) == (1, 0)
