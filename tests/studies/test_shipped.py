"""The studies that ship: each can be read, says where its claims come from, and has a sibling that needs no hub."""

import re

import pytest
from oracles.tiny_hub import NAMES
from studies.conftest import STUDIES, read

from reporter.study.models import HubModel, RecipeModel
from reporter.texts.sources.generated import grammar_texts
from reporter.texts.sources.stored import DatasetCorpus

ALL = sorted(str(path.relative_to(STUDIES).with_suffix("")) for path in STUDIES.rglob("*.yaml"))
WORKS = ["eacl-anisotropy", "encoders-vs-decoders", "lee-2024", "luisto-2024", "token-journeys", "yamagiwa-2024"]
KNOWN = [name for name in ALL if name.startswith("known/")]
POCKET = [name for name in WORKS if f"pocket/{name}" in ALL]


def text(name):
    return (STUDIES / f"{name}.yaml").read_text("utf-8")


def test_each_says_what_it_asks_and_where_claims_are_from_and_no_report_overwrites_another():
    studies = {name: read(name).study for name in ALL}
    assert len({study.study for study in studies.values()}) == len(studies)
    assert all(study.title and study.question for study in studies.values())
    sourced = (*WORKS, *KNOWN, *(f"pocket/{name}" for name in POCKET))
    assert not [name for name in sourced if not all(claim.source for claim in studies[name].claims.values())]


@pytest.mark.parametrize("name", WORKS)
def test_a_work_has_claims_corpora_that_end_and_models_named_as_the_hub_does(name):
    study = read(name).study
    assert len(study.claims) >= 8
    assert "# What is unclear in it" in text(name)
    assert all(one.limit is not None for one in study.corpora.values() if isinstance(one, DatasetCorpus))
    for model in study.models.values():
        assert isinstance(model, HubModel)
        assert re.fullmatch(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+", model.hub)
        assert model.hub in NAMES, "tests/oracles/tiny_hub.py does not know it"
        assert [one.step for one in model.checkpoints] == sorted(one.step or 0 for one in model.checkpoints)


@pytest.mark.parametrize("name", KNOWN)
def test_of_known_numbers_it_says_what_is_defined_otherwise(name):
    assert "# Where our definitions differ" in text(name) and "# Its settings" in text(name)


@pytest.mark.parametrize("name", POCKET)
def test_a_sibling_needs_no_hub_and_has_the_claims_or_one_of_the_two_says_which_it_has_not(name):
    study = read(f"pocket/{name}").study
    assert all(isinstance(model, RecipeModel) for model in study.models.values())
    assert not any(isinstance(corpus, DatasetCorpus) for corpus in study.corpora.values())
    missing = read(name).study.claims.keys() - study.claims.keys()
    assert missing <= set(re.findall(r"`([\w-]+)`", comments(name) + comments(f"pocket/{name}")))


def comments(name):
    return "\n".join(line for line in text(name).splitlines() if line.startswith("#"))


@pytest.mark.parametrize("name", ["luisto-2024", "token-journeys"])
def test_pocket_models_know_every_word_that_they_are_asked_about(name):
    study = read(f"pocket/{name}").study
    texts = [text for journey in study.sections["journeys"].values() for text in (*journey.all_texts, *journey.follow)]
    texts += [text for group in study.sections["groups"].values() for text in group]
    concepts = [pairs for own in study.sections["pairs"].values() for pairs in own.concepts.values()]
    texts += [text for pairs in concepts for pair in pairs for text in pair]
    texts += [word for probe in study.sections["probes"].values() for words in probe.words.values() for word in words]
    vocabulary = {word for record in grammar_texts(2000, (6, 10), 0) for word in re.findall(r"\w+", record.text)}
    assert {word for text in texts for word in re.findall(r"\w+", text)} <= vocabulary
