"""Every token of a corpus with its states, stratum and context, found text by text and token by token."""

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
    aside: np.ndarray
    contexts: list
    embedding_contexts: list

    def view(self, name):
        """Return the tokens of a view."""
        kept = {
            "words": ~self.special,
            "all": np.ones(len(self.special), dtype=bool),
            "no-sinks": ~self.special & ~self.aside,
        }[name]
        at = np.flatnonzero(kept)
        columns = (self.texts, self.positions, self.ids, self.special, self.sink, self.aside)
        contexts = ([column[i] for i in at] for column in (self.contexts, self.embedding_contexts))
        return AllTokens([x[at] for x in self.states], *(column[at] for column in columns), *contexts)


def sinks(blocks, dominance=1.0, factor=2.0):
    """Return the sinks of one text and what is known of them; ``blocks`` are (tokens, width) each."""
    n = len(blocks[0])
    found = {name: np.zeros(n, dtype=int) for name in ("first", "last")}
    found |= {"sink": np.zeros(n, dtype=bool), "dimension": np.full(n, -1)}
    found |= {"ratio": np.zeros(n), "dominance": np.zeros(n)}
    for layer, states in enumerate(blocks, 1):
        x = np.asarray(states, dtype=np.float64)
        norms = [float(np.sqrt((row**2).sum())) for row in x]
        for place, row in enumerate(x):
            ratio = norms[place] / np.median(norms)
            found["ratio"][place] = max(found["ratio"][place], ratio)
            j = int(np.argmax(np.abs(row)))
            weight = (row[j] - np.median(x[:, j])) ** 2 / (np.delete(row, j) ** 2).sum()
            if ratio > 2 and weight > found["dominance"][place]:
                found["dominance"][place], found["dimension"][place] = weight, j
            if ratio > factor and (dominance is None or weight > dominance):
                found["sink"][place] = True
                found["first"][place] = found["first"][place] or layer
                found["last"][place] = layer
    return found


def first_own(special):
    """Return which token of a text is its first own one."""
    found = np.zeros(len(special), dtype=bool)
    for place, added in enumerate(special):
        if not added:
            found[place] = True
            break
    return found


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
        sink, first = sinks(states[1:])["sink"] & ~special, first_own(special)
        aside = (sink | first) & ~special
        parts.append((states, np.full(len(ids), index), np.arange(len(ids)), np.array(ids), special, sink, aside))
        for place in range(len(ids)):
            contexts.append(tuple(ids[: place + 1]) if decoder else (tuple(ids), place))
            embedding_contexts.append((ids[place], place) if positions else ids[place])
    layers = len(parts[0][0])
    return AllTokens(
        [np.concatenate([part[0][layer] for part in parts]) for layer in range(layers)],
        *(np.concatenate([part[column] for part in parts]) for column in range(1, 7)),
        contexts,
        embedding_contexts,
    )
