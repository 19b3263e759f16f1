"""The public names of numbers, and what a declaration refuses; test_contract.py holds metrics to what they declare."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from reporter.core.errors import ReporterError
from reporter.metrics.base import Options, SampleOptions, Statistic, catalogue, metric


def test_the_metrics_of_the_program():
    assert {name: [s.name for s in m.statistics] for name, m in catalogue().items()} == {
        "angular_distance": ["tokens", "last_token"],
        "anisotropy": [
            *("top_variance_share", "top_variance_share_batch", "mean_cosine", "mean_cosine_centred"),
            *("mean_cosine_standardised", "isoscore"),
        ],
        "change": ["cosine", "distance", "moved", "linear", "distance_seed", "linear_seed"],
        "contextuality": [
            *("self_similarity", "self_similarity_adjusted", "explained_by_first"),
            *("explained_by_first_published", "explained_by_first_truncated"),
            *("explained_by_first_baseline", "explained_by_first_adjusted", "intra_text"),
            *("intra_text_adjusted",),
        ],
        "contributions": [
            *("attention_ratio", "attention_cosine", "feed_forward_ratio", "feed_forward_cosine"),
            *("block_cosine",),
        ],
        "convergence": [
            *("similarity", "gradient", "bound", "rate", "rate_published", "violations"),
            *("similarity_frequent", "similarity_rare", "frequency_gap", "frequency_gap_p", "area"),
            *("start", "decay"),
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
            *("linearity", "linearity_heldout", "update_linearity", "update_linearity_heldout"),
            *("to_last", "to_last_heldout", "procrustes", "cka", "cca"),
        ],
        "local_dimension": ["mean", "spread"],
        "loss": ["lm"],
        "motion": [
            *("step_length", "step_cosine", "block_influence", "norm", "growth", "update_ratio"),
            *("curvature", "line_shape", "straightness"),
        ],
        "outliers": [
            *("massive", "largest", "largest_ratio", "dimensions", "top3_cosine_share", "sink_share"),
            *("sink_norm_ratio", "first_norm_ratio", "sink_sensitivity"),
        ],
        "spectrum": [
            *("effective_rank", "effective_rank_without_first", "entropy", "entropy_without_first"),
            *("effective_rank_singular", "rankme", "participation_ratio", "stable_rank", "decay"),
            *("alpha_req",),
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
