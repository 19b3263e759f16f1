"""The question which layer to take states from, and with which pooling: by labels, pairs, groups or without labels.

Each *criterion* is a number by layer that is better when it is larger (or smaller). Only a probe of labels and pairs
of texts measure use, so only they recommend a layer. Layers and poolings are compared on the same held-out texts, or
pairs: what each loses against the best, with an interval that holds however many are tried
(:mod:`reporter.geometry.statistics`). Numbers without labels name a layer, too; where a probe was trained, it says
what their layer loses. Such rules go back to Skean
et al. 2025, 'Layer by Layer' (entropy; turns of the path from token to token) and Cheng et al. 2025, 'Emergence of a
High-Dimensional Abstraction Phase' (dimension). Pairs have an answer of their own
(:mod:`reporter.judge.questions.concepts`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, isnan
from typing import Any

import numpy as np

from reporter.core.numbers import estimate, short
from reporter.core.places import TEXT_TOKENS, capital, in_backticks, listed, place, ranges, together
from reporter.core.table import ALL_GROUPS, VIEWS, Row
from reporter.geometry.intervals import of_units
from reporter.geometry.statistics import behind_best
from reporter.judge.claims import least_effect
from reporter.judge.questions.concepts import same_token_warning
from reporter.judge.questions.probes import unprobed
from reporter.judge.questions.question import (
    Advice,
    Box,
    BoxColumn,
    Question,
    Read,
    Record,
    grouped,
    measured,
    numeric,
    table,
)
from reporter.metrics.partners import OWN
from reporter.store.answers import End, Kind, LayerAnswer

Cell = tuple[str, int, str | None, str | None]
"""Site, layer, pooling and treatment of the vectors."""

_KINDS: Mapping[str, Kind] = {
    "probes.linear": "labels",
    "partners.spearman": "scores",
    "partners.recall": "partners",
    "probes.label_overlap": "neighbours",
    "groups.silhouette": "groups",
}
"""What numbers tell good layers from bad ones by, the strongest first."""
# What measures use, and so recommends a layer: its name before an item and over a column, and its units.
_USE: Mapping[str, tuple[str, str, str]] = {
    "labels": ("the accuracy of the linear probe", "accuracy", "texts"),
    "scores": ("the correlation of cosines with the scores of", "correlation", "pairs"),
    "halves": ("the share of texts whose first half finds its second half in", "share found", "texts"),
    "partners": ("the share of texts that find their partner in", "share found", "pairs"),
}
LABEL_FREE: Mapping[str, tuple[End, str]] = {
    "entropy.prompt_unit": ("low", "lowest entropy of a text's directions"),
    "intrinsic_dimension.twonn": ("high", "highest intrinsic dimension"),
    "token_path.curvature": ("low", "straightest path from token to token"),
}
"""Which end a layer is chosen by, and what that is called."""
CLOSE = 0.03
"""Accuracies that lie no farther below the best are called close to it."""
_SITES = "site IN ('embedding', 'block', 'final')"

_MODELS = """
SELECT model, checkpoint, layers, last_hidden_state, norm_placement FROM models
WHERE study = $study AND status = 'done' AND baseline IS NULL AND is_last ORDER BY model
"""
_PROBED = f"""
WITH told AS (
  SELECT model, checkpoint, probe, pooling, site, layer, list(text ORDER BY text) AS units,
    list(linear::DOUBLE ORDER BY text) AS told, list(coalesce(unit, text) ORDER BY text) AS clusters,
    list(label ORDER BY text) AS labels, list(predicted ORDER BY text) AS predicted,
    count(DISTINCT fold) AS folds
  FROM probe_texts WHERE study = $study GROUP BY ALL
)
SELECT model, checkpoint, 'probes' AS metric, 'linear' AS statistic, probe AS item, '{TEXT_TOKENS}' AS view, site,
  layer, pooling, NULL AS variant, main, accuracy AS value, ci_low, ci_high, chance, n, NULL AS same_token, units, told,
  clusters, folds, labels, predicted, NULL AS halves
