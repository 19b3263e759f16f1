"""Trains the recipe models that are not in the cache, and keeps their checkpoints so that a kill leaves no half ones.

A checkpoint is written to a temporary folder and renamed when it is complete; the record of the training,
which makes checkpoints count, is written last. A training that was killed starts again from its seed: pocket
models train in seconds, and the same seed gives the same weights.
"""

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from reporter.errors import ReporterError
from reporter.locks import held
from reporter.models.local import quiet
from reporter.models.model_folder import tokenizer_files
from reporter.models.pocket_tokenizer import ensure_tokenizer
from reporter.models.recipe import with_record
from reporter.models.training_record import TrainingRecord, is_saved, read_record, step_folder, step_of, write_record
from reporter.seals import seal
from reporter.threads import go_on, single, spread

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint

_CURVE_POINTS = 100
_WIDE = 512  # below it a step's matrices are done before threads have met; with one the weights are any machine's


class Step(Protocol):
    """A step of known length, being shown."""

    def advance(self, amount: int) -> None:
        """Say that ``amount`` more units are done."""


class Progress(Protocol):
    """Where progress is shown."""

    def step(self, name: str, total: int, unit: str) -> AbstractContextManager[Step]:
        """Show one step while it runs."""

    def note(self, text: str) -> None:
        """Say one thing."""


def prepare_together(models: Sequence[Sequence[Checkpoint]], progress: Progress) -> None:
    """Train narrow models side by side, each with one thread, so that no core is idle.

    A model that cannot be trained is left for :func:`prepare` to say why, and so is one that continues another; wide
    ones use all cores by themselves. The weights are those of a training alone.

    Args:
        models: the checkpoints of each model, those that need no training among them.
        progress: where the trainings are shown, as one.
    """
    narrow = [of for of in models if of and trains_beside(of[0]) and _record(of) is None]
    if len(narrow) < 2:
        return
    steps = sum(max(_steps(of)) for of in narrow)
    with progress.step(f"training {', '.join(of[0].model for of in narrow)}", steps, "steps") as bar, quiet():
        shown = _Together(progress, bar, Lock())
        spread(lambda checkpoints: _attempt(checkpoints, shown), narrow)


@dataclass(frozen=True)
class _Together:
    """Shows several trainings as one step."""

    progress: Progress
    bar: Step
    lock: Lock

    @contextmanager
    def step(self, name: str, total: int, unit: str) -> Iterator[Step]:
        yield self

    def advance(self, amount: int) -> None:
        go_on()
        with self.lock:
            self.bar.advance(amount)

    def note(self, text: str) -> None:
        self.progress.note(text)


def trains_beside(checkpoint: Checkpoint) -> bool:
    """Tell whether a model is trained beside others: one core is enough for it, and it waits for no other model."""
    return checkpoint.recipe is not None and checkpoint.recipe.width < _WIDE and not checkpoint.origin


def _attempt(checkpoints: Sequence[Checkpoint], progress: Progress) -> None:
    with suppress(Exception):  # it comes again, where the model is asked for
        prepare(checkpoints, progress)


def prepare(checkpoints: Sequence[Checkpoint], progress: Progress) -> tuple[Checkpoint, ...]:
    """Train what must be trained, and return the checkpoints with their losses filled in.

    A model that continues another has that one trained first, with all of its checkpoints.

    Args:
        checkpoints: of one model; those that are not from a recipe come back as they are.
        progress: where the training is shown.

    Raises:
        ReporterError: if the texts cannot be trained on, the training diverges, or the cache cannot be
            written.
    """
    if not checkpoints or checkpoints[0].recipe is None:
        return tuple(checkpoints)
    first = checkpoints[0]
    assert first.path is not None and first.recipe is not None
    if (record := _record(checkpoints)) is None:
        prepare(first.origin, progress)
        try:
            first.path.mkdir(parents=True, exist_ok=True)
            with held(first.path.with_suffix(".lock"), f"training {first.model}", progress.note):
                record = _train(checkpoints, progress)
        except OSError as error:
            raise ReporterError(f"model '{first.model}': cannot write to {first.path}: {error.strerror}") from error
        except ReporterError as error:
            raise ReporterError(f"model '{first.model}': {error}") from error
    return tuple(with_record(checkpoint, record) for checkpoint in checkpoints)


