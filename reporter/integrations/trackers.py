"""Headline numbers as scalars over training, for TensorBoard, MLflow and Weights & Biases: a run is a model."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from reporter.analyses.registry import analyses
from reporter.imports import optional
from reporter.metrics.registry import catalogue
from reporter.places import tag
from reporter.store import Store

_NUMBERS = """
SELECT model, m.step AS step, corpus, "view", metric || '.' || statistic AS name, layer, value
FROM layer_metrics JOIN (
  SELECT study, model, checkpoint, if(bool_and(step IS NOT NULL) OVER (PARTITION BY study, model), step, position - 1)
    AS step FROM models
) AS m USING (study, model, checkpoint)
WHERE study = ? AND value IS NOT NULL AND (site IS NULL OR site IN ('embedding', 'block'))
ORDER BY model, step, corpus, "view", name, layer
"""


@dataclass(frozen=True)
class Scalar:
    """A number at a step of training.

    Args:
        run: the model.
        step: of training; the checkpoint's place in the study's list, from 0, where the step of one is not known.
        tag: corpus, view, full name and layer, between slashes.
        value: the number.
    """

    run: str
    step: int
    tag: str
    value: float


def scalars(study: str, store: Store) -> Iterator[Scalar]:
    """Yield the headline numbers of a study, by model and step."""
    definitions = (catalogue() | analyses()).values()
    headlines = {f"{one.name}.{own.name}": own for one in definitions for own in one.statistics if own.headline}
    for row in store.records(_NUMBERS, [study]):
        if row["name"] in headlines:
            step = headlines[row["name"]].per == "step"
            layer = [] if row["layer"] is None else [tag(row["layer"], step)]
            name = "/".join([row["corpus"], row["view"], row["name"], *layer])
            yield Scalar(row["model"], row["step"], re.sub(r"[^\w\-. /]", "_", name), row["value"])


def tensorboard(study: str, store: Store, folder: Path) -> None:
    """Write event files, a folder for each model: ``tensorboard --logdir FOLDER``."""
    optional("tensorboard", "tensorboard", "an event file")
    from torch.utils.tensorboard import SummaryWriter

    for model, found in groupby(scalars(study, store), key=lambda one: one.run):
        with SummaryWriter(str(folder / re.sub(r"[^\w\-. ()]", "_", model))) as writer:
            for one in found:
                writer.add_scalar(one.tag, one.value, one.step)


def mlflow(study: str, store: Store, folder: Path) -> None:
    """Write a file store with an experiment of that study: ``mlflow ui --backend-store-uri FOLDER``."""
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # else it wants a database, whose packages it has to bring
    entities = optional("mlflow.entities", "mlflow", "an MLflow store")
    client = optional("mlflow.tracking", "mlflow", "an MLflow store").MlflowClient(
        tracking_uri=folder.resolve().as_uri()
    )
    experiment = client.create_experiment(study)
    now = int(time.time() * 1000)
    for model, found in groupby(scalars(study, store), key=lambda one: one.run):
        run = client.create_run(experiment, run_name=model).info.run_id
        numbers = [entities.Metric(one.tag, one.value, now, one.step) for one in found]
        for first in range(0, len(numbers), 1000):  # as many as it takes at a time
            client.log_batch(run, metrics=numbers[first : first + 1000])
        client.set_terminated(run)


def wandb(study: str, store: Store, folder: Path) -> None:
    """Write offline runs; ``wandb sync FOLDER/wandb/offline-run-*`` sends them, where somebody wants that."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    tool = optional("wandb", "wandb", "a W&B run")
    folder.mkdir(parents=True, exist_ok=True)
    settings = tool.Settings(silent=True, console="off", disable_git=True, save_code=False)
    for model, found in groupby(scalars(study, store), key=lambda one: one.run):
        run = tool.init(project=study, name=model, mode="offline", dir=str(folder), settings=settings)
        for step, at_step in groupby(found, key=lambda one: one.step):
            run.log({one.tag: one.value for one in at_step}, step=step)
        run.finish()
    if tool.run is None:
        tool.teardown()  # its helper process holds back what it has not written yet


TRACKERS: Mapping[str, Callable[[str, Store, Path], Any]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
}
