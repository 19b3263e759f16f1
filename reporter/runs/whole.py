"""Results of a study as a whole, from all of its numbers: means over models, claims, findings, answers.

A run computes it last, and so does whoever joins results folders.
"""

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from reporter.core.errors import ReporterError, UsageError, describe, failures, hint, one_line
from reporter.core.files import MOST_OF_A_STUDY, endless, place_file
from reporter.core.json_text import stored_json
from reporter.core.locks import unfinished_folder
from reporter.core.numbers import estimate
from reporter.core.outputs import replacing
from reporter.core.places import ranges
from reporter.core.progress import Progress
from reporter.core.table import FREE
from reporter.judge.comparison import write_comparison
from reporter.judge.contrasts import mean_over
from reporter.judge.facts import bounds_in, with_analyses
from reporter.judge.judging import judge, registration_lines
from reporter.judge.kinship import Kinship, Origins
from reporter.judge.profiles import Profile, mean_profile, read_profiles
from reporter.judge.questions import QUESTIONS, STATED, stated
from reporter.judge.questions.models import write_correlations
from reporter.judge.questions.question import Answer, answered
from reporter.judge.questions.texts import behind, questions_with_texts
from reporter.runs.registered import sentences
from reporter.runs.studies import read_stored
from reporter.store import Store
from reporter.store.merging import DATABASE, Merged, merge_databases
from reporter.store.opening import apart
from reporter.store.rows import as_named, order_of
from reporter.store.schema import Verdict
from reporter.study import Study
from reporter.study.models import ModelSpec
from reporter.study.study import STUDY_ID


def derive(study: Study, store: Store, progress: Progress, partial: bool = False) -> list[str]:
    """Compute what depends on all numbers of a study, and return the verdicts of its tested claims."""
    number_checkpoints(store, study)
    for sentence in write_same_weights(store, study.study):
        progress.note(f"  {sentence}")
    write_statistics(store, study.study)
    with progress.clock.within("claims"):
        if _looked_at(store, study.study) is None:  # numbers changed
            write_over_models(store, study.study, study.models)
            write_comparison(store, study.study, study.models)
        words = judge_claims(study, store, progress, partial)
    with progress.clock.within("answers"):
        write_answers(store, study.study, progress)
    with progress.clock.within("findings"):  # those about concepts read the answers
        write_findings(study, store, progress)
    return words


def write_statistics(store: Store, study: str) -> None:
    """Store what the statistics of a study are called and mean, chance levels among them, for readers of SQL."""
    measured = {row["metric"] for row in store.records("SELECT metric FROM cells WHERE study = ?", [study])}
    rows = []
    for full_name, statistic in with_analyses().items():
        metric, _, name = full_name.partition(".")
        if metric not in measured:
            continue
        facts = {"metric": metric, "unit": statistic.unit, "per": statistic.per}
        texts = {"title": statistic.title, "definition": statistic.definition}
        rows.append({**facts, **texts, "statistic": name, "main": statistic.main})
        if statistic.floor:
            texts = {"title": f"{statistic.title}: chance level", "definition": f"chance level of {full_name}"}
            rows.append({**facts, **texts, "statistic": f"{name}_floor", "main": False})
    store.replace("statistics", study, rows)


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
        same = same_weights({row["checkpoint"]: stored_json(row["weights"]) for row in rows if row["weights"]})
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
            sentences[name] = f"has exactly the same weights as {_quoted(same)}"
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
            f"has exactly the same weights as {_quoted([best])} in {where} "
            f"{ranges(map(int, shared[best]), commas=True)} of {len(blocks)}, but other blocks differ: either layers "
            "were frozen in between, or files were mixed up"
        )
    return sentences


