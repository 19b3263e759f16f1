"""Which layer to take states from: by labels, by pairs and groups, and by what needs no labels.

Each *criterion* is a number by layer that is better when it is larger (or smaller). Where single texts or pairs were
kept, layers are compared on the same ones: what each layer loses against the best, with an interval that holds however
many layers are tried (:mod:`reporter.geometry.best`). Numbers without labels name a layer, too; where a probe was
trained, it says what their layer loses. Such rules go back to Skean et al. 2025, 'Layer by Layer' (entropy; turns of
the path from token to token) and Cheng et al. 2025, 'Emergence of a High-Dimensional Abstraction Phase' (dimension).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from reporter.answers.decision import VIEWS, Box, Decision, Lacks, Read, Record, grouped, together
from reporter.charts.numbers import short
from reporter.geometry.best import Behind, behind_best
from reporter.table import Comparable, OfModel, Row, column

Kind = Literal["labels", "neighbours", "pairs", "groups", "no labels"]
End = Literal["high", "low"]
Place = tuple[str, int]
"""Site and layer."""

_KINDS: Mapping[str, Kind] = {
    "probes.linear": "labels",
    "probes.label_overlap": "neighbours",
    "pairs.consistency": "pairs",
    "groups.silhouette": "groups",
}
"""What numbers tell good layers from bad ones by, the strongest first."""
LABEL_FREE: Mapping[str, tuple[End, str]] = {
    "entropy.prompt_unit": ("low", "lowest entropy of a text's states"),
    "intrinsic_dimension.twonn": ("high", "highest intrinsic dimension"),
    "token_path.curvature": ("low", "straightest path from token to token"),
}
"""Which end a layer is chosen by, and what that is called."""
_NORMED = (
    "whether they come out of a norm: the closing one (or a closing projection), or the block's own in a post-norm "
    "model; NULL for the embedding, of which it was not measured"
)
_SITES = "site IN ('embedding', 'block', 'final')"

_MODELS = """
SELECT model, checkpoint, layers, last_hidden_state, norm_placement FROM models
WHERE study = $study AND status = 'done' AND baseline IS NULL AND is_last ORDER BY model
"""
_PROBED = f"""
SELECT model, checkpoint, probe AS item, pooling, site, layer, list(text ORDER BY text) AS units,
    list(linear::DOUBLE ORDER BY text) AS told, count(DISTINCT fold) AS folds
FROM probe_texts WHERE study = $study AND {_SITES} GROUP BY ALL
"""
_PAIRED = f"""
SELECT model, checkpoint, pairs AS item, pooling, site, layer,
    list([concept, pair::VARCHAR] ORDER BY concept, pair) AS units, list(cosine ORDER BY concept, pair) AS cosine,
    list(influence ORDER BY concept, pair) AS influence
