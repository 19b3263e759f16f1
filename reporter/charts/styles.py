"""Styles of charts: one colour, one mark and one dash for each model, other colours, the two themes.

Encoders are cool (blue, teal, violet), decoders warm (orange, red, gold), so that a role is seen before a
name is read. Colour is never the only cue: within a role the marks alternate, and the dash changes after
every third model, so that mark and dash together name a model up to twelve to a role. Each colour has a twin
for the dark theme. A null baseline has the colour and mark of its base, but a thin line of its own dash and small
marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

# Altair, imported when something is drawn: it takes half a second, and a file of a metric is also read for a check.


if TYPE_CHECKING:
    import altair as alt
else:

    class _Altair:
        def __getattr__(self, name: str) -> Any:
            import altair

            return getattr(altair, name)

        def layer(self, *charts: Any, **options: Any) -> Any:
            """Altair's ``layer``, in a third of the time.

            Each step of making a layered chart (and there are seven until it is JSON) copies all of its layers to the
            last leaf. Nobody changes the encoding and the mark of a layer any more, and those are most of it. What
            takes part in Python's protocol of copies may say that it is its own copy.
            """
            for chart in charts:
                for part in ("encoding", "mark"):
                    shared = getattr(chart, part, None)
                    if hasattr(shared, "copy"):  # neither absent nor undefined
                        object.__setattr__(shared, "__deepcopy__", lambda memo, shared=shared: shared)
            return self.__getattr__("layer")(*charts, **options)

    alt = _Altair()


__all__ = ["alt", "unvalidated"]


def unvalidated() -> AbstractContextManager[None]:
    """Draw without Altair's own validation, which takes longer than all the rest; the tests draw every kind with it."""
    from altair.utils.schemapi import debug_mode

    context: AbstractContextManager[None] = debug_mode(False)
    return context


ENCODER, DECODER, OTHER = "encoder", "decoder", "other"

LIGHT = {
    ENCODER: ("#1c6dd0", "#0e9186", "#56289a", "#3a93d8", "#142f6b", "#8a6be3", "#06565c", "#6f86a3"),
    DECODER: ("#cf4a08", "#7d0f2b", "#b58e00", "#5f2a08", "#ef6a45", "#b96f4e", "#7d6200", "#93400f"),
    OTHER: ("#52525b", "#3f7d20", "#8b8b94"),
}
DARK = {
    ENCODER: ("#4f9df7", "#35d6c0", "#8b62ee", "#a9dcff", "#4a63e0", "#cdbcff", "#1b9a92", "#8da5c2"),
    DECODER: ("#ff8a38", "#e8364f", "#ffd84d", "#c06a34", "#ffb08a", "#b39a3c", "#f25c3a", "#d9b48a"),
    OTHER: ("#c4c4cc", "#8fce5a", "#85858f"),
}
SHAPES = {
    ENCODER: ("circle", "square", "cross"),
    DECODER: ("triangle-up", "diamond", "triangle-down"),
    OTHER: ("triangle-right", "wedge", "arrow"),
}
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 2, 2, 2))
MEANS = {ENCODER: "mean of encoders", DECODER: "mean of decoders", OTHER: "mean of other models"}
"""What stands in place of the models of a role where a reader wants its mean."""
BASELINES: dict[str, tuple[float, ...]] = {"random-init": (1, 3), "shuffled": (7, 3, 1, 3)}
"""Dash of each kind of null baseline: dotted and dash-dotted."""
MUTED = {"#6b7280": "#9aa3b2", "#d4d4d8": "#3b424e"}
"""Greys of floors and rules, and their twins in the dark theme."""
FLOOR_GREY, RULE_GREY = tuple(MUTED)
NEUTRAL = {"#252c3a": "#e3e6ec", "#4a8c2a": "#86c75a", "#a4acb9": "#566071"}
"""Ink, a green and a grey for what is no model's: methods, and the two parts of a variance."""
INK, GREEN, GREY = tuple(NEUTRAL)
RAMP = {
    "#440256": "#9673ea",
    "#414487": "#5f8be0",
    "#2a788e": "#35aabf",
    "#22997a": "#36c98f",
    "#57a63a": "#93dc52",
    "#a2920c": "#fde725",
}
"""Viridis from depth 0 to 1, its ends moved so that neither fades into the light or the dark surface."""
CATEGORIES = {
    "#668800": "#47c86e",
    "#880088": "#bc40ea",
    "#333322": "#dde6ee",
    "#ff4477": "#e22f99",
    "#dd66bb": "#d787e9",
    "#335500": "#6b961e",
    "#bb55cc": "#de6d9d",
    "#447744": "#a5e780",
    "#885599": "#dda7ea",
    "#223344": "#6f757e",
    "#884477": "#f89fbb",
    "#006644": "#3e8651",
}
"""Colours of what is told apart and is no model: classes of tokens, groups, concepts, corpora. Magentas, greens and
greys of different lightness, since blue and orange are those of the roles. Six differ for every kind of eyes: by 23 at
least in CIE Lab, also in protan and deutan sight; of all twelve no two by less than 8."""
DIVERGING = {
    "#14509e": "#69adff",
    "#86add9": "#2d5a96",
    "#f3f2ed": "#222831",
    "#eda673": "#8d4a1d",
    "#ad3a06": "#ff9a57",
}
"""From −1 over 0 to 1; 0 fades into the surface."""
DARK_ON_LIGHT = "#fffffe"
"""Ink on the strong ends of a diverging scale: white on the light theme's, black on the dark one's."""
TWINS = {DARK_ON_LIGHT: "#0f1217", **CATEGORIES, **DIVERGING, **MUTED, **NEUTRAL, **RAMP}
"""From each light colour to its dark twin."""


