"""How a report is cited: a paragraph on methods, the works it rests on, and an entry for the report itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import yaml

from reporter.charts.chart import Drawn, Query, Read
from reporter.charts.numbers import is_null, whole
from reporter.report.references import Entry, entries
from reporter.report.tables import ModelRow, Row, model_rows, parsed
from reporter.store.latex import latex
from reporter.store.shape import quoted

if TYPE_CHECKING:
    import pandas as pd

    from reporter.report.contents import Contents

NUMBERS_HASH = Query(
    "numbers_hash",
    """
SELECT sha256(string_agg(line, chr(10) ORDER BY line)) AS hash, count(*) AS n
FROM (
  SELECT row(metric, statistic, model, checkpoint, corpus, view, site, layer, value, ci_low, ci_high, n)::VARCHAR
    AS line
  FROM layer_metrics WHERE study = $study
)
""",
)
"""What tells the numbers of a report from others: the same hash, the same numbers."""
_STATISTICS = Query(
    "statistics_in_order",
    """
SELECT metric, statistic, count(*) AS lines
FROM layer_metrics WHERE study = $study
GROUP BY metric, statistic ORDER BY (row(metric, statistic)::VARCHAR)[:-2] || ', '
""",
)
MOST_HASHED = 100_000
"""Lines that are put in order at a time: the text of all of them would stand in memory several times."""
LIBRARIES = {"torch": "PyTorch", "transformers": "transformers", "numpy": "NumPy", "scipy": "SciPy", "python": "Python"}
VIEWS = {
    "words": "every token of the text itself",
    "no-sinks": "without sinks and without the first token of each text",
    "all": "every token, those that the tokenizer adds included",
}
KINDS = {"random-init": "with random weights", "shuffled": "on shuffled tokens"}
_PLURALS = {"corpus": "corpora"}


@dataclass(frozen=True)
class Cited:
    """What a reader needs to cite a report.

    Args:
        methods: what was done, as one paragraph.
        report: the entry of the report itself.
        works: the entries of the works that the shown numbers come from.
        numbers_hash: SHA-256 of all numbers by layer; empty where there are none.
        sql: the statement that made it.
    """

    methods: str
    report: Entry
    works: tuple[Entry, ...]
    numbers_hash: str
    sql: str

    @property
    def bibtex(self) -> str:
        """All entries, as the file ``references.bib`` has them."""
        return "\n\n".join(map(str, (self.report, *self.works))) + "\n"


def read_hash(read: Read, study: str) -> tuple[str, str]:
    """Return the hash of a study's numbers, empty where it has none, and the statement that gives the same.

    Lines begin with metric and statistic, so that those of a few statistics can be ordered and hashed after each other.
    """
    sql = NUMBERS_HASH.fill(study=study)
    lines = sql[sql.index("SELECT row(") : sql.rindex(")")].rstrip()
    found, begun = sha256(), False
    for names in _together(read(_STATISTICS.fill(study=study))):
        own = f"{lines} AND (metric, statistic) IN ({', '.join(f'({quoted(m)}, {quoted(s)})' for m, s in names)})"
        text = read(f"SELECT string_agg(line, chr(10) ORDER BY line) AS text FROM (\n  {own}\n)")["text"].iloc[0]
        found.update(f"\n{text}".encode() if begun else text.encode())
        begun = True
    return (found.hexdigest() if begun else ""), sql


def _together(statistics: pd.DataFrame) -> Iterator[list[tuple[str, str]]]:
    """Yield the statistics, by metric and name, whose lines are put in order at one time."""
    names: list[tuple[str, str]] = []
    room = MOST_HASHED
    for metric, statistic, lines in statistics.itertuples(index=False):
        if names and lines > room:
            yield names
            names, room = [], MOST_HASHED
        names.append((metric, statistic))
        room -= lines
    if names:
        yield names


def cite(contents: Contents, charts: Iterable[Drawn]) -> Cited:
    """Gather what a reader needs to cite a report.

    Args:
        contents: the study.
        charts: the charts whose sources are cited.
    """
    citations = [source for drawn in charts if drawn.rows for source in drawn.chart.sources]
    return Cited(
        methods(contents),
        _report(contents.study, contents.numbers_hash[0]),
        tuple(entries(citations)),
        *contents.numbers_hash,
    )


def methods(contents: Contents) -> str:
    """Say what was done, as a paragraph of a paper: models, texts, tokens, versions, seed.

    Args:
        contents: the study.
    """
    study, scene = contents.study, contents.scene
    models = [model for model in model_rows(contents.models) if model.last["status"] == "done"]
    own = [model for model in models if not model.last.get("baseline")]
    said = []
    if own:
        said.append(f"We measured {_list(map(_model, own))}.")
    corpora = [row for row in contents.corpora if row["status"] == "done"]
    if corpora:
        said.append(f"The {'corpus was' if len(corpora) == 1 else 'corpora were'} {_list(map(_corpus, corpora))}.")
    if cells := [row for row in contents.cells if row["status"] == "done" and row["tokens"] and row["corpus"]]:
        tokens = {(row["model"], row["corpus"]): int(row["tokens"]) for row in cells}
        said.append(f"A pass saw {_span(list(tokens.values()))} tokens, depending on the model and the corpus.")
    if scene.views:
        said.append(f"Numbers are of the tokens {_list(_view(view) for view in scene.views)}.")
    rules = {str(model.last["sink_rule"]) for model in own if model.last.get("sink_rule")}
    if len(rules) == 1:
        said.append(f"A sink is {rules.pop()}.")
    kinds = Counter(str(model.last["baseline"]) for model in models if model.last.get("baseline"))
    if kinds:
        said.append(f"As null baselines, models were measured again {_list(KINDS.get(kind, kind) for kind in kinds)}.")
    if tested := len(contents.claims.all):
        said.append(
            f"{_count(tested, 'claim')} {'was' if tested == 1 else 'were'} tested, corrected for by Holm's method."
        )
    said.append(_with(study, contents.cells))
    return " ".join(said)


def _model(model: ModelRow) -> str:
    row = model.last
    facts = [str(row["role"])] if row.get("role") else []
    facts += [str(row["family"])] if row.get("family") else []
    if row.get("layers"):
        facts.append(f"{whole(row['layers'])} blocks of width {whole(row['width'])}")
    facts += [f"{whole(row['parameters'])} parameters"] if row.get("parameters") else []
    if row.get("fingerprint"):
        facts.append(f"{'revision' if row.get('source') == 'hub' else 'fingerprint'} {_of_weights(row)}")
    facts += [_count(len(model.checkpoints), "checkpoint")] if len(model.checkpoints) > 1 else []
    return f"{model.name} ({', '.join(facts)})" if facts else model.name


def _of_weights(row: Row) -> str:
    return str(row.get("revision") if row.get("source") == "hub" and row.get("revision") else row["fingerprint"])[:12]


def _corpus(row: Row) -> str:
    hashed = f", SHA-256 {str(row['content_hash'])[:12]}" if row.get("content_hash") else ""
    return f"{row['corpus']} ({_count(row['texts'], 'text')}, {_count(row['words'], 'word')}{hashed})"


def _view(view: str) -> str:
    return f"'{view}' ({VIEWS[view]})" if view in VIEWS else f"'{view}'"


def _with(study: Row, cells: Sequence[Row]) -> str:
    versions = parsed(study["versions"], dict)
    used = [f"{said} {versions[name]}" for name, said in LIBRARIES.items() if name in versions]
    how = dict.fromkeys((str(row["precision"]), str(row["device"])) for row in cells if row.get("precision"))
    ran = f", in {_list(f'{precision} precision on {device}' for precision, device in how)}" if how else ""
    libraries = f" ({', '.join(used)})" if used else ""
    return f"Everything was measured with reporter {versions.get('reporter', '')}{libraries}{ran}, seed {_seed(study)}."


def _seed(study: Row) -> int:
    """The seed of a study; what cannot be read leaves it at its default."""
    try:
        spec = yaml.safe_load(study.get("spec") or "")
        return int(spec["run"]["seed"])
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        return 0


def _report(study: Row, numbers_hash: str) -> Entry:
    name = str(study["study"])
    version = parsed(study["versions"], dict).get("reporter", "")
    when = study.get("finished") or study.get("started")
    note = [f"Study {name}, measured with reporter {version}".rstrip()]
    note += [f"SHA-256 of the study file {study['spec_hash']}"] if study.get("spec_hash") else []
    note += [f"SHA-256 of the numbers {numbers_hash}"] if numbers_hash else []
    key = f"report-{re.sub(r'[^a-z0-9-]', '-', name.lower())}"
    fields: list[tuple[str, Any]] = [("key", key), ("title", f"{{{latex(str(study['title'] or name))}}}")]
    fields += [("year", f"{when:%Y}"), ("month", f"{when.month}")] if when is not None and not is_null(when) else []
    fields += [("howpublished", "Report of reporter"), ("note", latex("; ".join(note)))]
    return Entry(key, "misc", tuple(fields))


def _span(numbers: Sequence[int]) -> str:
    ends = dict.fromkeys((whole(min(numbers)), whole(max(numbers))))
    return " to ".join(ends)


def _count(number: Any, noun: str) -> str:
    return f"{whole(number)} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"


def _list(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last
