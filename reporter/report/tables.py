"""Rows of the tables of a page: models, corpora with their texts and sinks, cells, and what is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.charts.chart import Read, filled
from reporter.core.errors import shortened
from reporter.core.json_text import parse_json
from reporter.core.numbers import counted, is_null, short, whole
from reporter.core.places import capital, listed, ranges
from reporter.geometry.intervals import VERDICT_TEXTS
from reporter.models.checkpoint import UNLEARNED
from reporter.store.formats import csv_field, csv_line
from reporter.store.rows import spec_of

if TYPE_CHECKING:
    import pandas as pd

# The named queries behind the pages; those of charts stand with their charts. The text that runs is shown.


STATISTICS = """
SELECT metric, statistic, count(layer) AS layers, count(value) AS n
FROM layer_metrics WHERE study = $study GROUP BY metric, statistic ORDER BY metric, statistic
"""

CHECKPOINTS = """
SELECT model, role, checkpoint, step, position FROM models
WHERE study = $study AND status = 'done' ORDER BY role, model, position
"""

STUDIES = "SELECT * FROM studies ORDER BY study"
MODELS = "SELECT * FROM models WHERE study = $study ORDER BY role DESC NULLS LAST, model, position"
CORPORA = "SELECT * FROM corpora WHERE study = $study ORDER BY corpus"
CORPUS_TEXTS = "SELECT * FROM corpus_texts WHERE study = $study ORDER BY corpus, number"
CUT_TEXTS = """
SELECT corpus, model, max(cut_texts) AS cut, max(texts) AS texts, any_value(max_tokens) AS own,
       max((inputs->>'max_tokens')::BIGINT) AS asked
FROM cells JOIN models USING (study, model, checkpoint)
WHERE study = $study AND cells.status = 'done' AND baseline IS NULL
      AND corpus IN (SELECT corpus FROM corpora WHERE study = $study)
GROUP BY ALL ORDER BY cut DESC, model
"""
CELLS = """
SELECT * FROM cells WHERE study = $study
ORDER BY status = 'failed' DESC, model, checkpoint, corpus, metric
"""
CORPUS_NAMES = """
SELECT DISTINCT corpus, metric FROM layer_metrics WHERE study = $study
UNION SELECT corpus, metric FROM layer_pairs WHERE study = $study ORDER BY corpus, metric
"""
SITES = "SELECT DISTINCT site FROM layer_metrics WHERE study = $study AND site IS NOT NULL ORDER BY site"
BESIDES = """
SELECT 'layer_pairs' AS name, metric FROM layer_pairs WHERE study = $study GROUP BY metric
UNION ALL SELECT 'differences', metric FROM differences WHERE study = $study AND layer IS NOT NULL GROUP BY metric
UNION ALL SELECT 'layer_pairs_of_base', metric FROM layer_pairs WHERE study = $study AND EXISTS (
  FROM models AS m WHERE m.study = $study AND m.baseline IS NULL
  AND (m.model, m.base) IN ((model_a, model_b), (model_b, model_a))) GROUP BY metric
UNION ALL SELECT 'differences_of_models', metric FROM differences WHERE study = $study AND layer IS NULL GROUP BY metric
UNION ALL SELECT 'correlations', metric FROM correlations WHERE study = $study GROUP BY metric
ORDER BY metric, name
"""
VIEW_NAMES = """
SELECT view FROM layer_metrics WHERE study = $study UNION SELECT view FROM layer_pairs WHERE study = $study
ORDER BY view
"""
SAID_CLAIMS = """
SELECT says, verdict, view, detail->>'reason' AS reason
FROM claims WHERE study = $study AND baseline IS NULL ORDER BY number, claim, reading
"""
SAID_FINDINGS = "SELECT says FROM findings WHERE study = $study ORDER BY rank"


Row = dict[str, Any]


def figure_link(figure: str, *views: str | None) -> str:
    """Return the address of a figure, opened with a token set or with both."""
    page = "training" if figure.endswith(".training") else "layers"
    named = [view for view in views if view]
    view = "" if not named else f"&view={named[0] if len(named) == 1 else 'both'}"
    return f"{page}.html?figure={figure}{view}"


MOST_METRICS = 4
"""The most metrics that are named beside an error; more are counted."""
MOST_CELLS = 400
"""Rows of the table of cells; a study of many checkpoints has thousands, and its CSV has them all."""


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Return a frame as rows in which NULL is None."""
    records = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in record.items()} for record in records]


