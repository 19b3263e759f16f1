"""The whole analysis: every family, tables with holes, and what a reader can rely on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from reporter import imports
from reporter.errors import ReporterError
from reporter.models.load import LoadedModel
from reporter.weights.analyse import StaticOptions, StaticReport, analyse, report
from reporter.weights.kinds import StaticVectors

QUICK = StaticOptions(extremes=5, points=10, methods=())


def made_up(tokens: np.ndarray, positions: np.ndarray | None = None) -> StaticVectors:
    strings: list[str | None] = [f"▁{chr(97 + i % 26) * (1 + i // 26)}" for i in range(len(tokens))]
    strings[:3] = ["<s>", "<0x0A>", "<unused1>"]
    strings[-1] = None
    return StaticVectors(
        *("m", "final", torch.from_numpy(tokens.astype(np.float32))),
        None if positions is None else torch.from_numpy(positions.astype(np.float32)),
        None,
        "none" if positions is None else "learned",
        *((), 0, tuple(strings), frozenset({0}), ()),
    )


def vectors(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)) + 0.3


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("bert", {"token–position", "token–type", "position–type"}),
        ("gpt2", {"token–position"}),
        ("llama", set()),
        ("bloom", set()),
        ("t5", set()),
        ("albert", {"token–position", "token–type", "position–type"}),
        ("opt, projected", set()),
        *((name, {"token–position"}) for name in ("opt", "distilbert", "gpt-neo")),
        ("neox, parallel", set()),
        *((name, {"token–position", "token–type", "position–type"}) for name in ("roberta", "electra")),
    ],
)
def test_every_family(name: str, measured: set[str], of_family: Callable[..., LoadedModel]) -> None:
    model = of_family(name)
    found = analyse(model, QUICK)
    between = {f"{d.kind_a}–{d.kind_b}" for d in found.distributions if d.kind_b not in (None, d.kind_a)}
    assert between == measured
    assert (found.outliers is not None) == ("token–position" in measured)
    assert (found.positions is not None) == (found.vectors.positions is not None)
    embedding = model.module.get_input_embeddings().weight.double().numpy()  # type: ignore[operator]
    np.testing.assert_allclose(found.vocabulary.norm, np.linalg.norm(embedding, axis=1), rtol=1e-12)
    assert found.vocabulary.pc.shape == (len(embedding), 3)
    assert sum(share.count for share in found.shares if share.sorted_by == "class") == len(embedding)
    assert found.spectra[0].explained[-1] == pytest.approx(1)
    if name == "opt, projected":
        assert found.reasons == {"token–position pairs": "these vectors have different dimensions"}
        assert {spectrum.kinds for spectrum in found.spectra} == {("token",), ("position",)}
    else:
        assert found.reasons == {}


def test_zero_and_equal_vectors_are_told_apart() -> None:
    x = vectors(60, 8)
    x[[5, 6]] = 0
    x[[20, 21, 22]] = x[10]
    found = report(made_up(x), QUICK)
    assert found.zero == (5, 6)
    assert (found.repeats.rows, found.repeats.groups) == (6, 2)
    ids = {i for p in found.pairs for i in (p.token_id_a, p.token_id_b)} | {t.token_id for t in found.ranked}
    assert not ids & {5, 6, 20, 21, 22}
    (cosines,) = [d for d in found.distributions if (d.measure, d.kind_b) == ("cosine", "token")]
    assert cosines.summary.n == 58 * 57 // 2  # equal vectors are pairs like others, zero vectors are none
    assert cosines.summary.maximum == pytest.approx(1, abs=1e-6)
    assert np.isnan(found.vocabulary.mean_cosine[[5, 6]]).all()
    assert np.flatnonzero(found.vocabulary.repeated).tolist() == [5, 6, 10, 20, 21, 22]
    most = [p for p in found.pairs if (p.among, p.measure, p.end) == ("all", "cosine", "most")]
    assert most[0].value < 0.999


def test_extremes_among_text_leave_out_what_is_none() -> None:
    x = vectors(80, 8)
    x[2], x[79] = x[1] + 1e-4, x[1] + 2e-4  # bytes, unused and nameless: alike, as they were never trained
    found = report(made_up(x), QUICK)
    first = {
        a: next(p for p in found.pairs if (p.among, p.measure, p.end) == (a, "distance", "most"))
        for a in ("all", "text")
    }
    assert {first["all"].token_id_a, first["all"].token_id_b} <= {1, 2, 79}
    text = [p for p in found.pairs if p.among == "text"]
    assert not {i for p in text for i in (p.token_id_a, p.token_id_b)} & {0, 1, 2, 79}
    inner = x[3:79]
    distance = np.linalg.norm(inner[:, None] - inner[None], axis=2) + 1e9 * np.eye(76)
    assert first["text"].value == pytest.approx(distance.min(), rel=1e-6)
    assert not {t.token_id for t in found.ranked if t.among == "text"} & {0, 1, 2, 79}


def same(a: StaticReport, b: StaticReport) -> bool:
    return (a.distributions, a.pairs, a.ranked, a.points, a.outliers) == (
        *(b.distributions, b.pairs, b.ranked, b.points, b.outliers),
    )


def test_the_same_seed_gives_the_same_report() -> None:
    x = made_up(vectors(200, 8), vectors(40, 8, seed=1))
    options = replace(QUICK, points=30, methods=("tsne",))
    found = report(x, options)
    assert same(found, report(x, options))
    assert not same(found, report(x, replace(options, seed=1)))
    assert {p.method for p in found.points} == {"pca", "tsne"}
    assert sum(p.method == "tsne" for p in found.points) == 30 + 40


def test_without_extremes_the_distributions_remain() -> None:
    x = made_up(vectors(100, 8))
    found = report(x, replace(QUICK, extremes=0))
    assert found.pairs == found.ranked == ()
    assert found.distributions == report(x, QUICK).distributions


def test_a_missing_library_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "find_spec", lambda name: None)
    found = report(made_up(vectors(50, 8)), replace(QUICK, methods=("tsne", "umap")))
    assert found.reasons.keys() == {"umap"}
    assert "pip install 'reporter[umap]'" in found.reasons["umap"]
    assert len(found.distributions) == 4


def test_vectors_that_are_no_numbers() -> None:
    x = vectors(50, 8)
    x[3, 3] = np.inf
    with pytest.raises(ReporterError, match="model 'm': 1 of its vectors are not finite, the first in row 3"):
        report(made_up(x), QUICK)


def test_degenerate_tables() -> None:
    for x in (np.zeros((5, 4)), np.ones((5, 4)), vectors(4, 1)):
        found = report(made_up(x), QUICK)
        assert len(found.vocabulary.norm) == len(x)
    found = report(made_up(np.zeros((5, 4))), QUICK)
    assert found.zero == (0, 1, 2, 3, 4)
    assert found.distributions == ()
    assert found.reasons == {"components of token": "these vectors do not vary"}


def test_progress_is_told() -> None:
    told: dict[str, list[tuple[int, int]]] = {}
    x = made_up(vectors(3000, 8), vectors(40, 8, seed=1))
    report(x, QUICK, lambda what, done, total: told.setdefault(what, []).append((done, total)))
    steps = told["token–token pairs"]
    assert len(steps) == 3
    assert steps[-1] == (3000 * 2999 // 2,) * 2
    assert {"token components", "token–position pairs", "token–position outliers"} <= told.keys()


def test_memory_does_not_hold_a_matrix_of_all_pairs() -> None:
    """A full matrix of 12,000 × 12,000 float32 numbers would be 576 MB."""
    import subprocess
    import sys

    code = """