FROM pair_texts WHERE study = $study AND {_SITES} GROUP BY ALL
"""
_NUMBERS = f"""
WITH chances AS (
  SELECT model, checkpoint, metric, corpus, view, site, layer, statistic AS floor, value AS chance
  FROM layer_metrics WHERE study = $study AND metric = 'probes' AND ends_with(statistic, '_floor')
)
SELECT model, checkpoint, metric, statistic, corpus AS item, view, site, layer, value, ci_low, ci_high, chance, n
FROM (SELECT *, statistic || '_floor' AS floor FROM layer_metrics WHERE study = $study)
LEFT JOIN chances USING (model, checkpoint, metric, corpus, view, site, layer, floor)
WHERE {_SITES} AND value IS NOT NULL
AND metric || '.' || statistic IN ({", ".join(f"'{name}'" for name in [*_KINDS, *LABEL_FREE])})
ORDER BY model, checkpoint, metric, statistic, item, {VIEWS}, layer, site
"""


class LayerAnswer(Row, table="layer_answers"):
    """A layer of a model by one criterion: how good it is, and what it loses against the best layer."""

    compared = (
        Comparable(("loss",), "item", of="criterion", interval=("loss_low", "loss_high")),
        Comparable(("best",), "item", of="criterion"),
    )

    study = OfModel.study
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)
    kind: Kind = column(
        "what tells good layers from bad ones: 'labels' (a probe), 'neighbours' (that are of the same class), 'pairs' "
        "or 'groups' of texts, 'no labels' (a number that has been proposed for choosing)"
    )
    criterion: str = column("the number, as metric.statistic", key=True)
    end: End = column("whether the highest or the lowest is the best")
    item: str = column("name of the probe, of the set of pairs or of the corpus; '(groups)'", key=True)
    site: str = column("'embedding', 'block' or 'final'", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    entry: str | None = column(
        "what the library calls these states: 'hidden_states[4]' or 'last_hidden_state'; NULL for a last block that "
        "only a hook reads"
    )
    normed: bool | None = column(_NORMED)
    usual: bool = column("whether it is what is usually taken, the last hidden state")
    view: str = column("the view that is read")
    pooling: str | None = column("how a text became one vector; NULL where tokens were measured")
    value: float = column("the number")
    ci_low: float | None = column("lower end of its own interval")
    ci_high: float | None = column("upper end")
    chance: float | None = column("what the number of a probe would be by chance; NULL for other numbers")
    n: int = column("texts, pairs or tokens that it rests on", "BIGINT")
    best: bool = column("whether it is the best one seen")
    loss: float = column("by how much it is worse than the best one seen")
    loss_low: float | None = column(
        "lower end of the 95 % interval of what it loses against the best layer that there is, compared text by text "
        "or pair by pair, and holding however many layers are tried; 0 = not told apart from the best; NULL where "
        "single texts are not known"
    )
    loss_high: float | None = column("upper end")
    probe: str | None = column("of a choice without labels: the probe that says what the choice loses", default=None)
    probe_loss: float | None = column("by how much that probe reads this layer worse than its best", default=None)
    probe_loss_low: float | None = column("lower end of its interval, as for loss", default=None)
    probe_loss_high: float | None = column("upper end", default=None)


@dataclass
class _Criterion:
    """A number by place."""

    kind: Kind
    name: str
    item: str
    end: End = "high"
    pooling: str | None = None
    rows: dict[Place, Record] = field(default_factory=dict)
    behind: Behind | None = None
    places: list[Place] = field(default_factory=list)

    def loss(self, place: Place) -> tuple[float, float | None, float | None]:
        """Return by how much a place is worse than the best one seen, and the interval of what it loses."""
        sign = 1 if self.end == "high" else -1
        seen = max(sign * row["value"] for row in self.rows.values()) - sign * self.rows[place]["value"]
        if self.behind is None or place not in self.places:
            return seen, None, None
        at = self.places.index(place)
        return seen, float(self.behind.low[at]), float(self.behind.high[at])

    @property
    def best(self) -> Place:
        """The best one seen; of equals the first."""
        sign = 1 if self.end == "high" else -1
        return max(self.rows, key=lambda place: sign * self.rows[place]["value"])


def _answer(read: Read) -> Iterator[Row | Lacks]:
    models = read(_MODELS)
    numbers, probed, paired = (_by_model(read(sql)) for sql in (_NUMBERS, _PROBED, _PAIRED))
    kinds = set()
    for model in models:
        key = (model["model"], model["checkpoint"])
        criteria = list(_criteria(numbers[key], probed[key], paired[key]))
        kinds |= {criterion.kind for criterion in criteria}
        for criterion in criteria:
            yield from _rows(model, criterion, criteria)
    if "labels" not in kinds:
        yield Lacks(
            "no labelled corpus is probed, which alone says what a layer is worth for a task: add a corpus with "
            "labels and `probes: {mine: {corpus: …}}`"
        )
    if not {"pairs", "groups"} & kinds:
        yield Lacks("no pairs and no groups of texts: add `pairs: {concepts: shipped}` or `groups:`")


def _by_model(rows: Sequence[Record]) -> defaultdict[tuple[str, str], list[Record]]:
    found = defaultdict[tuple[str, str], list[Record]](list)
    for row in rows:
        found[row["model"], row["checkpoint"]].append(row)
    return found


def _criteria(numbers: Sequence[Record], probed: Sequence[Record], paired: Sequence[Record]) -> Iterator[_Criterion]:
    """Yield what tells layers apart in one model."""
    found: dict[tuple[str, str], _Criterion] = {}
    views: dict[tuple[str, str], str] = {}  # of each number the first view alone
    for row in numbers:
        name, item = f"{row['metric']}.{row['statistic']}", row["item"]
        if views.setdefault((name, item), row["view"]) == row["view"]:
            made = _Criterion(_KINDS.get(name, "no labels"), name, item, LABEL_FREE.get(name, ("high", ""))[0])
            found.setdefault((name, item), made).rows[_place_of(row)] = row
    for criterion in found.values():
        units = {"labels": (probed, _of_texts), "pairs": (paired, _of_pairs)}.get(criterion.kind)
        own = [row for row in units[0] if row["item"] == criterion.item] if units else []
        if units and own:
            criterion.pooling = own[0]["pooling"]
            criterion.places, criterion.behind = units[1](own)
        if len(criterion.rows) > 1:
            yield criterion


def _of_texts(rows: Sequence[Record]) -> tuple[list[Place], Behind | None]:
    """Compare layers by which texts a probe told rightly.

    Classifiers of different folds share training texts, so that their errors go together: the variance of the mean is
    taken 1 + J/(J − 1) times that of independent texts, J the number of folds (Nadeau & Bengio 2003, 'Inference for
    the generalization error', Machine Learning 52). Seven layers of made-up data, equally good and with features of
    their own, have one that is told apart in at most 6 % of cases with it, and in 14 to 40 % without.
    """
    rows = _complete(rows)
    told = np.array([row["told"] for row in rows]).T
    folds = max((row["folds"] for row in rows), default=2)
    return _places_of(rows), behind_best(told, inflation=1 + folds / (folds - 1)) if rows else None


def _of_pairs(rows: Sequence[Record]) -> tuple[list[Place], Behind | None]:
    """Compare layers by what each pair has to do with the consistency of its concept; concepts are what they are."""
    rows = _complete(rows)
    if not rows:
        return [], None
    cosine, influence = (np.array([row[name] for row in rows]).T for name in ("cosine", "influence"))
    concept = np.unique([name for name, _ in rows[0]["units"]], return_inverse=True)[1]
    values = np.empty_like(cosine)
    for code in np.unique(concept):
        own = concept == code
        values[own] = cosine[own].mean(axis=0) + influence[own] - influence[own].mean(axis=0)
    return _places_of(rows), behind_best(values, concept)


def _complete(rows: Sequence[Record]) -> list[Record]:
    """Return the places that have every text or pair, in order."""
    most = max((len(row["units"]) for row in rows), default=0)
    whole = sorted((row for row in rows if len(row["units"]) == most), key=lambda row: _in_order(_place_of(row)))
    return [row for row in whole if row["units"] == whole[0]["units"]]


def _place_of(row: Record) -> Place:
    return row["site"], row["layer"]


def _places_of(rows: Sequence[Record]) -> list[Place]:
    return [_place_of(row) for row in rows]


def _in_order(place: Place) -> tuple[int, bool]:
    return place[1], place[0] == "final"


def _rows(model: Record, criterion: _Criterion, criteria: Sequence[_Criterion]) -> Iterator[LayerAnswer]:
    judge = next((other for other in criteria if other.kind == "labels"), None)
    for place in sorted(criterion.rows, key=_in_order):
        number, (loss, low, high) = criterion.rows[place], criterion.loss(place)
        judged: dict[str, Any] = {}
        if criterion.kind != "labels" and judge is not None and place in judge.rows:
            names = ("probe_loss", "probe_loss_low", "probe_loss_high")
            judged = {"probe": judge.item, **dict(zip(names, judge.loss(place), strict=True))}
        yield LayerAnswer(
            model=model["model"],
            checkpoint=model["checkpoint"],
            kind=criterion.kind,
            criterion=criterion.name,
            end=criterion.end,
            item=criterion.item,
            site=place[0],
            layer=place[1],
            entry=_entry(model, place),
            normed=_normed(model, place),
            usual=place == _usual(model),
            view=number["view"],
            pooling=criterion.pooling,
            value=number["value"],
            ci_low=number["ci_low"],
            ci_high=number["ci_high"],
            chance=number["chance"],
            n=number["n"],
            best=place == criterion.best,
            loss=loss,
            loss_low=low,
            loss_high=high,
            **judged,
        )


def _usual(model: Record) -> Place:
    return ("final" if model["last_hidden_state"] == "final" else "block", model["layers"])


def _entry(model: Record, place: Place) -> str | None:
    """Return what the library calls a place; what stands there was compared when the model was loaded."""
    if place == _usual(model):
        return "last_hidden_state"
    return None if place[1] == model["layers"] else f"hidden_states[{place[1]}]"


def _normed(model: Record, place: Place) -> bool | None:
    if place[0] == "final":
        return True
    return None if place[0] == "embedding" else bool(model["norm_placement"] == "post")


def _boxes(tables: Mapping[str, Sequence[Record]]) -> list[Box]:
    models = [_by_criterion(own) for own in grouped(tables["layer_answers"], "model")]
    boxes = [_box(criteria) for criteria in models if criteria[0][0]["kind"] != "no labels"]
    guesses = [criteria for criteria in models if criteria[0][0]["kind"] == "no labels"]
    return [*boxes, _guessed(guesses)] if guesses else boxes


def _by_criterion(rows: Sequence[Record]) -> list[list[Record]]:
    """Return the rows of each criterion in the order of layers, the strongest criterion first."""
    found = [
        sorted(own, key=lambda row: _in_order((row["site"], row["layer"])))
        for own in grouped(sorted(rows, key=lambda row: (row["criterion"], row["item"])), "criterion", "item")
    ]
    return sorted(found, key=lambda own: [*_KINDS.values(), "no labels"].index(own[0]["kind"]))


def _box(criteria: Sequence[Sequence[Record]]) -> Box:
    """Say what the strongest criterion says of one model, and show the others beside it."""
    says, take = _said(criteria[0])
    judged = any(row["probe"] for own in criteria for row in own)
    return Box(
        about=criteria[0][0]["model"],
        says=says,
        code=_code(take),
        columns=(
            ("by", False),
            ("best layer", False),
            ("reads", True),
            ("not told apart from it", False),
            ("the last hidden state loses", True),
            *((("by the probe, this layer loses", True),) if judged else ()),
        ),
        rows=tuple(_line(own)[: 6 if judged else 5] for own in criteria),
        notes=tuple(_notes(criteria[0], take, judged, criteria[-1][0]["kind"] == "no labels")),
    )


def _guessed(models: Sequence[Sequence[Sequence[Record]]]) -> Box:
    """Say what layers numbers without labels would choose, where there is nothing else."""
    best = [next(row for row in own if row["best"]) for criteria in models for own in criteria]
    return Box(
        about=together(row["model"] for row in best),
        says="Nothing here says which layer is good; these numbers have been proposed for choosing one without labels.",
        columns=(("model", False), ("by", False), ("chosen layer", False), ("reads", True)),
        rows=tuple((row["model"], _criterion(row), _place(row), _number(row)) for row in best),
        notes=(_WEAK,),
    )


def _said(rows: Sequence[Record]) -> tuple[str, Record]:
    """Return what one criterion says, and the layer to take."""
    best = next(row for row in rows if row["best"])
    last = next((row for row in rows if row["usual"]), None)
    name = _criterion(best)
    reads = f"{_number(best)} at {_place(best)}"
    if best["loss_low"] is None:
        return f"{_sentence(name)} is highest, {reads}; how much of its lead is chance is not known.", best
    alike = [row for row in rows if row["loss_low"] == 0]
    last = last if last is not None and last["loss_low"] is not None else None
    if last is not None and len(alike) == len([row for row in rows if row["loss_low"] is not None]):
        said = f"No layer is told apart from another: {name} is {reads}, its best"
        return f"{said}, and what lies between layers is within chance.", last
    if last is None:
        return f"Take {_place(best)}: {name} is {reads}. {_alike(best, alike)}", best
    loses = f"{short(last['loss'], 2)} ({short(last['loss_low'], 2)} to {short(last['loss_high'], 2)})"
    if last["best"]:
        return f"Keep the last hidden state: {name} is highest there, {_number(best)}. {_alike(best, alike)}", last
    if last["loss_low"] == 0:
        return (
            f"Keep the last hidden state: {name} is {reads}, its best, and the last hidden state is not told apart "
            f"from it (it loses {loses}).",
            last,
        )
    return (
        f"Take {_place(best)}: {name} is {reads}; the last hidden state loses {loses}. {_alike(best, alike)}",
        best,
    )


def _alike(best: Record, alike: Sequence[Record]) -> str:
    others = [row for row in alike if not row["best"]]
    return f"Not told apart from it: {_places(others)}." if others else "Every other layer is told apart from it."


def _line(rows: Sequence[Record]) -> tuple[str, ...]:
    best, last = next(row for row in rows if row["best"]), next((row for row in rows if row["usual"]), None)
    known = best["loss_low"] is not None
    others = [row for row in rows if row["loss_low"] == 0 and not row["best"]]
    alike = "all others" if len(others) == len(rows) - 1 else _places(others) or "none"
    loses = "–"
    if last is not None and best["kind"] != "no labels":
        loses = _range(last["loss"], last["loss_low"], last["loss_high"])
    judged = "–"
    if best["probe_loss"] is not None:
        judged = _range(best["probe_loss"], best["probe_loss_low"], best["probe_loss_high"])
    return (
        _criterion(best),
        _place(best),
        _number(best),
        alike if known else "not known",
        loses,
        judged,
    )


_WEAK = (
    "Numbers without labels are weak guides: published ones go with how good layers are in some models and not in "
    "others, and across families of models hardly at all."
)


def _notes(decides: Sequence[Record], take: Record, judged: bool, guesses: bool) -> Iterator[str]:
    if take["site"] == "final":
        yield "The last hidden state is after the model's closing norm or projection (measured)."
    elif take["site"] == "block":
        if take["normed"]:
            yield "In this model each block ends in a norm, and so do these states (measured)."
        else:
            yield "These states are as the block leaves them, not normed (measured)."
    if decides[0]["kind"] == "labels":
        yield (
            "A label that can be read is not a label that the model uses; another task may have another best layer. "
            "Intervals compare layers on the same held-out texts, hold however many layers are tried, and allow for "
            "classifiers that share training texts."
        )
    elif decides[0]["kind"] == "pairs":
        yield (
            "A word that all second texts share makes the consistency large at the embedding already, whatever the "
            "model knows."
        )
    if guesses:
        yield _WEAK + (" The last column says what following them costs here." if judged else "")


_POOLED = {
    "mean": "the mean over each text's own tokens, without those that the tokenizer added",
    "first": "each text's first token",
    "last": "each text's last own token",
}


def _code(row: Record) -> str:
    then = f"\n# then {_POOLED[row['pooling']]}" if row["pooling"] in _POOLED else ""
    if row["entry"] is None:
        return (
            f"# block {row['layer']} is no entry of hidden_states (the last one is after the closing norm): use a hook"
        )
    if row["entry"] == "last_hidden_state":
        return f"states = model(**inputs).last_hidden_state{then}"
    return f"states = model(**inputs, output_hidden_states=True).{row['entry']}{then}"


def _criterion(row: Record) -> str:
    if row["kind"] == "no labels":
        return f"the {LABEL_FREE[row['criterion']][1]} (`{row['item']}`)"
    if row["kind"] == "groups":
        return "the silhouette of the groups"
    named = {
        "labels": "accuracy of the linear probe",
        "pairs": "consistency of the pairs",
        "neighbours": "share of neighbours of the same class in",
    }
    return f"the {named[row['kind']]} `{row['item']}`"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _number(row: Record) -> str:
    chance = "" if row["chance"] is None else f"chance {short(row['chance'], 2)}"
    return _range(row["value"], row["ci_low"], row["ci_high"], chance)


def _range(value: float, low: float | None, high: float | None, beside: str = "") -> str:
    if low is None or (low, high) == (value, value):
        return short(value, 2) + f" ({beside})" * bool(beside)
    digits = next((n for n in range(2, 5) if short(low, n) != short(high, n)), 5)  # as many as tell the ends apart
    return f"{short(value, digits)} ({short(low, digits)} to {short(high, digits)}{f'; {beside}' * bool(beside)})"


def _place(row: Record) -> str:
    if row["site"] == "final":
        return "the last hidden state"
    return "the embedding" if row["layer"] == 0 else f"block {row['layer']}"


def _places(rows: Sequence[Record]) -> str:
    """Write layers, neighbours as a range: ``the embedding, blocks 3–5 and the last hidden state``."""
    blocks = [row["layer"] for row in rows if row["site"] == "block"]
    runs: list[list[int]] = []
    for layer in blocks:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    said = [_place(row) for row in rows if row["site"] == "embedding"]
    if runs:
        ranges = ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)
        said.append(f"{'block' if len(blocks) == 1 else 'blocks'} {ranges}")
    said += [_place(row) for row in rows if row["site"] == "final"]
    return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)


LAYER = Decision("layer", "Which layer?", (LayerAnswer,), _answer, _boxes)
