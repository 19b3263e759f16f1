"""What identifies a recipe model before it is trained, and where its training keeps things."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reporter.models.checkpoint import FINAL, Checkpoint
from reporter.models.model_folder import fingerprint
from reporter.models.training_record import TrainingRecord, read_record, step_folder
from reporter.spec.recipes import Tuning

if TYPE_CHECKING:
    from reporter.spec.recipes import Recipe
    from reporter.texts.texts import Texts

VERSION = 2  # raise it when the same recipe would give other weights or another tokenizer

UNKNOWN = 0.05  # of the training tokens: more of them than that, and a model learns to predict "unknown"
PLATEAU = 0.9  # of the unigram entropy: a loss above it says that little more than frequencies was learned


def resolve_recipe(
    name: str, said: Recipe | Tuning, cache: Path, texts: Texts, origin: tuple[Checkpoint, ...] = ()
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a recipe model, trained or not.

    The fingerprint covers the recipe, the texts it is trained on, the version of the code that trains and the
    checkpoint that it begins at, but not which steps are kept: asking for one more checkpoint leaves the others what
    they were. Nor does it cover the version of torch, which is recorded with the training instead.

    Args:
        name: what the study calls the model.
        said: how it is made.
        cache: the folder of caches.
        texts: what it is trained on.
        origin: the checkpoints of the model that it continues, if it does.
    """
    recipe, location, begins = _in_full(said, origin)
    decides = recipe.model_dump(mode="json", exclude={"checkpoints", "train_on"})
    training = fingerprint({"recipe": decides, "texts": texts.hash, "code": VERSION} | begins)
    folder = cache / "models" / training
    record = read_record(folder)
    return tuple(
        with_record(
            Checkpoint(
                model=name,
                name=f"step-{step}" if len(recipe.checkpoints) > 1 else FINAL,
                step=step,
                source="recipe",
                location=f"{location} {texts.name}",
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
                origin=origin,
            ),
            record,
        )
        for step in recipe.checkpoints
    )


def _in_full(said: Recipe | Tuning, origin: tuple[Checkpoint, ...]) -> tuple[Recipe, str, dict[str, str]]:
    """Return the recipe in full, how to say where the weights come from, and what else identifies them."""
    if not isinstance(said, Tuning):
        return said, f"{said.architecture} trained on", {}
    start = origin[-1]
    assert start.recipe is not None
    return said.after(start.recipe), f"{start.location}, then on", {"begins": start.fingerprint}


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
        warning=_warning(checkpoint, loss, record),
    )


def _warning(checkpoint: Checkpoint, loss: float, record: TrainingRecord) -> str:
    recipe, entropy, unknown = checkpoint.recipe, record.unigram_entropy, record.unknown_share
    warnings = []
    if recipe is not None and checkpoint.step == recipe.steps > 0 and loss > PLATEAU * entropy:
        warnings.append(
            f"stayed on the unigram plateau: the loss after training is {loss:.2f}, and knowing only how often each "
            f"token occurs gives {entropy:.2f}; the states say little. More steps, or more texts, would help"
        )
    if unknown > UNKNOWN:
        warnings.append(
            f"{100 * unknown:.0f} % of the tokens of the training texts are unknown to the tokenizer, which is that of "
            "the model that is continued; train on texts with the same words"
        )
    return "; ".join(warnings)
