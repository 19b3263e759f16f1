"""Groups: do texts that mean the same lie together, more than texts that merely look alike?

Points: the projection ``pca`` holds the vectors of at most 300 texts of each group on components of all of them; a
group is a part. Controls are not drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, ConfigDict, RootModel

from reporter.charts import SENTENCES, Chapter, Chart, Pick, parts, variants
from reporter.charts.parts import AXES
from reporter.charts.styles import Styles, alt, ordered
from reporter.core.errors import ReporterError
from reporter.core.table import ALL_GROUPS, Comparable, OfModel, Row, at_place, column
from reporter.geometry.clouds import Spread, spreads
from reporter.metrics._items import Point, points, stream
from reporter.metrics.analysis import POOLED, SAME_TOKEN, Context, analysis
from reporter.metrics.base import Cosine, Size, Value
from reporter.study.offer import Section
from reporter.study.part import Prose, wrong
from reporter.study.problems import show

if TYPE_CHECKING:
    import pandas as pd

    from reporter.models.places import Place

# The charts of groups: texts by layer, and groups against their controls.


CHAPTER = Chapter(SENTENCES, "groups", "Groups", "Do paraphrases cluster more than matched random texts?", 1)
TITLES = {"silhouette": "silhouette", "ratio": "distance within / between"}
CONTROLS = {"none": [1, 0], "random-characters": [2, 3], "random-words": [6, 4]}
"""Dash of a group's own texts and of the matched random texts."""


def of_groups(column: str) -> Any:
    """Return what draws a column of ``groups`` over the layers, each group a colour, each control a dash."""

    def draw(frame: pd.DataFrame, styles: Styles) -> Any:
        scale = parts.shared_axis(frame, column)
        y = alt.Y(f"{column}:Q", title=TITLES[column], scale=scale)
        names = ordered(list(frame["text_group"]), styles.named)
        lines = parts.NamedLines.of(frame, "text_group", column, names, *scale.to_dict().get("domain", ()))
        dash = alt.StrokeDash(
            "control:N", scale=alt.Scale(domain=list(CONTROLS), range=list(CONTROLS.values())), legend=None
        )
        visible = alt.Chart().transform_filter("controls === 'with' || datum.control === 'none'")
        base = visible.encode(x=lines.x, y=y, color=lines.color, detail=alt.Detail("control:N"))
        line = base.mark_line(strokeWidth=1.8, aria=False).encode(strokeDash=dash, opacity=lines.opacity)
        points = base.transform_filter("datum.control === 'none'").mark_point(filled=True, size=36)
        points = points.encode(
            opacity=lines.opacity,
            tooltip=parts.tooltips("text_group", "layer", "silhouette", "within", "between", "ratio", "n"),
        )
        far = base.mark_point(size=60, opacity=0, filled=True)
        far = far.encode(
            tooltip=parts.tooltips("text_group", "control", "layer", "silhouette", "within", "between", "ratio")
        )
        labels = lines.labels(alt.Chart().transform_filter("datum.control === 'none'"), y)
        params = parts.at_params(controls="with", bring="")
        chart = alt.layer(parts.here(), labels, line, far, points, data=frame).add_params(*params)
        return chart.properties(width="container", height=400)

    return draw


_chart = partial(Chart, chapter=CHAPTER, half=True)
GROUP_POINTS = _chart(
    "sentences.group-points",
    "Texts by layer",
    """
SELECT model, checkpoint, site, layer, part AS text_group, point, label, x, y, z
FROM projections
WHERE study = $study AND analysis = 'groups' AND projection = 'pca'
QUALIFY row_number() OVER (PARTITION BY model, checkpoint, site, layer ORDER BY hash(point), part) <= 2000
ORDER BY model, checkpoint, site, layer, part, point
""",
    "points",
    lead="One point per text, coloured by group. Each layer has its own projection.",
    columns=("part", "label", "x", "y"),
    options={"colour": ["text_group"], "order": True, "tell": ["text_group"], "axisNames": AXES, "height": 400},
    by_layer=True,
    mind="Other components may show other structure. The signs of components are arbitrary: the picture may flip "
    "between layers.",
)

GROUPS = _chart(
    "sentences.groups",
    "Groups against their controls",
    """
SELECT model, checkpoint, text_group, control, pooling, site, layer, depth, silhouette, within, between, ratio, n
FROM groups
WHERE study = $study AND site IN ('embedding', 'block')
QUALIFY dense_rank() OVER (PARTITION BY model, checkpoint ORDER BY text_group) <= 24
ORDER BY model, checkpoint, control <> 'none', control, text_group, layer
""",
    {name: of_groups(name) for name in ("silhouette", "ratio")},
    lead="Solid: groups. Dotted: matched random characters. Dashed: matched random words.",
    columns=("text_group", "control", "silhouette", "within", "between", "ratio", "n"),
    picks=lambda frame, scene: [
        variants(silhouette="silhouette", ratio="distance within / between"),
        Pick("$controls", "Controls", {"with": "shown", "without": "hidden"}),
        parts.which_to_highlight(frame, "text_group"),
    ],
    key="text_group",
)

