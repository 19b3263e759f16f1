"""Recipes that continue another: what a study may not say of them, and the exact lines a user reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

TUNED = (
    "study: s\nmodels:\n  m: {recipe: {architecture: gpt2, train_on: c, steps: 1}}\n  h: gpt2\n  t: {recipe: {%s}}\n"
    "corpora:\n  c: {texts: [a]}\n"
)

# In the texts below ``»`` stands where a message must point to; it is taken out before the text is read.
BROKEN = [
    (
        TUNED % "from: »n, train_on: c, steps: 1",
        ["models.t.recipe.from: no model 'n'; recipe models of this study: m"],
    ),
    (
        TUNED.replace("m:", "pocket:") % "from: »pokcet, train_on: c, steps: 1",
        ["models.t.recipe.from: no model 'pokcet'; did you mean 'pocket'?"],
    ),
    (
        TUNED % "from: »h, train_on: c, steps: 1",
        [
            "models.t.recipe.from: model 'h' is not trained from a recipe, and only such a model can be continued",
        ],
    ),
    (TUNED % "from: »t, train_on: c, steps: 1", ["models.t.recipe.from: a model cannot continue itself"]),
    (
        TUNED % "from: »5, train_on: c, steps: 1",
        ["models.t.recipe.from: expected text, got the number 5; put it in quotes"],
    ),
    (TUNED % "from: m, train_on: »d, steps: 1", ["models.t.recipe.train_on: no corpus 'd'; corpora of this study: c"]),
    (
        TUNED % "from: m, train_on: c, steps: 1, »layers: 3, »vocabulary: 99",
        [
            "models.t.recipe.layers: is decided by the recipe that it continues, text 'm'; leave it out",
            "models.t.recipe.vocabulary: is decided by the recipe that it continues, text 'm'; leave it out",
        ],
    ),
    (
        TUNED % "from: m, train_on: c, steps: 1, »form: 3",
        ["models.t.recipe.form: unknown key; did you mean 'from'?"],
    ),
    (
        TUNED % "from: m, train_on: c, steps: 1, checkpoints: [»2]",
        ["models.t.recipe.checkpoints[0]: must be between 0 and steps (1), got 2"],
    ),
    (
        "study: s\nmodels:\n  a: {recipe: {from: »b, train_on: c, steps: 1}}\n"
        "  b: {recipe: {from: »a, train_on: c, steps: 1}}\ncorpora: {c: {texts: [a]}}\n",
        [
            "models.a.recipe.from: goes in a circle: model 'a' continues model 'b', which continues model 'a'",
            "models.b.recipe.from: goes in a circle: model 'b' continues model 'a', which continues model 'b'",
        ],
    ),
    (
        (TUNED % "from: m, train_on: d, steps: 1").replace(
            "{texts: [a]}", "{generate: random-words, vocabulary: »t}\n  d: {texts: [a]}"
        ),
        [
            "corpora.c.vocabulary: goes in a circle: corpus 'c' draws the words of model 't', which continues "
            "model 'm', which is trained on corpus 'c'"
        ],
    ),
    (
        "study: s\nmodels:\n  m:\n    recipe: »5\n",
        ["models.m.recipe: expected a mapping with 'architecture' or 'from', got the number 5"],
    ),
]


@pytest.mark.parametrize(("marked", "messages"), BROKEN, ids=range(len(BROKEN)))
def test_every_mistake_is_one_line_at_the_right_place(
    complain: Callable[[str], list[str]], marked: str, messages: list[str]
) -> None:
    before = marked.split("»")[:-1]
    places = ["".join(before[: i + 1]) for i in range(len(before))]
    expected = [
        f"study.yaml:{text.count(chr(10)) + 1}:{len(text) - text.rfind(chr(10))}: {message}"
        for text, message in zip(places, messages, strict=True)
    ]
    assert complain(marked.replace("»", "")) == expected
