"""A study as a data set of the Hugging Face hub, and its numbers as a ``model-index`` for the cards of its models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from reporter import __version__
from reporter.analyses.registry import analyses
from reporter.metrics.registry import catalogue
from reporter.places import place
from reporter.store import Store
from reporter.store.schema import tables

_LAST = """
SELECT model, corpus, metric, statistic, layer, value, ci_low, ci_high, "view" FROM profiles
WHERE study = ? AND site = 'block' AND depth = 1 AND value IS NOT NULL ORDER BY ALL
"""


def hub(study: str, store: Store, folder: Path) -> None:
    """Write a data set's folder: a card, each table of the study as Parquet, and a ``model-index`` for each model.

    Args:
        study: its id.
        store: the database.
        folder: the folder to write; ``hf upload-large-folder`` or a git push publishes it, where somebody wants that.
    """
    folder.mkdir(parents=True, exist_ok=True)
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
    said = [f"# {row['title'] or study}", *([row["question"]] if row["question"] else [])]
    said += [f"Measured by `reporter` {__version__}; one file for each table of the study `{study}`."]
    if claims:
        said += ["## Claims", *(f"- {one['says']} **{one['verdict']}** {_number(one)}".rstrip() for one in claims)]
    said += ["## Tables", *(f"- `{name}`: {tables()[name].comment}" for name in written)]
    (folder / "README.md").write_text(f"---\n{_yaml(head)}---\n\n" + "\n\n".join(said) + "\n", "utf-8")
    for model, index in model_indices(study, store).items():
        name = re.sub(r"[^\w.-]+", "-", model).strip("-")
        (folder / f"model-index-{name}.yml").write_text(_yaml({"model-index": [index]}), "utf-8")


def model_indices(study: str, store: Store) -> dict[str, dict[str, Any]]:
    """Return, by model, an entry for ``model-index``: headline numbers at the last block, with their intervals."""
    known = catalogue() | analyses()
    found: dict[str, dict[str, Any]] = {}
    for row in store.records(_LAST, [study]):
        definition = known.get(row["metric"])
        statistics = {one.name: one for one in definition.statistics} if definition else {}
        if row["statistic"] not in statistics or not statistics[row["statistic"]].headline:
            continue
        entry = found.setdefault(row["model"], {"name": row["model"], "results": []})
        if not entry["results"] or entry["results"][-1]["dataset"]["name"] != row["corpus"]:
            entry["results"].append(
                {
                    "task": {"type": "feature-extraction", "name": "Geometry of hidden states"},
                    "dataset": {"name": row["corpus"], "type": row["corpus"]},
                    "metrics": [],
                }
            )
        statistic = statistics[row["statistic"]]
        title = f"{statistic.title}, {place(row['layer'], statistic.per == 'step')}, {row['view']}"
        number = {"type": f"{row['metric']}.{row['statistic']}", "name": title, "value": row["value"]}
        if row["ci_low"] is not None:
            number["args"] = {"ci_low": row["ci_low"], "ci_high": row["ci_high"]}
        entry["results"][-1]["metrics"].append(number)
    return found


def _parquet(study: str, store: Store, folder: Path) -> list[str]:
    import duckdb

    written = []
    with duckdb.connect() as connection:
        for name in tables():
            if name in ("schema_version", "studies", "cells", "corpus_texts"):  # of a machine, or somebody's texts
                continue
            frame = store.frame(f"SELECT * FROM {name} WHERE study = ?", [study])
            if len(frame):
                connection.register("found", frame.convert_dtypes())
                path = str(folder / f"{name}.parquet").replace("'", "''")
                connection.execute(f"COPY found TO '{path}' (FORMAT parquet)")
                written.append(name)
    return written


def _number(claim: dict[str, Any]) -> str:
    if claim["value"] is None:
        return ""
    low, high = claim["ci_low"], claim["ci_high"]
    return f"{claim['value']:.4g}" + ("" if low is None or high is None else f" [{low:.4g}, {high:.4g}]")


def _yaml(said: Any) -> str:
    text: str = yaml.safe_dump(said, sort_keys=False, allow_unicode=True, width=1000)
    return text
