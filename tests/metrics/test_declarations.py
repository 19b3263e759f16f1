"""What a metric says of itself is what it does; a table row, a chart and a page are made from it unseen."""

from __future__ import annotations

import pytest
from oracles.fake_model import FakeModel, made_up_texts
from pydantic import BaseModel

from reporter.core.errors import ReporterError
from reporter.forward.observed import KINDS
from reporter.metrics.base import Options, SampleOptions, Statistic, catalogue, metric
from reporter.models.places import Layout


@pytest.fixture(scope="module")
def layers():
    return 4


@pytest.fixture
def found(observe, values, layers):
    """Values of all metrics in all views of both roles; small samples, so that batches have intervals."""
    options = {"anisotropy": {"sample": 32, "batches": 3}, "intrinsic_dimension": {"sample": 270, "batches": 2}}
    options["local_dimension"] = {"centres": 64, "neighbours": 16}
    result = []
    for role in ("encoder", "decoder"):
        model = FakeModel(role=role, layers=layers)
        observables, _ = observe(model, made_up_texts(60))
        result += [values(model, observables, 60, view, **options) for view in ("words", "all", "no-sinks")]
    return result


def test_titles_can_stand_in_a_list():
    from reporter.metrics.analysis import analyses

    titles = [s.title for of in (*catalogue().values(), *analyses().values()) for s in of.statistics]
    assert not [title for title in titles if "," in title]


def test_a_headline_says_in_plain_words_what_it_is():
    for of_metric in catalogue().values():
        for statistic in of_metric.statistics:
            said = statistic.plainly
            assert bool(said) is statistic.headline, statistic.name
            assert not said or (said.endswith(".") and len(said) < 110 and not set(said) & set("‖Σ√λ∑^_{}")), said


def in_layers(of_metric):
    """Return the statistics of one model in ``layer_metrics``; test_layer_pairs and test_change have the others."""
    alone = () if of_metric.compares_only else of_metric.statistics
    return [statistic for statistic in alone if statistic.per != "pair"]


def test_the_metrics_of_the_program():
    assert {name: [s.name for s in m.statistics] for name, m in catalogue().items()} == {
        "angular_distance": ["tokens", "last_token"],
        "anisotropy": [
            "top_variance_share",
            "top_variance_share_batch",
            "mean_cosine",
            "mean_cosine_centred",
            "mean_cosine_standardised",
            "isoscore",
        ],
        "change": ["cosine", "distance", "moved", "linear", "distance_seed", "linear_seed"],
        "contextuality": [
            "self_similarity",
            "self_similarity_adjusted",
            "explained_by_first",
            "explained_by_first_published",
            "explained_by_first_truncated",
            "explained_by_first_baseline",
            "explained_by_first_adjusted",
            "intra_text",
            "intra_text_adjusted",
        ],
        "contributions": [
            "attention_ratio",
            "attention_cosine",
            "feed_forward_ratio",
            "feed_forward_cosine",
            "block_cosine",
        ],
        "convergence": [
            "similarity",
            "gradient",
            "bound",
            "rate",
            "rate_published",
            "violations",
            "similarity_frequent",
            "similarity_rare",
            "frequency_gap",
            "frequency_gap_p",
            "area",
            "start",
            "decay",
        ],
        "entropy": ["prompt", "prompt_normalised", "prompt_raw", "prompt_unit", "skipped"],
        "information_imbalance": ["imbalance", "to_last", "from_last", "to_first", "from_first"],
        "intrinsic_dimension": [
            "twonn",
            "twonn_published",
            "twonn_ml",
            "duplicates",
            *(f"gride_{n}" for n in (1, 2, 4, 8, 16, 32, 64)),
        ],
        "journey": ["rank_function", "rank_content", "cosine_function", "cosine_content"],
        "layer_pairs": ["cka", "knn"],
        "lens": ["entropy", "kl"],
        "linearity": [
            "linearity",
            "linearity_heldout",
            "update_linearity",
            "update_linearity_heldout",
            "to_last",
            "to_last_heldout",
            "procrustes",
            "cka",
            "cca",
        ],
        "local_dimension": ["mean", "spread"],
        "loss": ["lm"],
        "motion": [
            "step_length",
            "step_cosine",
            "block_influence",
            "norm",
            "growth",
            "update_ratio",
            "curvature",
            "line_shape",
            "straightness",
        ],
        "outliers": [
            "massive",
            "largest",
            "largest_ratio",
            "dimensions",
            "top3_cosine_share",
            "sink_share",
            "sink_norm_ratio",
            "first_norm_ratio",
            "sink_sensitivity",
        ],
        "spectrum": [
            "effective_rank",
            "effective_rank_without_first",
            "entropy",
            "entropy_without_first",
            "effective_rank_singular",
            "rankme",
            "participation_ratio",
            "stable_rank",
            "decay",
            "alpha_req",
        ],
        "subspaces": ["speed", "displacement", "curvature"],
        "token_path": ["curvature", "straightening"],
        "variance": [
            "total",
            "within",
            "between",
            "within_share",
            "between_share",
            "norm_of_mean",
            "mean_square_norm",
            "tradeoff",
            "coverage",
        ],
    }