FROM probe_poolings LEFT JOIN told USING (model, checkpoint, probe, pooling, site, layer)
WHERE study = $study AND {_SITES}
UNION ALL BY NAME SELECT model, checkpoint, 'partners' AS metric, statistic, partner_set AS item,
  '{TEXT_TOKENS}' AS view, site, layer, pooling, variant, main, value, ci_low, ci_high, chance, n, range(n) AS units,
  parts::DOUBLE[] AS told, halves
FROM partner_numbers
WHERE study = $study AND {_SITES} AND variant IN ('raw', 'centred') AND statistic IN ('spearman', 'recall')
ORDER BY model, checkpoint, item, main DESC, pooling, variant DESC, layer, site
"""
_NUMBERS = f"""
WITH chances AS (
  SELECT model, checkpoint, metric, corpus, view, site, layer, statistic AS floor, value AS chance
  FROM layer_metrics WHERE study = $study AND metric = 'probes' AND ends_with(statistic, '_floor')
), poolings AS (
  SELECT DISTINCT model, checkpoint, 'probes' AS metric, probe AS corpus, pooling, NULL AS same_token
  FROM probe_poolings WHERE study = $study AND main
  UNION SELECT DISTINCT model, checkpoint, 'groups', '{ALL_GROUPS}', pooling, same_token
  FROM groups WHERE study = $study AND control = 'none'
)
SELECT model, checkpoint, metric, statistic, corpus AS item, view, site, layer, value, ci_low, ci_high, chance, n,
  pooling, NULL AS variant, same_token
