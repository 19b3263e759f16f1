"""Which words are held against the vocabulary; test_contract.py has the numbers."""

from types import SimpleNamespace

import torch
from oracles.fake_model import FakeModel, made_up_texts

from reporter.forward.readout import CONTENT, FUNCTION, Vocabulary


def test_a_sample_is_the_same_at_every_place_and_about_as_large_as_asked(observe, values):
    model, texts = FakeModel(final_width=16), made_up_texts(300)
    observables, counts = observe(model, texts, sample=500, names=("moments", "journey"), sites=("final", "attention"))
    found = values(model, observables, 300, "words", ["journey"])
    assert 60 < found["journey.rank_function", 0].n < 240 and counts.tokens > 2000
    assert {where for _, where in found} == {0, 1, 2, 3, "final 3", "attention 1", "attention 2", "attention 3"}
    assert len({found["journey.rank_content", where].n for where in (0, 3, "final 3", "attention 2")}) == 1


def test_stop_words_of_a_real_vocabulary():
    vocabulary = {"[CLS]": 0, "the": 1, "Whereas": 2, "mouse": 3, "##se": 4, "2": 5, "I": 6}
    tokenizer = SimpleNamespace(all_special_tokens=["[CLS]"], added_tokens_decoder={}, get_vocab=vocabulary.copy)
    found = Vocabulary.of(SimpleNamespace(tokenizer=tokenizer, vocabulary=torch.zeros(8, 4)))
    assert found.kinds.tolist() == [0, FUNCTION, FUNCTION, CONTENT, 0, 0, FUNCTION, 0]
    assert found.goes_on.tolist() == [False] * 4 + [True] + [False] * 3