MOST_TEXTS = 5000  # of one group: silhouettes need all distances


def expand(pattern: str) -> tuple[str, ...]:
    """Return all texts of a pattern: each ``{a|b|c}`` stands for one of its parts, which may be empty.

    Texts come in the order of the parts, the last one changing fastest; repeated texts come once.

    Raises:
        ValueError: a brace that nothing opens or closes, braces inside braces, or more than ``MOST_TEXTS`` texts.
    """
    pieces = re.split(r"\{([^{}]*)\}", pattern)
    if any("{" in piece or "}" in piece for piece in pieces[::2]):
        raise ValueError("braces do not match; write {a|b}, without braces inside braces")
    choices = [piece.split("|") if place % 2 else [piece] for place, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_TEXTS:
        raise ValueError(f"this pattern has {count:,} texts; at most {MOST_TEXTS:,} are allowed")
    return tuple(dict.fromkeys("".join(parts) for parts in product(*choices)))


def _texts_of(value: Any) -> Any:
    if isinstance(value, tuple):
        return value
    if isinstance(value, str):
        try:
            texts = expand(value)
        except ValueError as problem:
            raise wrong(str(problem)) from None
    elif isinstance(value, list):
        texts = tuple(value)
    else:
        raise wrong(f"expected a pattern such as '{{Hello|Hi}} there' or a list of texts, got {show(value)}")
    if len(texts) < 2 or len(texts) > MOST_TEXTS:
        raise wrong(f"a group needs 2 to {MOST_TEXTS:,} texts, got {len(texts)}")
    return texts


GroupSpec = Annotated[tuple[Prose, ...], BeforeValidator(_texts_of, json_schema_input_type=str | list[str])]
"""The texts of a group, patterns expanded."""


class Groups(RootModel[dict[str, tuple[str, ...]]]):
    """The texts of each group by its name."""

    model_config = ConfigDict(frozen=True)


_CHARACTERS = (
    "Each text is replaced by a text with as many characters: white space at the same positions, the other characters "
    "drawn uniformly from all characters of the groups' texts."
)
_WORDS = (
    "Each text is replaced by a text with as many words, drawn uniformly from the whole words of the model's "
    "vocabulary and separated by single spaces."
)
_ROUNDING = (
    "Distances are Euclidean, between pooled vectors. Distances up to 1e-5 of the root mean square norm of the vectors "
    "count as 0."
)
_ALL = "There is no interval: the texts are the whole population, not a sample."

_distance = partial(Size, sources=("luisto2024toybox",))
SILHOUETTE = Cosine(
    "silhouette",
    "silhouette of the groups",
    "Mean over all texts of (b − a)/max(a, b). a is a text's mean distance to the other texts of its group, b its mean "
    f"distance to the nearest other group (0 where a = b = 0). {_ROUNDING} This is scikit-learn's silhouette_score. "
    f"{_ALL}",
    ("luisto2024toybox", "rousseeuw1987silhouettes"),
    main=True,
    plainly="How clearly the groups are separated (1: fully, 0: not).",
    trap="Shared words and text length separate groups without any meaning. The controls show the effect of length, "
    "the embedding the effect of shared words.",
)
RATIO = _distance(
    "ratio",
    "distance within groups over between",
    f"groups.within / groups.between. {_ALL}",
    short="distance within over between",
    main=True,
    plainly="Mean distance within groups divided by mean distance between groups.",
    trap="Large groups weigh more: a group of n texts has n·(n − 1)/2 pairs. The table groups has every group.",
)

STATISTICS = (
    SILHOUETTE,
    RATIO,
    _distance(
        "within",
        "distance within groups",
        f"Mean distance of two texts of the same group, over all such pairs of all groups. {_ROUNDING}",
        trap="In the model's own units: compare layers and models by groups.ratio.",
    ),
    _distance(
        "between",
        "distance between groups",
        f"Mean distance of two texts of different groups, over all such pairs. {_ROUNDING}",
        trap="Its unit is that of the states, so only groups.ratio is comparable between layers and models.",
    ),
    *(
        replace(
            of,
            name=f"{of.name}_{control}",
            title=f"{of.title} (random {control})",
            definition=f"As groups.{of.name}, on one draw of random texts of matched length, given by the study's "
            f"seed. {how}",
            main=False,
            plainly="",
            trap=f"One draw of random {control}. {none}",
        )
        for of, none in (
            (SILHOUETTE, "Without structure it is 0 or slightly below; more than this is due to length alone."),
            (RATIO, "Without structure it is 1; less than this is due to length alone."),
        )
        for control, how in (("characters", _CHARACTERS), ("words", _WORDS))
    ),
)

Control = Literal["none", "random-characters", "random-words"]
Texts = Mapping[str, Sequence[str]]

_ENDINGS: dict[Control, str] = {"none": "", "random-characters": "_characters", "random-words": "_words"}
_ONE = "there is only one group: nothing to compare it with"
_SAME = "all texts have the same vector here"


class GroupSpread(OfModel, table="groups", corpus=ALL_GROUPS, metric="groups"):
    """A group of texts that mean the same, or a matched control, at one layer."""

    compared = (
        Comparable(
            ("silhouette", "within", "between", "ratio"),
            "if(control = 'none', text_group, text_group || ', ' || control)",
        ),
    )

    text_group: str = column("name of the group in the study", key=True)
    control: Control = column("'none', 'random-characters' or 'random-words'", key=True)
    pooling: str = column(POOLED)
    place: Place = at_place()
    silhouette: float | None = column("mean silhouette of the group's texts, among all groups of the same control")
    within: float = column("mean distance of two texts of the group")
    between: float | None = column("mean distance of a text of the group to a text of another group")
    ratio: float | None = column("within / between")
    n: int = column("number of texts", "BIGINT")
    same_token: str | None = column(f"{SAME_TOKEN}; for all groups together")


@analysis(
    title="Groups of texts that mean the same",
    summary="Are the texts of a group closer to each other than to texts of other groups, at each layer? And are "
    "meaningless texts of the same length?",
    question="similarity",
    statistics=STATISTICS,
    cost="a forward pass over three times the texts; all distances per layer",
    tables=(GroupSpread, Point),
    version=2,  # the token that all texts share is stored
    charts=(GROUP_POINTS, GROUPS),
    section=Section(
        GroupSpec,
        "Texts that mean the same, by group: a list, or a pattern such as '{Hello|Hi} there'.",
        ("group", "groups"),
        together=ALL_GROUPS,
        example="{greeting: '{Hello|Hi} there'}",
    ),
    resolve=lambda groups, folder: Groups(dict(groups)),
    pooled=True,
    baselines=True,
)
def groups(item: Groups, context: Context) -> Iterator[Row]:
    """Yield how each group, and all of them, lie at each place, and so for both controls."""
    from reporter.metrics._items import pooled, same_token

    for control in _ENDINGS:
        try:
            texts = _texts(item.root, control, context)
            what = "texts" if control == "none" else control.replace("-", " ")
            vectors = pooled([text for members in texts.values() for text in members], context, what=what)
        except ReporterError as error:
            if control == "none":
                raise
            # A tokenizer may know no whole word, or nothing of what chance wrote.
            for place in context.layout.places:
                yield from _numbers(place, control, None, str(error))
            continue
        shared = same_token([text for members in texts.values() for text in members], context)
        group = np.repeat(np.arange(len(texts)), [len(members) for members in texts.values()])
        for place, x in vectors.items():
            whole, *of_groups = spreads(x, group)
            yield from _numbers(place, control, whole, _ONE if len(texts) < 2 else _SAME)
            for name, members in zip(texts, of_groups, strict=True):
                which = (name, control, context.pooling, place)
                yield GroupSpread(
                    *which, members.silhouette, members.within, members.between, members.ratio, members.n, shared
                )
            if control == "none":
                yield from points(place, {name: x[group == code] for code, name in enumerate(texts)}, texts)


def _texts(groups: Texts, control: Control, context: Context) -> Texts:
    """Return the texts of each group, or those of a control that match them."""
    if control == "none":
        return groups
    if control == "random-characters":
        alphabet = alphabet_of([text for texts in groups.values() for text in texts])
        return {
            name: random_characters(texts, alphabet, stream(context.seed, control, name))
            for name, texts in groups.items()
        }
    from reporter.models.words import whole_words

    words = whole_words(context.model.checkpoint, offline=True)  # it is loaded, so its files are here
    return {name: random_words(texts, words, stream(context.seed, control, name)) for name, texts in groups.items()}


def _numbers(place: Place, control: Control, whole: Spread | None, reason: str) -> Iterator[Value]:
    numbers = {"silhouette": whole.silhouette if whole else None, "ratio": whole.ratio if whole else None}
    if whole is not None and control == "none":
        numbers |= {"within": whole.within, "between": whole.between}
    for name, value in numbers.items():
        n = 0 if whole is None or value is None else whole.n
        yield Value(f"{name}{_ENDINGS[control]}", place, value, n, reason="" if n else reason)


def random_characters(texts: Sequence[str], alphabet: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return for each text one of the same length with white space where it has some, the rest drawn evenly."""
    return [
        "".join(
            old if old.isspace() else alphabet[place]
            for old, place in zip(text, rng.integers(0, len(alphabet), len(text)).tolist(), strict=True)
        )
        for text in texts
    ]


def random_words(texts: Sequence[str], words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Return for each text one of as many words, drawn evenly, with one space between two."""
    return [
        " ".join(words[place] for place in rng.integers(0, len(words), len(text.split())).tolist()) for text in texts
    ]


def alphabet_of(texts: Sequence[str]) -> list[str]:
    """Return the characters of the texts other than white space, each once, sorted."""
    return sorted({character for text in texts for character in text if not character.isspace()})
