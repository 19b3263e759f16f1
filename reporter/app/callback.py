"""Watches a training: a callback for ``transformers.Trainer`` that measures every checkpoint that is saved.

::

    from reporter.app.callback import MeasureCheckpoints

    trainer = Trainer(..., processing_class=tokenizer, callbacks=[MeasureCheckpoints("study.yaml")])

Each saved folder is measured as ``reporter run`` would measure it, the report is written again, and main statistics go
to the trackers that the training reports to.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import TrainerCallback

from reporter.app.results import DATABASE, Results
from reporter.app.results import run as run_study
from reporter.core.errors import describe
from reporter.core.table import FREE, LAST_CHECKPOINT
from reporter.judge.facts import declared
from reporter.runs.studies import read_study, study_of
from reporter.store import Store

if TYPE_CHECKING:
    from reporter.study.study import StudyFile

_log = logging.getLogger(__name__)
_SAVED = re.compile(r"checkpoint-(\d+)")
# Of the model's last checkpoint, under the study's first view; of a number of every layer the mean over depth.
_SCALARS = f"""
SELECT corpus, metric || '.' || statistic AS name, avg(value ORDER BY layer) AS value
FROM layer_metrics AS l JOIN studies USING (study)
WHERE study = $study AND model = $model AND value IS NOT NULL AND {FREE}
    AND (site IS NULL OR site IN ('embedding', 'block'))
    AND l."view" = studies."views"->>0
    AND {LAST_CHECKPOINT}
GROUP BY ALL ORDER BY ALL
"""


class MeasureCheckpoints(TrainerCallback):  # type: ignore[misc]
    """Measures each checkpoint into the database of a study, from the folder that was saved.

    The folder needs the tokenizer beside the weights: give it to the ``Trainer`` as ``processing_class``. What fails
    here is logged once and never ends the training, and the training's random numbers are those that it would have had.
    Where several processes train, the first one measures while the others wait at their next step.

    Args:
        study: a YAML file, or what such a file says; it may name further models to compare with, or none.
        out: the results folder.
        model: what the study calls the model that is trained.
    """

    def __init__(
        self, study: str | Path | Mapping[str, Any], out: str | Path = "results", model: str = "trained"
    ) -> None:
        self._study, self._out, self._model = study, Path(out), model
        self._measured: set[str] = set()
        self._said: set[str] = set()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Measure what was just saved; called by the Trainer."""
        if not state.is_world_process_zero:
            return
        try:
            with _same_random_numbers():
                results = self._measure(Path(args.output_dir))
            _track(scalars(results, self._model), state.global_step, args)
        except Exception as error:
            self._say(f"checkpoint {state.global_step} was not measured: {describe(error)}")

    def _measure(self, folder: Path) -> Results:
        saved = {path.name: int(match[1]) for path in folder.iterdir() if (match := _SAVED.fullmatch(path.name))}
        steps = sorted(saved, key=lambda name: saved[name])
        gone = self._measured - saved.keys()  # the Trainer keeps so many (save_total_limit); their numbers stay
        file = self._file(folder.absolute(), {name: saved[name] for name in steps})
        results = run_study(file, self._out, only=[self._model] if gone else (), offline=True)
        self._measured |= saved.keys()
        where = {"study": file.study.study, "model": self._model}
        failed = "SELECT error FROM cells WHERE study = $study AND model = $model AND status = 'failed' LIMIT 1"
        for row in Store(self._out / DATABASE).records(failed, where):
            self._say(f"some cells failed: {row['error']}")
        return results

    def _file(self, folder: Path, checkpoints: Mapping[str, int]) -> StudyFile:
        named = [{"folder": name, "step": step} for name, step in checkpoints.items()]
        trained = {"path": str(folder), "checkpoints": named}
        if isinstance(self._study, Mapping):
            return study_of({**self._study, "models": {**self._study.get("models", {}), self._model: trained}})
        return read_study(Path(self._study), [f"models.{self._model}={json.dumps(trained)}"])

    def _say(self, text: str) -> None:
        reason = text.partition(": ")[2]
        if reason not in self._said:
            self._said.add(reason)
            _log.warning("reporter: %s", text)


def scalars(results: Results, model: str = "trained") -> dict[str, float]:
    """Return the main statistics of a model's last checkpoint, by ``CORPUS/METRIC.STATISTIC``.

    Args:
        results: the results of a study.
        model: its name there.
    """
    main = {name for name, (_, statistic) in declared().items() if statistic.main}
    (study,) = results.ids
    rows = Store(results.folder / DATABASE).records(_SCALARS, {"study": study, "model": model})
    return {f"{row['corpus']}/{row['name']}": row["value"] for row in rows if row["name"] in main}


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Leave all generators as they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 (others' generator)
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002


def _track(numbers: Mapping[str, float], step: int, args: Any) -> None:
    """Log scalars with the trackers that the training reports to."""
    named = {f"reporter/{name}": value for name, value in numbers.items()}
    if "wandb" in args.report_to:
        import wandb

        if wandb.run is not None:  # the Trainer's own callback begins it
            wandb.log({**named, "train/global_step": step})
    if "mlflow" in args.report_to:
        import mlflow

        if mlflow.active_run() is not None:
            mlflow.log_metrics({re.sub(r"[^\w./ -]", "_", name): value for name, value in named.items()}, step=step)
    if "tensorboard" in args.report_to:
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(Path(args.output_dir) / "runs" / "reporter")) as writer:
            for name, value in named.items():
                writer.add_scalar(name, value, step)
