"""Whatever happens to a study, a user gets lines, never a traceback."""

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from spec.conftest import offered

from reporter.spec import SpecError, load_study

TEXT = """\
study: s
title: T
models:
  a: gpt2
  b: {hub: x/y, checkpoints: [step1, {revision: main, step: 3}], dtype: auto}
  c: {path: ./x, checkpoints: [{folder: k, step: 1}]}
  d: {recipe: {architecture: bert, train_on: g, steps: 5, checkpoints: [0, 5]}}
corpora:
  f: {file: x.txt, unit: line, limit: 5}
  g: {generate: grammar, texts: 5, words: [1, 5]}
  h: {generate: random-words, vocabulary: d}
  i: {texts: [a, b], max_words: 7}
  j: {dataset: x, split: test}
metrics: [convergence, {intrinsic_dimension: {sample: 64, scales: [1, 2]}}]
views: [words, all]
claims:
  v: {says: x, value: {metric: convergence.rate, model: a, corpus: f}, between: [0, 1]}
  s: {says: x, shape: {metric: convergence.s, is: peak-at, at: 0.5, models: [a, all]}}
  d: {says: x, differ: {metric: convergence.s, a: a, b: {models: b}, is: above}}
  r: {says: x, relation: {x: count, y: variance, over: types, is: none, at_least: 0.3}}
run: {device: cpu, batch_tokens: 10, seed: 0}
"""
VALID: dict[str, Any] = yaml.safe_load(TEXT)
WORDS = ("hub", "path", "recipe", "texts", "file", "generate", "vocabulary", "all", "words", "study", "models", "is")

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**20),
    st.floats(),
    st.sampled_from([*WORDS, "[key]", "a b", "{message}", "[red]x[/red]", "~", "~nobody/x", "", "\n", "\x00", "'"]),
    st.text(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), inner, max_size=3),
    ),
    max_leaves=5,
)


def places(value, path=()):
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


PLACES = places(VALID)


def replaced(whole, path, new):
    if not path:
        return new
    copy = dict(whole) if isinstance(whole, dict) else list(whole)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


def lines_of(text, catalogue):
    """Load a text; return the problems' lines, each checked to be one printable line with a place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        try:
            load_study(path, offered(catalogue))
        except SpecError as error:
            assert error.problems
            lines = str(error).split("\n")
            assert len(lines) == len(error.problems)
            for line, problem in zip(lines, error.problems, strict=True):
                assert line.isprintable()
                assert 1 <= problem.line <= len(path.read_bytes().splitlines()) + 1
                assert problem.column >= 1
            return lines
    return []


def test_the_study_that_is_mutated_is_right(catalogue):
    assert lines_of(TEXT, catalogue) == []


@settings(max_examples=50, deadline=None)
@given(place=st.sampled_from(PLACES), key=st.one_of(st.sampled_from(WORDS), st.text(max_size=6)), new=values)
def test_any_value_and_any_key_in_any_place(catalogue, place, key, new):
    here = VALID
    for step in place:
        here = here[step]
    added = {**here, key: new} if isinstance(here, dict) else here
    for value in (new, added):
        lines_of(yaml.safe_dump(replaced(VALID, place, value), sort_keys=False), catalogue)


SLIPS = st.text(max_size=3) | st.text(alphabet=":-[]{}'\"#&*!|>%@`, \n\t?", max_size=3)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, len(TEXT)), st.integers(0, 6), SLIPS.map(lambda new: new.encode()) | st.binary(max_size=3))
def test_any_slip_of_the_fingers_and_any_bytes(catalogue, start, length, new):
    lines_of(TEXT.encode()[:start] + new + TEXT.encode()[start + length :], catalogue)
