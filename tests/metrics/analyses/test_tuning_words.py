"""Words that tuning added: the static share against a double loop over pairs of tokens, and a push that has a name."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from oracles.corpora import corpus
from oracles.families import WORDS, build_language_model, loaded
from safetensors.torch import load_file, save_file

from reporter.forward.measure import tokenised_texts
from reporter.metrics.analysis import analyses
from reporter.metrics.base import Value
from reporter.metrics.tuning_words import POSITIONS
from reporter.models.head import load_head
from reporter.models.places import Layout

ANALYSIS = analyses()["tuning_words"]
RNG = np.random.default_rng(0)
TEXTS = list(dict.fromkeys(" ".join(RNG.choice(WORDS, size=int(n))) for n in RNG.integers(2, 14, 12)))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A decoder and a copy whose second block adds noise and the same vector to every token: that of a word."""
    folder = tmp_path_factory.mktemp("words")
    for name in ("base", "tuned"):
        build_language_model("llama", folder / name, tie_word_embeddings=True)
    weights = load_file(folder / "tuned/model.safetensors")
    down = weights["model.layers.1.mlp.down_proj.weight"]
    down += 0.05 * torch.randn(down.shape, generator=torch.Generator().manual_seed(0))
    save_file(weights, folder / "tuned/model.safetensors", metadata={"format": "pt"})
    return loaded(folder / "tuned"), loaded(folder / "base")


def rows_of(model, base, texts=60):
    context = SimpleNamespace(
        model=model, base=lambda: base, batch_tokens=32, corpora={"c": corpus(TEXTS, max_tokens=40)}, seed=0,
        tell=lambda *_: None, warnings=[], layout=Layout.of(model.anatomy, ()),
    )  # fmt: skip
    return list(ANALYSIS.compute(SimpleNamespace(corpus="c", texts=texts), context))


def differences(model, base, layer, name):
    """Yield the differences of the tokens of each text, (tokens, width) in float64."""
    for text in tokenised_texts(TEXTS, model):
        ids = torch.as_tensor(text.ids)[None]
        with torch.inference_mode():
            x, y = (side.states(ids, torch.ones_like(ids))[layer][0].double().numpy() for side in (model, base))
        yield (x - y)[np.flatnonzero(~text.special)[POSITIONS[name]]]


@pytest.mark.parametrize("name", POSITIONS)
def test_the_static_share_is_that_of_pairs_of_tokens_of_different_texts(models, name):
    values = {(row.statistic, row.place.layer): row for row in rows_of(*models) if isinstance(row, Value)}
    assert values[f"static_{name}", 1].reason == "no state changed"
    texts = list(differences(*models, 3, name))
    tokens = [(text, delta) for text, deltas in enumerate(texts) for delta in deltas]
    pairs = [a @ b for i, a in tokens for j, b in tokens if i != j]
    share = np.mean(pairs) / np.mean([delta @ delta for _, delta in tokens])
    row = values[f"static_{name}", 3]
    assert row.value == pytest.approx(share, rel=1e-4) and row.n == len(tokens)
    assert row.ci_low < row.value < row.ci_high


def test_words_are_what_the_head_reads_from_the_mean_difference(models):
    model, base = models
    words = [row for row in rows_of(model, base) if not isinstance(row, Value)]
    assert {row.layer for row in words} == {1, 3}
    mean = np.concatenate(list(differences(model, base, 3, "later"))).mean(axis=0)
    head = load_head(model.checkpoint, model, offline=True)
    with torch.inference_mode():
        logits = head.logits(model.close(torch.from_numpy(mean).float()[None]))[0]
    up = [row for row in words if (row.layer, row.positions, row.direction) == (3, "later", "up")]
    assert [row.token_id for row in sorted(up, key=lambda row: row.rank)] == logits.topk(20).indices.tolist()
    down = next(row for row in words if (row.layer, row.positions, row.direction, row.rank) == (3, "later", "down", 1))
    assert down.token_id != up[0].token_id and all(0 <= row.agree <= 1 for row in words)