def _quoted(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


FEWEST_MODELS = 2  # one is no mean
_OF_GROUP = ("role", "step", "corpus", "view", "metric", "statistic")
_KEY_OVER_MODELS = (*_OF_GROUP, "site", "layer", "depth")
_COLUMNS = (*_KEY_OVER_MODELS, "models", "value", "ci_low", "ci_high")
# Null baselines are no models of a role. Means over layers are over the embedding and the blocks, as profiles show.
# A value that is fixed by definition takes no part in any mean.
_OF_MODELS = f"""
WITH own AS (
    FROM layer_metrics WHERE study = $study AND value IS NOT NULL AND {FREE} AND role IS NOT NULL
    AND model NOT IN (SELECT model FROM models WHERE study = $study AND baseline IS NOT NULL)
), known AS (
    SELECT model, models.checkpoint AS last, count(DISTINCT own.step) > 1 AS trained
    FROM own JOIN models USING (study, model) WHERE is_last GROUP BY ALL
)
SELECT model, checkpoint, checkpoint = last AS is_last, trained AND own.step IS NOT NULL AS in_steps,
    {", ".join(f"own.{name}" for name in _KEY_OVER_MODELS)}, value, ci_low, ci_high
FROM own JOIN known USING (model) WHERE role IN (
    SELECT role FROM own GROUP BY role HAVING count(DISTINCT model) >= {FEWEST_MODELS}
) AND (checkpoint = last OR in_steps)
ORDER BY model, checkpoint, corpus, view, metric, statistic, replace(site, 'embedding', 'block'), layer
"""


def write_over_models(store: Store, study: str, specs: Mapping[str, ModelSpec] | None = None) -> None:
    """Store the mean of every number over the models of a role, where two or more have it.

    Models with several checkpoints are compared at each training step, and all models at their last checkpoint. Copies
    and relatives count as one, also in the number of models. The intervals are those of claims
    (:mod:`reporter.judge.estimates`): over models from three on, else over texts, and then about these models alone.

    Args:
        store: where the numbers are.
        study: its id.
        specs: the models as the study writes them, which tells what a recipe continues; None where it is not known.
    """
    found = store.records(_OF_MODELS, {"study": study})
    models = store.records("SELECT * FROM models WHERE study = $study", {"study": study})
    rows = list(_over_models(store, study, found, Origins(models, specs or {}))) if found else []
    rows.sort(key=lambda row: [(row[name] is None, row[name]) for name in _KEY_OVER_MODELS])
    store.replace("over_models", study, rows)


def _over_models(
    store: Store, study: str, found: Sequence[dict[str, Any]], origins: Origins
) -> Iterator[dict[str, Any]]:
    """Yield the rows: at each layer or common depth, and of the mean over layers."""
    groups: dict[tuple[Any, ...], list[Profile]] = defaultdict(list)
    statistics = with_analyses()
    for (*_, site), (row, *_), profile in read_profiles(_reading(store, study), found, statistics):
        for step in [row["step"]] * row["in_steps"] + [None] * row["is_last"]:
            groups[(*((row | {"step": step})[name] for name in _OF_GROUP), site)].append(profile)
    for (*group, site), profiles in groups.items():
        count = len(Kinship.of(origins, [profile.model for profile in profiles]).units)
        if count < FEWEST_MODELS:
            continue
        bounds = bounds_in(statistics, ".".join(group[-2:]))
        mean = mean_profile(origins, profiles)
        layers = mean.labels or (None,) * len(mean.x)
        sites = ["embedding" if site == "block" and layer == 0 else site for layer in layers]
        places = list(zip(sites, layers, mean.x.tolist(), strict=True)) if site else [(None, None, None)]
        means = [(place, mean.numbers.some([index])) for index, place in enumerate(places)]
        if site == "block":
            whole = mean_over(origins, {profile.model: profile.mean for profile in profiles})
            means.append(((None, None, None), whole))
        for place, number in means:
            values = (*group, *place, count, float(number.value[0]), *number.ends(bounds))
            yield dict(zip(_COLUMNS, values, strict=True))


_CLAIMS = "SELECT * EXCLUDE (study) FROM claims WHERE study = $study ORDER BY number, reading"
_BY_MODEL = "SELECT * EXCLUDE (study) FROM claims_by_model WHERE study = $study"
_LOOKED_AT = "SELECT looked_at FROM studies WHERE study = $study"
_FINDINGS = "SELECT rank, says, value, ci_low, ci_high FROM findings WHERE study = $study ORDER BY rank"


def judge_claims(study: Study, store: Store, progress: Progress, partial: bool = False) -> list[str]:
    """Test the claims of a study, store the verdicts that changed, print them, and return those of tested claims.

    A partial run says nothing of claims whose numbers are missing: their stored rows stay as they are.
    """
    if not study.claims:
        store.replace("claims", study.study, [])
        store.replace("claims_by_model", study.study, [])
        return []
    registered = sentences(study, store)
    verdicts = [replace(each, registration=registered[each.claim]) for each in judge(store, study, with_analyses())]
    skipped = {verdict.claim for verdict in verdicts if partial and verdict.verdict == "failed"}
    stored = store.records(_CLAIMS, {"study": study.study})
    numbers = {name: number for number, name in enumerate(study.claims, 1)}
    judged = [verdict for verdict in verdicts if verdict.claim not in skipped]
    rows = [verdict.record({}, 0) | {"detail": json.dumps(verdict.detail, ensure_ascii=False)} for verdict in judged]
    rows += [row | {"number": numbers[row["claim"]]} for row in stored if row["claim"] in skipped]
    store.replace("claims", study.study, rows)
    stored = store.records(_BY_MODEL, {"study": study.study})
    rows = [row.record({}, 0) for verdict in judged for row in verdict.by_model]
    rows += [row for row in stored if row["claim"] in skipped]
    store.replace("claims_by_model", study.study, rows)
    tested = [verdict for verdict in judged if verdict.reading == 1]
    for verdict in tested:
        for text in (line(verdict), *more(verdict)):
            progress.note(f"  {text}")
    for verdict in judged:
        if verdict.reading > 1 and verdict.verdict == "failed":
            progress.note(f"  {also(verdict)}")
    for name in sorted(skipped):
        progress.note(f"  claim {name}: not tested, because this run measured only a part of the study")
    if tested:
        progress.note(f"{study.study}: {tally(tested)}")
    for text in registration_lines(registered):
        progress.note(f"  {text}")
    return [verdict.verdict for verdict in tested]


def line(verdict: Verdict) -> str:
    """Return a verdict as one line."""
    text = f"claim {verdict.claim}: {verdict.verdict}"
    if verdict.verdict == "failed":
        return f"{text}  {verdict.detail['reason']}"
    if verdict.value is not None:
        text += f"  {estimate(verdict.value, verdict.ci_low, verdict.ci_high)}"
    return text + (f", paper {verdict.paper:g}" if verdict.paper is not None else "")


def also(verdict: Verdict) -> str:
    """Return the line of a claim that could not be tested on another token set, or on a baseline."""
    on = [f"view '{verdict.view}'"] if verdict.view is not None else []
    on += [f"baseline {verdict.baseline}"] if verdict.baseline else []
    return f"claim {verdict.claim} ({', '.join(on)}): not tested  {verdict.detail['reason']}"


def more(verdict: Verdict) -> list[str]:
    """Return further lines of a verdict: what it takes to decide, and what changes on other token sets."""
    reason = verdict.detail["reason"] if verdict.p is None and verdict.verdict == "inconclusive" else ""
    changes = [change["says"] for change in verdict.detail.get("views", ()) if change["turned"]]
    return [f"  {text}" for text in (reason, verdict.detail.get("power", ""), *changes) if text]


def tally(verdicts: list[Verdict]) -> str:
    """Return how many claims have each verdict."""
    counts = Counter(verdict.verdict for verdict in verdicts)
    words = ", ".join(f"{counts[w]} {w}" for w in ("supported", "refuted", "inconclusive", "failed") if counts[w])
    tested = sum(verdict.p is not None for verdict in verdicts)
    corrected = f"; corrected for {tested} tests" if tested > 1 else ""
    return f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}: {words}{corrected}"


