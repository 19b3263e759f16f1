"""What a study may say of tokens, sentences and vocabularies, and what it hears where it is wrong."""

import pytest

from reporter.metrics.groups import expand

HEAD = "study: s\nmodels: {a: {path: x}}\ncorpora: {c: {texts: [a b, c d]}, d: {texts: [e]}}\nmetrics: none\n"
BROKEN = [
    ("journeys: {m: {»txt: a}}", "journeys.m.txt: unknown key; did you mean 'text'?"),
    ("journeys: {»m: {top: 3}}", "journeys.m: needs 'text', or 'texts' for several"),
    (
        "journeys: {m: {text: a, »texts: [b]}}",
        "journeys.m.texts: 'text' and 'texts' exclude each other; keep one of them",
    ),
    ("journeys: {m: {text: »' '}}", "journeys.m.text: must not be empty"),
    ("groups: {g: »'{a|b'}", "groups.g: its braces do not match; write {a|b}, without braces inside braces"),
    ("groups: {g: »[a]}", "groups.g: a group needs 2 to 5,000 texts, got 1"),
    ("pairs: {p: {x: [[a, b], »[c]]}}", "pairs.p.x[1]: expected two texts, [first, second], got a list of 1"),
    ("pairs: {p: {x: »[[a, b]]}}", "pairs.p.x: a concept needs at least 2 pairs, got 1"),
    ("clouds: {k: [c, »e]}", "clouds.k[1]: no corpus 'e'; corpora of this study: c, d"),
    ("clouds: {k: {corpora: [c, »e]}}", "clouds.k.corpora[1]: no corpus 'e'; corpora of this study: c, d"),
    ("clouds: {k: »[c]}", "clouds.k: needs two or more corpora, got a list"),
    ("probes: {q: {corpus: »c}}", "probes.q.corpus: corpus 'c' has no labels; give it a 'label' column"),
    ("probes: {q: {words: »{noun: [a, b]}}}", "probes.q.words: needs two or more classes, each with its words"),
    ("probes: {»q: {folds: 3}}", "probes.q: needs one of the keys 'corpus' or 'words'"),
    ("vocabulary: [»b]", "vocabulary[0]: no model 'b'; models of this study: a"),
    ("vocabulary: {models: [»b]}", "vocabulary.models[0]: no model 'b'; models of this study: a"),
    ("pooling: »max", "pooling: expected 'auto', 'first', 'mean' or 'last', got text 'max'"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_every_mistake_is_one_line_at_the_right_place(complain, text, message):
    mark = (HEAD + text).index("»")
    before = (HEAD + text)[:mark]
    line, column = before.count("\n") + 1, mark - before.rfind("\n")
    assert complain((HEAD + text).replace("»", "")) == [f"study.yaml:{line}:{column}: {message}"]


def test_patterns_stand_for_every_choice_once():
    assert expand("{Hello|Hi} there{|!}") == ("Hello there", "Hello there!", "Hi there", "Hi there!")
    assert expand("{a|a}") == ("a",)
    with pytest.raises(ValueError, match="stands for 8,192 texts"):
        expand("{a|b}" * 13)


def test_what_a_study_says_short_is_read_long(load):
    study = load(HEAD + "groups: {g: '{a|b} c'}\npairs: {p: shipped}\nclouds: {k: [c, d]}\nvocabulary: all\n")
    assert study.sections["groups"]["g"] == ("a c", "b c")
    assert study.sections["pairs"]["p"].shipped == "concepts"
    assert study.sections["clouds"]["k"].corpora == ("c", "d")
    assert study.sections["vocabulary"].models == "all"
    assert study.metrics == ()
