"""Every token of a corpus with its states and stratum, found text by text by the paths of ``reporter verify``."""

from types import SimpleNamespace

import numpy as np

from reporter.app.verify.reading import Rule, context_keys, key, kinds_of_text

COLUMNS = ("texts", "positions", "ids", "special", "aside", "contexts", "embedding_contexts")


class AllTokens(SimpleNamespace):
    """Tokens in the order of the corpus: ``COLUMNS``, and ``states[l]``, (tokens, width) in float64."""

    def view(self, name):
        """Return the tokens of a view."""
        left_out = {
            "text tokens": self.special,
            "with special tokens": self.special & False,
            "without sinks": self.special | self.aside,
        }[name]
        columns = {column: getattr(self, column)[~left_out] for column in COLUMNS}
        return AllTokens(states=[x[~left_out] for x in self.states], **columns)


def all_tokens(states_of, texts, tokenizer, *, decoder, positions, max_tokens=256):
    """Send each text alone through ``states_of(ids) -> [(tokens, width)] * (L + 1)``; gather its tokens."""
    parts = []
    for index, text in enumerate(texts):
        encoded = tokenizer(text, truncation=True, max_length=max_tokens, return_special_tokens_mask=True)
        if not (ids := [int(i) for i in encoded["input_ids"]]):
            continue
        special, places = np.array(encoded["special_tokens_mask"], dtype=bool), np.arange(len(ids))
        states = [np.asarray(x, dtype=np.float64) for x in states_of(ids)]
        kinds = kinds_of_text(states[1:], special, Rule())
        keys = context_keys(ids, decoder, 0), [key(token, place * positions) for place, token in enumerate(ids)]
        columns = (np.full(len(ids), index), places, np.array(ids), special, (kinds.sink | kinds.first) & ~special)
        parts.append([states, *columns, *(np.array(of, dtype=np.uint64) for of in keys)])
    states, *columns = zip(*parts, strict=True)
    whole = dict(zip(COLUMNS, map(np.concatenate, columns), strict=True))
    return AllTokens(states=[np.concatenate(layer) for layer in zip(*states, strict=True)], **whole)