def _looked_at(store: Store, study: str) -> int | None:
    """Return how many tests the last search for findings made; None if numbers changed since."""
    counts = [row["looked_at"] for row in store.records(_LOOKED_AT, {"study": study})]
    return counts[0] if counts else None


def write_findings(study: Study, store: Store, progress: Progress) -> int:
    """Store the findings of a study if its numbers changed since the last search, print them, return their number."""
    if not (study.metrics and study.corpora) and not study.sections.get("pairs"):
        store.replace("findings", study.study, [])
        return 0
    if (looked_at := _looked_at(store, study.study)) is None:
        from reporter.judge.questions import find

        try:
            found, looked_at = find(store, study)
        except failures() as error:  # a failed search is no reason to lose the run's report
            progress.note(f"{study.study}: the search for findings failed: {describe(error)}")
            return 0
        rows = [row | {"detail": json.dumps(row["detail"], ensure_ascii=False)} for row in found]
        store.replace("findings", study.study, rows)
        store.put("studies", ["study"], {"study": study.study, "looked_at": looked_at})
    stored = store.records(_FINDINGS, {"study": study.study})
    if stored:
        count = f"{len(stored)} finding{'s' * (len(stored) != 1)}"
        progress.note(f"{study.study}: {count} (exploratory, corrected for {looked_at} tests)")
    for row in stored:
        progress.note(f"  {row['says']}  (difference {estimate(row['value'], row['ci_low'], row['ci_high'])})")
    return len(stored)


def write_answers(store: Store, study: str, progress: Progress) -> None:
    """Answer every question and store the rows that changed; a question that fails takes no other with it."""
    for question in QUESTIONS:
        try:
            (answer,) = _answers(store, study, [question.name])
        except failures() as error:  # a failed answer is no reason to lose the run's report
            progress.note(f"{study}: the answer to {question.name!r} failed: {describe(error)}")
            continue
        for name, rows in answer.tables.items():
            store.replace(name, study, rows)


