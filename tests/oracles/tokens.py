"""Every token of a corpus with its states, stratum and context, found text by text and token by token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class AllTokens:
    """Tokens in the order of the corpus; ``states[l]`` is (tokens, width) in float64."""

    states: list
    texts: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    special: np.ndarray
    sink: np.ndarray
    contexts: list
    embedding_contexts: list

    def view(self, name):
        """Return the tokens of a view."""
        keep = {
            "words": ~self.special,
            "all": np.ones(len(self.special), dtype=bool),
            "no-sinks": ~self.special & ~self.sink,
        }[name]
        return self.where(keep)

    def where(self, keep):
        at = np.flatnonzero(keep)
        return AllTokens(
            [x[at] for x in self.states],
            self.texts[at],
            self.positions[at],
            self.ids[at],
            self.special[at],
            self.sink[at],
            [self.contexts[i] for i in at],
            [self.embedding_contexts[i] for i in at],
        )

    def distinct(self, layer):
        """Return where each context occurs first, and the share of tokens that are duplicates."""
        first = {}
        for place, context in enumerate(self.embedding_contexts if layer == 0 else self.contexts):
            first.setdefault(context, place)
        return np.array(list(first.values()), dtype=int), 1 - len(first) / len(self.contexts)


def sinks(block_norms, special, decoder):
    """Return the sinks of one text; ``block_norms`` is (blocks, tokens)."""
    found = np.zeros(len(special), dtype=bool)
    for norms in block_norms:
        for place, norm in enumerate(norms):
            if norm > 8 * np.median(norms):
                found[place] = True
    if decoder:
        found[0] = True
    return found & ~special


def all_tokens(states_of, texts, tokenizer, *, decoder, positions, max_tokens=256):
    """Send each text alone through ``states_of(ids) -> [(tokens, width)] * (L + 1)``; gather its tokens."""
    parts = []
    contexts, embedding_contexts = [], []
    for index, text in enumerate(texts):
        encoded = tokenizer(
            text, truncation=True, max_length=max_tokens, return_special_tokens_mask=True, verbose=False
        )
        ids = [int(i) for i in encoded["input_ids"]]
        if not ids:
            continue
        special = np.array(encoded["special_tokens_mask"], dtype=bool)
        states = [np.asarray(x, dtype=np.float64) for x in states_of(ids)]
        sink = sinks([np.linalg.norm(x, axis=1) for x in states[1:]], special, decoder)
        parts.append((states, np.full(len(ids), index), np.arange(len(ids)), np.array(ids), special, sink))
        for place in range(len(ids)):
            contexts.append(tuple(ids[: place + 1]) if decoder else (tuple(ids), place))
            embedding_contexts.append((ids[place], place) if positions else ids[place])
    layers = len(parts[0][0])
    return AllTokens(
        [np.concatenate([part[0][layer] for part in parts]) for layer in range(layers)],
        *(np.concatenate([part[column] for part in parts]) for column in range(1, 6)),
        contexts,
        embedding_contexts,
    )
