"""Journeys against the models' own states, their own tables and brute force; which tokens a word names."""

from collections import defaultdict
from functools import partial
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from metrics.reading import by_kind
from oracles.closeness import brute_force
from oracles.families import build_family, loaded
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from reporter.core.errors import ReporterError
from reporter.geometry.components import coordinates
from reporter.metrics._items import Point
from reporter.metrics._journey_steps import TokenText, followed
from reporter.metrics._static_vectors import classify
from reporter.metrics.analysis import Context, analyses
from reporter.metrics.base import Value
from reporter.metrics.journeys import JourneySpec, JourneyStep, Neighbour, TokenPair
from reporter.models.places import Layout, Place

TEXTS = ("The cat that dogs chase sleeps.", "A mouse runs while birds sing")
VOCABULARY = 300  # rows, most of which no token has
ADDED = {"bert": ("embeddings.position_embeddings", 0), "gpt2": ("wpe", 0)}
ADDED["roberta"] = "embeddings.position_embeddings", 2
STATE = ("cosine", "distance", "rank_cosine", "rank_distance", "turnover_cosine", "turnover_distance")


@pytest.fixture
def sized(family_model):
    return lambda name: family_model(name, vocab_size=VOCABULARY)


def journey(model, **spec):
    context = Context(model, Layout.of(model.anatomy, ()), "mean", {}, 0, batch_tokens=16)
    return by_kind(analyses()["journeys"].compute(JourneySpec(**spec), context))


def own_states(name, model, text):
    """Run a model on one text: ids, states by place, those after its final norm, its tables."""
    ids, module = model.tokenizer(text, return_tensors="pt")["input_ids"], model.module
    layout = Layout.of(model.anatomy, ("final", "attention"))
    final = {"gpt2": "ln_f", "llama": "norm"}.get(name)
    with torch.inference_mode():
        run = model.run(ids, torch.ones_like(ids), attention=True).at(layout)
        states = {place: x[0] for place, x in zip(layout.places, run, strict=True)}
        closed = {p: x if p.site == "final" else module.get_submodule(final)(x) for p, x in states.items() if final}
    states, closed = ({p: x.double().numpy() for p, x in of.items()} for of in (states, closed))
    table, positions = module.get_input_embeddings().weight.detach().double().numpy(), None
    if name in ADDED:
        positions = module.get_submodule(ADDED[name][0]).weight.detach().double().numpy()[ADDED[name][1] :]
    return ids[0].numpy(), states, closed, table, positions


def place_before(place):
    if place.site == "final":
        return Place("block", place.layer)
    if place.layer == (1 if place.site == "attention" else 0):
        return None
    return Place("embedding", 0) if place == Place("block", 1) else Place(place.site, place.layer - 1)


def cosine(x, y):
    return x @ y / np.linalg.norm(x) / np.linalg.norm(y)


