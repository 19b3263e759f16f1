"""Study files by their meaning."""

import json

import pytest

from reporter.app.diff.causes import Change, spec_changes

BASE = """
study: s
models:
  bert: {hub: some/bert, checkpoints: [step1, step512]}
  gpt2: some/gpt2
corpora:
  few: {texts: ["One text.", "A second one.", "A third one."]}
  wiki: {file: wiki.txt, limit: 2000}
metrics: [all, {intrinsic_dimension: {sample: 4096}}, lens]
views: [words, all]
run: {seed: 0}
"""


def test_layout_order_and_shorthands_say_nothing():
    same = """
# another comment
run:
  seed: 0x0
views: ["words", all]
metrics: [all, intrinsic_dimension: {sample: 4096.0}, lens: {}]
corpora:
  wiki: {limit: 2000, file: 'wiki.txt'}
  few:
    texts:
    - One text.
    - A second one.
    - A third one.
models: {gpt2: {hub: some/gpt2}, bert: {checkpoints: [step1, step512], hub: some/bert, revision: }}
study: s
"""
    assert spec_changes(BASE, same) == []
    of_the_api = json.dumps({"study": "s", "models": {"bert": {"hub": "a/b"}}})
    assert spec_changes(of_the_api, "study: s\nmodels: {bert: a/b}") == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("limit: 2000", "limit: 500", [("corpora.wiki.limit", 2000, 500)]),
        ("sample: 4096", "sample: 64", [("metrics.intrinsic_dimension.sample", 4096, 64)]),
        (", lens", "", [("metrics.lens", "listed", None)]),
        ("[words, all]", "[all, words]", [("views (order)", ["words", "all"], ["all", "words"])]),
        ("some/gpt2", "{hub: some/gpt3}", [("models.gpt2.hub", "some/gpt2", "some/gpt3")]),
        (
            "step512",
            "step64",
            [("models.bert.checkpoints.step512", "listed", None), ("models.bert.checkpoints.step64", None, "listed")],
        ),
        ('"A second one."', '"Another one."', [("corpora.few.texts[1]", "A second one.", "Another one.")]),
        ('"A second one.", ', "", [("corpora.few.texts[1]", "A second one.", None)]),
        ('["One', '["Zero.", "One', [("corpora.few.texts[0]", None, "Zero.")]),
        ("seed: 0", "seed: false", [("run.seed", 0, False)]),
        ("  gpt2: some/gpt2\n", "", [("models.gpt2", {"hub": "some/gpt2"}, None)]),
    ],
)
def test_each_change_is_one_line_with_its_path(old, new, expected):
    assert BASE.count(old) == 1
    assert spec_changes(BASE, BASE.replace(old, new)) == [Change(*one) for one in expected]


@pytest.mark.parametrize("broken", ["study: [", "a: 1\na: 2", None, "- a list"])
def test_what_cannot_be_read_is_told(broken):
    (change,) = spec_changes(BASE, broken)
    assert change.where == "(the whole study file)"
    assert change.a == "a study"