FROM (SELECT *, statistic || '_floor' AS floor FROM layer_metrics WHERE study = $study)
LEFT JOIN chances USING (model, checkpoint, metric, corpus, view, site, layer, floor)
LEFT JOIN poolings USING (model, checkpoint, metric, corpus)
WHERE {_SITES} AND value IS NOT NULL
AND metric || '.' || statistic IN ({", ".join(f"'{n}'" for n in (*_KINDS, *LABEL_FREE) if _KINDS.get(n) not in _USE)})
ORDER BY model, checkpoint, metric, statistic, item, {VIEWS}, layer, site
"""


@dataclass
class _Criterion:
    """A number by layer, and by pooling where texts are read."""

    kind: Kind
    name: str
    item: str
    end: End = "high"
    rows: dict[Cell, Record] = field(default_factory=dict)
    gaps: Mapping[Cell, Record] = field(default_factory=dict)

    def _goodness(self, cell: Cell) -> float:
        value: float = self.rows[cell]["value"]
        return value if self.end == "high" else -value

    @property
    def best(self) -> Cell:
        """The best one seen; of equals the first."""
        return max(self.rows, key=self._goodness)

    def loss(self, cell: Cell) -> Record:
        """Return by how much a cell is worse than the best one seen, the interval, and the texts that would decide."""
        measured = self._goodness(self.best) - self._goodness(cell)
        return {"loss": measured, **self.gaps.get(cell, dict.fromkeys(("loss_low", "loss_high", "needed")))}


def _answer(read: Read) -> Iterator[Row | Advice]:
    models = read(_MODELS)
    rows, kinds = [*read(_PROBED), *read(_NUMBERS)], set()
    for model in models:
        key = (model["model"], model["checkpoint"])
        criteria = list(_criteria([row for row in rows if (row["model"], row["checkpoint"]) == key]))
        kinds |= {criterion.kind for criterion in criteria}
        for criterion in criteria:
            yield from _rows(model, criterion, criteria)
    if not kinds & _USE.keys():
        says = (
            "only labels or pairs of texts rank layers: add `partners: {mine: {halves: CORPUS}}`, which needs no "
            "labels, or a corpus with labels and `probes: {mine: {corpus: NAME}}`"
        )
        yield from list(unprobed(read)) or [Advice(says, runs=True)]


def _criteria(rows: Sequence[Record]) -> Iterator[_Criterion]:
    """Yield what tells layers apart in one model."""
    criteria: dict[tuple[str, str], _Criterion] = {}
    views: dict[tuple[str, str], str] = {}  # of each number the first view alone
    for row in rows:
        name, item = f"{row['metric']}.{row['statistic']}", row["item"]
        if views.setdefault((name, item), row["view"]) == row["view"]:
            kind: Kind = "halves" if row.get("halves") else _KINDS.get(name, "no labels")
            made = _Criterion(kind, name, item, LABEL_FREE.get(name, ("high", ""))[0])
            criteria.setdefault((name, item), made).rows[_cell_of(row)] = row
    for criterion in criteria.values():
        if criterion.kind in _USE:
            criterion.gaps = _by_text(list(criterion.rows.values()))
        if len(criterion.rows) > 1:
            yield criterion


def _by_text(rows: Sequence[Record]) -> dict[Cell, Record]:
    """Compare layers and poolings by which texts a probe classified correctly, or by the parts of pairs in a number.

    Classifiers of different folds share training texts, so that their errors go together: the variance of the mean is
    taken 1 + J/(J − 1) times that of independent texts, J the number of folds (Nadeau & Bengio 2003, 'Inference for
    the generalization error', Machine Learning 52). Seven layers of made-up data, equally good and with features of
    their own, have one that is told apart in at most 6 % of cases with it, and in 14 to 40 % without.
    """
    rows = [row for row in rows if row["units"]]
    most = max((len(row["units"]) for row in rows), default=0)
    rows = [row for row in rows if len(row["units"]) == most]
    rows = [row for row in rows if row["units"] == rows[0]["units"]]
    if not rows:
        return {}
    correct = of_units(np.array([row["told"] for row in rows]).T, rows[0].get("clusters"))
    folds = max(row["folds"] or 0 for row in rows)
    behind = behind_best(correct, inflation=1 + folds / (folds - 1) if folds else 1.0)
    if behind is None:
        return {}
    high = np.minimum(behind.high, 1.0)  # accuracies lie within 0 and 1
    texts = behind.needed * (most / len(correct))  # of clusters as large; none where a loss is significant or zero
    return {
        _cell_of(row): {"loss_low": low, "loss_high": high, "needed": None if low or isnan(needed) else ceil(needed)}
        for row, low, high, needed in zip(rows, behind.low.tolist(), high.tolist(), texts.tolist(), strict=True)
    }


def _cell_of(row: Record) -> Cell:
    return row["site"], row["layer"], row["pooling"], row["variant"]


def _in_order(cell: Cell) -> tuple[int, bool, str, bool]:
    return cell[1], cell[0] == "final", cell[2] or "", cell[3] == "centred"


def _rows(model: Record, criterion: _Criterion, criteria: Sequence[_Criterion]) -> Iterator[LayerAnswer]:
    judge = next((other for other in criteria if other.kind == "labels"), None)
    last = "final" if model["last_hidden_state"] == "final" else "block"
    for cell in sorted(criterion.rows, key=_in_order):
        site, layer, *_ = cell
        at_end = (site, layer) == (last, model["layers"])
        number, judged = criterion.rows[cell], dict[str, Any]()
        if criterion.kind != "labels" and judge is not None and (same := (site, layer, *judge.best[2:])) in judge.rows:
            lost = {f"probe_{name}": value for name, value in judge.loss(same).items() if name != "needed"}
            judged = {"probe": judge.item, **lost}
        yield LayerAnswer.of(
            number,
            kind=criterion.kind,
            criterion=criterion.name,
            end=criterion.end,
            entry="last_hidden_state" if at_end else None if layer == model["layers"] else f"hidden_states[{layer}]",
            normed={"final": True, "embedding": None}.get(site, model["norm_placement"] == "post"),
            usual=at_end and number.get("main", True) and number["variant"] != "centred",
            best=cell == criterion.best,
            **_by_class(number),
            **criterion.loss(cell),
            **judged,
        )


def _by_class(row: Record) -> dict[str, float]:
    """Return what a probe comes to when each class counts alike; empty for other criteria."""
    if not row.get("labels"):
        return {}
    from sklearn.metrics import balanced_accuracy_score, f1_score

    labels, predicted = row["labels"], row["predicted"]
    macro = f1_score(labels, predicted, labels=sorted(set(labels)), average="macro", zero_division=0)
    return {"balanced": float(balanced_accuracy_score(labels, predicted)), "macro_f1": float(macro)}


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    models = [_by_criterion(of_model) for of_model in grouped(tables["layer_answers"], "model")]
    boxes = [box for criteria in models for box in _of_model(criteria)]
    guesses = [criteria for criteria in models if criteria[0][0]["kind"] == "no labels"]
    return [*boxes, _guessed(guesses)] if guesses else boxes


def _by_criterion(rows: Sequence[Record]) -> list[list[Record]]:
    criteria = [
        sorted(criterion, key=lambda row: _in_order(_cell_of(row)))
        for criterion in grouped(sorted(rows, key=lambda row: (row["criterion"], row["item"])), "criterion", "item")
    ]
    kinds = [*_USE, *_KINDS.values(), "no labels"]
    return sorted(criteria, key=lambda criterion: kinds.index(criterion[0]["kind"]))


def _of_model(criteria: Sequence[Sequence[Record]]) -> Iterator[Box]:
    useful = [criterion for criterion in criteria if criterion[0]["kind"] in _USE]
    rest = [criterion for criterion in criteria if criterion[0]["kind"] not in _USE]
    for criterion in useful:
        yield _recommended(criterion, useful)
        yield _every_layer(criterion, useful)
    if rest and (useful or rest[0][0]["kind"] != "no labels"):
        yield _compared(rest)


def measures_use(rows: Iterable[Record]) -> str:
    """Return the full name of the strongest number that measures use; empty where none does."""
    kinds = {row["kind"]: str(row["criterion"]) for row in rows}
    return next((kinds[kind] for kind in _USE if kind in kinds), "")


def advices(rows: Sequence[Record]) -> Iterator[tuple[str, str]]:
    """Yield the advice of each criterion that recommends a layer of one model, by its item, the strongest first."""
    for criterion in _by_criterion(rows) if rows else ():
        if criterion[0]["kind"] in _USE:
            yield criterion[0]["item"], _advice(criterion)[0]


def _recommended(rows: Sequence[Record], useful: Sequence[object]) -> Box:
    """Say which layer and pooling a probe or pairs read best, and what is known about the others."""
    kind = rows[0]["kind"]
    says, take = _advice(rows)
    return Box(
        about=_about(rows[0], useful),
        says=says,
        code="\n".join(dict.fromkeys([_code(take), *_other_code(rows, take)])),
        **table(
            grouped(sorted(rows, key=lambda row: (not row["best"], -row["value"])), "pooling", "variant"),
            BoxColumn("pooling", lambda rows: _pooled(rows[0])),
            BoxColumn("best layer", lambda rows: _place(rows[0])),
            numeric(_USE[kind][1], lambda rows: _number(rows[0])),
            numeric("points below the best", lambda rows: _below(rows[0])),
            BoxColumn("significant", lambda rows: _significant(rows[0])),
            numeric("last hidden state: points below", lambda rows: _below(_last(rows))),
            BoxColumn("significant", lambda rows: _significant(_last(rows))),
            BoxColumn("no significant difference from the best", _not_worse),
        ),
        notes=tuple(_notes(rows, take)),
    )


def _other_code(rows: Sequence[Record], take: Record) -> Iterator[str]:
    """Yield for a sentence encoder the line for the other library than that of the advice."""
    own = next((row for row in rows if row["pooling"] == OWN and row["variant"] == take["variant"]), None)
    if own is not None:
        plain = max((row for row in rows if row["pooling"] != OWN), key=lambda row: (row["usual"], row["value"]))
        yield _code(plain if take["pooling"] == OWN else own)


def _every_layer(rows: Sequence[Record], useful: Sequence[object]) -> Box:
    """Show each layer with each pooling, and for labels what the best pooling comes to if each class counts alike."""
    best = next(row for row in rows if row["best"])
    columns = grouped(sorted(rows, key=lambda row: (not row["best"], -row["value"])), "pooling", "variant")
    by_cell = {_cell_of(row): row for row in rows}

    def cell(of_layer: Record, pooling: Record) -> str:
        row = by_cell.get((of_layer["site"], of_layer["layer"], pooling["pooling"], pooling["variant"]))
        return "–" if row is None else estimate(row["value"], row["ci_low"], row["ci_high"])

    def by_class(name: str) -> Callable[[Record], float | None]:
        return lambda of_layer: _of_class(by_cell.get((of_layer["site"], of_layer["layer"], *_cell_of(best)[2:])), name)

    shown = [numeric(_pooled(of[0]), partial(cell, pooling=of[0])) for of in columns]
    if best["kind"] == "labels":
        shown += [measured("balanced accuracy", by_class("balanced"), 2)]
        shown += [measured("macro F1", by_class("macro_f1"), 2)]
    layers = [of[0] for of in grouped(sorted(rows, key=lambda row: _in_order(_cell_of(row))), "site", "layer")]
    classes = f"; balanced accuracy and macro F1 are those of pooling {_pooled(best)}" * (best["kind"] == "labels")
    chance = "" if best["chance"] is None else f", {_reference(best)}"
    return Box(
        about=_about(rows[0], useful),
        says=f"{capital(_USE[best['kind']][1])} at every layer by pooling, with 95 % intervals for each layer alone"
        f"{chance}{classes}.",
        **table(layers, BoxColumn("layer", lambda row: capital(_place(row))), *shown),
    )


def _of_class(row: Record | None, name: str) -> float | None:
    return None if row is None else row[name]


def _about(row: Record, useful: Sequence[object]) -> str:
    if len(useful) < 2:
        return str(row["model"])
    return f"{row['model']}, {'probe' if row['kind'] == 'labels' else 'pairs'} {row['item']}"


def _compared(criteria: Sequence[Sequence[Record]]) -> Box:
    """Show where numbers that do not measure use are best; none of them recommends a layer."""
    best = [next(row for row in criterion if row["best"]) for criterion in criteria]
    judged = next((row["probe"] for row in best if row["probe"]), None)
    points = numeric(f"points below the best of the probe {judged}", _loss_by_probe)
    notes = [note for row in best if (note := same_token_warning(row, "texts of the groups"))]
    if any(row["kind"] == "no labels" for row in best):
        notes.append(_WEAK)
    return Box(
        about=best[0]["model"],
        says="Other numbers are highest or lowest at these layers. These numbers do not measure quality in a task, and "
        "the uncertainty of the layers is unknown.",
        **table(
            best,
            BoxColumn("by", _criterion),
            BoxColumn("pooling", lambda row: row["pooling"] or "–"),
            BoxColumn("layer", _place),
            numeric("value", _number),
            *([points] if judged else []),
        ),
        notes=tuple(notes),
    )


def _guessed(models: Sequence[Sequence[Sequence[Record]]]) -> Box:
    best = [next(row for row in criterion if row["best"]) for criteria in models for criterion in criteria]
    return Box(
        about=together(row["model"] for row in best),
        says="No labels, pairs or halves of texts rank layers here. Label-free proxies from the literature would "
        "choose:",
        **table(
            best,
            BoxColumn("model", lambda row: row["model"]),
            BoxColumn("by", _criterion),
            BoxColumn("chosen layer", _place),
            numeric("value", _number),
        ),
        notes=(_WEAK,),
    )


def _advice(rows: Sequence[Record]) -> tuple[str, Record]:
    """Return what a probe says, and the layer and pooling of the line to copy."""
    best = next(row for row in rows if row["best"])
    last = next((row for row in rows if row["usual"] and row["loss_low"] is not None), None)
    called, _, units = _USE[best["kind"]]
    name = f"{called} {in_backticks(best['item'])}"
    own = next((row for row in rows if row["pooling"] == OWN and row["variant"] == "raw"), None)
    if own is not None and best["loss_low"] is not None:
        against, kept = _against_own(own, best, last, name, units)
        return f"{against}{_next_layer(rows, kept)}", kept
    if best["loss_low"] is None:
        return (
            f"{capital(name)} is highest with {_label(best)}: {_number(best)}. There are too few {units} to tell how "
            "much of this lead is chance.",
            best,
        )
    if (undecided := _undecided(rows)) and last is not None:
        highest = f"Highest is {_label(best)}: {name} is {_number(best)}."
        return f"{undecided} {highest}{_decides(last, units)}{_ties(rows)}", last
    take = f"Take {_label(best)}: {name} is"
    if last is None:
        return f"{take} {_number(best)}.{_ties(rows)}", best
    if last["best"]:
        return f"{take} highest there, {_number(best)}.{_next_layer(rows, best)}{_ties(rows)}", best
    if last["loss_low"] > 0:
        loses = _points(last["loss"], last["loss_low"], last["loss_high"])
        return f"{take} {_number(best)}. {capital(_label(last))} scores {loses} points less.{_ties(rows)}", best
    if last["loss_high"] <= _margin():
        return (
            f"Keep {_label(last)}: it scores at most {_points(last['loss_high'])} points less than the best layer and "
            f"pooling. {capital(_label(best))} scores best: {name} is {_number(best)}.",
            last,
        )
    if _cell_of(last)[:2] == _cell_of(best)[:2]:  # another pooling of the same layer
        gain = f"{_points(last['loss'])} points more (at most {_points(last['loss_high'])})"
        return (
            f"Keep {_label(last)}: {name} is {_number(last)}. {capital(_way(best))} scores {gain}, which is not "
            f"significant with {best['n']:,} {units}.{_next_layer(rows, last)}{_ties(rows)}",
            last,
        )
    if not last["loss"]:
        return f"{capital(_label(best))} and {_label(last)} score best: {name} is {_number(best)}.{_ties(rows)}", last
    decide = f"; a decision needs about {_rounded(last['needed'])} {units}" if last["needed"] else ""
    return (
        f"{capital(_label(best))} scores best: {name} is {_number(best)}. {capital(_label(last))} scores "
        f"{_points(last['loss'])} points less (at most {_points(last['loss_high'])}), which is not significant with "
        f"{best['n']:,} {units}{decide}.{_ties(rows)}",
        best,
    )


def _undecided(rows: Sequence[Record]) -> str:
    """Say that the texts do not decide between layers; empty where one scores significantly less than the best."""
    best = next(row for row in rows if row["best"])
    layers = [row for row in rows if _pooled(row) == _pooled(best) and row["loss_low"] is not None and row is not best]
    if not layers or any(row["loss_low"] > 0 for row in layers):
        return ""
    return (
        f"These {best['n']:,} {_USE[best['kind']][2]} do not decide between layers: with {_way(best)}, none scores "
        "significantly less than the best."
    )


def _decides(last: Record, units: str) -> str:
    """Say how many texts would decide between the best and the last hidden state, as a further sentence."""
    if last["best"] or not last["loss"]:
        return ""
    less = f" {capital(_label(last))} scores {_points(last['loss'])} points less (at most {_points(last['loss_high'])})"
    return f"{less}; a decision needs about {_rounded(last['needed'])} {units}." if last["needed"] else f"{less}."


def _against_own(own: Record, best: Record, last: Record | None, name: str, units: str) -> tuple[str, Record]:
    """Compare the best layer and pooling with what a sentence encoder itself returns."""
    if own["best"] or own["loss_low"] == 0:
        says = f"Keep what the model itself returns: {name} is {_number(own)}."
        if not own["best"] and own["loss"] > 0:
            more = f"{_points(own['loss'])} points more (at most {_points(own['loss_high'])})"
            says += f" {capital(_label(best))} scores {more}, which is not significant with {best['n']:,} {units}."
        elif last is not None:
            less = _points(last["loss"], last["loss_low"], last["loss_high"])
            sure = "" if last["loss_low"] > 0 else ", which is not significant"
            scores = f"{less} points less{sure}" if last["loss"] else "the same"
            says += f" {capital(_label(last))}, without added tokens, scores {scores}."
        return says, own
    less = _points(own["loss"], own["loss_low"], own["loss_high"])
    says = f"Take {_label(best)}: {name} is {_number(best)}. What the model itself returns scores {less} points less."
    return says, best


def _next_layer(rows: Sequence[Record], take: Record) -> str:
    """Say what the best layer loses of those not named yet, as a further sentence; nothing if that is unknown."""
    named = [_cell_of(row)[:2] for row in rows if row["best"] or row is take]
    others = [row for row in rows if row["loss_low"] is not None and _cell_of(row)[:2] not in named]
    if not others:
        return ""
    other = min(others, key=lambda row: row["loss"])
    less = _points(other["loss"], other["loss_low"], other["loss_high"])
    sure = "" if other["loss_low"] > 0 else ", which is not significant"
    than = " than the best" if take["loss"] else ""
    return f" The best other layer, {_label(other)}, scores {less} points less{than}{sure}."


def _margin() -> float:
    from reporter.metrics.analysis import analyses

    return least_effect(analyses()["probes"].statistic("linear"), [])


def _ties(rows: Sequence[Record]) -> str:
    """Say how many layers and poolings do not differ significantly from the best, and an early one that is close.

    A further sentence; nothing if no other layer has an interval.
    """
    best = next(row for row in rows if row["best"])
    tested = [row for row in rows if row["loss_low"] is not None and not row["best"]]
    alike = [row for row in tested if row["loss_low"] == 0]
    both = "layers and poolings" if len({_pooled(row) for row in rows}) > 1 else "layers"
    if not tested:
        return ""
    if not alike:
        known = "" if len(tested) == len(rows) - 1 else " with an interval"
        return f" All other {both}{known} score significantly less."
    says = f" {len(alike)} of {len(tested)} other {both} do not differ significantly from the best"
    close = [row for row in alike if row["loss"] <= CLOSE]
    first = min(close, key=lambda row: (_in_order(_cell_of(row))[:2], row["loss"]), default=best)
    if _in_order(_cell_of(first))[:2] < _in_order(_cell_of(best))[:2]:
        says += f"; the earliest within {_points(CLOSE)} points of the best is {_label(first)}"
    return f"{says}."


def _not_worse(rows: Sequence[Record]) -> str:
    if rows[0]["loss_low"] is None:
        return "unknown"
    alike = sorted((row for row in rows if row["loss_low"] == 0), key=lambda row: _in_order(_cell_of(row)))
    return "all layers" if len(alike) == len(rows) > 1 else _places(alike) or "none"


def _last(rows: Sequence[Record]) -> Record | None:
    return next((row for row in rows if row["entry"] == "last_hidden_state"), None)


def _below(row: Record | None) -> str:
    if row is None:
        return "–"
    return "best" if row["best"] else _points(row["loss"], row["loss_low"], row["loss_high"])


def _significant(row: Record | None) -> str:
    if row is None or row["best"]:
        return "–"
    return "unknown" if row["loss_low"] is None else "yes" if row["loss_low"] > 0 else "no"


def _loss_by_probe(row: Record) -> str:
    return _points(row["probe_loss"], row["probe_loss_low"], row["probe_loss_high"])


def _points(loss: float | None, low: float | None = None, high: float | None = None) -> str:
    if loss is None:
        return "–"
    if low is None or high is None:
        return f"{100 * loss:.1f}"
    return estimate(100 * loss, 100 * low, 100 * high)


def _rounded(texts: int) -> str:
    unit = 10 ** max(0, len(str(texts)) - 2)
    return f"{-(-texts // unit) * unit:,}"


_WEAK = (
    "Label-free proxies are weak guides. In published work they agree with the quality of layers in some models but "
    "not in others, and hardly across model families."
)


def _notes(rows: Sequence[Record], take: Record) -> Iterator[str]:
    labels, units = take["kind"] == "labels", _USE[take["kind"]][2]
    if labels:
        yield "A probe shows that states contain a label, not that the model uses it."
    elif take["kind"] == "halves":
        yield (
            "For a task of your own, labels or pairs say more: the halves of a text share its topic and its words (the "
            "inverse cloze task, Lee, Chang & Toutanova 2019)."
        )
    yield "Another task may have another best layer."
    if not labels:
        yield "Vectors are compared by their cosine. Centred vectors lack their common mean. A point is 0.01."
    if take["site"] == "final":
        yield "The last hidden state is after the model's final norm or projection (measured)."
    elif take["site"] == "block":
        if take["normed"]:
            yield "Each block of this model ends in a norm, so these states are normed (measured)."
        else:
            yield "These states are the output of the block, without a norm (measured)."
    yield (
        f"Intervals compare layers and poolings on the same {'held-out ' * labels}{units}. They are valid for any "
        f"number of layers and poolings{', and account for classifiers that share training texts' * labels}."
    )
    if any(row["needed"] and row["usual"] for row in rows):
        yield (
            f"The number of {units} for a decision assumes that the measured difference is the true one, and 80 % "
            f"power. The best of many layers looks better than it is, so more {units} may be needed."
        )


_POOLING: Mapping[str, str] = {
    "mean": "mean pooling",
    "first": "first-token pooling",
    "last": "last-token pooling",
    OWN: "its own pooling",
}
_POOLED = {
    "mean": "the mean over the tokens of each text, without tokens that the tokenizer added",
    "first": "the first token of each text",
    "last": "the last token of each text, before tokens that the tokenizer added",
}


def _code(row: Record) -> str:
    if row["pooling"] == OWN:
        return f"vectors = SentenceTransformer(…).encode(texts)  # sentence-transformers{_minus_mean(row)}"
    then = f"\n# then {_POOLED[row['pooling']]}" if row["pooling"] in _POOLED else ""
    then += _minus_mean(row)
    if row["entry"] is None:
        return (
            f"# hidden_states has no entry for layer {row['layer']} (its last entry is after the final norm): "
            "use a hook"
        )
    if row["entry"] == "last_hidden_state":
        return f"states = model(**inputs).last_hidden_state{then}"
    return f"states = model(**inputs, output_hidden_states=True).{row['entry']}{then}"


def _minus_mean(row: Record) -> str:
    return "\n# then minus the mean of these vectors over all texts" if row["variant"] == "centred" else ""


def _criterion(row: Record) -> str:
    if row["kind"] == "no labels":
        return f"the {LABEL_FREE[row['criterion']][1]} (`{row['item']}`)"
    if row["kind"] == "groups":
        return "the silhouette of the groups"
    return f"the share of neighbours of the same class in {in_backticks(row['item'])}"


def _number(row: Record) -> str:
    return _range(row["value"], row["ci_low"], row["ci_high"], "" if row["chance"] is None else _reference(row))


def _reference(row: Record) -> str:
    """Return what the number comes to without any knowledge of the texts."""
    return f"{'majority class' if row['kind'] == 'labels' else 'chance'} {short(row['chance'], 2)}"


def _range(value: float, low: float | None, high: float | None, beside: str = "") -> str:
    return f"{estimate(value, low, high)} ({beside})" if beside else estimate(value, low, high)


def _place(row: Record) -> str:
    if row["site"] == "final":
        return "the last hidden state"
    if row["entry"] == "last_hidden_state":
        return f"the last hidden state (layer {row['layer']})"
    return place(row["layer"])


def _label(row: Record) -> str:
    return f"{_place(row)} with {_way(row)}"


def _way(row: Record) -> str:
    centred = " of centred vectors" if row["variant"] == "centred" else ""
    return _POOLING[row["pooling"]] + centred


def _pooled(row: Record) -> str:
    return f"{row['pooling']}, {row['variant']}" if row["variant"] else str(row["pooling"])


def _places(rows: Sequence[Record]) -> str:
    """Write layers, neighbours as a range: ``the embedding, layers 3–5 and the last hidden state``."""
    layers = [row["layer"] for row in rows if row["site"] == "block"]
    names = [_place(row) for row in rows if row["site"] == "embedding"]
    if layers:
        names.append(f"layer{'s' * (len(layers) > 1)} {ranges(layers, commas=True)}")
    return listed([*names, *(_place(row) for row in rows if row["site"] == "final")])


LAYER = Question("layer", "Which layer?", (LayerAnswer,), _answer, _boxes)
