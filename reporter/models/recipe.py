"""What identifies a recipe model before it is trained, and where its training keeps things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reporter.models.checkpoint import FINAL, Checkpoint
from reporter.models.file_hashes import fingerprint
from reporter.models.training_record import TrainingRecord, read_record, step_folder

if TYPE_CHECKING:
    from reporter.spec.models import Recipe
    from reporter.texts.texts import Texts

VERSION = 2  # raise it when the same recipe would give other weights or another tokenizer

PLATEAU = 0.9  # of the unigram entropy: a loss above it says that little more than frequencies was learned


def resolve_recipe(name: str, recipe: Recipe, cache: Path, texts: Texts) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a recipe model, trained or not.

    The fingerprint covers the recipe, the texts it is trained on and the version of the code that trains, but
    not which steps are kept: asking for one more checkpoint leaves the others what they were. Nor does it
    cover the version of torch, which is recorded with the training instead.

    Args:
        name: what the study calls the model.
        recipe: how it is made.
        cache: the folder of caches.
        texts: what it is trained on.
    """
    said = recipe.model_dump(mode="json", exclude={"checkpoints", "train_on"})
    training = fingerprint({"recipe": said, "texts": texts.hash, "code": VERSION})
    folder = cache / "models" / training
    record = read_record(folder)
    return tuple(
        with_record(
            Checkpoint(
                model=name,
                name=f"step-{step}" if len(recipe.checkpoints) > 1 else FINAL,
                step=step,
                source="recipe",
                location=f"{recipe.architecture} trained on {texts.name}",
                path=folder,
                hub=None,
                revision=training,
                subfolder=step_folder(step),
                dtype="float32",
                trust_remote_code=False,
                allow_pickle=False,
                fingerprint=fingerprint({"training": training, "step": step}),
                recipe=recipe,
                training_texts=texts,
            ),
            record,
        )
        for step in recipe.checkpoints
    )


def with_record(checkpoint: Checkpoint, record: TrainingRecord | None) -> Checkpoint:
    """Return the checkpoint with what its training measured, if it was trained."""
    from dataclasses import replace

    if record is None or checkpoint.step is None or checkpoint.step not in record.losses:
        return checkpoint
    loss = record.losses[checkpoint.step]
    return replace(
        checkpoint,
        loss=loss,
        unigram_entropy=record.unigram_entropy,
        warning=_warning(checkpoint, loss, record.unigram_entropy),
    )


def _warning(checkpoint: Checkpoint, loss: float, entropy: float) -> str:
    recipe = checkpoint.recipe
    finished = recipe is not None and checkpoint.step == recipe.steps > 0
    if not finished or loss <= PLATEAU * entropy:
        return ""
    return (
        f"stayed on the unigram plateau: its loss after training is {loss:.2f}, and knowing only how often each token "
        f"occurs gives {entropy:.2f}; its states say little. Give it more steps, or more texts"
    )
