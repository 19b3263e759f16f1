"""Every token of a corpus with its states and stratum, found text by text by the paths of ``reporter verify``."""

from dataclasses import dataclass, fields

import numpy as np

from reporter.app.verify.reading import Rule, context_keys, key, kinds_of_text


@dataclass
class AllTokens:
    """Tokens in the order of the corpus; ``states[l]`` is (tokens, width) in float64."""

    states: list
    texts: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    special: np.ndarray
    aside: np.ndarray
    contexts: np.ndarray
    embedding_contexts: np.ndarray

    def view(self, name):
        """Return the tokens of a view."""
        left_out = {"words": self.special, "all": self.special & False, "no-sinks": self.special | self.aside}[name]
        columns = [getattr(self, column.name)[~left_out] for column in fields(self)[1:]]
        return AllTokens([x[~left_out] for x in self.states], *columns)


def all_tokens(states_of, texts, tokenizer, *, decoder, positions, max_tokens=256):
    """Send each text alone through ``states_of(ids) -> [(tokens, width)] * (L + 1)``; gather its tokens."""
    parts = []
    for index, text in enumerate(texts):
        encoded = tokenizer(text, truncation=True, max_length=max_tokens, return_special_tokens_mask=True)
        ids = [int(i) for i in encoded["input_ids"]]
        if not ids:
            continue
        special = np.array(encoded["special_tokens_mask"], dtype=bool)
        states = [np.asarray(x, dtype=np.float64) for x in states_of(ids)]
        kinds, places = kinds_of_text(states[1:], special, Rule()), np.arange(len(ids))
        aside = (kinds.sink | kinds.first) & ~special
        keys = context_keys(ids, decoder, 0), [key(token, place * positions) for place, token in enumerate(ids)]
        columns = (np.full(len(ids), index), places, np.array(ids), special, aside)
        parts.append([states, *columns, *(np.array(of, dtype=np.uint64) for of in keys)])
    states, *columns = zip(*parts, strict=True)
    return AllTokens([np.concatenate(layer) for layer in zip(*states, strict=True)], *map(np.concatenate, columns))
