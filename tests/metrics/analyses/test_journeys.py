"""Journeys against the models' own states, their own tables and brute force, for several layouts."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from oracles.closeness import brute_force
from oracles.families import build_family, loaded

from reporter.core.errors import ReporterError
from reporter.geometry.components import coordinates
from reporter.metrics._items import Point
from reporter.metrics.analysis import Context, analyses
from reporter.metrics.base import Value
from reporter.metrics.journeys import JourneySpec, JourneyStep, Neighbour, TokenPair
from reporter.models.places import Layout, Place

JOURNEYS = analyses()["journeys"]

TEXTS = ("The cat that dogs chase sleeps.", "A mouse runs while birds sing")
VOCABULARY = 300  # rows, most of which no token has
ADDED = {"bert": ("embeddings.position_embeddings", 0), "gpt2": ("wpe", 0)}
ADDED["roberta"] = "embeddings.position_embeddings", 2
STATE = ("cosine", "distance", "rank_cosine", "rank_distance", "turnover_cosine", "turnover_distance")


@pytest.fixture
def sized(family_model):
    return lambda name: family_model(name, vocab_size=VOCABULARY)


def journey(model, **spec):
    """Compute a journey and sort what it yields."""
    context = Context(model, Layout.of(model.anatomy, ()), "mean", {}, 0, batch_tokens=16)
    found = list(JOURNEYS.compute(JOURNEYS.resolve(JourneySpec(**spec), Path()), context))
    kinds = (Value, JourneyStep, Neighbour, TokenPair, Point)
    return {kind: [x for x in found if isinstance(x, kind)] for kind in kinds}


def own_states(name, model, text):
    """Run a model on one text: ids, states by place, those after its final norm, its tables."""
    ids, module = model.tokenizer(text, return_tensors="pt")["input_ids"], model.module
    layout = Layout.of(model.anatomy, ("final", "attention"))
    final = {"gpt2": "ln_f", "llama": "norm"}.get(name)
    with torch.inference_mode():
        run = model.run(ids, torch.ones_like(ids), attention=True).at(layout)
        states = {place: x[0] for place, x in zip(layout.places, run, strict=True)}
        norm = module.get_submodule(final) if final else None
        closed = {p: x if p.site == "final" else norm(x) for p, x in states.items() if final}
    states, closed = ({p: x.double().numpy() for p, x in of.items()} for of in (states, closed))
    table, positions = module.get_input_embeddings().weight.detach().double().numpy(), None
    if name in ADDED:
        added = module.get_submodule(ADDED[name][0]).weight.detach().double().numpy()
        positions = added[ADDED[name][1] :]
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
    nearest, seen = {}, 0
    for n in found[Neighbour]:
        nearest.setdefault((n.positions, n.text, n.position, n.place, n.measure), []).append(n)
    for text, raw in enumerate(TEXTS):
        ids, states, closed, table, positions = own_states(name, sized(name), raw)
        for variant in ["without"] + ["with"] * (name in ADDED):
            for position, token_id in enumerate(ids.tolist()):
                vectors = table + (positions[position] if variant == "with" else 0)
                compared = closed if closes and variant == "without" else states
                own = ids[position : position + 1]
                of = {p: brute_force(x[position][None], vectors, own, 100) for p, x in compared.items()}
                for place, x in states.items():
                    step, expected = steps[variant, text, position, place], of[place]
                    seen += 1
                    assert step.token_id == token_id and step.followed
                    zero = not vectors[token_id].any()  # BERT's vector for padding, which is the first token here
                    assert step.cosine == (None if zero else pytest.approx(expected["cosine"][0], abs=1e-5))
                    assert step.distance == pytest.approx(expected["distance"][0], rel=1e-5, abs=1e-5)
                    assert step.norm == pytest.approx(np.linalg.norm(x[position]), rel=1e-5)
                    before = place_before(place)
                    after = next((p for p in states if place_before(p) == place), None)
                    assert (before is None) == (step.turnover_cosine is None)
                    if after is None:
                        assert step.step_length is step.step_cosine is None
                    else:  # stored where the step begins, as motion stores it
                        y = states[after][position]
                        assert step.step_length == pytest.approx(np.linalg.norm(x[position] - y), rel=1e-4, abs=1e-5)
                        assert step.step_cosine == pytest.approx(cosine(x[position], y), abs=1e-5)
                    for measure in ("cosine", "distance"):
                        rank = None if zero and measure == "cosine" else expected[f"rank_{measure}"][0]
                        assert getattr(step, f"rank_{measure}") == rank
                        ids_here = expected[f"nearest_{measure}"][0]
                        listed = nearest[variant, text, position, place, measure]
                        assert [n.neighbour_id for n in listed] == ids_here[:7].tolist()
                        assert [n.rank for n in listed] == list(range(1, 8))
                        for n in listed:
                            w, y = vectors[n.neighbour_id], compared[place][position]
                            assert n.cosine == pytest.approx(cosine(y, w), abs=1e-5)
                            assert n.distance == pytest.approx(np.linalg.norm(y - w), rel=1e-5, abs=1e-5)
                        if before is not None:
                            new = set(ids_here) - set(of[before][f"nearest_{measure}"][0])
                            assert getattr(step, f"turnover_{measure}") == pytest.approx(len(new) / 100)
    assert seen == len(steps)
    values = {value.statistic: value for value in found[Value]}
    with_positions = values["vocabulary_with_positions"]
    assert values["vocabulary"].value == VOCABULARY
    assert with_positions.value == (VOCABULARY if name in ADDED else None)
    assert name in ADDED or "adds no position vectors" in with_positions.reason


def test_vectors_that_the_model_multiplies_are_compared_as_they_are_stored(sized):
    found = journey(sized("gemma"), text=TEXTS[0], norm="none")
    at_start = [s for s in found[JourneyStep] if s.place.site == "embedding"]
    for step in at_start:  # Gemma's first block gets √d times the vector
        assert step.cosine == pytest.approx(1) and step.rank_cosine == 0
        assert step.distance == pytest.approx(step.norm * (1 - 32**-0.5), rel=1e-3)


def test_neighbours_of_followed_tokens_alone(sized):
    found = journey(sized("bert"), texts=TEXTS, follow=["cat", "birds"], top=3)
    assert {(n.text, n.token) for n in found[Neighbour]} == {(0, "cat"), (1, "birds")}
    assert {(s.text, s.token) for s in found[JourneyStep] if s.followed} == {(0, "cat"), (1, "birds")}
    assert {s.token for s in found[JourneyStep] if s.special} == {"<s>", "</s>"}
    assert {n.positions for n in found[Neighbour]} == {"without"}
    assert any(n.neighbour is None for n in found[Neighbour])  # rows that no token has are vectors, too
    assert not journey(sized("bert"), text=TEXTS[0])[TokenPair]


def test_tokens_of_another_width_than_the_states(sized):
    found = journey(sized("albert"), text=TEXTS[0], positions=True)
    reason = "its token vectors have 16 dimensions, its states 32, so they cannot be compared"
    assert [value.value for value in found[Value]] == [None, None] and found[Value][0].reason == reason
    assert not found[Neighbour] and found[Point]
    assert {getattr(step, name) for step in found[JourneyStep] for name in STATE} == {None}
    places = {s.place for s in found[JourneyStep] if s.norm > 0}
    last = {place for place in places if all(place_before(other) != place for other in places)}
    assert {s.place for s in found[JourneyStep] if s.step_length is None} == last


def test_states_that_are_projected_back_to_the_tokens_width(sized):
    found = journey(sized("opt, projected"), text=TEXTS[0], positions=True, top=2)
    assert None not in {s.rank_cosine for s in found[JourneyStep]}  # what closes the model projects any state back
    found = journey(sized("opt, projected"), text=TEXTS[0], positions=True, top=2, norm="none")
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
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["<unk>", "", *HOSTILE])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    build_family("bert", tmp_path, vocab_size=len(words))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(tmp_path)
    found = journey(loaded(tmp_path), text=" ".join(HOSTILE), follow=HOSTILE[:3])
    tokens = [s.token for s in found[JourneyStep] if s.place == Place("embedding", 0)]
    shown = [word.replace("\x01\x07", "<0x01><0x07>") for word in HOSTILE]
    assert tokens == shown
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
        x, y = states[text_a][1][place][at_a], states[text_b][1][place][at_b]
        assert pair.cosine == pytest.approx(cosine(x, y), abs=1e-5)
        assert pair.distance == pytest.approx(np.linalg.norm(x - y), rel=1e-4, abs=1e-5)
        rows = [x for i, of in enumerate(states) for at, x in enumerate(of[1][place]) if (i, at) not in special]
        assert pair.mean_cosine == pytest.approx(np.mean([cosine(x, y) for x, y in combinations(rows, 2)]), abs=1e-5)
    assert [p for p in found[TokenPair] if p.token_a == p.token_b and p.place.site == "embedding"], "two birds"
    path = [place for place in states[0][1] if place.site in ("embedding", "block")]
    for name, places in (("pca-joint", path), ("pca-joint-without-last", path[:-1])):
        points = [point for point in found[Point] if point.projection == name]
        rows = [(f"text {i}", place, at) for i, of in enumerate(states) for place in places for at in range(len(of[0]))]
        assert [(point.part, point.place, point.point) for point in points] == rows
        scores = coordinates(np.concatenate([of[1][place] for of in states for place in places]), 3)
        np.testing.assert_allclose([(p.x, p.y, p.z) for p in points], scores, rtol=1e-4, atol=1e-5)
