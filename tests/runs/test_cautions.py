"""What texts are too few or unfit for is said before a run, by ``validate`` and the plan in the same words."""

import json

import pytest

from reporter.runs.planner import plan_study
from reporter.runs.studies import cautions_of, read_study


def table(texts, labels=None, authors=None):
    labels, authors = labels or [None] * texts, authors or [None] * texts
    rows = (
        {"text": f"word number {i} of many others that follow it", "mood": labels[i], "by": authors[i]}
        for i in range(texts)
    )
    return "\n".join(json.dumps(row) for row in rows)


@pytest.mark.parametrize(
    ("content", "more", "notes"),
    [
        (table(3), "", ["corpus 'c' has 3 texts; a verdict needs 12, an interval 5: add texts"]),
        (table(11), "", ["corpus 'c' has 11 texts; a verdict needs 12: add texts"]),
        (table(3), "texts: fixed\n", []),
        (table(12), "", []),
        (table(40, ["joy"] * 40), "probes: {p: {corpus: l}}\n", ["probes 'p': fewer than two labels have at least 5"]),
        (
            table(200, [str(i % 40) if i < 80 else "ab"[i % 2] for i in range(200)]),
            "probes: {p: {corpus: l}}\n",
            ["probes 'p': 40 of 42 labels have fewer than 5 texts and are left out"],
        ),
        (table(200, [str(i) for i in range(200)]), "probes: {p: {corpus: l}}\n", ["probes 'p': fewer than two labels"]),
        (table(40, ["a", "b"] * 20), "probes: {p: {corpus: l}}\n", []),
        (
            table(40, ["a", None, "", "b"] * 10, ["x", "", None, "y", "z"] * 8),
            "",
            ["corpus 'c' has 19 clusters", "corpus 'l': of 40 texts 20 have no label", "corpus 'c': of 40 texts 16"],
        ),
        (table(19), "partners: {h: {halves: c}}\n", ["partners 'h': only 19 different texts of corpus 'c'"]),
        (table(20), "partners: {h: {halves: c}}\n", []),
        (table(12), "clouds: {k: [c, few]}\n", ["corpus 'few' has 2", "clouds 'k': corpus 'few' has fewer"]),
    ],
)  # fmt: skip
def test_few_and_unfit_texts_are_named_before_the_run(tmp_path, content, more, notes):
    (tmp_path / "t.jsonl").write_text(content)
    cluster = ", cluster: by" * ("19 clusters" in str(notes))
    corpora = [f"c: {{file: t.jsonl, column: text{cluster}}}", "l: {file: t.jsonl, column: text, label: mood}"]
    corpora += ["few: {texts: [one, two]}"] * ("few" in more)
    recipe = "{recipe: {architecture: gpt2, layers: 1, width: 8, heads: 1, train_on: c, steps: 1}}"
    lines = [
        "study: s",
        f"models: {{m: {recipe}}}",
        "corpora:",
        *(f"  {line}" for line in corpora),
        "metrics: [motion]",
    ]
    (tmp_path / "s.yaml").write_text("\n".join([*lines, more]))
    study = read_study(tmp_path / "s.yaml")
    found = list(cautions_of(study))
    # `l` has the texts of `c` again, with labels
    plain = [note for note in found if not note.startswith("corpus 'l'") or "'l'" in str(notes)]
    assert len(plain) == len(notes), plain
    assert all(any(line.startswith(note) for line in plain) for note in notes), plain
    assert [hint for hint in plan_study(study, tmp_path / "out").hints() if hint in found] == found