@pytest.mark.parametrize(("name", "norm"), [("bert", "auto"), ("roberta", "auto"), ("gpt2", "none"), ("llama", "auto")])
def test_against_the_models_own_states_and_brute_force(name, norm, sized):
    found = journey(sized(name), texts=TEXTS, positions=True, top=7, norm=norm)
    closes = name in ("gpt2", "llama") and norm != "none"
    assert {(s.positions, s.norm_before) for s in (*found[JourneyStep], *found[Neighbour])} == {
        ("without", "closing" if closes else "none"), *([("with", "none")] if name in ADDED else [])
    }  # fmt: skip
    steps = {(s.positions, s.text, s.position, s.place): s for s in found[JourneyStep]}
    assert len(steps) == len(found[JourneyStep])
    nearest, variants = defaultdict(list), ["without"] + ["with"] * (name in ADDED)
    for n in found[Neighbour]:
        nearest[n.positions, n.text, n.position, n.place, n.measure].append(n)
    for text, raw in enumerate(TEXTS, 1):
        ids, states, closed, table, positions = own_states(name, sized(name), raw)
        for variant, (position, token_id) in product(variants, enumerate(ids.tolist())):
            vectors = table + (positions[position] if variant == "with" else 0)
            compared = closed if closes and variant == "without" else states
            of = {p: brute_force(x[position][None], vectors, [token_id], 100) for p, x in compared.items()}
            for place in states:
                x, y, before = states[place][position], compared[place][position], place_before(place)
                expected = {key: number[0] for key, number in of[place].items() if "nearest" not in key}
                if not vectors[token_id].any():  # BERT's vector for padding, which is the first token here
                    expected["cosine"] = expected["rank_cosine"] = None
                expected |= {"token_id": token_id, "followed": True, "norm": np.linalg.norm(x)}
                expected |= {"step_length": None, "step_cosine": None}
                for after in (states[p][position] for p in states if place_before(p) == place):
                    # stored where the step begins, as motion stores it
                    expected |= {"step_length": np.linalg.norm(x - after), "step_cosine": cosine(x, after)}
                for measure in ("cosine", "distance"):
                    near, listed = of[place][f"nearest_{measure}"][0], nearest[variant, text, position, place, measure]
                    new = before and set(near) - set(of[before][f"nearest_{measure}"][0])
                    expected[f"turnover_{measure}"] = before and len(new) / 100
                    assert [(n.rank, n.neighbour_id) for n in listed] == list(enumerate(near[:7].tolist(), 1))
                    numbers = [(cosine(y, vector), np.linalg.norm(y - vector)) for vector in vectors[near[:7]]]
                    np.testing.assert_allclose([(n.cosine, n.distance) for n in listed], numbers, rtol=1e-5, atol=1e-5)
                step = steps.pop((variant, text, position, place))
                rows = ([getattr(step, key) for key in expected], [*expected.values()])
                np.testing.assert_allclose(*np.array(rows, dtype=float), 1e-5, 1e-5, err_msg=f"{place} {[*expected]}")
    assert not steps
    values = {value.statistic: (value.value, value.reason) for value in found[Value]}
    assert values["vocabulary"] == (VOCABULARY, "")
    number, reason = values["vocabulary_with_positions"]
    assert number == VOCABULARY if name in ADDED else "adds no position vectors" in reason and number is None


def test_vectors_that_the_model_multiplies_are_compared_as_they_are_stored(sized):
    found = journey(sized("gemma"), text=TEXTS[0], norm="none")
    for step in (s for s in found[JourneyStep] if s.place.site == "embedding"):  # the first block gets √d × the vector
        assert step.cosine == pytest.approx(1) and step.rank_cosine == 0
        assert step.distance == pytest.approx(step.norm * (1 - 32**-0.5), rel=1e-3)


def test_neighbours_of_followed_tokens_alone(sized):
    found = journey(sized("bert"), texts=TEXTS, follow=["cat", "birds"], top=3)
    assert {(n.text, n.token) for n in found[Neighbour]} == {(1, "cat"), (2, "birds")}
    assert {(s.text, s.token) for s in found[JourneyStep] if s.followed} == {(1, "cat"), (2, "birds")}
    assert {s.token for s in found[JourneyStep] if s.special} == {"<s>", "</s>"}
    assert {n.positions for n in found[Neighbour]} == {"without"}
    assert any(n.neighbour is None for n in found[Neighbour])  # rows that no token has are vectors, too
    assert not journey(sized("bert"), text=TEXTS[0])[TokenPair]
    equal = journey(sized("bert"), texts=["the cat sees birds", "birds sing"])[TokenPair]
    assert {(pair.text_a, pair.token_a, pair.text_b, pair.token_b) for pair in equal} == {(1, "birds", 2, "birds")}


def test_tokens_of_another_width_than_the_states(sized):
    found = journey(sized("albert"), text=TEXTS[0], positions=True)
    assert [value.value for value in found[Value]] == [None, None]
    assert found[Value][0].reason == "its token vectors have 16 dimensions, its states 32, so they cannot be compared"
    assert not found[Neighbour] and found[Point]
    assert {getattr(step, name) for step in found[JourneyStep] for name in STATE} == {None}
    places = {s.place for s in found[JourneyStep] if s.norm > 0}
    last = {place for place in places if all(place_before(other) != place for other in places)}
    assert {s.place for s in found[JourneyStep] if s.step_length is None} == last


def test_states_that_are_projected_back_to_the_tokens_width(sized):
    of = partial(journey, sized("opt, projected"), text=TEXTS[0], positions=True, top=2)
    found = of(norm="none")
    assert None not in {s.rank_cosine for s in of()[JourneyStep]}  # what closes the model projects any state back
    assert {s.place.site for s in found[JourneyStep] if s.rank_cosine is not None} == {"final"}
    assert {s.step_length for s in found[JourneyStep] if s.place == Place("block", 3)} == {None}  # of another width
    assert {n.place for n in found[Neighbour]} == {Place("final", 3)}
    reasons = {value.statistic: value.reason for value in found[Value]}
    assert reasons["vocabulary"] == ""
    assert "position vectors have 32 dimensions, its token vectors 16" in reasons["vocabulary_with_positions"]


