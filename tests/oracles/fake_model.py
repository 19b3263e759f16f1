"""A tiny deterministic model with the face of a loaded one, whose ``reference`` reads each text alone, without padding.

Token ids: 0 pads, 1 opens and closes a text (special), 2 + i is the word ``str(i)``. The first coordinate of word
``SINK_WORD`` gets 150 added in block 2, which makes it a sink. Each block mixes the mean of what a token may look at
(the whole text in an encoder, the prefix in a decoder) into the token, weighted by place, so that order matters and
no two contexts give the same state, with or without position vectors.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import torch

from reporter.forward.readout import Vocabulary
from reporter.models.capture import share
from reporter.models.load import Captured

PAD, EDGE, FIRST_WORD = 0, 1, 2
SINK_WORD = 3
WORDS = 40
SMALL = {  # options of the metrics whose defaults would be most of the time of all of them
    "information_imbalance": {"sample": 100},
    "local_dimension": {"sample": 100, "centres": 16, "neighbours": 16},
}


class FakeTokenizer:
    pad_token_id = PAD
    eos_token_id = EDGE

    def __init__(self, special: bool) -> None:
        self.special = special

    def __call__(self, texts, truncation=False, max_length=None, **_):
        one, ids, edges = isinstance(texts, str), [], [EDGE] * self.special
        for text in [texts] if one else texts:
            words = [FIRST_WORD + int(word) for word in text.split()]
            ids.append([*edges, *(words[: max_length - 2 * len(edges)] if truncation else words), *edges])
        marks = [[int(token == EDGE) for token in of] for of in ids]
        return {"input_ids": ids[0] if one else ids, "special_tokens_mask": marks[0] if one else marks}


class FakeModel:
    """See the module. ``change`` may rewrite the list of states, to make degenerate ones."""

    def __init__(
        self, role="encoder", layers=3, width=16, special=True, positions=True, sinks=True, seed=0, max_tokens=None,
        change=None, final_width=None,
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        self.role, self.layers, self.width = role, layers, width
        self.special, self.positions, self.sinks, self.change = special, positions, sinks, change
        self.embeddings = (rng.standard_normal((FIRST_WORD + WORDS, width)) + 0.5).astype(np.float32)
        self.position_vectors = (rng.standard_normal((300, width)) * 0.3 * positions).astype(np.float32)
        self.places = (1 + 0.5 * np.sin(1.7 * np.arange(300)))[:, None].astype(np.float32)
        self.weights = [(rng.standard_normal((width, width)) / width**0.5).astype(np.float32) for _ in range(layers)]
        self.tokenizer = FakeTokenizer(special)
        self.closing = SimpleNamespace(problem="")
        self.device = torch.device("cpu")
        sizes = {"layers": layers, "width": width, "vocabulary_size": FIRST_WORD + WORDS, "final_width": final_width}
        ways = {"attention": "sequential", "positions": "added" if positions else "not-added"}
        self.anatomy = SimpleNamespace(role=role, max_tokens=max_tokens, **sizes, **ways)

    def states(self, input_ids, attention_mask):
        ids, mask = input_ids, attention_mask.float()[..., None]
        embeddings, positions = torch.from_numpy(self.embeddings), torch.from_numpy(self.position_vectors)
        places = torch.from_numpy(self.places[: ids.shape[1]])
        x = embeddings[ids] + positions[: ids.shape[1]]
        result = [x]
        for block, weight in enumerate(self.weights, 1):
            mixed = (x * places * mask).cumsum(1) / mask.cumsum(1)  # at the last place: of the whole text
            mixed = mixed if self.role == "decoder" else mixed[:, -1:]
            x = x + torch.tanh(x @ torch.from_numpy(weight) + mixed * places)
            if self.sinks and block == 2:
                x = x.clone()
                x[..., 0] += torch.where(ids == FIRST_WORD + SINK_WORD, 150.0, 0.0)
            result.append(x)
        return self.change(result) if self.change else result

    def run(self, input_ids, attention_mask, attention=False, contributions=False):
        """Beside the path, a norm and projection of the last block, and states half way through each block.

        Its attention adds a half of each step, its feed-forward the other.
        """
        path = self.states(input_ids, attention_mask)
        final = None if self.anatomy.final_width is None else self.close(path[-1])
        steps = [(x, (y - x) / 2) for x, y in itertools.pairwise(path)]
        between = [x + a for x, a in steps] if attention else None
        shares = [torch.stack([share(a, x), share(a, x + a)], dim=-2) for x, a in steps]
        return Captured(path, final, between, torch.stack(shares) if contributions else None)

    def close(self, x):
        """Scale to norm 1, then pad with zeros or cut off dimensions."""
        if self.anatomy.final_width is None:
            return x
        x = x / x.norm(dim=-1, keepdim=True).clamp_min(1e-9)
        return torch.nn.functional.pad(x, (0, self.anatomy.final_width - self.width))

    def reference(self, ids):
        """Return the L + 1 states of one text alone, each (tokens, width) in float64."""
        result = self.states(torch.tensor([ids]), torch.ones(1, len(ids)))
        return [x[0].double().numpy() for x in result]


class FakeHead:
    """A language-model head whose logits are products with fixed vectors."""

    mask_id = 2
    problem = ""

    def __init__(self, model):
        rng = np.random.default_rng(99)
        width = model.anatomy.final_width or model.width
        self.kind = "causal" if model.role == "decoder" else "masked"
        self.vectors = rng.standard_normal((width, FIRST_WORD + WORDS)) * 0.3
        self._vectors = torch.from_numpy(self.vectors).float()

    def logits(self, states):
        return states @ self._vectors


def fake_vocabulary(model):
    """Of the words one third each is none, a function word, a content word; every tenth goes on with the one before."""
    ids = np.arange(FIRST_WORD + WORDS)
    kinds = np.where(ids < FIRST_WORD, 0, ids % 3)
    return Vocabulary(torch.from_numpy(model.embeddings), kinds, ids % 10 == 9, np.zeros(len(ids), dtype=bool))


class FakeTexts(list):
    """Texts with the face of ``reporter.texts.Texts``."""

    name = "made-up"
    clusters = None

    def lengths(self):
        return [len(text) for text in self]

    def slice(self, start, stop):
        return list(self)[start:stop]


def made_up_texts(count, seed=0, longest=20, shortest=1, words=WORDS):
    """Return texts of random words; a tenth repeat an earlier text, so that an encoder has duplicates too."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(count):
        if texts and rng.random() < 0.1:
            texts.append(texts[rng.integers(len(texts))])
        else:
            length = rng.integers(shortest, longest + 1)
            # Cubed, so that words are as uneven as in real text and a decoder meets the same prefixes again.
            texts.append(" ".join(str(int(words * u**3)) for u in rng.random(length)))
    return FakeTexts(texts)
