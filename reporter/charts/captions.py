"""Captions of charts: the sentence under each panel as the page opens.

Sentences are computed from the numbers that a panel draws, and name no winner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reporter.charts.axes import BOTH, chance_rows, is_after_norm
from reporter.charts.layout import Scene
from reporter.core.numbers import ROUNDING, counted, digits_of, is_null, short, span, whole
from reporter.core.places import places as named

if TYPE_CHECKING:
    import pandas as pd

APART = 0.5
"""Depths further apart than this share no place."""
FEW = 4
"""Up to as many models are named one by one."""
ROLES = {"encoder": "encoders", "decoder": "decoders"}


class CaptionLine(NamedTuple):
    """The numbers of one model over depth, or over training steps, in order; NaN is left out.

    Args:
        model: its name.
        role: its role.
        places: relative depths, or training steps.
        values: the numbers.
        layers: the layers that they are stored at.
        blocks: how many blocks the model has; 0 where that is not known.
        undetermined: at how many further places a number is not determined.
    """

    model: str
    role: str
    places: list[float]
    values: list[float]
    layers: list[int | None]
    blocks: int = 0
    undetermined: int = 0

    @property
    def is_below(self) -> bool:
        """Whether it lies further below 0 than above it, so that its lowest point is its extreme."""
        return -min(self.values) > max(self.values)

    @property
    def extreme(self) -> int:
        """The index of its maximum, or of its minimum if it lies below 0."""
        pick = min if self.is_below else max
        return pick(range(len(self.values)), key=self.values.__getitem__)

    @property
    def is_flat(self) -> bool:
        """Whether it is one number from end to end, but for rounding."""
        low, high = min(self.values), max(self.values)
        return high - low <= ROUNDING * max(abs(low), abs(high))

    def place(self, index: int, step: bool, alone: bool = True) -> str:
        """Return what a place is called: ``embedding``, ``last block``, ``layer 5 of 6``, ``depth 0.4``.

        Args:
            index: which of its places.
            step: whether its numbers are of steps from layer to layer, and so of blocks.
            alone: whether the layer is named where it is no end; other models have other layers at a depth.
        """
        layer = self.layers[index]
        if layer is not None and not step and layer == 0:
            return "embedding"
        if layer is not None and self.blocks and layer + step == self.blocks:
            return "last block"
        if layer is not None and step and layer == 0:
            return "first block"
        if layer is None or not alone:
            return f"depth {short(self.places[index], 2)}"
        return named([layer], step, self.blocks or None)


def of_statistic(rows: pd.DataFrame, scene: Scene, step: bool = False) -> str:
    """Say where the lines of a panel start, end and are highest, or its single numbers, by role.

    ``bert: 0.12 (embedding) to 0.31 (last block), maximum 0.35 at layer 3 of 12 · 3 decoders: …``; of lines below 0 it
    is the minimum. Null baselines are left out, and so is the state after the final norm, which is no part of a course.
    """
    left_out = is_after_norm(rows)
    if "statistic" in rows:  # a panel of one statistic may show its chance level by itself
        left_out |= chance_rows(rows) & (rows["statistic"].nunique() > 1)
    rows = rows[~left_out] if left_out.any() else rows
    if "depth" in rows and rows["depth"].notna().any():
        groups = _split_small_groups(_by_role(lines_of(rows, scene, "depth")))
        return " · ".join(f"{name}: {_course(lines, step)}" for name, lines in groups)
    groups = _split_small_groups(_by_role(lines_of(rows, scene, "")))
    return " · ".join(f"{name}: {span([line.values[0] for line in lines])}" for name, lines in groups)


def of_training(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how values moved between a model's first and last step: ``gpt2: 0.05 (step 0) to 0.41 (step 600)``."""
    lines = lines_of(rows, scene, "step")
    groups = _by_role(lines)
    if len(lines) <= FEW:
        groups = [(line.model, [line]) for _, group in groups for line in group]
    clauses = []
    for name, group in groups:
        starts, ends = [line.values[0] for line in group], [line.values[-1] for line in group]
        # a range need not tell its models apart
        digits, size = digits_of([*starts, *ends]) if len(group) == 1 else 2, max(map(abs, [*starts, *ends]))
        first, last = min(line.places[0] for line in group), max(line.places[-1] for line in group)
        clauses.append(
            f"{name}: {span(starts, digits, size)} (step\xa0{whole(first)}) to {span(ends, digits, size)} "
            f"(step\xa0{whole(last)})"
        )
    return " · ".join(clauses)


