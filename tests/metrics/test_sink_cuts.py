"""Numbers at other cuts of sinks, from all tokens at once."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.fake_model import FIRST_WORD, SINK_WORD, FakeModel, made_up_texts
from oracles.tokens import all_tokens, sinks

from reporter.forward.observed import Observed
from reporter.metrics._outlier_lists import DOMINANCES, FACTORS, OutlierDimension, SinkCut, cuts
from reporter.metrics.base import Value
from reporter.metrics.outliers import OutlierOptions, SinkToken, outliers


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

    def reference(self, ids):
        found = super().reference(ids)
        ids = np.asarray(ids)
        for layer in (2, 3):
            x = found[layer] = found[layer].copy()
            here = ids == FIRST_WORD + SINK_WORD
            x[:, 0] += np.where(here, -150.0 + 4.0 + (np.roll(ids, 1) * 7 % 23), 0.0)
        return found


def seen_of(observe, model, texts, view="words"):
    observables, _ = observe(model, texts)
    return Observed(observables, observables["moments"].layout, len(texts), view, 0)


def test_every_cut_against_all_tokens(observe):
    model, texts = Border(special=True), made_up_texts(150, shortest=6, longest=14, words=12)
    seen = seen_of(observe, model, texts)
    tokens = all_tokens(model.reference, texts, model.tokenizer, decoder=False, positions=True)
    scores = {"dominance": [], "factor": []}
    for text in texts:
        facts = sinks(model.reference(model.tokenizer(text)["input_ids"])[1:])
        scores["dominance"].extend(facts["dominance"])
        scores["factor"].extend(facts["ratio"])
    first = tokens.aside & ~tokens.sink
    for index in np.unique(tokens.texts):  # a first token that is a sink is left out as a first one, too
        own = np.flatnonzero((tokens.texts == index) & ~tokens.special)
        first[own[0]] = True
    found = {(cut.rule, cut.cut, cut.place.layer, cut.statistic): cut for cut in cuts(seen, 100_000)}
    sizes = set()
    for rule, at in (("dominance", DOMINANCES), ("factor", FACTORS)):
        for cut in at:
            keep = ~tokens.special & ~first & (np.array(scores[rule]) <= cut)
            sizes.add(int(keep.sum()))
            for layer, states in enumerate(tokens.states):
                x = states[keep]
                values = np.linalg.eigvalsh(np.cov(x.T, bias=True))
                units = x / np.linalg.norm(x, axis=1, keepdims=True)
                last = tokens.states[-1][keep]
                cosines = (x * last).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(last, axis=1)
                total, n = units.sum(axis=0), len(x)
                expected = {
                    "anisotropy.top_variance_share": values[-1] / values.sum(),
                    "anisotropy.mean_cosine": (total @ total - n) / (n * (n - 1)),
                    "convergence.similarity": cosines.mean(),
                }
                for statistic, value in expected.items():
                    one = found[rule, cut, layer, statistic]
                    assert one.value == pytest.approx(value, rel=1e-4, abs=1e-6) and one.n == n
                    assert one.left_out == pytest.approx(1 - n / (~tokens.special & ~first).sum())
    assert len(sizes) >= 4  # the cuts do cut


def test_the_metric_yields_sinks_cuts_and_how_much_hangs_on_the_cut(observe):
    texts = made_up_texts(150, shortest=6, longest=14, words=12)
    spread = {}
    for name, model in (("border", Border()), ("clear", FakeModel()), ("none", FakeModel(sinks=False))):
        results = list(outliers(seen_of(observe, model, texts), OutlierOptions(sample=100_000)))
        kinds = {type(result) for result in results} - {OutlierDimension}
        assert kinds == ({Value, SinkToken, SinkCut} if name != "none" else {Value, SinkCut})
        spread[name] = [r.value for r in results if isinstance(r, Value) and r.statistic == "sink_sensitivity"]
    assert max(spread["border"]) > 0.02
    assert max(spread["clear"]) == max(spread["none"]) == 0  # no token lies between the cuts


def test_texts_of_one_token_have_nothing_that_a_cut_could_leave_out(observe):
    texts = made_up_texts(6, shortest=1, longest=1)
    seen = seen_of(observe, FakeModel(), texts)
    assert cuts(seen, 100_000) == []
    results = list(outliers(seen, OutlierOptions()))
    assert {r.value for r in results if isinstance(r, Value) and r.statistic == "sink_sensitivity"} == {None}
