"""Joins results folders, and computes again what is said of a study as a whole: means, claims, findings, answers."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from math import sqrt
from pathlib import Path

import numpy as np

from reporter.core.errors import ReporterError, UsageError, describe
from reporter.core.progress import Progress
from reporter.core.table import FREE
from reporter.geometry.intervals import quantile
from reporter.judge.questions.models import write_correlations
from reporter.runs.judged import judge_claims, write_answers, write_findings
from reporter.runs.studies import study_of_text
from reporter.spec import Study
from reporter.store import Store
from reporter.store.merging import DATABASE, Merged, merge_databases

_MODELS = """
SELECT model, checkpoint, weights, same_weights FROM models
WHERE study = $study AND baseline IS NULL ORDER BY model, position
"""
_KEY = ("study", "model", "checkpoint")


def number_checkpoints(store: Store, study: Study) -> None:
    """Store the position of each checkpoint in the study's list, after those that it no longer names.

    A checkpoint that a training deleted keeps its numbers, and merged folders may each have a part.
    """
    rows = store.records(
        "SELECT study, model, checkpoint, position, is_last FROM models WHERE study = $study "
        "ORDER BY model, step NULLS LAST, position",
        {"study": study.study},
    )
    numbered = []
    for model, of_model in groupby(rows, key=lambda row: row["model"]):
        names = [checkpoint.name for checkpoint in getattr(study.models.get(model), "checkpoints", ())]
        ordered = sorted(of_model, key=lambda row: names.index(row["checkpoint"]) if row["checkpoint"] in names else -1)
        numbered += [row | {"position": n, "is_last": row is ordered[-1]} for n, row in enumerate(ordered, 1)]
    if numbered != rows:
        store.put_all("models", _KEY, numbered)


def write_same_weights(store: Store, study: str) -> list[str]:
    """Store which checkpoints of a series share weights with another one; return a sentence for each of them."""
    changed, sentences = [], []
    for model, of_model in groupby(store.records(_MODELS, {"study": study}), key=lambda row: row["model"]):
        rows = list(of_model)
        same = same_weights({row["checkpoint"]: json.loads(row["weights"]) for row in rows if row["weights"]})
        sentences += [f"model '{model}', checkpoint '{name}': {text}" for name, text in same.items()]
        for row in rows:
            text = same.get(row["checkpoint"])
            if row["same_weights"] != text:
                key = {"study": study, "model": model, "checkpoint": row["checkpoint"]}
                changed.append({**key, "same_weights": text})
    store.put_all("models", _KEY, changed)
    return sentences


def same_weights(series: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return a sentence for each checkpoint that has all weights of an earlier one, or some of its blocks.

    Equal embeddings, norms or heads are no news: they may be frozen. Neither are blocks that are equal in all of three
    checkpoints or more; of two checkpoints alone this cannot be known, so their equal blocks are reported.

    Args:
        series: by checkpoint, in order of training, the hash of each group of weights (``reporter.models.load``).
    """
    names = [name for name, groups in series.items() if groups]
    blocks = {group for name in names for group in series[name] if group.isdigit()}
    moving = {block for block in blocks if len({series[name].get(block) for name in names}) > 1}
    compared = moving if len(names) > 2 else blocks
    sentences: dict[str, str] = {}
    for position, name in enumerate(names):
        groups, earlier = series[name], names[:position]
        if same := [other for other in earlier if series[other] == groups]:
            sentences[name] = f"all of its weights are, byte for byte, those of {_quoted(same)}"
            continue
        shared = {
            other: [block for block in sorted(blocks, key=int) if groups.get(block, "") == series[other].get(block)]
            for other in earlier
        }
        best = max(shared, key=lambda other: len(compared.intersection(shared[other])), default=None)
        if best is None or not compared.intersection(shared[best]) or len(shared[best]) == len(blocks):
            continue
        where = "blocks" if len(shared[best]) > 1 else "block"
        sentences[name] = (
            f"{where} {_ranges([int(block) for block in shared[best]])} of {len(blocks)} are, byte for byte, those of "
            f"{_quoted([best])}, while the others differ: layers were frozen between the two, or files were mixed up"
        )
    return sentences


def _ranges(numbers: Sequence[int]) -> str:
    parts = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        parts.append(f"{values[0]}–{values[-1]}" if len(values) > 1 else str(values[0]))
    return ", ".join(parts)


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


