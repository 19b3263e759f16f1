"""What the tables of a page show: models, corpora, cells, and what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
MOST_CELLS = 400
"""Rows of the table of cells; a study of many checkpoints has thousands, and its CSV has them all."""


@dataclass(frozen=True)
class ModelRow:
    """A model with its checkpoints; what they share is read from the last one."""

    name: str
    last: Row
    checkpoints: list[Row]

    @property
    def warnings(self) -> list[str]:
        """What a reader should know of the last checkpoint."""
        return (self.last.get("warning") or "").splitlines()

    @property
    def same_weights(self) -> list[str]:
        """Which of its checkpoints have weights of another one."""
        return [
            f"checkpoint '{row['checkpoint']}': {row['same_weights']}"
            for row in self.checkpoints
            if row.get("same_weights")
        ]


@dataclass(frozen=True)
class Reason:
    """Why values are NULL: the same reason for the same statistic, gathered."""

    number: str
    reason: str
    where: list[str]


@dataclass(frozen=True)
class Missing:
    """What a study lacks."""

    models: list[Row]
    corpora: list[Row]
    cells: list[Row]
    reasons: list[Reason]
    unfinished: bool

    @property
    def alarming(self) -> bool:
        """Whether something failed: it is then told at the top of the page."""
        return bool(self.models or self.corpora or self.cells or self.unfinished)


def model_rows(models: Sequence[Row]) -> list[ModelRow]:
    """Group checkpoints, which come in the order of the study, by model; the last one stands for the model."""
    groups: dict[str, list[Row]] = {}
    for row in models:
        groups.setdefault(row["model"], []).append(row)
    return [ModelRow(name, own[-1], own) for name, own in groups.items()]


def warnings(models: Sequence[ModelRow], cells: Sequence[Row] = ()) -> list[tuple[str, list[str]]]:
    """Return what models, and passes of theirs, are warned of, with the models that each warning is about.

    Warnings that differ in numbers alone are one, in which a number that is not the same everywhere becomes the range.
    """
    found: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for model in models:
        of_passes = (
            warning
            for row in cells
            if row["model"] == model.name
            for warning in (row.get("warning") or "").splitlines()
        )
        for warning in dict.fromkeys([*model.warnings, *of_passes]):
            words, numbers = tuple(_NUMBER.split(warning)), _NUMBER.findall(warning)
            found.setdefault(words, []).append((model.name, numbers))
    joined = [(_joined(words, [numbers for _, numbers in of]), [name for name, _ in of]) for words, of in found.items()]
    return joined + [(text, [model.name]) for model in models for text in model.same_weights]


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def _joined(words: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = words[0]
    for word, numbers in zip(words[1:], zip(*rows, strict=True), strict=True):
        low, high = min(numbers, key=float), max(numbers, key=float)
        text += (low if low == high else f"{low} to {high}") + word
    return text


def missing(study: Row, models: Sequence[Row], corpora: Sequence[Row], cells: Sequence[Row]) -> Missing:
    """Gather what failed and why values are NULL."""
    return Missing(
        models=[row for row in models if row["status"] == "failed"],
        corpora=[row for row in corpora if row["status"] == "failed"],
        cells=[row for row in cells if row["status"] == "failed"],
        reasons=reasons(cells),
        unfinished=study.get("started") is not None and study.get("finished") is None,
    )


def reasons(cells: Sequence[Row]) -> list[Reason]:
    """Read ``cells.reasons``: the same reason of the same number becomes one row.

    Raises:
        Nothing: what cannot be read is passed over, since a page must come out whatever a cell says.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for entry in parsed(cell.get("reasons"), list):
            if not isinstance(entry, dict):
                continue
            number = f"{cell['metric']}.{entry.get('statistic', '?')}"
            where = f"{cell['model']}, {cell['corpus']}, {entry.get('view', '?')}{_layers(entry.get('layers'))}"
            if cell["checkpoint"] != "final":
                where = where.replace(",", f" {cell['checkpoint']},", 1)
            found.setdefault((number, str(entry.get("reason", ""))), []).append(where)
    return [Reason(number, reason, where) for (number, reason), where in sorted(found.items())]


def parsed(text: Any, kind: type) -> Any:
    """Read a JSON column; what is missing or of another kind is empty."""
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    return value if isinstance(value, kind) else kind()


def _layers(layers: Any) -> str:
    numbers = [layer for layer in layers if isinstance(layer, int)] if isinstance(layers, list) else []
    if not numbers:
        return ""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
    return f", layer {text}" if len(numbers) == 1 else f", layers {text}"
