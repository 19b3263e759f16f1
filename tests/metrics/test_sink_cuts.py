"""Numbers at other cuts of sinks, against the independent path."""

import pytest
from oracles.again import read_again
from oracles.fake_model import FIRST_WORD, SINK_WORD, FakeModel, made_up_texts

from reporter.app.verify.by_cloud import sink_cuts
from reporter.metrics._outlier_lists import OutlierDimension, SinkCut, cuts
from reporter.metrics.base import Value, catalogue
from reporter.metrics.outliers import OutlierOptions, SinkToken, outliers

READ = ("moments", *catalogue()["outliers"].needs)


class Border(FakeModel):
    """The sink word outweighs the rest by little or by much, as its neighbour has it: a population without a gap."""

    def states(self, input_ids, attention_mask):
        import torch

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
