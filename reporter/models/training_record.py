"""What is kept of a training: a folder for each checkpoint, and ``training.json`` with what was measured."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reporter.models.model_folder import CONFIG, WEIGHTS, tokenizer_files

RECORD = "training.json"


@dataclass(frozen=True)
class TrainingRecord:
    """What was measured while a recipe model was trained.

    Args:
        recipe: the recipe, as JSON values.
        texts: hash of the texts.
        unigram_entropy: of the tokens to be predicted, in nats.
        losses: step to loss on held-out texts, in nats per predicted token.
        curve: pairs of step and training loss, each a mean over the steps since the pair before.
        training_tokens: tokens of the training texts, special ones included.
        held_out_texts: texts that were not trained on.
        seconds: how long the training took.
        versions: of the libraries, and the number of threads: what else decides about the last digits.
        unknown_share: of the training tokens, those that the tokenizer does not know.
    """

    recipe: dict[str, Any]
    texts: str
    unigram_entropy: float
    losses: dict[int, float]
    curve: tuple[tuple[int, float], ...]
    training_tokens: int
    held_out_texts: int
    seconds: float
    versions: dict[str, str]
    unknown_share: float = 0.0


def step_folder(step: int) -> str:
    """Return the name of the folder that holds the model after ``step`` steps."""
    return f"step-{step:06d}"


def step_of(folder: str) -> int:
    """Return the number of steps in the name of a checkpoint's folder."""
    return int(folder.removeprefix("step-"))


def is_saved(folder: Path) -> bool:
    """Tell whether a checkpoint's folder holds a model with its tokenizer."""
    return all((folder / name).is_file() for name in (CONFIG, WEIGHTS)) and bool(tokenizer_files(folder))


def read_record(folder: Path) -> TrainingRecord | None:
    """Return the record of a training, with the losses of those checkpoints alone that are there; None without one."""
    try:
        content = json.loads((folder / RECORD).read_text("utf-8"))
        losses = {int(step): float(loss) for step, loss in content.pop("losses").items()}
        curve = tuple((int(step), float(loss)) for step, loss in content.pop("curve"))
        there = {step: loss for step, loss in losses.items() if is_saved(folder / step_folder(step))}
        return TrainingRecord(losses=there, curve=curve, **content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_record(folder: Path, record: TrainingRecord) -> None:
    """Write the record in one go, last of all: what it names is complete."""
    temporary = folder / f"{RECORD}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(asdict(record), indent=1), "utf-8")
    temporary.replace(folder / RECORD)
