"""Whatever a study asks of whatever model: numbers within their bounds or reasons, no warning, no NaN."""

from itertools import chain

import numpy as np
import pytest
from oracles.corpora import corpus

from reporter.metrics.clouds import CloudSpec
from reporter.metrics.groups import Groups
from reporter.metrics.pairs import written_pairs
from reporter.metrics.partners import WrittenPartners
from reporter.metrics.probes import CorpusProbe, WordsProbe

WORDS = ["cat", "dogs", "mouse", "red", "blue", "old", "town", "birds", "days", "sing", "runs", "of"]
CORPORA = {
    "words": corpus(WORDS, ["a", "b"] * 6),
    "strange": corpus([f"{word}ish {word} \u202e <script>" for word in WORDS], ["a", "b", None] * 4),
    "same": corpus(["qqq " + "\u0301" * i + "qqq" for i in range(12)], ["a", "b"] * 6),  # all of unknown tokens
}
TWO = [("cat", "cat"), ("red", "blue cat"), ("of", "x")]
ITEMS = [
    ("groups", Groups({"one": ["cat", "cat"], "two": ["qqq", "a red cat"], "three": ["\U0001f600", "\t?"]})),
    ("pairs", written_pairs({"a": [["cat", "cat"], ["red", "blue"], ["old", "town"]], "b": [["x", "y"]] * 3})),
    ("clouds", CloudSpec(corpora=["words", "strange", "same"])),
    ("partners", WrittenPartners(pairs=tuple((*two, None) for two in TWO))),
    ("partners", WrittenPartners(pairs=tuple((*two, score) for two, score in zip(TWO, (1.0, 1.0, 2.0), strict=True)))),
    *(("probes", CorpusProbe(corpus=of, folds=2, hidden=3)) for of in ("strange", "same")),
    ("probes", WordsProbe(words={"a": ("cat", "red"), "b": ("of", "in")}, folds=2, hidden=0)),
]


POOLINGS = [("bert", "first"), ("bert", "last"), ("gpt2", "first"), ("opt, projected", "mean")]


@pytest.mark.parametrize(("family", "pooling"), POOLINGS)
def test_every_analysis_on_every_pooling(of_family, computed, family, pooling):
    context = of_family(family, CORPORA, pooling)
    for name, item in ITEMS:
        values, rows = computed(name, item, context)
        assert values, name
        for row in chain(*rows.values()):
            assert np.isfinite([value for value in vars(row).values() if isinstance(value, float)]).all(), row


def test_one_vector_for_everything(made_up, computed, monkeypatch):
    monkeypatch.setattr("reporter.models.words.whole_words", lambda checkpoint, offline: ["cat"])
    for vector in (np.zeros(4), np.ones(4), 1e30 * np.ones(4), np.array([1e-30, 0, 0, 0])):
        context = made_up(lambda text, place, vector=vector: vector, CORPORA)
        for name, item in ITEMS:
            values, _ = computed(name, item, context)
            left = {of for (of, _), value in values.items() if value.value is not None}
            assert left <= {"within", "between", "relative_norm", "relative_norm_floor"}, name
