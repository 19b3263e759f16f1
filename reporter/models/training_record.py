"""What is kept of a training: a folder for each checkpoint, and ``training.json`` with what was measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reporter.seals import found_intact, is_damaged, read_note, set_aside, write_note

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
    """Tell whether a checkpoint's folder holds what was saved there; one that does not is set aside."""
    return found_intact(folder, "it is trained once more")


def read_record(folder: Path) -> TrainingRecord | None:
    """Return the record of a training, with the losses of those checkpoints alone that are there; None without one."""
    if is_damaged(folder / RECORD):
        set_aside(folder / RECORD, "what it names is trained once more")
    content = read_note(folder / RECORD)
    if content is None:
        return None
    try:
        losses = {int(step): float(loss) for step, loss in content.pop("losses").items()}
        curve = tuple((int(step), float(loss)) for step, loss in content.pop("curve"))
        there = {step: loss for step, loss in losses.items() if is_saved(folder / step_folder(step))}
        return TrainingRecord(losses=there, curve=curve, **content)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write_record(folder: Path, record: TrainingRecord) -> None:
    """Write the record in one go, last of all: what it names is complete."""
    write_note(folder / RECORD, asdict(record))
