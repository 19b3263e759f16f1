"""The second opinion: a few cells of a study measured again by an independent, slow path, and compared."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from reporter.app.verify import by_cloud, by_map, by_model, by_token
from reporter.app.verify.by_model import PlainModel, VerifiedModel
from reporter.app.verify.by_token import Means, compare_means, text_means
from reporter.app.verify.cells import Asked, Side, VerifiedCell, choose, side_of
from reporter.app.verify.deviations import Deviation, Numbers, Stored, compare, missing, stored_numbers, stored_pairs
from reporter.app.verify.reading import CorpusReading, NoPath, Remeasured, Rule, tokenised
from reporter.core.errors import ReporterError, UsageError
from reporter.core.numbers import counted
from reporter.core.places import POOLINGS, TEXT_TOKENS, WITHOUT_SINKS
from reporter.core.progress import Progress
from reporter.judge.judging import registration_lines
from reporter.metrics.analysis import default_pooling
from reporter.metrics.partners import TextHalves
from reporter.models.toy.training import prepare
from reporter.runs.plan import AnalysisCell, MetricCell, or_raise
from reporter.runs.planner import plan_study
from reporter.runs.registered import sentences
from reporter.runs.studies import find_study
from reporter.store import Store, joined
from reporter.texts.sources.stored import FileCorpus

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.runs.plan import Plan

PATHS: Mapping[str, Callable[[CorpusReading, Mapping[str, Any]], Iterator[Remeasured]]] = {
    "convergence": by_token.convergence,
    "motion": by_token.motion,
    "anisotropy": by_cloud.anisotropy,
    "spectrum": by_cloud.spectrum,
    "subspaces": by_cloud.subspaces,
    "variance": by_cloud.variance,
    "outliers": by_cloud.outliers,
    "ranges": by_cloud.ranges,
    "sinks": by_cloud.sinks,
    "sink_cuts": by_cloud.sink_cuts,
    "entropy": by_token.entropy,
    "contextuality": by_token.contextuality,
    "layer_pairs": by_token.layer_pairs,
    "intrinsic_dimension": by_map.intrinsic_dimension,
    "token_path": by_token.token_path,
    "angular_distance": by_token.angular_distance,
    "information_imbalance": by_map.information_imbalance,
    "linearity": by_map.linearity,
    "local_dimension": by_map.local_dimension,
}
"""Each metric that a path measures again from the states."""
MODEL_PATHS: Mapping[str, Callable[[CorpusReading, Mapping[str, Any], VerifiedModel], Iterator[Remeasured]]] = {
    "loss": by_model.loss,
    "lens": by_model.lens,
    "journey": by_model.journey,
    "contributions": by_map.contributions,
}
"""Each metric whose path needs the model itself."""
AGAINST_BASE = ("change", "divergence")
"""Each metric whose path needs the base as well."""
TABLES: Mapping[str, tuple[str, ...]] = {"outliers": ("sinks", "sink_cuts")}
"""Tables of a metric that have numbers of their own."""

MIXED = 3.0
"""In a pass of mixed precision a number may move by so many times the states' mean relative deviation."""
_FLOOR = "a chance level comes from random noise, not from the model"
_DRAWN = "it compares with randomly drawn tokens"
_NO_PATH = "no independent path exists"
_ATTENTION = "the model does not return the states after attention"
_OTHER_SINKS = "in the precision of the run, other tokens are sinks than in float32"
_AT_CUT = "in the precision of the run, other tokens exceed the cut than in float32"
_COUNTED = ("types", "count")  # of the table `sinks`
_CUT = ("layer_first", "layer_last", "dominance", "dimension")  # of it, what hangs on a single block
_NONE_THERE = "the independent path has no such number"
_OTHER_NOT_READ = "the base or the twin was not measured again; raise --cells"
_DISK = 0.5  # of what is free, that states may take up


