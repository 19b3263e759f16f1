"""One colour, one mark and one dash for each model, the same on every chart of a page.

Encoders are cool (blue, teal, violet), decoders warm (orange, red, gold), so that a role is seen before a
name is read. Colour is never the only cue: within a role the marks alternate, and the dash changes after
every third model, so that mark and dash together name a model up to twelve to a role. Each colour has a twin
for the dark theme.
"""

from __future__ import annotations

from collections.abc import Mapping
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
MUTED = {"#6b7280": "#9aa3b2", "#d4d4d8": "#3b424e"}
"""Greys of floors and rules, and their twins in the dark theme."""
FLOOR_GREY, RULE_GREY = tuple(MUTED)


@dataclass(frozen=True)
class ModelStyle:
    """How one model is drawn."""

    model: str
    role: str
    light: str
    dark: str
    shape: str
    dash: tuple[int, ...]


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
    def dark_twins(self) -> dict[str, str]:
        """From each light colour to its dark twin."""
        return {style.light: style.dark for style in self.models} | MUTED


def style_models(roles: Mapping[str, str]) -> Styles:
    """Give each model its style.

    Args:
        roles: role of each model, in the order in which the models shall be shown within their role.
    """
    styles = []
    for role in (ENCODER, DECODER, OTHER):
        names = [name for name, its in roles.items() if (its if its in LIGHT else OTHER) == role]
        for place, name in enumerate(names):
            styles.append(
                ModelStyle(
                    model=name,
                    role=role,
                    light=LIGHT[role][place % len(LIGHT[role])],
                    dark=DARK[role][place % len(DARK[role])],
                    shape=SHAPES[role][place % 3],
                    dash=DASHES[place // 3 % len(DASHES)],
                )
            )
    return Styles(tuple(styles))
