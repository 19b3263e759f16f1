"""Results of a study for other people's tools: data frames, notebooks, trackers of experiments, the Hugging Face hub.

Everything is written to the disk of this machine; nothing is sent.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from reporter.core.confined import confined, quoted
from reporter.core.errors import UsageError, failing_as, hint, one_line
from reporter.core.imports import optional
from reporter.core.numbers import estimate
from reporter.core.outputs import replacing
from reporter.core.places import place, tag
from reporter.core.version import VERSION
from reporter.judge.facts import main_statistics
from reporter.store import Store
from reporter.store.rows import spec_of
from reporter.store.schema import tables

# A study as a data set of the Hugging Face hub, and its numbers as a ``model-index`` for the cards of its models.


_LAST = """
SELECT model, corpus, metric, statistic, layer, value, ci_low, ci_high, "view" FROM layers JOIN studies USING (study)
WHERE study = ? AND is_last AND "view" = json_extract_string(views, '$[0]') AND depth = 1 AND value IS NOT NULL
ORDER BY ALL
"""


def hub(study: str, store: Store, folder: Path) -> None:
    """Write a data set's folder: a card, each table of the study as Parquet, and a ``model-index`` for each model."""
    written = _parquet(study, store, folder)
    (row,) = store.records("SELECT title, question FROM studies WHERE study = ?", [study])
    head = {
        "pretty_name": row["title"] or study,
        "tags": ["interpretability", "hidden-states", "reporter"],
        "configs": [{"config_name": name, "data_files": f"{name}.parquet"} for name in written],
    }
    claims = store.records(
        "SELECT says, verdict, value, ci_low, ci_high FROM claims WHERE study = ? AND reading = 1 ORDER BY number",
        [study],
    )
    lines = [f"# {row['title'] or study}", *([row["question"]] if row["question"] else [])]
    lines += [f"Measured by `reporter` {VERSION}; one file for each table of the study `{study}`."]
    stated = [f"- {claim['says']} **{claim['verdict']}** {_number(claim)}".rstrip() for claim in claims]
    lines += ["## Claims", *stated] if claims else []
    lines += ["## Tables", *(f"- `{name}`: {tables()[name].comment}" for name in written)]
    (folder / "README.md").write_text(f"---\n{_yaml(head)}---\n\n" + "\n\n".join(lines) + "\n", "utf-8")
    for model, index in model_indices(study, store).items():
        name = re.sub(r"[^\w.-]+", "+", model).strip("+")  # no model of a study has a + in its name
        (folder / f"model-index-{name}.yml").write_text(_yaml({"model-index": [index]}), "utf-8")


def model_indices(study: str, store: Store) -> dict[str, dict[str, Any]]:
    """Return, by model, an entry for ``model-index``: main statistics at the last block, with their intervals."""
    by_name = main_statistics()
    indices: dict[str, dict[str, Any]] = {}
    for row in store.records(_LAST, [study]):
        if (statistic := by_name.get(name := f"{row['metric']}.{row['statistic']}")) is None:
            continue
        results = indices.setdefault(row["model"], {"name": row["model"], "results": []})["results"]
        if not results or results[-1]["dataset"]["name"] != row["corpus"]:
            task = {"type": "feature-extraction", "name": "Geometry of hidden states"}
            results.append({"task": task, "dataset": {"name": row["corpus"], "type": row["corpus"]}, "metrics": []})
        title = f"{statistic.title}, {place(row['layer'], statistic.per == 'step')}, {row['view']}"
        number = {"type": name, "name": title, "value": row["value"]}
        if row["ci_low"] is not None:
            number["args"] = {"ci_low": row["ci_low"], "ci_high": row["ci_high"]}
        results[-1]["metrics"].append(number)
    return indices


def _parquet(study: str, store: Store, folder: Path) -> list[str]:
    written = []
    with confined((), folder) as connection:
        for name, described in tables().items():
            if name in ("schema_version", "studies", "cells", "corpus_texts") or "begins" in described.types:
                continue  # of a machine, or somebody's texts
            frame = store.frame(f"SELECT * FROM {name} WHERE study = ?", [study])
            if len(frame):
                connection.register("found", frame.convert_dtypes())
                connection.execute(f"COPY found TO {quoted(str(folder / f'{name}.parquet'))} (FORMAT parquet)")
                written.append(name)
    return written


def _number(claim: dict[str, Any]) -> str:
    if claim["value"] is None:
        return ""
    return estimate(claim["value"], claim["ci_low"], claim["ci_high"])


def _yaml(content: Any) -> str:
    text: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)
    return text


# Main statistics as scalars over training, for TensorBoard, MLflow and Weights & Biases: a run is a model.


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
    """A number at a step of training."""

    run: str
    step: int
    tag: str
    value: float


def scalars(study: str, store: Store) -> Iterator[Scalar]:
    """Yield the main statistics of a study, by model and step."""
    by_name = main_statistics()
    for row in store.records(_NUMBERS, [study]):
        if row["name"] in by_name:
            step = by_name[row["name"]].per == "step"
            layer = [] if row["layer"] is None else [tag(row["layer"], step)]
            name = "/".join([row["corpus"], row["view"], row["name"], *layer])
            yield Scalar(row["model"], row["step"], re.sub(r"[^\w\-. /]", "_", name), row["value"])