FEWEST_MODELS = 2  # one is no mean
FEWEST_SPREAD = 3  # with two, Student's t has one degree of freedom: the interval would be 12.7 standard errors wide
_KEY_OVER_MODELS = ("role", "step", "corpus", "view", "metric", "statistic", "site", "layer")
_COLUMNS = (*_KEY_OVER_MODELS, "models", "value", "ci_low", "ci_high")
# Null baselines are no models of a role. Means over layers are over the embedding and the blocks, as profiles show.
# A value that is fixed by definition takes no part in any mean.
_OF_MODELS = f"""
WITH own AS (
    FROM layer_metrics WHERE study = $study AND value IS NOT NULL AND {FREE}
    AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
), known AS (
    SELECT model, models.checkpoint AS last, count(DISTINCT own.step) > 1 AS trained
    FROM own JOIN models USING (study, model) WHERE is_last GROUP BY ALL
), each AS (
    SELECT model, checkpoint, {", ".join(_KEY_OVER_MODELS)}, value, ci_low, ci_high FROM own
    UNION ALL BY NAME
    SELECT model, checkpoint, role, step, corpus, view, metric, statistic, avg(value ORDER BY layer) AS value,
        if(count(ci_low) = count(value), avg(ci_low ORDER BY layer), NULL) AS ci_low,
        if(count(ci_high) = count(value), avg(ci_high ORDER BY layer), NULL) AS ci_high
    FROM own WHERE site IN ('embedding', 'block') AND layer IS NOT NULL GROUP BY ALL
)
SELECT {", ".join(_KEY_OVER_MODELS)}, list(value ORDER BY model) AS values, list(ci_low ORDER BY model) AS lows,
    list(ci_high ORDER BY model) AS highs
FROM (
    SELECT * FROM each JOIN known USING (model) WHERE trained AND step IS NOT NULL
    UNION ALL BY NAME
    SELECT * EXCLUDE (step) FROM each JOIN known USING (model) WHERE checkpoint = last
) WHERE role IS NOT NULL GROUP BY ALL HAVING count(*) >= {FEWEST_MODELS} ORDER BY {", ".join(_KEY_OVER_MODELS)}
"""
_STORED = f"SELECT {', '.join(_COLUMNS)} FROM over_models WHERE study = $study ORDER BY {', '.join(_KEY_OVER_MODELS)}"


def write_over_models(store: Store, study: str) -> int:
    """Store the mean of every number over the models of a role, where two or more have it; return how many are new.

    Models with several checkpoints are compared at each training step, and all models at their last checkpoint. The
    interval is mean ± t(0.975, M − 1) · s/√M for M models, s their standard deviation (Student 1908, "The probable
    error of a mean", Biometrika 6). Two models say nothing about others: their interval is over texts and about these
    two alone. Its ends are the means of theirs, as for fully correlated errors, so it is never too narrow; NULL where
    one of them has none.
    """
    each, stored = (
        [tuple(row.values()) for row in store.records(sql, {"study": study})] for sql in (_OF_MODELS, _STORED)
    )
    rows = [
        dict(zip(_COLUMNS, (*key, len(values), *_interval(values, lows, highs)), strict=True))
        for *key, values, lows, highs in each
    ]
    if [tuple(row.values()) for row in rows] == stored:
        return 0
    store.replace("over_models", study, rows)
    return len(rows)


_Ends = list[float | None]  # of intervals; None where a number has none


def _interval(values: list[float], lows: _Ends, highs: _Ends) -> tuple[float, float | None, float | None]:
    mean = float(np.mean(values))
    if len(values) < FEWEST_SPREAD:
        ends = [end for end in (*lows, *highs) if end is not None]
        if len(ends) < 2 * len(values):
            return mean, None, None
        return mean, float(np.mean(ends[: len(values)])), float(np.mean(ends[len(values) :]))
    half = quantile(0.975, len(values) - 1) * float(np.std(values, ddof=1)) / sqrt(len(values))
    return mean, mean - half, mean + half


_LOOK = "look"  # a study's own templates and stylesheet, beside its pages


def merge(out: Path, folders: Sequence[Path], prefer: Path | None = None, progress: Progress | None = None) -> Merged:
    """Write a results folder with every cell of several others, once; with undecided conflicts nothing is written.

    Args:
        out: the folder to write; its database appears when it is complete.
        folders: results folders; nothing is written into them.
        prefer: the folder that is taken where two contradict each other.
        progress: where the new claims and findings are shown; standard error by default.

    Raises:
        UsageError: the folder holds results already, or one that is to be merged holds none or is named twice.
        ReporterError: a file cannot be read or written, or a newer reporter wrote it.
    """
    target = out / DATABASE
    if target.exists():
        raise UsageError(f"{target} is there already; merge into a new folder")
    progress = progress or Progress()
    made = not out.exists()
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".merging-", dir=out) as folder:
            draft = Path(folder) / DATABASE
            merged = merge_databases(draft, [path / DATABASE for path in folders], prefer and prefer / DATABASE)
            if not merged.undecided:
                for study in merged.joined:
                    _derive(Store(draft), study, progress)
                for study, database in merged.studies.items():
                    if (look := database.parent / study / _LOOK).is_dir():
                        shutil.copytree(look, out / study / _LOOK, dirs_exist_ok=True)
                _place(draft, target)
        return merged
    except OSError as problem:
        raise ReporterError(f"{target} cannot be written: {problem.strerror or repr(problem)}") from problem
    finally:
        if made:
            with suppress(OSError):  # it is not empty: all is well
                out.rmdir()


def _derive(store: Store, study: str, progress: Progress) -> None:
    """Compute what depends on all numbers of a study; what fails is left empty and reported."""
    [row] = store.records("SELECT spec FROM studies WHERE study = $study", {"study": study})
    try:
        spec = study_of_text(row["spec"]).study
        number_checkpoints(store, spec)
    except ReporterError as error:
        why = describe(error).partition("\n")[0]
        progress.note(f"{study}: claims and findings wait for the next `reporter run`, its text cannot be read: {why}")
        spec = None
    for sentence in write_same_weights(store, study):
        progress.note(f"  {sentence}")
    write_correlations(store, study)
    write_over_models(store, study)
    if spec is not None:
        judge_claims(spec, store, progress)
    write_answers(store, study, progress)
    if spec is not None:
        write_findings(spec, store, progress)


def _place(draft: Path, target: Path) -> None:
    try:
        os.link(draft, target)
    except FileExistsError:
        raise UsageError(f"{target} is there already; merge into a new folder") from None
    except OSError:  # a file system without hard links
        draft.rename(target)