import resource, numpy as np, torch
from reporter.weights.tables import norms
from reporter.geometry.rows import Rows
from reporter.geometry.pairs import pairs_within
from reporter.weights.distributions import PairHistograms
from reporter.weights.extremes import PairExtremes
x = torch.randn(12_000, 8)
n = norms(x)
rows = Rows(x, np.arange(len(x)), n)
pairs_within(rows, [PairHistograms(n, n), PairExtremes(5, len(x))], first=1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pairs_within(rows, [PairHistograms(n, n), PairExtremes(5, len(x))])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert float(done.stdout) < 120  # MB


@pytest.mark.real
def test_a_real_encoder(loaded_from: Callable[[Path], LoadedModel]) -> None:
    if not os.environ.get("REPORTER_REAL_ENCODER"):
        pytest.skip("REPORTER_REAL_ENCODER names no folder with a real model")
    found = analyse(loaded_from(Path(os.environ["REPORTER_REAL_ENCODER"])), StaticOptions(methods=(), extremes=20))
    token = found.vocabulary.token
    pairs = {
        (token[p.token_id_a], token[p.token_id_b])
        for p in found.pairs
        if (p.among, p.measure, p.end) == ("text", "cosine", "most")
    }
    assert {("a", "an"), ("judgment", "judgement")} <= pairs
    assert found.positions is not None
    assert found.positions.table.norm[0] > 2 * found.positions.table.norm[1:].max()