def tensorboard(study: str, store: Store, folder: Path) -> None:
    """Write event files, a folder for each model: ``tensorboard --logdir FOLDER``."""
    optional("tensorboard", "tensorboard", "an event file")
    from torch.utils.tensorboard import SummaryWriter

    for model, of_model in groupby(scalars(study, store), key=lambda scalar: scalar.run):
        with SummaryWriter(str(folder / re.sub(r"[^\w\-. ()]", "_", model))) as writer:
            for scalar in of_model:
                writer.add_scalar(scalar.tag, scalar.value, scalar.step)


def mlflow(study: str, store: Store, folder: Path) -> None:
    """Write a file store with an experiment of that study: ``mlflow ui --backend-store-uri FOLDER``."""
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # else it wants a database, whose packages it has to bring
    entities = optional("mlflow.entities", "mlflow", "an MLflow store")
    tracking = optional("mlflow.tracking", "mlflow", "an MLflow store")
    client = tracking.MlflowClient(tracking_uri=folder.resolve().as_uri())
    artifacts = folder.resolve().parent / "artifacts"  # where the store will be, and not the new folder
    experiment = client.create_experiment(study, artifact_location=artifacts.as_uri())
    now = int(time.time() * 1000)
    for model, of_model in groupby(scalars(study, store), key=lambda scalar: scalar.run):
        run = client.create_run(experiment, run_name=model).info.run_id
        numbers = [entities.Metric(scalar.tag, scalar.value, now, scalar.step) for scalar in of_model]
        for first in range(0, len(numbers), 1000):  # as many as it takes at a time
            client.log_batch(run, metrics=numbers[first : first + 1000])
        client.set_terminated(run)


def wandb(study: str, store: Store, folder: Path) -> None:
    """Write offline runs; ``wandb sync FOLDER/wandb/offline-run-*`` sends them, where somebody wants that."""
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    tool = optional("wandb", "wandb", "a W&B run")
    settings = tool.Settings(silent=True, console="off", disable_git=True, save_code=False)
    for model, of_model in groupby(scalars(study, store), key=lambda scalar: scalar.run):
        run = tool.init(project=study, name=model, mode="offline", dir=str(folder), settings=settings)
        for step, at_step in groupby(of_model, key=lambda scalar: scalar.step):
            run.log({scalar.tag: scalar.value for scalar in at_step}, step=step)
        run.finish()
    if tool.run is None:
        tool.teardown()  # its helper process holds back what it has not written yet


# Sets of blocks to remove or to run twice, for mergekit: it copies blocks into a new model.


_EDITS = """WITH edits AS (
  SELECT study, model, checkpoint, item, 'without-' || many AS edit, blocks, false AS twice FROM block_answers
  UNION SELECT study, model, checkpoint, item, 'twice-' || twice, twice, true FROM block_answers WHERE twice IS NOT NULL
)
SELECT model, item, edit, blocks, twice, layers FROM edits JOIN models USING (study, model, checkpoint)
WHERE study = ? AND source IN ('hub', 'path') ORDER BY ALL"""


def mergekit(study: str, store: Store, folder: Path) -> None:
    """Write a configuration for each best set to leave out, and best repetition: ``mergekit-yaml FILE FOLDER``."""
    rows = store.records(_EDITS, [study])
    if not rows:
        raise UsageError(f"study '{study}' removed no block; add `skip:` and a model by `hub` or `path`")
    (stored,) = store.records("SELECT spec FROM studies WHERE study = ?", [study])
    models = spec_of(stored["spec"]).get("models", {})
    for row in rows:
        ends = [[int(end) for end in part.split("–")] for part in row["blocks"].split(", ")]
        # Numbered from 0, the end excluded: before the first removed block, between removed blocks, after the last one.
        starts, stops = [0, *(part[-1] for part in ends)], [*(part[0] - 1 for part in ends), row["layers"]]
        if row["twice"]:  # up to the last repeated block, then from the first one on
            starts, stops = [0, stops[0]], [starts[1], stops[1]]
        path = folder / row["model"] / f"{row['item']}-{re.sub(r'[^A-Za-z0-9]+', '-', row['edit'])}.yml"
        spec = models.get(row["model"])
        parts = (spec.get(key) for key in ("hub", "path", "adapter")) if isinstance(spec, dict) else (spec,)
        model = "+".join(str(part) for part in parts if part)
        slices = [[start, stop] for start, stop in zip(starts, stops, strict=True) if start < stop]
        sources = [{"sources": [{"model": model, "layer_range": blocks}]} for blocks in slices]
        config = _yaml({"slices": sources, "merge_method": "passthrough"})
        path.parent.mkdir(exist_ok=True)
        path.write_text(config, "utf-8")


TOOLS: Mapping[str, Callable[[str, Store, Path], Any]] = {
    "tensorboard": tensorboard,
    "mlflow": mlflow,
    "wandb": wandb,
    "huggingface": hub,
    "mergekit": mergekit,
}


def write_for(tool: str, study: str, out: Path, to: Path) -> Path:
    """Write a study for another tool into a folder of that tool's name, in place of what was written there before.

    Raises:
        UsageError: there is no such tool or study, its package is not installed, or the folder has files of others.
        ReporterError: the database cannot be read, or the folder cannot be written.
    """
    if tool not in TOOLS:
        raise UsageError(f"no tool '{one_line(tool)}'{hint(tool, list(TOOLS), 'tools')}")
    store = Store(out / "results.duckdb")
    store.require(study)
    with replacing(to, tool, alone=True) as fresh, failing_as(f"{to / tool} cannot be written"):
        TOOLS[tool](study, store, fresh)
    return to / tool
