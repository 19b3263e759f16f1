import numpy as np
import pytest
import torch
from oracles.fake_model import FIRST_WORD, FakeModel, made_up_texts
from oracles.tokens import all_tokens

from reporter.metrics._outlier_lists import MassiveActivation, OutlierDimension
from reporter.metrics.base import catalogue

READ = ("moments", *catalogue()["outliers"].needs)


def changed(change):
    return FakeModel(width=32, special=True, sinks=False, change=change)


def listed(seen, kind):
    metric = catalogue()["outliers"]
    return [row for row in metric.compute(seen, metric.options()) if isinstance(row, kind)]


def massive_types(corpus):
    """Return {(dimension, token id, at position 0, own): facts} of every massive activation, coordinate by coordinate.

    The facts are places (layer, token), texts, tokens, positions, layers, the largest value and its first layer.
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
        found[key] = {
            "places": list(zip(layers, rows, strict=True)),
            "texts": len(set(corpus.texts[rows].tolist())),
            "count": len(set(rows)),
            "positions": (corpus.positions[rows].min(), corpus.positions[rows].max()),
            "layers": (min(layers), max(layers)),
            "value": values[at],
            "layer": layers[at],
        }
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
    places = {(layer, token) for one in expected.values() for layer, token in one["places"]}
    share = np.bincount([layer for layer, _ in places], minlength=4) / len(everything.ids)
    for batches in ({"batch_tokens": 64}, {"batch_tokens": 4096, "shard_characters": 500}):
        seen = see(model, texts, names=READ, **batches)
        found = values(model, seen.observables, 80, "all", ["outliers"])
        assert [found["outliers.massive", layer].value for layer in range(4)] == pytest.approx(share)
        rows = {(r.dimension, r.token_id, r.position_first == 0, r.own): r for r in listed(seen, MassiveActivation)}
        assert rows.keys() == expected.keys()
        for key, one in expected.items():
            row = rows[key]
            assert (row.texts, row.count) == (one["texts"], one["count"])
            assert (row.position_first, row.position_last) == one["positions"]
            assert (row.layer_first, row.layer_last) == one["layers"] and row.layer == one["layer"]
            assert row.value == pytest.approx(one["value"], rel=1e-6)
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

    seen = see(changed(rogue), made_up_texts(80), names=READ)
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