@dataclass(frozen=True)
class ModelStyle:
    """The style of one model; a null baseline names its ``base`` and the kind of ``baseline`` it is."""

    model: str
    role: str
    light: str
    dark: str
    shape: str
    dash: tuple[float, ...]
    base: str = ""
    baseline: str = ""


@dataclass(frozen=True)
class Styles:
    """The models of a study in the order of its legend.

    Args:
        models: how each is drawn.
        named: what else a study names and charts tell apart by colour (corpora, groups, concepts), in its order.
    """

    models: tuple[ModelStyle, ...]
    named: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the models: the domain of every colour scale."""
        return [style.model for style in self.models]

    @property
    def means(self) -> dict[str, str]:
        """The name of the mean of each role, for roles of two models or more."""
        counts = Counter(style.role for style in self.own)
        return {role: MEANS[role] for role in MEANS if counts[role] > 1}

    @property
    def drawn(self) -> tuple[ModelStyle, ...]:
        """Everything with a colour, a mark and a dash: the models, and the means of their roles."""
        means = [
            ModelStyle(name, role, LIGHT[role][0], DARK[role][0], SHAPES[role][0], DASHES[0])
            for role, name in self.means.items()
        ]
        return (*self.models, *means)

    @property
    def by_role(self) -> list[tuple[str, list[ModelStyle]]]:
        """Roles that occur, each with its models."""
        groups = [(role, [s for s in self.models if s.role == role]) for role in (ENCODER, DECODER, OTHER)]
        return [(role, styles) for role, styles in groups if styles]

    @property
    def own(self) -> list[ModelStyle]:
        """The models of the study itself, without null baselines."""
        return [style for style in self.models if not style.baseline]

    @property
    def baselines(self) -> list[str]:
        """Names of the null baselines."""
        return [style.model for style in self.models if style.baseline]

    @property
    def dark_colours(self) -> dict[str, str]:
        """From each light colour to its dark twin."""
        return TWINS | {style.light: style.dark for style in self.models}


def style_models(roles: Mapping[str, str], baselines: Mapping[str, tuple[str, str]] | None = None) -> Styles:
    """Give each model its style; null baselines look like their base, one whose base has no numbers is grey."""
    null = {name: base for name, base in (baselines or {}).items() if name in roles}
    styles: list[ModelStyle] = []
    orphans = dict(null)

    def add_baselines(base: ModelStyle, of_it: Mapping[str, tuple[str, str]]) -> None:
        for kind, name in sorted((kind, name) for name, (_, kind) in of_it.items()):
            dash = BASELINES.get(kind, (1, 3))
            styles.append(replace(base, model=name, dash=dash, base=base.model or "?", baseline=kind))
            orphans.pop(name)

    for role in (ENCODER, DECODER, OTHER):
        names = [name for name, its in roles.items() if name not in null and (its if its in LIGHT else OTHER) == role]
        for place, name in enumerate(names):
            light, dark = (colours[role][place % len(colours[role])] for colours in (LIGHT, DARK))
            style = ModelStyle(name, role, light, dark, SHAPES[role][place % 3], DASHES[place // 3 % len(DASHES)])
            styles.append(style)
            add_baselines(style, {other: pair for other, pair in null.items() if pair[0] == name})
    grey = ModelStyle("", OTHER, LIGHT[OTHER][0], DARK[OTHER][0], SHAPES[OTHER][0], DASHES[0])
    add_baselines(grey, dict(orphans))
    return Styles(tuple(styles))


def colours(count: int) -> list[str]:
    """Return so many colours of the light theme; after the twelfth they begin again."""
    palette = list(CATEGORIES)
    return [palette[place % len(palette)] for place in range(count)]


def ordered(values: Sequence[str], first: Sequence[str] = ()) -> list[str]:
    """Return each value once: those of ``first`` in its order, then the others as they come."""
    return [*(value for value in first if value in values), *dict.fromkeys(v for v in values if v not in first)]


FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif'


def _config(surface: str, ink: str, quiet: str, grid: str) -> dict[str, Any]:
    titles = {"titleColor": quiet, "titleFontWeight": 400, "titleFontSize": 11, "titlePadding": 7}
    labels = {"labelColor": quiet, "labelFontSize": 11, "labelPadding": 5}
    line = {"domain": True, "domainColor": quiet, "ticks": True, "tickColor": quiet, "tickSize": 4, "grid": False}
    return {
        "background": surface,
        "font": FONT,
        "padding": {"left": 2, "right": 6, "top": 6, "bottom": 2},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "view": {"stroke": None},
        "axis": {**titles, **labels, "gridColor": grid, "domain": False, "ticks": False},
        "axisX": line,
        "axisY": {"tickCount": 5},
        "text": {"color": ink, "fontSize": 11},
        "legend": {"labelColor": quiet, "titleColor": quiet, "titleFontWeight": 400, "labelLimit": 260},
        "title": {"color": ink},
    }


THEMES = {
    "light": _config(surface="#ffffff", ink="#1c2330", quiet="#5b6472", grid="#eceef1"),
    "dark": _config(surface="#171b22", ink="#e7eaf0", quiet="#a0a9b8", grid="#2a303a"),
}
"""How charts look in the light and in the dark theme: two Vega configurations, shared by every page."""