def _record(checkpoints: Sequence[Checkpoint]) -> TrainingRecord | None:
    """Return the record of a recipe model's training; None where some of the checkpoints are not there."""
    path = checkpoints[0].path
    record = None if path is None else read_record(path)
    return record if record and _steps(checkpoints) <= record.losses.keys() else None


def _train(checkpoints: Sequence[Checkpoint], progress: Progress) -> TrainingRecord:
    first = checkpoints[0]
    texts = first.training_texts
    assert first.path is not None and first.recipe is not None and texts is not None
    before = read_record(first.path)
    wanted = _steps(checkpoints)
    if before is not None and wanted <= before.losses.keys():
        return before
    _remove_unfinished(first.path)
    tokenizer = ensure_tokenizer(first)
    from tokenizers import Tokenizer

    from reporter.models.pocket_training import Training

    began = time.perf_counter()
    training = Training(
        first.recipe,
        texts,
        tokenizer,
        Tokenizer.from_file(str(tokenizer / "tokenizer.json")).get_vocab_size(),
        first.origin[-1].folder if first.origin else None,
    )
    losses: dict[int, float] = {}
    train_losses: list[float] = []
    last = max(wanted)
    few = single() if first.recipe.width < _WIDE else nullcontext()
    with progress.step(f"training {first.model}", last, "steps") as bar, quiet(), few:
        for state in training.states(last):
            if state.train_loss is not None:
                train_losses.append(state.train_loss)
                bar.advance(1)
            if state.step in wanted:
                losses[state.step] = _finite(training.held_out_loss(state.model), state.step)
                _save(state.model, tokenizer, first.path / step_folder(state.step))
        versions = _versions()
    record = TrainingRecord(
        recipe=first.recipe.model_dump(mode="json"),
        texts=texts.hash,
        unigram_entropy=training.stream.entropy(),
        losses={**(before.losses if before else {}), **losses},
        curve=_curve(train_losses),
        training_tokens=len(training.stream.tokens),
        held_out_texts=training.held_out_texts,
        seconds=time.perf_counter() - began,
        versions=versions,
        unknown_share=training.stream.unknown_share(),
    )
    write_record(first.path, record)
    return record


def _steps(checkpoints: Sequence[Checkpoint]) -> set[int]:
    """Return the steps whose folders are needed: a random initialisation takes configuration and tokenizer from one."""
    return {step_of(c.subfolder) for c in checkpoints if c.subfolder}


def _save(model: Any, tokenizer: Path, folder: Path) -> None:
    if is_saved(folder):
        return  # from an earlier training of the same recipe, which may be measured at this moment
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix="unfinished-"))
    model.save_pretrained(temporary)
    for file in tokenizer_files(tokenizer):
        shutil.copyfile(file, temporary / file.name)
    seal(temporary)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.replace(folder)


def _remove_unfinished(folder: Path) -> None:
    for leftover in folder.glob("unfinished-*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _finite(loss: float, step: int) -> float:
    if not loss < float("inf"):
        raise ReporterError(f"the training diverged before step {step}: its loss is {loss}; lower the learning_rate")
    return loss


def _curve(losses: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Thin a loss per step out to at most ``_CURVE_POINTS`` means."""
    size = max(1, -(-len(losses) // _CURVE_POINTS))
    parts = [losses[i : i + size] for i in range(0, len(losses), size)]
    return tuple((min((i + 1) * size, len(losses)), sum(part) / len(part)) for i, part in enumerate(parts))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    import torch

    found = {name: version(name) for name in ("torch", "transformers", "tokenizers")}
    return {"python": platform.python_version(), **found, "threads": str(torch.get_num_threads())}
