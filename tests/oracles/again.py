"""The paths of ``reporter verify``, which share no code with a run, on states that a test holds in memory."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from oracles.fake_model import FIRST_WORD, FakeHead

from reporter.app.verify.reading import CorpusReading, Kinds, Rule, StatePlace, Tokenised, kinds_of_text
from reporter.app.verify.verification import PATHS


class _InMemory(CorpusReading):
    def at(self, place):
        return self.states[place]


def _reading(parts, path, kinds, final=None, **attributes):
    usual = {"causal": True, "views": ("with special tokens",), "positions_added": True}
    constants = {"seed": 0, "corpus": len(parts), "shuffled": False, "rule": Rule(), "sites": ()}
    reading = _InMemory(Path(), texts=parts, **(constants | usual | attributes))
    reading.states = {StatePlace("block" if layer else "embedding", layer): x for layer, x in enumerate(path)}
    if final is not None:
        reading.states[StatePlace("final", len(path) - 1)] = final
    reading.widths.update({place: x.shape[1] for place, x in reading.states.items()})
    reading._kinds += kinds
    return reading


def read_again(model, texts):
    """Return what ``verify`` reads of a made-up model: each text alone, in float64, under every view."""
    first, parts, clusters = {}, [], getattr(texts, "clusters", None)
    for index, text in enumerate(texts):
        encoding = model.tokenizer(text)
        original = first.setdefault(tuple(encoding["input_ids"]), index)
        unit = original if clusters is None else int(clusters[original])
        special = np.array(encoding["special_tokens_mask"], dtype=bool)
        if len(special):
            parts.append(
                Tokenised(index, encoding["input_ids"], special, np.ones(len(special), bool), False, original, unit)
            )
    states = [model.reference(part.ids) for part in parts]
    kinds = [kinds_of_text(path[1:], part.special, Rule()) for path, part in zip(states, parts, strict=True)]
    whole = [np.concatenate(layer) for layer in zip(*states, strict=True)]
    closes = model.anatomy.final_width is not None
    final = model.close(torch.from_numpy(whole[-1])).numpy() if closes else None
    of_model = {"causal": model.role == "decoder", "positions_added": model.positions}
    return _reading(
        parts, whole, kinds, final, views=("text tokens", "with special tokens", "without sinks"), **of_model
    )


class FakeWords:
    """Says which tokens are words of a fake vocabulary, as ``fake_model.fake_vocabulary`` does."""

    by_end = False

    def __init__(self, tokenizer, size):
        pass

    def kinds(self, ids):
        on = np.array([token % 10 == 9 for token in ids])
        joined = np.append(on[1:], False) | (on & (np.arange(len(ids)) > 0))
        kinds = ["" if token < FIRST_WORD else ("", "function", "content")[token % 3] for token in ids]
        return np.where(joined, "", kinds).tolist()


class FakeSubject:
    """A made-up model and its head with the face of what paths through the whole model read."""

    moved, last = 0.0, "block"

    def __init__(self, model):
        self.model, self.base_model, self.whole = self, _Base(model=model), self
        self.tokenizer = SimpleNamespace(mask_token_id=FakeHead.mask_id)
        self.head, self._vectors = FakeHead(model), torch.from_numpy(model.embeddings)

    def __call__(self, **inputs):
        return SimpleNamespace(logits=self.head.logits(self.base_model.forward(**inputs).last_hidden_state))

    def embedding(self):
        return SimpleNamespace(weight=self._vectors)

    def states(self, ids):
        return self.base_model.model.states(torch.tensor([ids]), torch.ones(1, len(ids))), None

    def norms(self):
        """Return none, so that what attention and feed-forward add has no path."""
        return []


class _Base(SimpleNamespace):
    def forward(self, input_ids, attention_mask=None):
        return SimpleNamespace(last_hidden_state=self.model.states(input_ids, attention_mask)[-1])


def again(metric, states, texts=None, **options):
    """Return {(statistic, layer): number} of a metric, without numbers for pairs of layers; layer None: of the model.

    Args:
        metric: a metric that has a path.
        states: L + 1 matrices (tokens, width).
        texts: the text of each token, ascending; one token a text by default.
        options: options of the metric.
    """
    n = len(states[0])
    texts = np.arange(n) if texts is None else np.asarray(texts)
    none, zeros, never = np.zeros(n, dtype=int), np.zeros(n), np.zeros(n, dtype=bool)
    sizes = zip(*(of.tolist() for of in np.unique(texts, return_counts=True)), strict=True)
    parts = [
        Tokenised(text, [0] * size, np.zeros(size, bool), np.ones(size, bool), False, text, text)
        for text, size in sizes
    ]
    kinds = Kinds(never, never, never, none, none, zeros, zeros, none - 1)
    reading = _reading(parts, states, [kinds])
    return {
        (number.statistic, number.place and number.place.layer): number.value
        for number in PATHS[metric](reading, options)
        if number.other is None and (number.place is None or number.place.site != "final")
    }