@dataclass
class Verification:
    """The result of ``verify``: largest deviations by statistic, and what was not verified, with reasons."""

    study: str
    cells: list[dict[str, Any]] = field(default_factory=list)
    deviations: dict[str, Deviation] = field(default_factory=dict)
    unverified: dict[tuple[str, str], int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether something was measured again, and nothing deviates beyond its tolerance."""
        is_close = all(deviation.passed for deviation in self.deviations.values())
        return bool(self.deviations) and not self.failed and is_close

    def add(self, deviations: Mapping[str, Deviation]) -> None:
        """Take in the deviations of one metric of one cell."""
        for name, deviation in deviations.items():
            self.deviations[name] = self.deviations[name].joined(deviation) if name in self.deviations else deviation

    def skip(self, name: str, numbers: int, reason: str) -> None:
        """Note numbers that were not measured again."""
        self.unverified[name, reason] = self.unverified.get((name, reason), 0) + numbers


def verify(
    study: str, out: Path, selection: Asked, *, offline: bool = False, progress: Progress | None = None
) -> Verification:
    """Measure a few cells of a finished study again and compare.

    Nothing of the fast path is used but what loads weights, tokenizer and texts: one text at a time without padding,
    the model's own hidden states, float64 NumPy written down from the definitions, another number of threads.

    Raises:
        UsageError: if there is nothing to measure again.
    """
    progress = progress or Progress()
    file = find_study(study, out)
    plan = plan_study(file, out, offline=offline)
    store = Store(out / "results.duckdb")
    cells, left_out = choose(plan, store, selection)
    result = Verification(file.study.study, left_out=left_out)
    result.notes += registration_lines(sentences(file.study, store, file if file.path.is_file() else None))
    if not cells:
        if not left_out and plan.cells:
            raise UsageError(
                f"study '{file.study.study}' has nothing to measure again, since its metrics only compare models; add "
                "a metric of single models, such as `motion`, and run the study; `verify` then covers `change`"
            )
        why = "; ".join(dict.fromkeys(f"{name}: {reason}" for name, reason in list(left_out.items())[:3]))
        more = "" if Path(study).is_file() else "; if its files have moved, name the YAML file of the study"
        raise UsageError(f"study '{file.study.study}' has no finished cell to measure again ({why or 'none'}){more}")
    verifier = _Verifier(plan, store, result, offline, progress)
    with _other_threads(result), tempfile.TemporaryDirectory(prefix="reporter-verify-") as folder:
        for number, cell in enumerate(cells):
            try:
                verifier.cell(cell, Path(folder) / str(number))
            except ReporterError as error:
                result.failed[str(cell)] = str(error)
            if cell.side not in verifier.read:
                shutil.rmtree(Path(folder) / str(number), ignore_errors=True)
        verifier.between(cells)
        verifier.change()
        verifier.partners()
    return result


@contextmanager
def _other_threads(result: Verification) -> Iterator[None]:
    """Compute with another number of threads than a run does here, since sums then add up in another order."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1 if usual > 1 else 2)
    threads = counted(torch.get_num_threads(), "thread")
    result.notes.append(f"measured again with {threads}; a run here uses {usual}, which sums in another order")
    try:
        yield
    finally:
        torch.set_num_threads(usual)


class _Verifier:
    def __init__(self, plan: Plan, store: Store, result: Verification, offline: bool, progress: Progress) -> None:
        self.plan, self.store, self.result = plan, store, result
        self.offline, self.progress = offline, progress
        self.study = plan.file.study
        factor, dominance = self.study.sinks.factor, self.study.sinks.dominance
        # Without either both are at their defaults; a factor alone is the rule of the norm alone.
        self.rule = Rule() if factor is None and dominance is None else Rule(factor or Rule.factor, dominance)
        self.means: dict[tuple[str, str, str], dict[str, Means]] = {}
        self.moved: dict[tuple[str, str], float] = {}
        self.read: dict[Side, tuple[CorpusReading, VerifiedModel]] = {}  # changed models, their bases and their twins
        self.plain: dict[tuple[str, str], tuple[PlainModel, Mapping[str, Any]]] = {}  # models that read pairs
        self.other_sinks: set[Side] = set()

    def cell(self, cell: VerifiedCell, folder: Path) -> None:
        """Measure one checkpoint on one corpus again and compare every number that is stored of it."""
        checkpoint = self._checkpoint(cell)
        model = PlainModel(checkpoint, int(cell.facts["layers"]), cell.facts["last_hidden_state"], self.offline)
        reading = self._read(cell, model, folder)
        moved = self._moved(cell, model)
        subject = VerifiedModel(model, reading.causal, self.offline, moved / MIXED)
        row = {"cell": str(cell), "precision": cell.facts["precision"], "texts": len(reading.texts)}
        self.result.cells.append({**row, "tokens": len(reading.ids)})
        if any(cell.side in sides for _, sides, _ in self.changes):
            self.read[cell.side] = reading, subject
        if any((pairs.key.model, pairs.key.checkpoint) == cell.side[:2] for pairs in self.pairs):
            self.plain[cell.side[:2]] = model, cell.facts
        kinds = reading.kinds
        counts = {
            "texts": len(reading.texts),
            "tokens": len(reading.ids),
            "cut_texts": sum(text.cut for text in reading.texts),
            "special": int(kinds.special.sum()),
            "sinks": int((kinds.sink & ~kinds.special).sum()),
        }
        stored = self._stored(cell.side)
        other_sinks = moved > 0 and self._other_sinks(cell, counts["sinks"], reading, stored.get("sinks", {}))
        if other_sinks:
            del counts["sinks"]
            self.other_sinks.add(cell.side)
            self.result.skip("cells.sinks", 1, _OTHER_SINKS)
        counted: Numbers = {
            (name, "", None, None): Stored(float(number), None) for name, number in cell.counted.items()
        }
        recounted = [Remeasured(name, "", None, number) for name, number in counts.items()]
        self.result.add(compare("cells", counted, recounted, str(cell), 0.0))
        for metric, options in cell.metrics.items():
            for name in (metric, *TABLES.get(metric, ())):
                numbers = self._comparable(name, stored.get(name, {}), moved > 0, other_sinks)
                again, reason = self._remeasured(name, options, reading, subject)
                self._compare(name, numbers, again, str(cell), moved, reason)
            if metric == "layer_pairs":
                self.means[cell.side] = {view: text_means(reading, view, options["texts"]) for view in reading.views}

    @cached_property
    def changes(self) -> list[tuple[str, list[Side], Mapping[str, Any]]]:
        """The metrics against a base with their sides (a model, its base, any twin) and options."""
        return [
            (cell.key.metric, [side_of(run) for run in cell.passes], cell.settings)
            for cell in self.plan.cells
            if isinstance(cell, MetricCell) and cell.key.metric in AGAINST_BASE and cell.state == "cached"
        ]

    @cached_property
    def pairs(self) -> list[AnalysisCell]:
        """The finished tables of pairs, of every model."""
        cells = (cell for cell in self.plan.cells if isinstance(cell, AnalysisCell) and cell.state == "cached")
        return [cell for cell in cells if cell.key.metric == "partners"]

    def _other_sinks(self, cell: VerifiedCell, sinks_counted: int, reading: CorpusReading, stored: Numbers) -> bool:
        measured = [number for number in by_cloud.sinks(reading, {}) if number.statistic in _COUNTED]
        again = {(number.statistic, number.view): number.value for number in measured}
        was = {key[:2]: number.value for key, number in stored.items() if key[0] in _COUNTED}
        return sinks_counted != cell.counted["sinks"] or ("outliers" in cell.metrics and again != was)

    def _comparable(self, name: str, stored: Numbers, moved: float, other_sinks: bool) -> Numbers:
        kept = {}
        for key, number in stored.items():
            statistic, view, *_ = key
            of_sinks = name == "sinks" or statistic == "sink_share" or view == WITHOUT_SINKS
            of_cuts = name == "sink_cuts" or statistic == "sink_sensitivity" or (name == "sinks" and statistic in _CUT)
            if not (of_cuts and moved > 0) and not (of_sinks and other_sinks):
                kept[key] = number
        for statistic, numbers in missing({key: value for key, value in stored.items() if key not in kept}, ()).items():
            self.result.skip(f"{name}.{statistic}", numbers, _OTHER_SINKS if other_sinks else _AT_CUT)
        return kept

    def _checkpoint(self, cell: VerifiedCell) -> Checkpoint:
        ready = prepare(or_raise(self.plan.checkpoints[cell.model]), self.progress)
        return next(checkpoint for checkpoint in ready if checkpoint.name == cell.checkpoint)

    def _read(self, cell: VerifiedCell, model: PlainModel, folder: Path) -> CorpusReading:
        folder.mkdir()
        needed = 4 * int(cell.counted["tokens"]) * int(cell.facts["width"]) * (int(cell.facts["layers"]) + 2)
        if needed > _DISK * shutil.disk_usage(folder).free:
            raise ReporterError(
                f"its states need {needed / 2**30:.0f} GiB of temporary disk space; free space, or lower --max-texts"
            )
        texts = or_raise(self.plan.texts[cell.corpus])
        part = self.study.corpora[cell.corpus]
        limits = (part.max_tokens, cell.facts["max_tokens"])
        chat = part if isinstance(part, FileCorpus) and part.chat else None
        baseline = self.plan.baselines.get(cell.model)
        reading = CorpusReading(
            folder,
            self.study.run.seed,
            cell.facts["role"] == "decoder",
            len(texts),
            tokenised(texts, model.tokenizer, min(int(limit) for limit in limits if limit is not None), chat),
            baseline is not None and baseline.kind == "shuffled",
            self.rule,
            self.study.views,
            self.study.sites,
            cell.facts["positions"] == "added",
        )
        with self.progress.step(f"measuring again: {cell}", len(reading.texts), "texts") as advance:
            reading.read(model, advance)
        return reading

    def _moved(self, cell: VerifiedCell, model: PlainModel) -> float:
        deviation = cell.facts["precision_deviation"] if cell.facts["precision"] == "mixed" else None
        if not model.full_precision:
            deviation = max(deviation or 0.0, 0.004)  # what bf16 rounds to
            self.result.notes.append(f"{cell}: the weights are not float32; `verify` reads them in float32")
        moved = MIXED * float(deviation) if deviation is not None else 0.0
        if moved:
            note = f"{cell}: the precision of the run moved states by {deviation:.1e} (precision_deviation)"
            self.result.notes.append(f"{note}, so numbers may differ by {MIXED:g} times this value")
        self.moved[cell.model, cell.checkpoint] = moved
        return moved

    def _remeasured(
        self, metric: str, options: Mapping[str, Any], reading: CorpusReading, subject: VerifiedModel
    ) -> tuple[list[Remeasured], str]:
        """Return the numbers of a metric, and why some are missing."""
        numbers: list[Remeasured] = []
        try:
            if metric in PATHS:
                numbers.extend(PATHS[metric](reading, options))
            elif metric not in MODEL_PATHS:
                raise NoPath(_NO_PATH)
            elif not reading.is_whole:
                raise NoPath("no independent path for one role of a chat")
            else:
                numbers.extend(MODEL_PATHS[metric](reading, options, subject))
        except NoPath as reason:  # what came before it counts
            return numbers, str(reason)
        return numbers, ""

    def _compare(
        self, metric: str, stored: Numbers, again: Sequence[Remeasured], where: str, moved: float, reason: str = ""
    ) -> None:
        """Compare the stored numbers of a metric with those measured again, and note why the others are missing."""
        self.result.add(compare(metric, stored, again, where, moved))
        attention = {key: number for key, number in stored.items() if key[2] and key[2].site == "attention"}
        for statistic, numbers in missing(attention, again).items():
            self.result.skip(f"{metric}.{statistic}", numbers, _ATTENTION)
        rest = {key: number for key, number in stored.items() if key not in attention}
        has = {measured.statistic for measured in again}
        for statistic, numbers in missing(rest, again).items():
            why = reason or (_NONE_THERE if statistic in has else _NO_PATH)
            if statistic.endswith("_floor"):
                why = _FLOOR
            elif statistic in {"explained_by_first_baseline", "explained_by_first_adjusted"}:
                why = _DRAWN
            self.result.skip(f"{metric}.{statistic}", numbers, why)

    def _stored(self, side: Side) -> dict[str, Numbers]:
        return stored_numbers(self.store, self.study.study, *side)

    def between(self, cells: Sequence[VerifiedCell]) -> None:
        """Compare what is stored of the layers of two models, where both were measured again on one corpus."""
        options: Mapping[str, Any] = next((c.settings for c in self.plan.cells if c.key.metric == "layer_pairs"), {})
        for a, b in permutations(cells, 2):
            sides = [a.model, a.checkpoint, b.model, b.checkpoint]
            stored = stored_pairs(self.store, self.study.study, a.corpus, sides).get("layer_pairs", {})
            if a.corpus != b.corpus or not stored or not {a.side, b.side} <= self.means.keys():
                continue
            again: list[Remeasured] = []
            for view in self.study.views:
                again += compare_means(self.means[a.side][view], self.means[b.side][view], view, options)
            moved = max(self.moved[cell.side[:2]] for cell in (a, b))
            self._compare("layer_pairs", stored, again, f"{joined(a.model, b.model)} × {a.corpus}", moved)

    def change(self) -> None:
        """Compare what is stored of models and their bases, where both were measured again."""
        for metric, (model, *partners), options in self.changes:
            if model not in self.read:
                continue
            stored = self._stored(model).get(metric, {})
            partners = partners[: None if metric == "change" else 1]
            measured = [side for side in (model, *partners) if side in self.read]
            moved = max(self.moved[side[:2]] for side in measured)
            numbers = self._comparable(metric, stored, moved, not self.other_sinks.isdisjoint(measured))
            again: list[Remeasured] = []
            reason = "" if len(measured) > len(partners) else _OTHER_NOT_READ
            reading, subject = self.read[model]
            for other, ending in zip(partners, ("", "_seed"), strict=False):
                if other not in self.read:
                    continue
                base, of_base = self.read[other]
                if metric == "change":
                    again += by_map.change(reading, base, options, ending)
                    continue
                try:
                    again += by_model.divergence(reading, base, options, (subject, of_base))
                except NoPath as why:
                    reason = str(why)
            self._compare(metric, numbers, again, f"{model[0]} | {partners[0][0]} × {model[2]}", moved, reason)
        for cell in self.plan.cells:
            if isinstance(cell, MetricCell) and cell.metric.compares_only and cell.key.metric not in AGAINST_BASE:
                side = side_of(cell.passes[0])
                if side[:2] in self.moved:
                    self._compare(cell.key.metric, self._stored(side).get(cell.key.metric, {}), (), "", 0.0)

    def partners(self) -> None:
        """Compare the numbers of tables of pairs, with every model that was measured again."""
        for cell in self.pairs:
            if (side := (cell.key.model, cell.key.checkpoint)) not in self.plain:
                continue
            model, facts = self.plain[side]
            name, moved = f"{cell.key.model} × {cell.key.corpus}", self.moved[side]
            stored = self._stored((*side, cell.key.corpus)).get("partners", {})
            main = default_pooling(facts["role"]) if cell.pooling == "auto" else cell.pooling
            poolings = POOLINGS if cell.pooling == "auto" else (main,)
            item: Any = cell.item
            if isinstance(item, TextHalves):
                self._compare("partners", stored, (), name, moved, "the halves of texts are not drawn again")
                continue
            again = list(by_model.partners(model, item.pairs, poolings, int(facts["max_tokens"] or sys.maxsize)))
            again += [number._replace(view=TEXT_TOKENS) for number in again if number.view == f"raw, pooling {main}"]
            self._compare("partners", stored, again, name, moved)
