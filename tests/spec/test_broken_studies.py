"""Broken studies and the exact lines a user reads.

In the texts below ``»`` stands where a message must point to; it is taken out before the text is read.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

CASES = runpy.run_path(str(Path(__file__).with_name("broken_cases.py")))
BROKEN, MODEL, CORPUS, METRICS = (CASES[name] for name in ("BROKEN", "MODEL", "CORPUS", "METRICS"))


def take_out_marks(text: str) -> tuple[str, list[str]]:
    """Return the text without ``»`` and each mark's ``line:column``."""
    places = []
    while (index := text.find("»")) >= 0:
        before = text[:index]
        places.append(f"{before.count(chr(10)) + 1}:{index - before.rfind(chr(10))}")
        text = before + text[index + 1 :]
    return text, places


@pytest.mark.parametrize(("marked", "messages"), BROKEN, ids=range(len(BROKEN)))
def test_every_mistake_is_one_line_at_the_right_place(
    complain: Callable[[str], list[str]], marked: str, messages: list[str]
) -> None:
    text, places = take_out_marks(marked)
    assert len(places) == len(messages)
    expected = [f"study.yaml:{place}: {message}" for place, message in zip(places, messages, strict=True)]
    assert complain(text) == expected


def test_the_example_of_the_manual_reads_as_promised(complain: Callable[[str], list[str]]) -> None:
    text = "study: s\nmodels:\n  gpt2:\n    hub: openai-community/gpt2\n    dtyp: auto\n"
    assert complain(text) == ["study.yaml:5:5: models.gpt2.dtyp: unknown key; did you mean 'dtype'?"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(complain: Callable[[str], list[str]]) -> None:
    lines = complain(
        "study: S\n"
        "models:\n"
        "  m: {hub: gpt2, dtyp: auto}\n"
        "  p: {recipe: {architecture: bert, steps: 1, train_on: nowhere}}\n"
        "  m: gpt2\n"
        "corpora:\n"
        "  c: {generate: random-words, vocabulary: nobody}\n"
        "metrics: [anisotropi]\n"
    )
    assert [line.split(": ")[1] for line in lines] == [
        "study",
        "models.m.dtyp",
        "models.p.recipe.train_on",
        "models.m",
        "corpora.c.vocabulary",
        "metrics[0]",
    ]
    assert [int(line.split(":")[1]) for line in lines] == [1, 3, 4, 5, 7, 8]


def test_a_value_that_yaml_cannot_read_is_wrong_only_once(complain: Callable[[str], list[str]]) -> None:
    lines = complain(MODEL + "run: {seed: !odd 1}\n")
    assert lines == ["study.yaml:4:13: run.seed: tags such as !odd are not supported"]


def test_bytes_that_are_no_text_are_found(complain: Callable[[str | bytes], list[str]]) -> None:
    lines = complain("study: s\ntitle: é".encode() + b"\xff\n")
    assert lines == ["study.yaml:2:9: is not UTF-8 text (byte 0xff); save the file as UTF-8"]


def test_deep_nesting_is_refused_without_a_traceback(complain: Callable[[str], list[str]]) -> None:
    assert complain("study: " + "[" * 20_000) == ["study.yaml:1:107: lists and mappings are nested too deeply"]


def test_a_long_value_is_cut(complain: Callable[[str], list[str]]) -> None:
    (line,) = complain(MODEL + f"run: {{device: {'x' * 5000}}}\n")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"study: s\n? {'1' * 101}\n: x\n", "study.yaml:2:3: the number is too long"),
        (
            "study: s\nmodels:\n  m: {states: {d: x.safetensors}}\ncorpora: {c: {texts: [a]}}\n",
            "study.yaml:3:16: models.m.states.d: no corpus 'd'",
        ),
    ],
)
def test_a_key_that_cannot_be_is_told_where_it_stands(
    complain: Callable[[str], list[str]], text: str, said: str
) -> None:
    assert any(line.startswith(said) for line in complain(text))
