"""Citations of a report: a paragraph on methods, the works it rests on, and an entry for the report itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from reporter.charts.chart import Drawn, Read, filled
from reporter.charts.layout import VIEWS
from reporter.core.confined import quoted
from reporter.core.numbers import counted, is_null, whole
from reporter.core.places import listed
from reporter.core.sources import Source
from reporter.report.tables import ModelRow, Row, model_rows, parsed, read_rows
from reporter.store.formats import latex
from reporter.store.rows import spec_of

if TYPE_CHECKING:
    from reporter.report.contents import Contents

NUMBERS_HASH = """
SELECT sha256(string_agg(line, chr(10) ORDER BY line)) AS hash, count(*) AS n
FROM (
  SELECT row(metric, statistic, model, checkpoint, corpus, view, site, layer, value, ci_low, ci_high, n)::VARCHAR
    AS line
  FROM layer_metrics WHERE study = $study
)
"""
"""What tells the numbers of a report from others: the same hash, the same numbers."""
_STATISTICS = """
SELECT metric, statistic, count(*) AS lines
FROM layer_metrics WHERE study = $study
GROUP BY metric, statistic ORDER BY (row(metric, statistic)::VARCHAR)[:-2] || ', '
"""
MOST_HASHED = 100_000
"""Lines that are put in order at a time: the text of all of them would stand in memory several times."""
LIBRARIES = {"torch": "PyTorch", "transformers": "transformers", "numpy": "NumPy", "scipy": "SciPy", "python": "Python"}
KINDS = {"random-init": "with random weights", "shuffled": "on shuffled tokens"}
FEW = 4
"""So many models are named one by one."""


@dataclass(frozen=True)
class Cited:
    """Everything a reader needs to cite a report.

    Args:
        methods: what was done, as one paragraph.
        report: the BibTeX entry of the report itself.
        works: the BibTeX entries of the works that the shown numbers come from.
        numbers_hash: SHA-256 of all numbers by layer; empty where there are none.
        sql: the statement that made it.
    """

    methods: str
    report: str
    works: tuple[str, ...]
    numbers_hash: str
    sql: str

    @property
    def bibtex(self) -> str:
        """All entries, as the file ``references.bib`` has them."""
        return "\n\n".join((self.report, *self.works)) + "\n"


def read_hash(read: Read, study: str) -> tuple[str, str]:
    """Return the hash of a study's numbers, empty where it has none, and the statement that gives the same.

    Lines begin with metric and statistic, so that those of a few statistics can be ordered and hashed after each other.
    """
    sql = filled(NUMBERS_HASH, study=study)
    lines = sql[sql.index("SELECT row(") : sql.rindex(")")].rstrip()
    together, room = list[list[str]](), 0
    for row in read_rows(read, _STATISTICS, study):
        if not together or row["lines"] > room:
            together.append([])
            room = MOST_HASHED
        together[-1].append(f"({quoted(row['metric'])}, {quoted(row['statistic'])})")
        room -= row["lines"]
    digest = sha256()
    for number, names in enumerate(together):
        part = f"{lines} AND (metric, statistic) IN ({', '.join(names)})"
        text = read(f"SELECT string_agg(line, chr(10) ORDER BY line) AS text FROM (\n  {part}\n)")["text"].iloc[0]
        digest.update(f"\n{text}".encode() if number else text.encode())
    return (digest.hexdigest() if together else ""), sql


def cite(contents: Contents, charts: Iterable[Drawn]) -> Cited:
    """Gather what a reader needs to cite a report."""
    return Cited(
        methods(contents),
        _report(contents.study, contents.numbers_hash[0]),
        tuple(entries(source for drawn in charts if drawn.rows for source in drawn.chart.sources).values()),
        *contents.numbers_hash,
    )


def entries(sources: Iterable[Source]) -> dict[str, str]:
    """Return the BibTeX entry of each work by its key, in the order of the keys.

    The source of a plug-in may have no entry. Its citation then becomes the title of one.
    """
    by_key = {}
    for source in sources:
        key = re.sub(r"\W+", "-", source.key.lower()).strip("-")
        entry = source.bibtex or f"@misc{{{key},\n  key = {{{key}}},\n  title = {{{{{latex(source.citation)}}}}},\n}}"
        by_key[entry[entry.index("{") + 1 : entry.index(",")]] = entry
    return dict(sorted(by_key.items()))


def methods(contents: Contents) -> str:
    """Say what was done, as a paragraph of a paper: models, texts, tokens, intervals, corrections, versions."""
    study, spec = contents.study, spec_of(contents.study.get("spec"))
    models = [model for model in model_rows(contents.models) if model.last["status"] == "done"]
    measured = [model for model in models if not model.last.get("baseline")]
    corpora = [row for row in contents.corpora if row["status"] == "done"]
    sentences = [f"We measured {listed(map(_model, measured))}."] if measured else []
    if corpora:
        described = listed(_corpus(row, spec) for row in corpora)
        sentences.append(f"The {'corpus was' if len(corpora) == 1 else 'corpora were'} {described}.")
    passes = read_passes(contents)
    if passes:
        sentences += [_read(corpus, measured) for corpus, measured in passes.items()] + [_cut(passes)]
    if views := contents.scene.views:
        sets = listed(f"{view} ({VIEWS[view]})" if view in VIEWS else view for view in views)
        sentences.append(f"Numbers are reported for the token {'set' if len(views) == 1 else 'sets'} {sets}.")
    rules = {str(model.last["sink_rule"]) for model in measured if model.last.get("sink_rule")}
    if len(rules) == 1:
        sentences.append(f"A sink is {rules.pop()}.")
    kinds = dict.fromkeys(str(model.last["baseline"]) for model in models if model.last.get("baseline"))
    if kinds:
        how = listed(KINDS.get(kind, kind) for kind in kinds)
        sentences.append(f"As null baselines, models were measured again {how}.")
    intervals = {drawn.chart.interval for drawn in contents.every if drawn.rows and drawn.chart.interval}
    if intervals:
        sentences.append("Intervals are 95 % intervals; the caption of each figure says how they were computed.")
    if any("bootstrap" in text for text in intervals):
        sentences.append("Bootstrap intervals have 1,000 replicates.")
    if tested := len(contents.claims.all):
        claims = f"{counted(tested, 'claim')} {'was' if tested == 1 else 'were'}"
        sentences.append(f"{claims} tested with Holm's correction.")
    if (tests := contents.findings.looked_at) and contents.findings.all:
        sentences.append(
            f"Findings are exploratory; their p-values are corrected for {whole(tests)} tests (Bonferroni)."
        )
    sentences.append(_software_sentence(study, contents.cells, spec))
    return " ".join(sentences)


class CitedPass(NamedTuple):
    """The tokens that one model read of a corpus."""

    model: str
    texts: int
    tokens: int
    cut: int
    limit: int | None


def read_passes(contents: Contents) -> dict[str, list[CitedPass]]:
    """Return by corpus what each model read of it at its last checkpoint."""
    models = {row["model"]: row for row in contents.models if row["is_last"] and not row.get("baseline")}
    corpora = {row["corpus"] for row in contents.corpora}
    passes: dict[str, dict[str, CitedPass]] = {}
    for cell in contents.cells:
        model = models.get(cell["model"])  # none for a pair of models
        if model is None or cell["checkpoint"] != model["checkpoint"] or cell["corpus"] not in corpora:
            continue
        if cell["status"] == "done" and cell["tokens"]:
            limits = [parsed(cell["inputs"], dict).get("max_tokens"), model["max_tokens"]]
            limit = min((int(limit) for limit in limits if limit and not is_null(limit)), default=None)
            texts, tokens, cut = (int(cell[name] or 0) for name in ("texts", "tokens", "cut_texts"))
            passes.setdefault(cell["corpus"], {})[cell["model"]] = CitedPass(cell["model"], texts, tokens, cut, limit)
    return {corpus: list(by_model.values()) for corpus, by_model in passes.items()}


def _read(corpus: str, passes: Sequence[CitedPass]) -> str:
    texts = whole(max(reading.texts for reading in passes))
    if len(passes) <= FEW:
        tokens = listed(f"{whole(reading.tokens)} tokens ({reading.model})" for reading in passes)
    else:
        tokens = f"{span([reading.tokens for reading in passes])} tokens, depending on the model"
    return f"A pass over the {texts} texts of {corpus} read {tokens}."


def _cut(passes: Mapping[str, Sequence[CitedPass]]) -> str:
    every = [reading for several in passes.values() for reading in several]
    limits = [reading.limit for reading in every if reading.limit]
    limit = f"at most {span(limits)} tokens of each text" if limits else "each text in full"
    cut = [
        f"{whole(reading.cut)} of {whole(reading.texts)} texts of {corpus} in {reading.model}"
        for corpus, several in passes.items()
        for reading in several
        if reading.cut
    ]
    if len(cut) > FEW:
        counts = span([reading.cut for reading in every])
        return f"Models read {limit}; {counts} texts of a corpus were longer and were cut there."
    return f"Models read {limit}; {f'{listed(cut)} were longer and were cut there' if cut else 'no text was longer'}."


def _model(model: ModelRow) -> str:
    row = model.last
    facts = [str(row[name]) for name in ("role", "family") if row.get(name)]
    if row.get("layers"):
        facts.append(f"{whole(row['layers'])} blocks of width {whole(row['width'])}")
    facts += [f"{in_words(row['parameters'])} parameters"] if row.get("parameters") else []
    facts.append(_weights(row))
    facts += [counted(len(model.checkpoints), "checkpoint")] if len(model.checkpoints) > 1 else []
    return f"{model.name} ({', '.join(filter(None, facts))})"


def _weights(row: Row) -> str:
    where, source = str(row.get("location") or ""), row.get("source")
    digits = str(row.get("revision") or row.get("fingerprint") or "")[:12]
    if source == "hub":
        return f"{where} on the Hugging Face Hub, revision `{digits}`"
    if source == "recipe":
        return f"trained for this study: {where}"
    if source == "path":
        return f"local weights, hash `{digits}`"
    return f"fingerprint `{digits}`" if digits else ""


def in_words(number: Any) -> str:
    """Write a large number as a paper does: ``22.7 million``."""
    if is_null(number) or number < 1e6:
        return whole(number)
    return f"{number / 1e9:.3g} billion" if number >= 1e9 else f"{number / 1e6:.3g} million"


def _corpus(row: Row, spec: Mapping[str, Any]) -> str:
    part = (spec.get("corpora") or {}).get(row["corpus"])
    part = part if isinstance(part, dict) else {}
    facts, location = [counted(row["texts"], "text")], str(row.get("location") or "")
    if clusters := row.get("clusters"):
        facts.append(f"in {whole(clusters)} clusters by `{part.get('cluster')}`, each a unit of intervals and tests")
    if location:
        name = PurePath(location).name if row.get("source") == "file" else location
        facts.append(f"generated: {location}" if row.get("source") == "generated" else f"from {name}")
    facts += [f"of at least {whole(part['min_words'])} words"] if part.get("min_words") else []
    facts += [f"SHA-256 `{str(row['content_hash'])[:12]}`"] if row.get("content_hash") else []
    return f"{row['corpus']} ({', '.join(facts)})"


def _software_sentence(study: Row, cells: Sequence[Row], spec: Mapping[str, Any]) -> str:
    versions = parsed(study["versions"], dict)
    used = [f"{library} {versions[name]}" for name, library in LIBRARIES.items() if name in versions]
    how = dict.fromkeys((str(row["precision"]), str(row["device"])) for row in cells if row.get("precision"))
    runs = [f"{precision} precision on {device.replace('cpu', 'CPU')}" for precision, device in how]
    ran = f", in {listed(runs)}" if runs else ""
    libraries = f" ({', '.join(used)})" if used else ""
    seed = (spec.get("run") or {}).get("seed", 0)
    return f"Everything was measured with reporter {versions.get('reporter', '')}{libraries}{ran}, seed {seed}."


def _report(study: Row, numbers_hash: str) -> str:
    """Return the BibTeX entry of the report; its hashes are cut to fit a line."""
    name = str(study["study"])
    version = parsed(study["versions"], dict).get("reporter", "")
    when = study.get("finished") or study.get("started")
    note = [f"Study {name}, measured with reporter {version}".rstrip()]
    note += [f"study file {study['spec_hash'][:12]}"] if study.get("spec_hash") else []
    note += [f"numbers {numbers_hash[:12]} (SHA-256)"] if numbers_hash else []
    key = f"report-{re.sub(r'[^a-z0-9-]', '-', name.lower())}"
    fields = {"key": key, "title": f"{{{latex(str(study['title'] or name))}}}"}
    if when is not None and not is_null(when):
        fields |= {"year": f"{when:%Y}", "month": f"{when:%B}"}
    fields |= {"howpublished": "Report of reporter", "note": latex("; ".join(note))}
    return "\n".join([f"@misc{{{key},", *(f"  {field} = {{{value}}}," for field, value in fields.items()), "}"])


def span(numbers: Sequence[int]) -> str:
    """Write the least and the largest of some numbers."""
    return " to ".join(dict.fromkeys((whole(min(numbers)), whole(max(numbers)))))
