"""A corpus thinned to the size of another one: from the plan through the run to the verdict."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.texts import build_texts

SMALL = '  inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}\n'
CORPORA = "  few: {generate: grammar, texts: 12, words: [5, 20], seed: 5}\n"
LIKE = "  like-few: {generate: grammar, texts: 40, words: [5, 20], size_of: few}\n"
CLAIMS = """claims:
  more: {says: It varies., differ: {metric: spectrum.effective_rank, a: %s, b: few, models: enc, is: different}}
run:"""


@pytest.fixture
def comparing(study, monkeypatch):
    """Return a function that writes a study that compares a corpus with a small one."""
    monkeypatch.setattr("reporter.runs.runner._report", lambda *_: ())

    def write(with_: str, more: str = ""):
        light = ("[convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "[convergence, spectrum]")
        return study(
            (SMALL, CORPORA + more), light, ("views: [words, all]", "views: [words]"), ("run:", CLAIMS % with_)
        )

    return write


def planned(file, out):
    done = CliRunner().invoke(app, ["plan", str(file.path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def test_a_comparison_is_refused_with_the_line_to_write_and_made_with_it(comparing, run, store, out):
    file = comparing("nested")
    hint = "claim more cannot be tested as it stands: spectrum.effective_rank moves with the size of the corpus"
    advice = "models are trained on corpus nested, so add a corpus like it with the key `size_of: few`"
    assert hint in (said := planned(file, out)) and advice in said
    _, said = run(file)
    assert hint in said.split("cells computed")[0], "before the work, not after it"
    verdict = store.frame("SELECT verdict, detail FROM claims")
    assert verdict["verdict"][0] == "inconclusive" and advice in json.loads(verdict["detail"][0])["reason"]
    reasons = store.frame("SELECT reasons FROM cells WHERE corpus = 'nested | few' AND model = 'enc'")["reasons"][0]
    assert "give corpus nested, or one like it, the key `size_of: few`" in reasons

    file = comparing("like-few", LIKE)
    said = planned(file, out)
    assert "cannot be tested" not in said and "corpus like-few: " in said and "of few" in said
    outcome, said = run(file)
    assert outcome.failed == 0 and "cannot be tested" not in said
    rows = store.frame("SELECT corpus, texts, words, thinned, location FROM corpora").set_index("corpus")
    whole = build_texts("nested", file.study.corpora["nested"], file.folder, out / "cache")
    lengths = [len(text.split()) for text in whole]
    assert abs(rows.loc["like-few", "words"] - rows.loc["few", "words"]) <= max(lengths)
    assert rows.loc["like-few", "texts"] + rows.loc["like-few", "thinned"] == len(whole) == 40
    assert rows.loc["like-few", "location"].endswith("thinned to the size of few")
    assert rows.loc["few", "thinned"] == 0
    verdict = store.frame("SELECT verdict, detail FROM claims")
    assert verdict["verdict"][0] in ("supported", "refuted", "inconclusive")
    notes = json.loads(verdict["detail"][0])["notes"]
    assert any(note.startswith("compared at equal size") for note in notes)
    compared = store.frame(
        "SELECT count(value) AS n FROM differences WHERE statistic = 'similarity_rare' "
        "AND (corpus_a, corpus_b) = ('few', 'like-few')"
    )
    assert compared["n"][0] > 0


def test_a_corpus_too_small_to_get_the_size_fails_alone(comparing, run):
    file = comparing("few", "  tiny: {texts: [a b c], size_of: few}\n")
    outcome, said = run(file)
    assert "corpus 'tiny': it has 3 words and cannot get the size of corpus 'few'" in said
    assert outcome.failed > 0 and outcome.computed > 0
