"""The whole analysis: every family, tables with holes, and what a reader can rely on."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist

from reporter.core.errors import ReporterError
from reporter.geometry.arrays import silent
from reporter.metrics._items import Explained, HistogramBin, Point
from reporter.metrics._static_numbers import analyse, of_neighbours
from reporter.metrics._static_vectors import StaticVectors, static_vectors
from reporter.metrics.vocabulary import VocabularyExtreme, VocabularyFact, VocabularyOptions, VocabularyToken


class Rows:
    """The rows of an analysis, by table."""

    def __init__(self, vectors, seed=0, **options):
        item = VocabularyOptions(**{"extremes": 5, "points": 10, "maps": ()} | options)
        self.rows = list(analyse(vectors, item, seed, silent))
        self.facts = {row.fact: row for row in self.of(VocabularyFact)}
        self.missing = {fact[9:]: row.said for fact, row in self.facts.items() if fact.startswith("missing: ")}

    def of(self, table, **columns):
        rows = [row for row in self.rows if isinstance(row, table)]
        return [row for row in rows if all(getattr(row, name) == value for name, value in columns.items())]

    def extremes(self, **columns):
        """Return the ids of tokens that are listed as extremes, alone or as pairs."""
        rows = self.of(VocabularyExtreme, **columns)
        listed = [row for row in rows if row.what in ("token–token", "token")]
        return {i for row in listed for i in (row.token_id, row.other_id) if i is not None}


def made_up(tokens, positions=None):
    strings = [f"▁{chr(97 + i % 26) * (1 + i // 26)}" for i in range(len(tokens))]
    strings = ["<s>", "<0x0A>", "<unused1>", *strings[3:-1], None]
    tables = [None if x is None else torch.from_numpy(x.astype(np.float32)) for x in (tokens, positions)]
    kind = "none" if positions is None else "learned"
    return StaticVectors("m", *tables, None, kind, tuple(strings), frozenset({0}), ())


def vectors(n, d, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) + 0.3


PAIRS = {"bert": {"token–position", "token–type", "position–type"}, "gpt2": {"token–position"}}


@pytest.mark.parametrize("name", [*PAIRS, "llama", "opt, projected"])
def test_every_family(name, family_model):
    model, measured = family_model(name), PAIRS.get(name, set())
    result = Rows(static_vectors(model))
    parts = {row.part for row in result.of(HistogramBin)}
    assert {part for part in parts if len(set(part.split("–"))) == 2} == measured
    assert ("outliers" in result.facts) == ("token–position" in measured)
    norms = model.module.get_input_embeddings().weight.double().norm(dim=1).tolist()
    np.testing.assert_allclose([row.norm for row in result.of(VocabularyToken)], norms, rtol=1e-12)
    curves = {row.part: row.share for row in result.of(Explained)}  # the last share of each
    assert curves["token"] == pytest.approx(1)
    projected = {"token–position pairs": "these vectors have different dimensions"}
    assert result.missing == (projected if name == "opt, projected" else {})
    assert name != "opt, projected" or curves.keys() == {"token", "position"}


def test_zero_and_equal_vectors_are_told_apart():
    x = vectors(60, 8)
    x[[5, 6]] = 0
    x[[20, 21, 22]] = x[10]
    result = Rows(made_up(x))
    assert result.facts["zero vectors"].value == 2
    assert result.extremes() and not result.extremes() & {5, 6, 20, 21, 22}
    cosines = result.of(HistogramBin, measure="cosine", part="token–token")
    assert sum(row.count for row in cosines) == 58 * 57 // 2  # equal vectors are pairs, zero vectors are none
    assert cosines[-1].high >= 1 - 1e-6
    assert [row.token_id for row in result.of(VocabularyToken, mean_cosine=None)] == [5, 6]
    assert [row.token_id for row in result.of(VocabularyToken, repeated=True)] == [5, 6, 10, 20, 21, 22]
    most = result.of(VocabularyExtreme, what="token–token", among="all", measure="cosine", end_of_scale="most")
    assert most[0].value < 0.999


def test_extremes_among_text_leave_out_what_is_none():
    x = vectors(80, 8)
    x[2], x[79] = x[1] + 1e-4, x[1] + 2e-4  # bytes, unused and nameless: alike, as they were never trained
    result = Rows(made_up(x))
    nearest = {"what": "token–token", "measure": "distance", "end_of_scale": "most", "rank": 1}
    assert result.extremes(among="all", **nearest) <= {1, 2, 79}
    assert result.extremes(among="text") and not result.extremes(among="text") & {0, 1, 2, 79}
    (first,) = result.of(VocabularyExtreme, among="text", **nearest)
    assert first.value == pytest.approx(pdist(x[3:79]).min(), rel=1e-6)


def test_the_same_seed_gives_the_same_points_on_the_principal_components_and_in_maps():
    x = made_up(vectors(200, 8), vectors(40, 8, seed=1))
    result, again, other = (Rows(x, seed, points=30, maps=("tsne",)) for seed in (0, 0, 1))
    assert result.rows == again.rows and result.of(Point) != other.of(Point)
    points = {name: result.of(Point, projection=name) for name in ("pca of token", "tsne")}
    assert {p.projection for p in result.of(Point)} == {*points, "pca", "pca of position"}
    assert (len(points["tsne"]), len({p.point for p in points["pca of token"]})) == (30 + 40, 30)
    tokens = {row.token_id: (row.pc1, row.pc2, row.pc3) for row in result.of(VocabularyToken)}
    pca = points["pca of token"]
    np.testing.assert_allclose([(p.x, p.y, p.z) for p in pca], [tokens[p.point] for p in pca], rtol=1e-6)


def test_degenerate_tables_and_too_few_vectors_for_a_map():
    x = vectors(50, 8)
    x[3, 3] = np.inf
    with pytest.raises(ReporterError, match="model 'm': 1 of its vectors are not finite, the first in row 3"):
        Rows(made_up(x))
    few = Rows(made_up(vectors(4, 8)), maps=("tsne",))
    assert few.missing == {"tsne": "4 vectors are too few for t-SNE; leave out `tsne`"}
    assert {row.measure for row in few.of(HistogramBin)} == {"norm", "cosine", "distance", "dot"}
    for x in (np.ones((5, 4)), vectors(4, 1)):
        assert len(Rows(made_up(x)).of(VocabularyToken)) == len(x)
    result = Rows(made_up(np.zeros((5, 4))))
    assert result.facts["zero vectors"].value == 5
    assert result.of(HistogramBin) == []
    assert result.missing == {"components of token": "these vectors do not vary"}


def test_maps_keep_clusters_together():
    label = np.arange(60) % 3
    x = (np.random.default_rng(0).normal(size=(60, 70)) + 40 * np.eye(70)[label]).astype(np.float32)
    at = of_neighbours(x, 0)
    assert (label[(cdist(at, at) + np.eye(60) * 1e9).argmin(axis=1)] == label).all()
    assert at.shape == (60, 2)
