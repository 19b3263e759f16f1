"""Every family through every metric at every site: no failure, and no number missing without a reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.fake_model import FakeTexts
from oracles.families import WORDS

from reporter.core.errors import ReporterError
from reporter.forward.measure import Settings, measure, tokenised
from reporter.forward.observable import Setting
from reporter.forward.observed import KINDS
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.type_sample import count_types
from reporter.models.head import load_head
from reporter.models.places import Layout

# Of other widths, with and without a head, positions and a closing norm; tests/models loads all variants.
CHOSEN = ["bert", "albert", "t5", "gpt2", "opt, projected", "llama"]
NARROW = ("albert", "opt, projected")  # their token vectors have fewer dimensions than their states
SMALL = {
    "anisotropy": {"sample": 64, "batches": 2},
    "intrinsic_dimension": {"sample": 150, "batches": 1},
    "information_imbalance": {"sample": 100},
    "layer_pairs": {"texts": 40},
    "local_dimension": {"sample": 100, "centres": 16, "neighbours": 16},
}


def texts():
    rng = np.random.default_rng(0)
    found = [" ".join(rng.choice(WORDS, rng.integers(2, 12))) for _ in range(44)]
    return FakeTexts([*found, "cat", found[0], "the cat"])


def readout_of(model):
    try:
        return Readout(model, load_head(model.checkpoint, model, offline=True)), ""
    except ReporterError as error:
        return None, str(error)


@pytest.mark.parametrize("name", CHOSEN)
def test_every_metric_of_every_family(name, family_model, values):
    model, corpus = family_model(name), texts()
    layout = Layout.of(model.anatomy, ("final", "attention"))
    assert layout.attention
    tokens = tokenised(model, corpus, 64)
    counted = count_types(tokens, model.anatomy.vocabulary_size, 0)
    types = counted.at_least(5)
    readout, problem = readout_of(model)
    in_all = int(counted.counts.sum() + counted.added.sum())
    setting = Setting(layout, 0, len(corpus), 4096, types, {i: f"t{i}" for i in types}, in_all, counted.splits)
    observables = {kind: KINDS[kind].empty(setting) for kind in KINDS}
    settings = Settings(256, 0, "float32", layout, counted.frequent)
    settings = replace(settings, readout=readout, losses=True, vocabulary=Vocabulary.of(model))
    for _ in measure(model, tokens, list(observables.values()), settings):
        pass
    for view in ("words", "all", "no-sinks"):
        found = values(model, observables, len(corpus), view, **SMALL)  # checks each number, or its reason
        missing = {key for key, value in found.items() if value.value is None}
        assert len(missing) < len(found) / 2, f"{len(missing)} of {len(found)} are missing"
        if readout is None:
            assert problem
        else:
            assert found["loss.lm", None].value > 0
        compared = found["journey.rank_content", 0]
        assert (compared.value is None) == (name in NARROW) == ("cannot be compared" in compared.reason)
        final = [key for key in found if str(key[1]).startswith("final")]
        assert bool(final) == (model.anatomy.final_width is not None)
