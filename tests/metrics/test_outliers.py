"""Lists of massive activations and outlier dimensions, token by token, and numbers at other cuts of sinks."""

import numpy as np
import pandas as pd
import pytest
from oracles.again import read_again
from oracles.fake_model import FIRST_WORD, SINK_WORD, FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.app.verify.by_cloud import sink_cuts
from reporter.metrics._outlier_lists import MassiveActivation, OutlierDimension, SinkCut, cuts
from reporter.metrics.base import Value, catalogue
from reporter.metrics.outliers import OutlierOptions, SinkToken, outliers

KEY = ["dimension", "token_id", "first", "own"]
READ = ("moments", *catalogue()["outliers"].needs)


def listed(seen, kind):
    return [row for row in outliers(seen, OutlierOptions()) if isinstance(row, kind)]


def massive_activations(corpus):
    """Return every massive activation of a corpus, found one by one."""
    found = []
    for layer, states in enumerate(corpus.states):
        for text in np.unique(corpus.texts):
            rows = np.flatnonzero(corpus.texts == text)
            sizes = np.abs(states[rows])
            for row, dimension in np.argwhere((sizes > 100) & (sizes > 1000 * np.median(sizes))):
                token = rows[row]
                at, value = corpus.positions[token], states[token, dimension]
                of = (dimension, corpus.ids[token], at == 0, not corpus.special[token])
                found.append((*of, layer, text, token, at, value, abs(value)))
    return pd.DataFrame(found, columns=[*KEY, "layer", "text", "token", "position", "value", "size"])


class Massive(FakeModel):
    """Two dimensions of some words and of whatever stands first, at some layers, of both signs."""

    def states(self, input_ids, attention_mask):
        found = super().states(input_ids, attention_mask)
        for layer in (1, 2):
            found[layer][..., 7] -= 1000.0 * layer * input_ids * ((input_ids == 3) | (input_ids == 5))
            found[layer][..., 2] += 2000.0 * (input_ids == 5)
            found[layer][:, 0, 4] += 5000.0 + layer
        # From far below to far above both limits.
        found[2][..., 5] += 10 ** (input_ids / 2) * ((input_ids > 1) & (input_ids < 10))
        return found


@pytest.mark.parametrize(("role", "special"), [("encoder", True), ("decoder", False)])
def test_massive_activations_are_listed_by_dimension_and_token(see, values, role, special):
    model, texts = Massive(role=role, special=special, sinks=False), made_up_texts(80)
    everything = all_tokens(model.reference, texts, model.tokenizer, decoder=role == "decoder", positions=True)
    expected = massive_activations(everything)
    share = np.bincount(expected.drop_duplicates(["layer", "token"]).layer, minlength=4) / len(everything.ids)
    for batches in ({"batch_tokens": 64}, {"batch_tokens": 4096, "shard_characters": 500}):
        seen = see(model, texts, names=READ, **batches)
        found = values(model, seen.observables, 80, "with special tokens", ["outliers"])
        assert [found["outliers.massive", layer].value for layer in range(4)] == pytest.approx(share)
        listing = listed(seen, MassiveActivation)
        sizes = [abs(row.value) for row in listing]
        assert len(listing) > 6 and sizes == sorted(sizes, reverse=True)
        rows = {(r.dimension, r.token_id, r.position_first == 0, r.own): r for r in listing}
        assert rows[7, FIRST_WORD + 1, False, True].token == f"t{FIRST_WORD + 1}"
        for key, of in expected.groupby(KEY):
            row, largest = rows.pop(key), of.loc[of["size"].idxmax()]
            assert (row.texts, row.count) == (of.text.nunique(), of.token.nunique())
            span = [row.position_first, row.position_last, row.layer_first, row.layer_last, row.layer]
            assert span == [of.position.min(), of.position.max(), of.layer.min(), of.layer.max(), largest.layer]
            assert row.value == pytest.approx(largest.value, rel=1e-6)
            median = np.median(np.abs(everything.states[row.layer]))
            assert row.median == pytest.approx(median, rel=0.01)  # of states in 16 bits
            assert row.ratio == pytest.approx(abs(row.value) / row.median)
        assert not rows


def test_outlier_dimensions_are_listed_with_their_layers_and_shares(see):
    def rogue(states):
        """Dimension 3 stands out in the first two layers, dimension 20 in the last alone, and most."""
        found = [x - x.mean(dim=-1, keepdim=True) for x in states]
        for layer, dimension, by in ((0, 3, 50.0), (1, 3, -80.0), (3, 20, 900.0)):
            found[layer][..., dimension] += by
        return found

    seen = see(FakeModel(width=32, sinks=False, change=rogue), made_up_texts(80), names=READ)
    rows = listed(seen, OutlierDimension)
    assert [(r.dimension, r.layers, r.layer_first, r.layer_last) for r in rows] == [(20, 1, 3, 3), (3, 2, 0, 1)]
    assert rows[0].layer == 3
    for row in rows:
        moments = seen.moments(seen.path[row.layer])
        assert row.mean == pytest.approx(moments.mean[row.dimension])
        assert row.deviations == pytest.approx(abs(row.mean - moments.mean.mean()) / moments.mean.std())
        assert row.variance_share == pytest.approx(moments.squares[row.dimension] / moments.squares.sum())
        assert row.cosine_share == pytest.approx(1, abs=0.05)


class Border(FakeModel):
    """The sink word outweighs the rest by little or by much, as its neighbour has it: a population without a gap."""

    def states(self, input_ids, attention_mask):
        found = super().states(input_ids, attention_mask)
        for x in found[2:]:
            x[..., 0] += (input_ids.roll(1, 1) * 7 % 23 - 146) * (input_ids == FIRST_WORD + SINK_WORD)
        return found


def test_every_cut_against_all_tokens(see):
    model, texts = Border(special=True), made_up_texts(100, shortest=6, longest=14, words=12)
    rows, reading = cuts(see(model, texts, names=READ), 100_000), read_again(model, texts)
    by_key = {(f"{row.rule} {row.cut:g}", row.place.layer, row.statistic): row for row in rows}
    tokens, sizes = int((~reading.kinds.special & ~reading.kinds.first).sum()), set()
    again = {(n.view, n.place.layer, n.statistic): n.value for n in sink_cuts(reading, {"sample": 100_000})}
    for (cut, layer, statistic), expected in again.items():
        if statistic != "left_out":
            row, left_out = by_key.pop((cut, layer, statistic)), again[cut, layer, "left_out"]
            assert row.value == pytest.approx(expected, rel=1e-4, abs=1e-6)
            assert row.left_out == pytest.approx(left_out) and row.n == round(tokens * (1 - left_out))
            sizes.add(row.n)
    assert not by_key and len(sizes) >= 4  # the cuts do cut


def test_the_metric_yields_sinks_cuts_and_how_much_hangs_on_the_cut(see):
    texts = made_up_texts(100, shortest=6, longest=14, words=12)
    spread = {}
    for name, model in (("border", Border()), ("clear", FakeModel()), ("none", FakeModel(sinks=False))):
        results = list(outliers(see(model, texts, names=READ), OutlierOptions(sample=100_000)))
        kinds = {type(result) for result in results} - {OutlierDimension}
        assert kinds == ({Value, SinkToken, SinkCut} if name != "none" else {Value, SinkCut})
        spread[name] = [r.value for r in results if isinstance(r, Value) and r.statistic == "sink_sensitivity"]
    assert max(spread["border"]) > 0.02
    assert max(spread["clear"]) == max(spread["none"]) == 0  # no token lies between the cuts