def lines_of(rows: pd.DataFrame, scene: Scene, along: str) -> list[CaptionLine]:
    """Return the line of each model of the study itself that has numbers."""
    roles = {style.model: style.role for style in scene.styles.own}
    names = [name for name in ("value", "layer", "role", "undetermined", along) if name in rows]
    columns = {name: rows[name].tolist() for name in names}
    of_model: dict[str, list[int]] = {}
    for row, (model, value) in enumerate(zip(rows["model"].tolist(), columns["value"], strict=True)):
        if not (is_null(value) or is_null(model) or model in scene.styles.baselines):
            of_model.setdefault(model, []).append(row)
    lines = []
    for model, every in of_model.items():
        line = [row for row in every if not ("undetermined" in columns and columns["undetermined"][row])]
        layers: list[int | None] = [None] * len(line)
        if "layer" in columns:
            layers = [None if is_null(layer := columns["layer"][row]) else int(layer) for row in line]
        places = [columns[along][row] if along else 0.0 for row in line]
        role = roles.get(model, str(columns["role"][line[0]]) if "role" in columns and line else "other")
        blocks = max(
            (round(layer / depth) for layer, depth in zip(layers, places, strict=True) if along == "depth" and layer),
            default=0,
        )
        values = [columns["value"][row] for row in line]
        lines.append(CaptionLine(model, role, places, values, layers, blocks, undetermined=len(every) - len(line)))
    return lines


def _course(lines: Sequence[CaptionLine], step: bool) -> str:
    """Say how the lines of one role run, and at how many places they have no number that counts."""
    unknown = sum(line.undetermined for line in lines)
    said = [f"not determined at {counted(unknown, 'block' if step else 'layer')} (open marks)"] if unknown else []
    lines = [line for line in lines if line.values]
    if lines:
        said = [_ends(lines, step), *said]
    return ", ".join(said)


def _ends(lines: Sequence[CaptionLine], step: bool) -> str:
    """Say where lines start, end and have their maximum; numbers beside each other have as many digits as differ."""
    extremes = [line.values[line.extreme] for line in lines]
    starts, ends = [line.values[0] for line in lines], [line.values[-1] for line in lines]
    every = [*starts, *ends, *extremes]
    digits = digits_of(every) if len(lines) == 1 else 2
    size = max(map(abs, every))
    first, last, turn = (span(numbers, digits, size) for numbers in (starts, ends, extremes))
    if all(line.is_flat for line in lines):
        return f"{first} throughout"
    alone = len(lines) == 1
    kind = (
        ("minimum" if alone else "minima") if all(line.is_below for line in lines) else "maximum" if alone else "maxima"
    )
    start, end = (_shared([line.place(at, step, alone) for line in lines], at, step) for at in (0, -1))
    is_first = all(line.values[0] == line.values[line.extreme] for line in lines)
    is_last = not is_first and all(line.extreme == len(line.values) - 1 for line in lines)
    at_start, at_end = (f"{place}{f', {kind}' * here}" for place, here in ((start, is_first), (end, is_last)))
    said = f"{first} ({at_start}) to {last} ({at_end})"
    if is_first or is_last:
        return said
    where = [line.places[line.extreme] for line in lines]
    if max(where) - min(where) > APART:
        return f"{said}, {kind} {turn} at different depths"
    at = lines[0].place(lines[0].extreme, step) if alone else f"depth {span(where, 2)}"
    return f"{said}, {kind} {turn} at {at if at.startswith(('layer', 'block', 'depth')) else f'the {at}'}"


def _shared(names: Sequence[str], end: int, step: bool) -> str:
    """Return the name of the first (0) or last (−1) place of several lines; where it differs, what all of them have."""
    if len(set(names)) == 1:
        return names[0]
    return f"{'last' if end else 'first'} {'block' if step else 'layer'}"


def _split_small_groups(groups: Sequence[tuple[str, list[CaptionLine]]]) -> Iterator[tuple[str, list[CaptionLine]]]:
    for name, group in groups:
        yield from [(line.model, [line]) for line in group] if len(group) <= BOTH else [(name, group)]


def _by_role(lines: Sequence[CaptionLine]) -> list[tuple[str, list[CaptionLine]]]:
    groups: dict[str, list[CaptionLine]] = {}
    for line in lines:
        groups.setdefault(line.role, []).append(line)
    order = sorted(groups, key=lambda role: (role != "encoder", role != "decoder", role))
    names = {role: f"{len(lines)} {ROLES.get(role, 'models')}" for role, lines in groups.items()}
    return [(groups[role][0].model if len(groups[role]) == 1 else names[role], groups[role]) for role in order]