def test_statistics_yielded_are_those_declared(found):
    for name, of_metric in catalogue().items():
        layered = in_layers(of_metric)
        declared = {f"{name}.{s.name}" for s in layered}
        floors = {f"{name}.{s.name}_floor" for s in layered if s.floor}
        for values in found:
            assert {key for key, _ in values if key.startswith(f"{name}.")} == declared | floors


THREE_LAYERS = {("motion", "curvature"), ("subspaces", "curvature")}
"""Numbers of two steps in a row, of which there is one fewer than steps."""


def test_layers_are_those_declared(found, layers):
    for values in found:
        for name, of_metric in catalogue().items():
            for statistic in in_layers(of_metric):
                seen = [layer for key, layer in values if key == f"{name}.{statistic.name}"]
                last = layers - 1 if (name, statistic.name) in THREE_LAYERS else layers
                expected = {"layer": range(layers + 1), "step": range(last), "model": [None]}[statistic.per]
                assert seen == list(expected)


def test_a_statistic_has_an_interval_iff_it_says_how(found):
    ever = {key for values in found for (key, _), value in values.items() if value.ci_low is not None}
    said = {f"{name}.{s.name}" for name, m in catalogue().items() for s in in_layers(m) if s.interval}
    assert ever == said


def test_values_keep_their_bounds(found):
    bounds = {f"{name}.{s.name}": s.bounds for name, m in catalogue().items() for s in m.statistics}
    for values in found:
        for (key, _), value in values.items():
            low, high = bounds[key.removesuffix("_floor")]
            assert value.value is None or (low is None or value.value >= low)
            assert value.value is None or (high is None or value.value <= high)


def test_floors_stand_beside_numbers(found):
    for values in found:
        for (key, layer), value in values.items():
            if key.endswith("_floor"):
                assert values[key.removesuffix("_floor"), layer].value is not None
                assert value.value is not None and value.ci_low is None


def test_every_statistic_is_explained():
    for name, of_metric in catalogue().items():
        assert of_metric.name == name and of_metric.title and of_metric.summary and of_metric.cost
        assert set(of_metric.needs) <= set(KINDS)
        assert issubclass(of_metric.options, Options)
        assert all(field.description for field in of_metric.options.model_fields.values())
        assert any(statistic.headline for statistic in of_metric.statistics) or name == "motion"
        for statistic in of_metric.statistics:
            assert statistic.title and len(statistic.definition) > 10 and statistic.works
            assert all(source.key and len(source.citation) > len(source.key) for source in statistic.works)
            assert of_metric.statistic(statistic.name) is statistic


def test_a_metric_needs_what_it_reads(observe):
    """Each metric gets the observables it asked for and no others."""
    from reporter.forward.observed import Observed

    for of_metric in catalogue().values():
        model = FakeModel()
        observables, _ = observe(model, made_up_texts(30), names=of_metric.needs)
        for view in ("words", "all", "no-sinks"):
            seen = Observed(observables, Layout(model.layers, model.width), 30, view, 0)
            if of_metric.compares_only:
                assert list(of_metric.between.compare(seen, [seen], of_metric.options()))
            else:
                assert list(of_metric.compute(seen, of_metric.options()))


def test_options_are_closed_and_cut_batches():
    options = SampleOptions(sample=100, batches=3)
    assert options.sample_size() == 300 and Options().sample_size() == 0
    assert options.split(99) == [slice(0, 99)]
    assert options.split(100) == [slice(0, 100)]
    assert options.split(299) == [slice(0, 100), slice(100, 200)]
    assert options.split(10_000) == [slice(0, 100), slice(100, 200), slice(200, 300)]
    for wrong in ({"sample": 31}, {"batches": 0}, {"smaple": 99}):
        with pytest.raises(ValueError):
            SampleOptions(**wrong)
    assert issubclass(Options, BaseModel)


def test_a_name_can_be_taken_once():
    statistics = (Statistic("x", "x", "x", ()),)
    with pytest.raises(ReporterError, match="metric 'motion' is defined twice"):
        metric(name="motion", title="", summary="", statistics=statistics, needs=())(lambda seen, options: iter(()))
    assert catalogue()["motion"].title == "Motion through the layers"


def test_a_work_that_the_bibliography_lacks_is_refused():
    with pytest.raises(ReporterError, match=r"statistic 'x': .*no work 'yamagiwa20'"):
        Statistic("x", "x", "x", ("yamagiwa20",))
