"""The list of questions that a study's numbers answer, and exploratory findings.

A :class:`~reporter.judge.questions.question.Question` yields rows of its own tables and says what they come to.
Claims and findings are such questions too; the run stores their rows.

Findings are exploratory. Every kind puts the same tests to every main statistic, trained model and corpus. Their
number m is known before any result is, and each is done at the level 0.05/m (Bonferroni). So the probability that even
one finding is false is at most 5 %. Sets of layers are made at that level as well, so they hold all at once. Which
significant results are shown (those with the largest effects) makes no difference to that. Intervals are 95 % each and
not corrected, like those of claims.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from reporter.core.json_text import stored_json
from reporter.core.numbers import estimate
from reporter.core.places import capital, listed
from reporter.judge.facts import declared
from reporter.judge.judging import NOT_REGISTERED, registration_lines
from reporter.judge.numbers import Numbers
from reporter.judge.questions.alike import ALIKE
from reporter.judge.questions.blocks import BLOCKS
from reporter.judge.questions.changed import CHANGED
from reporter.judge.questions.concepts import CONCEPTS
from reporter.judge.questions.depth import DEPTH
from reporter.judge.questions.extremes import ask_chance, ask_extremes, ask_references
from reporter.judge.questions.layer import LAYER
from reporter.judge.questions.models import ask_corpora, ask_models, ask_roles
from reporter.judge.questions.paths import PATHS
from reporter.judge.questions.probes import PROBED
from reporter.judge.questions.question import Answer, Box, BoxColumn, Question, Read, Record, numeric, table
from reporter.judge.questions.sinks import SINKS, ask_sinks
from reporter.judge.questions.subjects import MATERIAL, Observation, Subjects, Test
from reporter.judge.questions.training import TRAINING
from reporter.store import Store
from reporter.store.schema import Finding
from reporter.study import Study

KINDS: Mapping[str, Callable[[Subjects], Iterator[Test]]] = {
    "roles": ask_roles,
    "models": ask_models,
    "sinks": ask_sinks,
    "corpora": ask_corpora,
    "extremes": ask_extremes,
    "references": ask_references,
    "chance": ask_chance,
}
"""The kinds of findings, in the order of the report.

