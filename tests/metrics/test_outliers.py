"""Lists of massive activations and outlier dimensions, token by token, and numbers at other cuts of sinks."""

import numpy as np
import pytest
import torch
from oracles.again import read_again
from oracles.fake_model import FIRST_WORD, SINK_WORD, FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.app.verify.by_cloud import sink_cuts
from reporter.metrics._outlier_lists import MassiveActivation, OutlierDimension, SinkCut, cuts
from reporter.metrics.base import Value, catalogue
from reporter.metrics.outliers import OutlierOptions, SinkToken, outliers

READ = ("moments", *catalogue()["outliers"].needs)


def listed(seen, kind):
    return [row for row in outliers(seen, OutlierOptions()) if isinstance(row, kind)]


def massive_types(corpus):
    """Return what is known of every massive activation by (dimension, token id, at position 0, own), found one by one.

    It is places (layer, token); counts of texts and tokens, first and last position and layer, and the layer of the
    largest value; and that value.
    """
    where = {}
    for layer, states in enumerate(corpus.states):
        for text in np.unique(corpus.texts):
            rows = np.flatnonzero(corpus.texts == text)
            sizes = np.abs(states[rows])
            for row, j in zip(*np.nonzero((sizes > 100) & (sizes > 1000 * np.median(sizes))), strict=True):
                token = rows[row]
                key = (int(j), int(corpus.ids[token]), bool(corpus.positions[token] == 0), not corpus.special[token])
                where.setdefault(key, []).append((layer, int(token), float(states[token, j])))
    found = {}
    for key, seen in where.items():
        layers, rows, values = (list(column) for column in zip(*seen, strict=True))
        at = int(np.argmax(np.abs(values)))
        positions, texts = corpus.positions[rows], set(corpus.texts[rows].tolist())
        facts = len(texts), len(set(rows)), positions.min(), positions.max(), min(layers), max(layers), layers[at]
        found[key] = list(zip(layers, rows, strict=True)), facts, values[at]
    return found


@pytest.mark.parametrize(("role", "special"), [("encoder", True), ("decoder", False)])
def test_massive_activations_are_listed_by_dimension_and_token(see, values, role, special):
    """Two dimensions of some words and of whatever stands first, at some layers, of both signs."""

    class Massive(FakeModel):
        def added(self, ids, layer):
            found = np.zeros((len(ids), self.width))
            if layer in (1, 2):
                for word in (3, 5):
                    found[np.asarray(ids) == word, 7] = -1000.0 * word * layer
                    found[np.asarray(ids) == word, 2] = 2000.0 * (word == 5)
                found[0, 4] = 5000.0 + layer
            for word in range(2, 10):  # from far below to far above both limits
                found[np.asarray(ids) == word, 5] += (layer == 2) * 10.0 ** (word / 2)
            return found

        def states(self, input_ids, attention_mask):
            found = super().states(input_ids, attention_mask)
            for layer, x in enumerate(found):
                for row, ids in zip(x, input_ids.tolist(), strict=True):
                    row += torch.from_numpy(self.added(ids, layer)).float()
            return found

    model, texts = Massive(role=role, special=special, sinks=False), made_up_texts(80)
    everything = all_tokens(model.reference, texts, model.tokenizer, decoder=role == "decoder", positions=True)
    expected = massive_types(everything)
    assert len(expected) > 6
    places = {place for of, *_ in expected.values() for place in of}
    share = np.bincount([layer for layer, _ in places], minlength=4) / len(everything.ids)
    for batches in ({"batch_tokens": 64}, {"batch_tokens": 4096, "shard_characters": 500}):
        seen = see(model, texts, names=READ, **batches)
        found = values(model, seen.observables, 80, "all", ["outliers"])
        assert [found["outliers.massive", layer].value for layer in range(4)] == pytest.approx(share)
        rows = {(r.dimension, r.token_id, r.position_first == 0, r.own): r for r in listed(seen, MassiveActivation)}
        assert rows.keys() == expected.keys()
        for key, (_, facts, value) in expected.items():
            row = rows[key]
            span = row.position_first, row.position_last, row.layer_first, row.layer_last
            assert (row.texts, row.count, *span, row.layer) == facts
            assert row.value == pytest.approx(value, rel=1e-6)
            median = np.median(np.abs(everything.states[row.layer]))
            assert row.median == pytest.approx(median, rel=0.01)  # of states in 16 bits
            assert row.ratio == pytest.approx(abs(row.value) / row.median)
        assert rows[7, FIRST_WORD + 1, False, True].token == f"t{FIRST_WORD + 1}"
        sizes = [abs(row.value) for row in rows.values()]
        assert sizes == sorted(sizes, reverse=True)


def test_outlier_dimensions_are_listed_with_their_layers_and_shares(see):
    def rogue(states):
        """Dimension 3 stands out in the first two layers, dimension 20 in the last alone, and most."""
        found = [x - x.mean(dim=-1, keepdim=True) for x in states]
        for layer, dimension, by in ((0, 3, 50.0), (1, 3, -80.0), (3, 20, 900.0)):
            found[layer][..., dimension] += by
        return found

    seen = see(FakeModel(width=32, sinks=False, change=rogue), made_up_texts(80), names=READ)
    first, second = listed(seen, OutlierDimension)
    assert (first.dimension, first.layers, first.layer_first, first.layer_last, first.layer) == (20, 1, 3, 3, 3)
    assert (second.dimension, second.layers, second.layer_first, second.layer_last) == (3, 2, 0, 1)
    for row in (first, second):
        moments = seen.moments(seen.path[row.layer])
        mean = moments.mean
        assert row.mean == pytest.approx(mean[row.dimension])
        assert row.deviations == pytest.approx(abs(mean[row.dimension] - mean.mean()) / mean.std())
        assert row.variance_share == pytest.approx(moments.squares[row.dimension] / moments.squares.sum())
        assert row.cosine_share == pytest.approx(1, abs=0.05)


class Border(FakeModel):
    """The sink word outweighs the rest by little or by much, as its neighbour has it: a population without a gap."""

    def states(self, input_ids, attention_mask):
        found = super().states(input_ids, attention_mask)
        for layer in (2, 3):
            x = found[layer] = found[layer].clone()
            here = input_ids == FIRST_WORD + SINK_WORD
            x[..., 0] -= torch.where(here, 150.0, 0.0)
            x[..., 0] += torch.where(here, 4.0 + (input_ids.roll(1, 1) * 7 % 23).float(), 0.0)
        return found


def test_every_cut_against_all_tokens(see):
    model, texts = Border(special=True), made_up_texts(100, shortest=6, longest=14, words=12)
    rows = cuts(see(model, texts, names=READ), 100_000)
    by_key = {(f"{row.rule} {row.cut:g}", row.place.layer, row.statistic): row for row in rows}
    reading = read_again(model, texts)
    tokens, sizes = int((~reading.kinds.special & ~reading.kinds.first).sum()), set()
    again = {(n.view, n.place.layer, n.statistic): n.value for n in sink_cuts(reading, {"sample": 100_000})}
    for (cut, layer, statistic), expected in again.items():
        if statistic != "left_out":
            row, left_out = by_key.pop((cut, layer, statistic)), again[cut, layer, "left_out"]
            assert row.value == pytest.approx(expected, rel=1e-4, abs=1e-6)
            assert row.left_out == pytest.approx(left_out) and row.n == round(tokens * (1 - left_out))
            sizes.add(row.n)
    assert not by_key
    assert len(sizes) >= 4  # the cuts do cut


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