def test_a_norm_that_a_model_has_not_and_a_token_that_is_cut_off_are_refused(sized):
    with pytest.raises(ReporterError, match="no final norm"):
        journey(sized("bert"), text=TEXTS[0], norm="closing")
    text = " ".join(["cat"] * 100)
    assert max(s.position for s in journey(sized("roberta"), text=text, positions=True)[JourneyStep]) == 37
    with pytest.raises(ReporterError, match="'mouse' is not a token of the text"):
        journey(sized("roberta"), text=f"{text} mouse", follow=["mouse"])


def test_a_vocabulary_of_100_has_no_turnover(tmp_path):
    found = journey(loaded(build_family("bert", tmp_path)), text=TEXTS[0])
    assert {s.turnover_cosine for s in found[JourneyStep]} == {None}
    assert max(n.rank for n in found[Neighbour]) == 15


HOSTILE = ["<script>alert(1)</script>", "\"'`", "שלום‏", "\x01\x07", "x" * 500, "%s{{x}}", "</td>"]


def test_hostile_tokens_pass_through(tmp_path):
    words = {word: i for i, word in enumerate(["<unk>", "", *HOSTILE])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    build_family("bert", tmp_path, vocab_size=len(words))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(tmp_path)
    found = journey(loaded(tmp_path), text=" ".join(HOSTILE), follow=HOSTILE[:3])
    shown = [word.replace("\x01\x07", "<0x01><0x07>") for word in HOSTILE]
    assert [s.token for s in found[JourneyStep] if s.place == Place("embedding", 0)] == shown
    assert {n.token for n in found[Neighbour]} == set(HOSTILE[:3])
    assert {n.neighbour for n in found[Neighbour]} == {"<unk>", "", *shown}
    assert [p.label for p in found[Point][: len(HOSTILE)]] == shown


def test_two_followed_tokens_beside_each_other_against_brute_force(sized):
    texts = ["the cat sees birds", "birds sing"]
    found = journey(sized("gpt2"), texts=texts, follow=["birds", "cat"])
    states = [own_states("gpt2", sized("gpt2"), text) for text in texts]
    pairs = {(p.text_a, p.position_a, p.text_b, p.position_b, p.place): p for p in found[TokenPair]}
    followed = {(s.text, s.position) for s in found[JourneyStep] if s.followed}
    special = {(s.text, s.position) for s in found[JourneyStep] if s.special}
    assert len(followed) == 3 and len(pairs) == len(found[TokenPair]) == 3 * len(states[0][1])
    for (text_a, at_a, text_b, at_b, place), pair in pairs.items():
        assert {(text_a, at_a), (text_b, at_b)} <= followed and (text_a, at_a) < (text_b, at_b)
        x, y = states[text_a - 1][1][place][at_a], states[text_b - 1][1][place][at_b]
        assert pair.cosine == pytest.approx(cosine(x, y), abs=1e-5)
        assert pair.distance == pytest.approx(np.linalg.norm(x - y), rel=1e-4, abs=1e-5)
        rows = [x for i, of in enumerate(states, 1) for at, x in enumerate(of[1][place]) if (i, at) not in special]
        assert pair.mean_cosine == pytest.approx(np.mean([cosine(x, y) for x, y in combinations(rows, 2)]), abs=1e-5)
    assert [p for p in found[TokenPair] if p.token_a == p.token_b and p.place.site == "embedding"], "two birds"
    path = [place for place in states[0][1] if place.site in ("embedding", "block")]
    for name, places in (("pca-joint", path), ("pca-joint-without-last", path[:-1])):
        points = [point for point in found[Point] if point.projection == name]
        rows = [
            (f"text {i}", place, at) for i, of in enumerate(states, 1) for place in places for at in range(len(of[0]))
        ]
        assert [(point.part, point.place, point.point) for point in points] == rows
        scores = coordinates(np.concatenate([of[1][place] for of in states for place in places]), 3)
        np.testing.assert_allclose([(p.x, p.y, p.z) for p in points], scores, rtol=1e-4, atol=1e-5)


MOUSE = "The mouse was gone. A mousepad, useless; the Mouse."


def word_piece():
    names = ["[UNK]", "[CLS]", "[SEP]", "the", "mouse", "##pad", "was", "gone", "a", "use", "##less", ".", ",", ";"]
    tokenizer = Tokenizer(models.WordPiece(dict(zip(names, range(len(names)), strict=True)), unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [("[CLS]", 1), ("[SEP]", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=special)
    return tokenizer, ["[CLS]", "[SEP]"]


def trained(pre_tokenizer):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    texts = ["The mouse was gone the mouse was a pad"] * 30 + [MOUSE]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(min_frequency=20))  # rare words stay in pieces
    return tokenizer, []


byte_level = partial(trained, pre_tokenizers.ByteLevel(add_prefix_space=False))
sentence_piece = partial(trained, pre_tokenizers.Metaspace())


def written(text, made, **options):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made[0])
    tokenizer.add_special_tokens({"additional_special_tokens": made[1]})
    encoding = tokenizer(text, return_special_tokens_mask=True, **options)
    strings = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    bare = [token.text for token in classify(strings, set(tokenizer.all_special_ids))]
    ids, special = np.array(encoding["input_ids"]), np.array(encoding["special_tokens_mask"], dtype=bool)
    raw, names = (tuple(of[i] for i in ids) for of in (strings, bare))
    return TokenText(text, ids, special, raw, raw, names), tokenizer


def picked(words, text, made, slow=False):
    """Return the tokens that words name, and the words that these make up, where no two without a mark follow."""
    one, tokenizer = written(text, made)
    (found,) = followed(words, [one], SimpleNamespace(is_fast=False) if slow else tokenizer)
    tokens = [one.tokens[i] for i in np.flatnonzero(found)]
    joined = " ".join(tokens).replace(" ##", "") if made[1] else "".join(tokens)
    return tokens, joined.replace("Ġ", " ").replace("▁", " ").split()


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("make", [word_piece, byte_level, sentence_piece])
def test_a_word_with_all_its_tokens_and_nothing_else(make, slow):
    made = make()
    assert picked(["mouse"], "The mouse was gone. A mousepad.", made, slow)[1] == ["mouse"]
    assert picked(["gone", "was"], MOUSE, made, slow)[1] == ["was", "gone"]
    tokens, words = picked(["useless"], MOUSE, made, slow)
    assert words == ["useless"] and len(tokens) > 1


@pytest.mark.parametrize(
    ("make", "words", "expected"),
    [
        (byte_level, "Mouse", "Mouse"),  # capitals count where they are written
        (byte_level, "MOUSE", "mouseMouse"),  # written so after the space
        (word_piece, "the", "the"),  # the second one, as it is written so
        (word_piece, "[CLS]", "[CLS]"),
        (word_piece, "pad", "##pad"),  # no word, but a token without its mark
        (byte_level, "Ġmouse", "mouse mouse"),
        (word_piece, "was gone", "was gone"),
        (word_piece, "gone.", "gone ."),
        (byte_level, "a", "A"),  # where only a capital stands
    ],
)
def test_which_tokens_a_word_names(make, words, expected):
    assert picked([words], MOUSE, make())[1] == expected.split()


def test_each_text_is_looked_at_by_itself():
    made = word_piece()
    (one, tokenizer), (two, _) = written("The Mouse was a mouse", made), written("THE MOUSE", made)
    assert [np.flatnonzero(found).tolist() for found in followed(["mouse"], [one, two], tokenizer)] == [[5], [2]]


def test_a_text_that_was_cut_and_a_word_that_is_nowhere(monkeypatch):
    (whole, tokenizer), (cut, _) = (written(MOUSE, word_piece(), truncation=True, max_length=n) for n in (99, 5))
    assert np.flatnonzero(followed(["mouse"], [cut], tokenizer)[0]).tolist() == [2]
    with pytest.raises(ReporterError, match=r"'gone' is not a token of the text; the tokens are '\[CLS\]', 'the'"):
        followed(["gone"], [cut], tokenizer)
    with pytest.raises(ReporterError, match="'mous' is not a token of the 2 texts"):
        followed(["mous"], [whole, whole], tokenizer)
    monkeypatch.setattr("reporter.metrics._journey_steps._SHOWN", 2)
    with pytest.raises(ReporterError, match=r"the tokens are '\[CLS\]', 'the', and 3 more"):
        followed(["cat"], [cut], tokenizer)
