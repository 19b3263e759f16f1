"""One colour, one mark and one dash for each model, the same on every chart of a page.

Encoders are cool (blue, teal, violet), decoders warm (orange, red, gold), so that a role is seen before a
name is read. Colour is never the only cue: within a role the marks alternate, and the dash changes after
every third model, so that mark and dash together name a model up to twelve to a role. Each colour has a twin
for the dark theme. A null baseline has the colour and mark of its base, but a thin line of its own dash and small
marks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    "#b3a212": "#fde725",
}
"""Viridis from depth 0 to 1, its ends moved so that neither fades into the light or the dark surface."""


@dataclass(frozen=True)
class ModelStyle:
    """How one model is drawn; a null baseline names its ``base`` and the kind of ``baseline`` it is."""

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
    """The models of a study in the order of its legend."""

    models: tuple[ModelStyle, ...]

    @property
    def names(self) -> list[str]:
        """Names of the models: the domain of every colour scale."""
        return [style.model for style in self.models]

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
    def dark_twins(self) -> dict[str, str]:
        """From each light colour to its dark twin."""
        return {style.light: style.dark for style in self.models} | MUTED | NEUTRAL | RAMP


def style_models(roles: Mapping[str, str], baselines: Mapping[str, tuple[str, str]] | None = None) -> Styles:
    """Give each model its style.

    Args:
        roles: role of each model, in the order in which the models shall be shown within their role.
        baselines: for each null baseline its base and its kind (a key of ``BASELINES``); it is shown after its base.
    """
    null = baselines or {}
    styles: list[ModelStyle] = []
    for role in (ENCODER, DECODER, OTHER):
        names = [name for name, its in roles.items() if name not in null and _role(its) == role]
        for place, name in enumerate(names):
            own = ModelStyle(
                model=name,
                role=role,
                light=LIGHT[role][place % len(LIGHT[role])],
                dark=DARK[role][place % len(DARK[role])],
                shape=SHAPES[role][place % 3],
                dash=DASHES[place // 3 % len(DASHES)],
            )
            of_it = [(other, kind) for other, (base, kind) in null.items() if base == name and other in roles]
            styles += [own, *_baselines_of(own, of_it)]
    seen = {style.model for style in styles}
    orphans = [(name, kind) for name, (_, kind) in null.items() if name in roles and name not in seen]
    grey = ModelStyle("", OTHER, LIGHT[OTHER][0], DARK[OTHER][0], SHAPES[OTHER][0], DASHES[0])
    return Styles((*styles, *_baselines_of(grey, orphans)))


def _role(role: str) -> str:
    return role if role in LIGHT else OTHER


def _baselines_of(base: ModelStyle, found: Sequence[tuple[str, str]]) -> list[ModelStyle]:
    """Null baselines look like their base; one whose base has no numbers is grey."""
    order = sorted(found, key=lambda pair: (list(BASELINES).index(pair[1]) if pair[1] in BASELINES else 9, pair[0]))
    return [
        ModelStyle(
            model=name,
            role=base.role,
            light=base.light,
            dark=base.dark,
            shape=base.shape,
            dash=BASELINES.get(kind, (1, 3)),
            base=base.model or "?",
            baseline=kind,
        )
        for name, kind in order
    ]