def ask(study: str, out: Path, only: Sequence[str] = ()) -> list[Answer]:
    """Return the answers of a study of a results folder, from its numbers as they are now; writes nothing.

    Args:
        study: id of the study.
        out: the results folder.
        only: names of questions; all if empty.

    Raises:
        UsageError: there is no such study or question.
    """
    store, names = Store(out / "results.duckdb"), [question.name for question in (*STATED, *QUESTIONS)]
    _require_questions(only, names)
    with store.kept_open():
        store.require(study)
        answers = stated(_reading(store, study), only or names)
        return [answer for answer in answers if answer.boxes] + _answers(store, study, only or names)


def ask_texts(study: str, out: Path, only: Sequence[str] = ()) -> Answer:
    """Return the texts and tokens behind the answers of a study, with the arguments of :func:`ask`."""
    store, names = Store(out / "results.duckdb"), [question.name for question in QUESTIONS]
    _require_questions(only, names, questions_with_texts())
    with store.kept_open():
        store.require(study)
        return behind(_reading(store, study), only)


def _require_questions(only: Sequence[str], names: Sequence[str], offered: Sequence[str] = ()) -> None:
    for name in only:
        if name not in names:
            raise UsageError(f"no question '{one_line(name)}'{hint(name, offered or names, 'questions')}")


def _reading(store: Store, study: str) -> Callable[[str], list[dict[str, Any]]]:
    return lambda sql: store.records(sql, {"study": study})


def _answers(store: Store, study: str, names: Sequence[str]) -> list[Answer]:
    read = _reading(store, study)
    order = order_of(read("SELECT spec FROM studies WHERE study = $study")[0]["spec"])
    answers = [answered(question, study, read) for question in QUESTIONS if question.name in names]
    return [
        replace(answer, tables={name: as_named(rows, order) for name, rows in answer.tables.items()})
        for answer in answers
    ]


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
    exists = f"{target} exists already; merge into a new folder"
    if target.exists():
        raise UsageError(exists)
    progress = progress or Progress()
    made = not out.exists()
    try:
        with unfinished_folder(out) as folder:
            draft = folder / DATABASE
            databases, preferred = [path / DATABASE for path in folders], prefer and prefer / DATABASE
            merged = apart(lambda: merge_databases(draft, databases, preferred), folders)
            if not merged.undecided:
                for study, database in merged.studies.items():
                    if not re.fullmatch(STUDY_ID, study):
                        message = f"{database} has a study '{one_line(study)}', whose id cannot be a folder's name"
                        raise ReporterError(f"{message}; merge without this folder")
                for study in merged.joined:
                    _derive_again(Store(draft), study, progress)
                for study, database in merged.studies.items():
                    _copy_look(database.parent, study, out)
                if not place_file(draft, target):
                    raise UsageError(exists)
        return merged
    except OSError as problem:
        raise ReporterError(f"cannot write {target}: {problem.strerror or repr(problem)}") from problem
    finally:
        if made:
            with suppress(OSError):  # it is not empty: all is well
                out.rmdir()


def _copy_look(source: Path, study: str, out: Path) -> None:
    """Copy a study's own templates and stylesheet: regular files alone, since a link may lead anywhere."""
    look = source / study / _LOOK
    folders = (source / study, look)
    if all(folder.is_dir() and not folder.is_symlink() for folder in folders):
        with replacing(out, f"{study}/{_LOOK}", alone=True) as fresh:
            for file in (*look.glob("*.html"), *look.glob("*.css")):
                if not file.is_symlink() and endless(file, MOST_OF_A_STUDY) is None:
                    shutil.copyfile(file, fresh / file.name)


def _derive_again(store: Store, study: str, progress: Progress) -> None:
    """Compute what depends on all numbers of a merged study; what fails is left empty and reported."""
    [row] = store.records("SELECT spec FROM studies WHERE study = $study", {"study": study})
    write_correlations(store, study)
    try:
        spec = read_stored(study, row["spec"], store.path).study
    except ReporterError as error:
        why = describe(error).partition("\n")[0]
        progress.note(f"{study}: no claims and findings yet, since its stored text cannot be read: {why}")
        progress.note("  run the study again with `reporter run` to compute them")
        for sentence in write_same_weights(store, study):
            progress.note(f"  {sentence}")
        write_over_models(store, study)
        write_comparison(store, study)
        write_answers(store, study, progress)
        return
    derive(spec, store, progress)
