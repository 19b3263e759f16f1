"""A model or a metric of other people that panics or ends the process fails alone; the others are measured."""

import json
import shutil

import pytest
from runs.conftest import select

SINGLE = [{"SpecialToken": {"id": "[NOPE]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
PAIR = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
PANICS = {"post_processor": {"type": "TemplateProcessing", "single": SINGLE, "pair": PAIR, "special_tokens": {}}}
GROWS = {"normalizer": {"type": "Replace", "pattern": {"String": "sleeps"}, "content": "the cat sleeps " * 10**7}}


@pytest.mark.parametrize(
    ("change", "status", "error"),
    [(PANICS, ["failed"], "fails on a short text: PanicException"), (GROWS, [], "of corpus 'inline' needs more than")],
)
def test_a_tokenizer_fails_alone(study, run, out, store, tmp_path, monkeypatch, change, status, error):
    monkeypatch.setattr("reporter.texts.tokens.MEMORY", 2**28)
    (source,) = (out / "cache" / "models").glob("*/step-000000")
    shutil.copytree(source, tmp_path / "mine")
    shutil.copytree(source.parent / "tokenizer", tmp_path / "mine", dirs_exist_ok=True)
    file = tmp_path / "mine" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    spec = study(("models:\n", "models:\n  mine: {path: mine}\n"), metrics="[motion]")
    outcome, log = run(spec, only=("mine", "dec", "inline"))
    assert (outcome.computed + outcome.cached, outcome.failed, outcome.exit_code) == (1, 1, 1), log
    assert "Traceback" not in log
    assert select(store, "SELECT status FROM models WHERE model = 'mine'") == status
    ((state, why),) = select(store, "SELECT status, error FROM cells WHERE model = 'mine'")
    assert state == "failed" and error in why, why