def read_rows(read: Read, query: str, study: str) -> list[Row]:
    """Return the rows of a query whose only parameter is the study."""
    return rows_of(read(filled(query, study=study)))


_TOGETHER = 10_000


def write_csv(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame as CSV, some rows at a time: as texts they take much memory."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(csv_line(csv_field(str(column)) for column in frame) + "\n")
        for start in range(0, len(frame), _TOGETHER):
            columns = (_csv_fields(column) for _, column in frame.iloc[start : start + _TOGETHER].items())
            file.writelines(csv_line(row) + "\n" for row in zip(*columns, strict=True))


def _csv_fields(column: pd.Series[Any]) -> list[str]:
    """Return a column as fields of a CSV; pandas takes three times as long."""
    values: list[Any] = column.tolist()
    if column.dtype == float:
        return ["" if value != value else repr(value) for value in values]
    if column.dtype == object:
        return [csv_field(None if null else value) for value, null in zip(values, column.isna().tolist(), strict=True)]
    fields = {value: csv_field(None if is_null(value) else value) for value in set(values)}  # most come again
    return [fields[value] for value in values]


@dataclass(frozen=True)
class ModelRow:
    """A model with its checkpoints; what they share is read from the last one."""

    name: str
    last: Row
    checkpoints: list[Row]

    @property
    def warnings(self) -> list[str]:
        """Warnings about the last checkpoint."""
        return (self.last.get("warning") or "").splitlines()

    @property
    def same_weights(self) -> list[str]:
        """Sentences about checkpoints that have the weights of another one."""
        alike = [row for row in self.checkpoints if row.get("same_weights")]
        return [f"checkpoint '{row['checkpoint']}': {row['same_weights']}" for row in alike]


def model_rows(models: Sequence[Row]) -> list[ModelRow]:
    """Group checkpoints, which come in the order of the study, by model; the last one stands for the model."""
    groups: dict[str, list[Row]] = {}
    for row in models:
        groups.setdefault(row["model"], []).append(row)
    return [ModelRow(name, checkpoints[-1], checkpoints) for name, checkpoints in groups.items()]


def warnings(models: Sequence[ModelRow], cells: Sequence[Row] = ()) -> list[tuple[str, list[str]]]:
    """Return what models, and passes of theirs, are warned of, with the models that each warning is about.

    Warnings that differ in numbers alone are one, in which a number that is not the same everywhere becomes the range.
    """
    by_words: dict[tuple[str, ...], list[tuple[str, list[str]]]] = {}
    for model in models:
        of_passes = [row["warning"] for row in cells if row["model"] == model.name and row.get("warning")]
        for warning in dict.fromkeys([*model.warnings, *"\n".join(of_passes).splitlines()]):
            words, numbers = tuple(_NUMBER.split(warning)), _NUMBER.findall(warning)
            by_words.setdefault(words, []).append((model.name, numbers))
    joined = []
    for words, models_warned in by_words.items():
        names, rows = zip(*models_warned, strict=True)
        joined.append((_joined(words, rows), list(names)))
    return joined + [(text, [model.name]) for model in models for text in model.same_weights]


def unlearned(models: Sequence[Row]) -> str:
    """Return a sentence on the models that learned nothing, which comes before every other; empty without any."""
    trained = [row for row in models if not row.get("baseline") and row.get("is_last")]
    names = [str(row["model"]) for row in trained if UNLEARNED in str(row.get("warning") or "")]
    if not names:
        return ""
    says = f"{listed(names)} did not learn more"
    if len(names) == len(trained) > 1:
        says = f"None of the {len(names)} models learned more"
    whose = "Its" if len(names) == 1 else "Their"
    return f"{says} than token frequencies. {whose} numbers say nothing about trained models."


def few_texts(study: Row, corpora: Sequence[Row]) -> str:
    """Return a sentence on the corpora that have too few texts for any verdict; empty without any, or if fixed."""
    if spec_of(study.get("spec")).get("texts") == "fixed":
        return ""
    counts = {
        str(row["corpus"]): int(row["clusters"] or row["texts"] or 0) for row in corpora if row["status"] == "done"
    }
    few = [f"{counted(count, 'text')} of {corpus}" for corpus, count in counts.items() if count < VERDICT_TEXTS]
    return f"Only {listed(few)}: too few for a verdict, which needs {VERDICT_TEXTS}." if few else ""


_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def _joined(words: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = words[0]
    for word, numbers in zip(words[1:], zip(*rows, strict=True), strict=True):
        low, high = min(numbers, key=float), max(numbers, key=float)
        text += (low if low == high else f"{low} to {high}") + word
    return text


def missing(study: Row, **rows: Sequence[Row]) -> Row:
    """Return the failed rows of models, corpora and cells, and why values are NULL (``reasons``).

    ``failures``: each error once, with what it concerns.
    ``alarming``: whether something failed or is ``unfinished``, which the top of the page then says.
    """
    failed = {name: [row for row in table if row["status"] == "failed"] for name, table in rows.items()}
    unfinished = study.get("started") is not None and study.get("finished") is None
    alarming = unfinished or any(failed.values())
    reasons, failures = _reasons(rows["cells"]), _failures(failed)
    return {**failed, "reasons": reasons, "failures": failures, "unfinished": unfinished, "alarming": alarming}


def _failures(failed: Mapping[str, Sequence[Row]]) -> list[tuple[str, str]]:
    by_error: dict[str, dict[str, list[Row]]] = {}
    for kind, rows in failed.items():
        for row in rows:
            error = re.sub(r"^(model|corpus) '[^']*': ", "", shortened(row["error"] or "failed"))
            by_error.setdefault(error, {}).setdefault(kind, []).append(row)
    return [(_concerned(rows), error) for error, rows in by_error.items()]


def _concerned(rows: Mapping[str, Sequence[Row]]) -> str:
    """Return what an error is about: ``corpus tweets and 10 measurements``."""
    models = [
        f"model {row['model']}{'' if row['checkpoint'] == 'final' else ' (' + row['checkpoint'] + ')'}"
        for row in rows.get("models", ())
    ]
    named, cells = models + [f"corpus {row['corpus']}" for row in rows.get("corpora", ())], rows.get("cells", ())
    if cells:
        of, on = (listed(dict.fromkeys(str(row[name]) for row in cells)) for name in ("model", "corpus"))
        metrics = list(dict.fromkeys(str(row["metric"]) for row in cells))
        what = listed(metrics) if len(metrics) <= MOST_METRICS else counted(len(cells), "measurement")
        named.append(counted(len(cells), "measurement") if named else f"{what} of {of} on {on}")
    return capital(listed(named))


def _reasons(cells: Sequence[Row]) -> list[Row]:
    """Read ``cells.reasons``: the same reason at the same places becomes one row, with the numbers it is about."""
    places: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for entry in parsed(cell.get("reasons"), list):
            if not isinstance(entry, dict):
                continue
            number = f"{cell['metric']}.{entry.get('statistic', '?')}"
            where = f"{cell['model']}, {cell['corpus']}, {entry.get('view', '?')}{_layers(entry.get('layers'))}"
            if cell["checkpoint"] != "final":
                where = where.replace(",", f" {cell['checkpoint']},", 1)
            places.setdefault((number, str(entry.get("reason", ""))), []).append(where)
    numbers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (number, reason), cells_where in sorted(places.items()):
        numbers.setdefault((reason, tuple(cells_where)), []).append(number)
    return [{"numbers": names, "reason": reason, "where": where} for (reason, where), names in numbers.items()]


def parsed(text: Any, kind: type) -> Any:
    """Read a JSON column; what is missing or of another kind is empty."""
    try:
        value = parse_json(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    return value if isinstance(value, kind) else kind()


def _layers(layers: Any) -> str:
    numbers = [layer for layer in layers if isinstance(layer, int)] if isinstance(layers, list) else []
    if not numbers:
        return ""
    return f", layer{'s' * (len(numbers) != 1)} {ranges(numbers, commas=True)}"


# Details of each corpus: some of its texts, and how many were truncated, and where.


def read_texts(read: Read, study: str) -> dict[str, Row]:
    """Return by corpus its ``samples``, rows of the table ``corpus_texts``, and which share of its texts is ``cut``.

    Models that agree about the share have one line; a corpus that has neither samples nor passes is left out.
    """
    texts: dict[str, Row] = {}
    for name, query in (("samples", CORPUS_TEXTS), ("cut", CUT_TEXTS)):
        for row in read_rows(read, query, study):
            texts.setdefault(str(row["corpus"]), {"samples": [], "cut": []})[name].append(row)
    return {corpus: shown | {"cut": _cut(shown["cut"])} for corpus, shown in texts.items()}


def _cut(rows: Sequence[Row]) -> list[str]:
    by_share: dict[str, list[str]] = {}
    for row in rows:
        if row["texts"]:
            by_share.setdefault(_share(row), []).append(str(row["model"]))
    if len(by_share) < 2:
        return list(by_share)
    return [f"{', '.join(models)}: {share}" for share, models in by_share.items()]


def _share(row: Row) -> str:
    if not row["cut"]:
        return "none"
    limits = [limit for limit in (row["own"], row["asked"]) if limit is not None]
    share = f"{whole(row['cut'])} of {whole(row['texts'])} ({row['cut'] / row['texts']:.0%})".replace("%", " %")
    return share + (f", at {whole(min(limits))} tokens" if limits else "")


# The section on sinks: which tokens they are, and whether the threshold that defines them matters.


MOST_ROWS = 24
"""Rows on the page; the CSV has them all."""
MATTERS = 0.05
NOTHING = 0.001
"""Change of the first component's share with the sink threshold above which the page calls the threshold relevant."""

SINKS = """
SELECT * EXCLUDE (study, metric, role) FROM sinks WHERE study = $study
ORDER BY texts DESC, "count" DESC, model, checkpoint, corpus, token_id, position_first
"""
CUT_MATTERS = """
SELECT model, corpus, max(value) AS value, arg_max(layer, value) AS layer
FROM layer_metrics
WHERE study = $study AND metric = 'outliers' AND statistic = 'sink_sensitivity' AND site IN ('embedding', 'block')
GROUP BY ALL ORDER BY value DESC NULLS LAST, model, corpus
"""


def read_sinks(read: Read, study: str, models: Sequence[Row]) -> Row | None:
    """Return the section on sinks; None where no model has one.

    ``rule`` says which tokens are sinks, ``said`` whether the threshold matters. ``all`` are the rows of the table
    ``sinks``; the page shows ``rows`` and leaves ``more`` out.
    """
    sinks = read_rows(read, SINKS, study)
    if not sinks:
        return None
    rules = dict.fromkeys(str(row["sink_rule"]) for row in models if row.get("sink_rule"))
    sentence = _effect_of_threshold(read_rows(read, CUT_MATTERS, study))
    rows = _of_each_model(sinks, MOST_ROWS)
    shown = {"rows": rows, "more": len(sinks) - len(rows)}
    return {"rule": "; or ".join(rules), "said": sentence, "all": sinks, **shown}


def _of_each_model(rows: Sequence[Row], most: int) -> list[Row]:
    """Return the first rows of each model in turn, in the order of all: a model and its base share their sinks."""
    seen: Counter[Any] = Counter()
    ranks = []
    for number, row in enumerate(rows):
        ranks.append((seen[row["model"]], number))
        seen[row["model"]] += 1
    return [rows[number] for _, number in sorted(sorted(ranks)[:most], key=lambda rank: rank[1])]


def _effect_of_threshold(rows: Sequence[Mapping[str, Any]]) -> str:
    measured = [row for row in rows if row["value"] is not None]
    if not measured:
        return ""
    worst = measured[0]
    several = len([row for row in measured if row["value"] > MATTERS])
    if worst["value"] < NOTHING:
        return (
            "With a sink threshold from a quarter to four times as large, the variance explained by the first "
            "principal component without sinks is the same."
        )
    sentences = [
        f"The sink threshold {'matters' if several else 'hardly matters'}.",
        "Between a quarter of it and four times it, the variance explained by the first principal component without "
        f"sinks changes by up to {short(worst['value'], 2)} ({worst['model']} on {worst['corpus']}, layer "
        f"{worst['layer']}).",
    ]
    if several > 1:
        share = f"{several} of {len(measured)} pairs of model and corpus"
        sentences.append(f"It changes by more than {MATTERS:g} in {share}.")
    if several:
        sentences.append("See the figure 'Does the sink threshold matter?'.")
    return " ".join(sentences)
