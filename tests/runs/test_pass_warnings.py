"""What a pass, and a plan, warns of: unknown tokens, the end of float16's range, windows, chats without a template."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from reporter.core.errors import ReporterError
from reporter.forward.measure import Counts, _check_finite
from reporter.forward.observed import KINDS
from reporter.forward.passes import strained_warning, unknown_warning
from reporter.forward.type_sample import TypeCounts
from reporter.runs import records
from reporter.runs.planner import plan_study


def warned(unknown: int, of: int = 100) -> str:
    tokenizer = SimpleNamespace(unk_token_id=1)
    counts = np.array([of - unknown, unknown, 0])
    counted = TypeCounts(counts, np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64))
    model = cast("Any", SimpleNamespace(tokenizer=tokenizer))
    return unknown_warning(model, "wiki", counted)


def test_unknown_tokens_are_said_above_a_twentieth() -> None:
    assert warned(5) == ""
    assert warned(6) == "6 % of the tokens of corpus 'wiki' are unknown to the tokenizer"


def test_states_at_the_end_of_float16() -> None:
    assert strained_warning(Counts(tokens=100), "wiki") == ""
    said = strained_warning(Counts(tokens=100, strained=7), "wiki")
    assert said.startswith("7 of 100 tokens of corpus 'wiki' have a state within a tenth of the end of float16's range")


@pytest.mark.parametrize(("half", "advice"), [(True, "write `dtype: float32`"), (False, "weights may be damaged")])
def test_states_beyond_it_are_an_error_that_says_what_to_write(half: bool, advice: str) -> None:
    batch = cast("Any", SimpleNamespace(mask=np.ones((1, 2)), texts=np.array([3])))
    with pytest.raises(ReporterError, match=f"layer 1, text 3 of corpus 'wiki', token 0; .*{advice}"):
        norms = np.array([[[1, 1]], [[np.inf, 1]]], dtype=np.float32)
        _check_finite(norms, norms, batch, "wiki", half)


WINDOWED = (
    'inline: {texts: ["one two three"',
    'inline: {window: 4, stride: 2, texts: ["the cat sleeps and a dog runs here"',
)
METRICS = (("[convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "[motion, token_path, layer_pairs]"),)


def test_numbers_of_whole_texts_say_that_they_are_of_windows(study, run, store, out) -> None:
    found = {name: kind.in_windows for name, kind in KINDS.items() if kind.in_windows}
    each = dict.fromkeys(("text_means", "intra_text", "token_path", "text_entropy", "layer_angles"), "each")
    assert found == each | {"pooled": "first"}
    file = study(WINDOWED, *METRICS)
    said = (
        "corpus 'inline' is read in windows of 4 tokens: numbers of whole texts (token_path) are of each window; "
        "of a longer text only the first window is read by layer_pairs"
    )
    _, log = run(file, only=("dec",))
    assert said in plan_study(file, out, only=("dec",)).lines() and log.count(said) == 1
    cells = store.records("SELECT corpus, metric, warning FROM cells WHERE warning IS NOT NULL")
    warned = {(cell["corpus"], cell["metric"]) for cell in cells if said in cell["warning"]}
    assert warned == {("inline", "token_path"), ("inline", "layer_pairs")}


def test_a_chat_that_cannot_be_read_is_found_by_the_plan_and_fails_alone(study, run, tmp_path) -> None:
    talk = [{"role": "user", "content": "the cat sleeps"}]
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": talk}))
    file = study(
        (
            'inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}',
            "talks: {file: talks.jsonl, chat: true}",
        ),
        *METRICS,
    )
    failed = {str(cell.key): cell.why for cell in plan_study(file, tmp_path / "none").cells if cell.state == "failed"}
    assert failed and all("× talks ×" in name or "| talks" in name for name in failed), failed
    assert all("its tokenizer has no chat template" in why for why in failed.values())
    outcome, _ = run(file, only=("dec", "motion"))
    assert (outcome.computed, outcome.failed) == (1, 1)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{% for turn in messages %}{{ turn['content'] }} {% endfor %}", ""),
        ("{{ raise_exception('not I') }}", "conversation 1: its chat template refuses it (not I)"),
    ],
)
def test_the_plan_tries_a_chat_template(study, run, out, tmp_path, template, why) -> None:
    (trained,) = (out / "cache" / "models").glob("*/step-000000")
    shutil.copytree(trained, tmp_path / "own")
    for file in (trained.parent / "tokenizer").iterdir():
        shutil.copy(file, tmp_path / "own")
    (tmp_path / "own" / "chat_template.jinja").write_text(template)
    talk = [{"role": "user", "content": "the cat sleeps"}]
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": talk}))
    inline = 'inline: {texts: ["one two three", "the cat sleeps here", "a dog"]}'
    talks = inline, "talks: {file: talks.jsonl, chat: true}"
    file = study(("models:\n", "models:\n  own: {path: own}\n"), talks, *METRICS)
    plan = plan_study(file, out, only=("own", "talks", "motion"))
    assert [(cell.state, cell.why) for cell in plan.cells] == [
        ("failed", f"model 'own': {why}") if why else ("run", "new")
    ]


def test_an_analysis_of_a_corpus_in_windows_says_what_it_reads(study, out) -> None:
    clouds = "metrics: none\nclouds: {c: {corpora: [nested, inline]}}"
    metrics = "metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]"
    lines = plan_study(study(WINDOWED, (metrics, clouds), ("views: [words, all]\n", "")), out).lines()
    assert any(line.endswith("of a longer text only the first window is read by clouds") for line in lines), lines


@pytest.mark.parametrize(
    ("part", "only", "said"),
    [
        ("encoder", None, "the decoder is a model of its own, with `part: decoder`"),
        ("encoder", "encoder", None),
        ("decoder", "decoder", "the encoder has read the whole text"),
        (None, None, None),
    ],
)
def test_a_model_of_two_parts_says_which_was_measured(part, only, said) -> None:
    found = records._warning(cast("Any", SimpleNamespace(warning="", part=only)), part)
    assert found is None if said is None else said in found
