from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reporter.spec import Study
from reporter.texts.sources.generated import GeneratedCorpus
from reporter.texts.sources.stored import DatasetCorpus, FileCorpus, InlineCorpus

Load = Callable[[str], Study]


def test_a_kind_is_told_by_its_key_and_defaults_are_filled_in(load: Load) -> None:
    corpora = load(
        "study: s\n"
        "models: {m: gpt2}\n"
        "corpora:\n"
        "  wiki:   {file: data/wiki.txt, unit: paragraph, min_words: 8, limit: 2000, max_tokens: 256}\n"
        "  tweets: {file: data/tweets.csv, column: text, label: emotion}\n"
        "  hub:    {dataset: wikitext, config: wikitext-2-raw-v1, split: test, column: text}\n"
        "  simple: {generate: random-words, texts: 500, words: [5, 60], seed: 0, vocabulary: m}\n"
        "  nested: {generate: grammar}\n"
        "  mine:   {texts: [The mouse was gone., no, '12']}\n"
    ).corpora
    assert corpora == {
        "wiki": FileCorpus(file=Path("data/wiki.txt"), unit="paragraph", min_words=8, limit=2000),
        "tweets": FileCorpus(file=Path("data/tweets.csv"), column="text", label="emotion"),
        "hub": DatasetCorpus(dataset="wikitext", config="wikitext-2-raw-v1"),
        "simple": GeneratedCorpus(generate="random-words", vocabulary="m"),
        "nested": GeneratedCorpus(generate="grammar", texts=500, words=(5, 60), seed=0),
        "mine": InlineCorpus(texts=("The mouse was gone.", "no", "12")),
    }
    assert list(corpora) == ["wiki", "tweets", "hub", "simple", "nested", "mine"], "the study's order is kept"
    assert corpora["nested"].max_tokens == 256
    assert corpora["hub"].max_words is None


def test_words_may_be_drawn_from_a_recipe_that_is_trained_on_another_corpus(load: Load) -> None:
    study = load(
        "study: s\n"
        "models: {m: {recipe: {architecture: bert, steps: 1, train_on: a}}}\n"
        "corpora: {a: {generate: grammar}, b: {generate: random-words, vocabulary: m}}\n"
    )
    assert study.corpora["b"] == GeneratedCorpus(generate="random-words", vocabulary="m")


def test_a_longer_circle_is_found(complain: Callable[[str], list[str]]) -> None:
    lines = complain(
        "study: s\n"
        "models:\n"
        "  m: {recipe: {architecture: bert, steps: 1, train_on: b}}\n"
        "  n: {recipe: {architecture: bert, steps: 1, train_on: a}}\n"
        "corpora:\n"
        "  a: {generate: random-words, vocabulary: m}\n"
        "  b: {generate: random-words, vocabulary: n}\n"
        "  c: {generate: random-words, vocabulary: n}\n"
    )
    assert [line.split(": goes in a circle")[0] for line in lines] == [
        "study.yaml:6:43: corpora.a.vocabulary",
        "study.yaml:7:43: corpora.b.vocabulary",
    ]


def test_a_corpus_may_get_the_size_of_another_one_of_any_kind(load: Load) -> None:
    study = load(
        "study: s\n"
        "models: {m: {recipe: {architecture: bert, steps: 1, train_on: d}}}\n"
        "corpora:\n"
        "  a: {texts: [a], size_of: b}\n"
        "  b: {file: b.txt, size_of: c}\n"
        "  c: {dataset: wikitext, size_of: d}\n"
        "  d: {generate: grammar}\n"
        "  e: {generate: random-words, vocabulary: m, size_of: a}\n"
    )
    assert [corpus.size_of for corpus in study.corpora.values()] == ["b", "c", "d", None, "a"]