First differences of roles or models, then sinks, and last each model's own profiles. What an answer says (changes
against a base, training, concepts) is no finding.
"""
LEVEL = 0.05
MOST = 7
"""The most findings that are shown."""
SAME = 3
"""The most findings of one kind."""


class Findings(NamedTuple):
    """Rows of the table ``findings``, by rank, and the number of tests."""

    rows: list[dict[str, Any]]
    looked_at: int


def find(store: Store, study: Study) -> Findings:
    """Return the findings of a study, from the numbers that the database holds."""
    main = {name: pair for name, pair in declared().items() if pair[1].main}
    statistics = {name: statistic for name, (_, statistic) in main.items()}
    against_base = frozenset(name for name, (metric, _) in main.items() if metric.compares_only)
    return look(Subjects(Numbers(store, study, statistics), statistics, against_base))


def look(subjects: Subjects) -> Findings:
    """Do all tests on some subjects and return the findings."""
    tests = [(kind, test) for kind, ask in KINDS.items() for test in ask(subjects)]
    observations: dict[str, list[Observation]] = {kind: [] for kind in KINDS}
    for kind, test in tests:
        result = test(LEVEL / len(tests))
        if result is not None and result.p * len(tests) <= LEVEL and result.effect >= MATERIAL:
            observations[kind].append(result)
    shown = _handful(_best(subjects, observations))
    rows = [_row(subjects, rank, kind, result, len(tests)) for rank, (kind, result) in enumerate(shown, 1)]
    return Findings(rows, len(tests))


def _best(subjects: Subjects, observations: Mapping[str, Sequence[Observation]]) -> dict[str, list[Observation]]:
    """Return the largest observation of each fact, by kind; a fact that an earlier kind has is not said again."""
    facts: dict[str, tuple[str, list[Observation]]] = {}
    for kind, results in observations.items():
        for result in sorted(results, key=lambda result: -result.effect):
            _, same = facts.setdefault(result.fact or f"{kind} {result.full_name} {result.view}", (kind, []))
            same.append(result)
    best: dict[str, list[Observation]] = {kind: [] for kind in observations}
    for kind, (first, *rest) in facts.values():
        best[kind].append(replace(first, says=first.says + _also(subjects, first, rest)))
    return best


def _also(subjects: Subjects, first: Observation, rest: Sequence[Observation]) -> str:
    """Name the other statistics, models or corpora that show the same fact."""
    if not first.fact:
        return ""
    titles = [subjects.statistics[result.full_name].title for result in rest if result.full_name != first.full_name]
    same = [result for result in rest if result.full_name == first.full_name]
    models = [result.model for result in same if result.model not in (first.model, None)]
    corpora = [r.corpus for r in same if r.model == first.model and r.corpus not in (first.corpus, None)]
    named = [
        f"{word} {listed([name for name in dict.fromkeys(names) if name])}"
        for word, names in (("in the", titles), ("in", models), ("on", corpora))
        if names
    ]
    return f" Also seen {', '.join(named)}." if named else ""


def _handful(observations: dict[str, list[Observation]]) -> list[tuple[str, Observation]]:
    turns = chain.from_iterable(
        zip_longest(*([(kind, result) for result in some[:SAME]] for kind, some in observations.items()))
    )
    chosen = sorted((turn for turn in turns if turn is not None), key=lambda turn: turn[1].weak)[:MOST]
    return [(kind, result) for kind in observations for other, result in chosen if other == kind]


def _row(subjects: Subjects, rank: int, kind: str, result: Observation, looked_at: int) -> dict[str, Any]:
    metric, _, name = result.full_name.partition(".")
    statistic = subjects.statistics.get(result.full_name)
    first, last = result.layers or (None, None)
    return Finding.of(
        vars(result),
        rank=rank,
        kind=kind,
        statistic=name,
        layer_first=first,
        layer_last=last,
        ci_low=result.interval[0],
        ci_high=result.interval[1],
        p_adjusted=min(1.0, result.p * looked_at),
        looked_at=looked_at,
        chart=result.full_name,
        detail={
            "what": result.what,
            "plainly": statistic.plainly if statistic else "",
            "per": statistic.per if statistic else "",
            "test": result.test,
            "curves": list(result.curves),
            "mark": result.mark,
            "notes": list(dict.fromkeys(result.notes)),
            "sql": result.sql or subjects.sql(result.full_name, *result.read, result.corpus),
        },
    ).record({"metric": metric}, 0)


QUESTIONS = (LAYER, CONCEPTS, CHANGED, PROBED, BLOCKS, DEPTH, ALIKE, TRAINING, PATHS, SINKS)
"""Every question that stored numbers answer, in the order of the report."""

_QUERIES = {
    "claims": "SELECT * FROM claims WHERE study = $study ORDER BY number, reading",
    "claims_by_model": "SELECT b.* FROM claims_by_model b JOIN claims c USING (study, claim, reading) "
    "WHERE study = $study AND reading = 1 ORDER BY c.number, b.model",
    "findings": "SELECT * FROM findings WHERE study = $study ORDER BY rank",
}


def stated(read: Read, only: Sequence[str]) -> list[Answer]:
    """Return the claims and findings of a study as answers, from what its last run stored, unless left out."""
    tables = {"claims": ("claims", "claims_by_model"), "findings": ("findings",)}
    return [
        Answer(question, {name: read(_QUERIES[name]) for name in tables[question.name]})
        for question in STATED
        if question.name in only
    ]


def _claims(tables: Mapping[str, Sequence[Record]]) -> Iterator[Box]:
    rows = tables["claims"]
    verdicts = [row["verdict"] for row in rows if row["reading"] == 1]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts))
    estimate = (
        BoxColumn("verdict", lambda row: row["verdict"]),
        numeric("number", lambda row: "" if row["value"] is None else _estimate(row)),
    )
    says = BoxColumn("claim", lambda row: row["says"] if row["reading"] == 1 else "the same")
    tokens = BoxColumn("tokens", lambda row: ", ".join(filter(None, (row["view"], row["baseline"]))))
    verdict = f"{counts}, corrected for the number of claims."
    registered = {row["claim"]: row["registration"] or NOT_REGISTERED for row in rows if row["reading"] == 1}
    lines = registration_lines(registered) or [f"claims: {NOT_REGISTERED}"]
    notes = (*_undecided(rows), *(f"{capital(line)}." for line in lines))
    yield Box("Verdicts", verdict, **table(rows, says, tokens, *estimate), notes=notes)
    if by_model := tables.get("claims_by_model"):
        of_claim = {row["claim"]: row["says"] for row in rows}
        says, model = (
            BoxColumn("claim", lambda row: of_claim[row["claim"]]),
            BoxColumn("model", lambda row: row["model"]),
        )
        alone = "the verdict of each model alone, corrected for all models of all claims."
        yield Box("Model by model", alone, **table(by_model, says, model, *estimate))


def _undecided(rows: Sequence[Record]) -> Iterator[str]:
    """Yield why claims have no verdict, and what a verdict needs."""
    for row in rows:
        if row["reading"] == 1 and row["verdict"] in ("inconclusive", "failed"):
            detail = stored_json(row["detail"])
            why = ". ".join(capital(detail[key]) for key in ("reason", "power") if detail.get(key))
            yield f"{row['verdict'].capitalize()}: {row['says']} {why}."


def _estimate(row: Record) -> str:
    return estimate(row["value"], row["ci_low"], row["ci_high"])


def _findings(tables: Mapping[str, Sequence[Record]]) -> Iterator[Box]:
    rows = tables["findings"]
    yield Box(
        "Exploratory",
        f"corrected for {rows[0]['looked_at']:,} tests.",
        notes=tuple(f"{row['says']} (Difference {_estimate(row)}.)" for row in rows),
    )


STATED = (
    Question("claims", "What does it claim?", (), lambda read: iter(()), lambda tables: tuple(_claims(tables))),
    Question("findings", "What stands out?", (), lambda read: iter(()), lambda tables: tuple(_findings(tables))),
)
