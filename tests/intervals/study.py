"""Do the intervals cover? Many random subsets of many texts, each measured as a corpus of its own.

    python tests/intervals/study.py                                # a tiny model of random weights, made-up texts
    python tests/intervals/study.py --model FOLDER --texts FILE    # a model and texts of your own
    python tests/intervals/study.py --model FOLDER --texts FILE --unit paragraph --layers 0,3,6 --views words,no-sinks
    python tests/intervals/study.py --metrics intrinsic_dimension --options '{"intrinsic_dimension": {"sample": 512}}'
    python tests/intervals/study.py --metrics change --model TUNED --base FOLDER --texts FILE
    python tests/intervals/study.py --metrics all --write "MiniLM, tweets" --model FOLDER --texts FILE

With ``--write`` it counts at each of ``--sizes`` texts and puts the coverage into
``reporter/metrics/coverage.csv``, from which the program takes how many texts an interval needs.
Lines of the same input and statistics are replaced.

Each subset goes through the model as a corpus of its own, with its own seed, so that bootstrap weights and samples are
drawn anew as well. For each statistic, layer and view it prints

- ``mean`` and ``sd`` of the statistic over the subsets, and ``half``, the mean half-width of its interval;
- ``covered``: the share of subsets whose interval holds the mean over all subsets. It is the coverage of what a corpus
  of this size reads on average: a bias that a corpus of this size has is not an error of the interval, and stands in
- ``drift``: the change of the mean when the corpus doubles, from a line through the means over log2 of the number of
  texts (a half, one, two and four times ``--subset``), with its own standard error.

Subsets of m out of N texts vary less than corpora of m fresh texts, by √(1 − m/N): deviations are divided by it.

The head of a language model is not read, nor what happens inside a block, so ``loss``, ``lens``, ``journey`` and
``contributions`` are left out; their intervals are made as those of ``motion`` are. Where layers are left out, what
goes from layer to layer goes from one chosen layer to the next. Floors are those of 1000 tokens, since nothing is asked
about them here.
"""

import argparse
import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles`` and ``intervals`` when run as a script

from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from oracles.families import loaded

from reporter.forward.batch import HiddenBatch, LayerStates
from reporter.forward.measure import Settings, measure, tokenised
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS, Observed
from reporter.forward.type_moments import FEWEST_OCCURRENCES
from reporter.forward.type_sample import count_types
from reporter.geometry import noise
from reporter.metrics import _coverage
from reporter.metrics._coverage import Coverage, full_name
from reporter.metrics.base import Difference, Metric, PairValue, Value, catalogue
from reporter.models.places import Layout

Key = tuple[str, str, str]  # statistic, view, layer
SIZES = (0.5, 1, 2, 4)  # of a subset


@dataclass
class Series:
    """One statistic over the subsets: its values by size of the subset, NaN where there is none, and its intervals."""

    values: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    intervals: list[tuple[float, float]] = field(default_factory=list)


class AtLayers:
    """Shows an observable some layers of each batch, as if the model had no others."""

    def __init__(self, observable: Observable, layers: Sequence[int], layout: Layout) -> None:
        self.observable, self.layers, self.layout = observable, list(layers), layout

    def start(self, batch: HiddenBatch) -> None:
        """Show a whole batch."""
        of_layers = {name: getattr(batch, name)[self.layers] for name in ("norms", "known_norms", "peaks")}
        batch = replace(batch, layout=self.layout, states=[batch.states[at] for at in self.layers], **of_layers)
        self.observable.start(batch)
        for layer in batch.layers():
            self.observable.observe(layer)
        self.observable.finish(batch)

    def observe(self, layer: LayerStates) -> None:
        """Do nothing: the batch was shown as a whole."""

    def finish(self, batch: HiddenBatch) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Let the observable settle."""
        self.observable.settle()


class Source:
    """A model, and the texts that subsets are drawn from.

    Args:
        model: a loaded model, or one with its face.
        texts: with the face of ``reporter.texts.Texts``.
        layers: which of 0..L, at least two; None: the first, the middle one and the last. They count as 0, 1, 2, …
        max_tokens: where texts are cut.
    """

    def __init__(self, model: Any, texts: Sequence[str], layers: Sequence[int] | None, max_tokens: int) -> None:
        last = model.anatomy.layers
        self.layers = tuple(sorted(set(layers or (0, last // 2, last))))
        if self.layers[0] < 0 or self.layers[-1] > last or len(self.layers) < 2:
            raise ValueError(f"layers {list(self.layers)}: name at least two of 0 to {last}")
        self.model, self.texts, self.max_tokens = model, texts, max_tokens
        self.layout = Layout(len(self.layers) - 1, model.anatomy.width)

    def observables(self, chosen: Sequence[int], sizes: Mapping[str, int], seed: int) -> dict[str, Observable]:
        """Return observables that have seen the chosen texts; ``sizes`` says how much each bounded one must keep."""
        texts, anatomy = FakeTexts(self.texts[i] for i in chosen), self.model.anatomy
        corpus = tokenised(self.model, texts, self.max_tokens)
        counted = count_types(corpus, anatomy.vocabulary_size, seed)
        types, in_all = counted.at_least(FEWEST_OCCURRENCES), int(counted.counts.sum() + counted.added.sum())
        found: dict[str, Observable] = {}
        for name, size in sizes.items():
            names = dict.fromkeys(types, "")
            setting = Setting(self.layout, seed, len(texts), size, types, names, in_all, counted.splits)
            found[name] = KINDS[name].empty(setting)
        watchers = [AtLayers(one, self.layers, self.layout) for one in found.values()]
        settings = Settings(4096, seed, "float32", Layout.of(anatomy, ()), counted.frequent)
        for _ in measure(self.model, corpus, watchers, settings):
            pass
        return found


class Row(NamedTuple):
    """What is said of one statistic at one layer under one view.

    Args:
        statistic: its full name.
        view: the view.
        layer: the layer or layers.
        mean: over the subsets.
        sd: of a corpus of that many texts, corrected for the finite number of texts.
        half: mean half-width of the interval; NaN where it has none.
        covered: share of the subsets with an interval whose interval holds the mean; NaN where none has.
        drift: change of the mean when the corpus doubles.
        drift_error: its standard error over the subsets.
        missing: subsets without a value.
    """

    statistic: str
    view: str
    layer: str
    mean: float
    sd: float
    half: float
    covered: float
    drift: float
    drift_error: float
    missing: int


def study(
    source: Source,
    metrics: Sequence[Metric],
    views: Sequence[str],
    subset: int,
    subsets: int,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    sizes: Sequence[float] = SIZES,
    tick: Callable[[int], None] = lambda done: None,
    base: Source | None = None,
) -> list[Row]:
    """Measure random subsets of the texts and say of each statistic whether its interval covers.

    Args:
        source: the model and all texts.
        metrics: what to compute.
        views: under which views.
        subset: texts of a subset.
        subsets: how many.
        options: of the metrics, by name.
        sizes: times ``subset``: the sizes of corpus that the drift is taken over; those that fit.
        tick: called after each subset with how many are done.
        base: the model that this one was made from, for what compares the two.
    """
    set_up = [(metric, metric.options(**(options or {}).get(metric.name, {}))) for metric in metrics]
    kept: dict[str, int] = {"moments": 0}  # views read their tokens there
    for metric, own in set_up:
        for name in metric.needs:
            kept[name] = max(kept.get(name, 0), own.size_of(name))
    known = [round(subset * size) for size in sizes if round(subset * size) <= len(source.texts) * 0.8]
    found: dict[Key, Series] = defaultdict(Series)
    rng, sides = np.random.default_rng(0), [source] if base is None else [source, base]
    with floors_of_one_size():
        for draw in range(subsets):
            order = rng.permutation(len(source.texts)).tolist()
            for size in {subset, *known} if draw < max(20, subsets // 4) else {subset}:
                for key, value in _measured(sides, order[:size], set_up, kept, views, draw):
                    found[key].values[size].append(np.nan if value.value is None else value.value)
                    if size == subset:
                        ends = (value.ci_low, value.ci_high)
                        found[key].intervals.append((np.nan, np.nan) if None in ends else ends)
            tick(draw + 1)
    return [_row(key, series, subset, len(source.texts)) for key, series in found.items()]


def _measured(sides, chosen, set_up, kept, views, seed) -> Iterator[tuple[Key, Any]]:
    observables = [side.observables(chosen, kept, seed) for side in sides]
    memos: list[dict[Any, Any]] = [{} for _ in sides]
    distinct = len({sides[0].texts[i] for i in chosen})
    for view in views:
        of_sides = zip(observables, sides, memos, strict=True)
        seen, *base = (Observed(of, side.layout, distinct, view, seed, memo) for of, side, memo in of_sides)
        for metric, options in set_up:
            results = [] if metric.compares_only else [metric.compute(seen, options)]
            if base and metric.between is not None and "base" in metric.between.of:
                results.append(metric.between.compare(seen, base if metric.between.own else base[0], options))
            for value in chain(*results):
                where = _where(value, sides[0].layers)
                if where is not None and not value.statistic.endswith("_floor"):
                    yield (full_name(metric.name, value), view, where), value


def _where(value: Any, layers: tuple[int, ...]) -> str | None:
    """Return which layer or layers a value belongs to, in the model's own numbers; None for what is no number."""
    if isinstance(value, Value | Difference):
        return "" if value.place is None else str(layers[value.place.layer])
    if isinstance(value, PairValue) and value.layer_a < value.layer_b:
        return f"{layers[value.layer_a]}-{layers[value.layer_b]}"
    return None


def _row(key: Key, series: Series, subset: int, texts: int) -> Row:
    values, intervals = np.array(series.values[subset]), np.array(series.intervals)
    defined = np.isfinite(values)
    missing = int((~defined).sum())
    if defined.sum() < 2:
        return Row(*key, *[float("nan")] * 6, missing)
    mean, finite = float(values[defined].mean()), np.sqrt(1 - subset / texts)
    deviation = (values - mean) / finite
    has = defined & np.isfinite(intervals[:, 0])
    half = covered = float("nan")
    if has.any():
        low, high = intervals[has].T
        half = float((high - low).mean() / 2)
        # Rounding is no error: an interval of no width covers a number that never moves.
        target, slack = values[has] - deviation[has], 1e-9 * abs(mean)
        covered = float(((low - slack <= target) & (target <= high + slack)).mean())
    return Row(*key, mean, float(deviation[defined].std(ddof=1)), half, covered, *_drift(series), missing)


def _drift(series: Series) -> tuple[float, float]:
    """Return the slope of the value over log2 of the number of texts, within each draw, and its standard error."""
    draws = min(len(values) for values in series.values.values())
    sizes = sorted(series.values)
    y = np.array([series.values[size][:draws] for size in sizes])
    y = y[:, np.isfinite(y).all(axis=0)]
    if min(y.shape) < 2:
        return float("nan"), float("nan")
    x = np.log2(sizes) - np.mean(np.log2(sizes))
    slopes = x @ y / (x @ x)  # the subsets of a draw lie in one another, so that most of their noise is shared
    return float(slopes.mean()), float(slopes.std(ddof=1) / np.sqrt(len(slopes)))


@contextmanager
def floors_of_one_size() -> Iterator[None]:
    """Draw each floor once, for 1000 tokens: drawing them for each subset would take most of the time."""
    with ExitStack() as until_the_end:
        for name in ("eigenvalues", "top_variance_share", "mean_cosine", "pair_cosine", "step_angle"):
            one_size = partial(lambda of, n, d, seed: of(1000, d, 0), getattr(noise, name))
            until_the_end.enter_context(patch.object(noise, name, one_size))
        yield


def table(rows: Sequence[Row]) -> str:
    """Return every row as text."""
    return pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format, na_rep="")


def summary(rows: Sequence[Row]) -> str:
    """Return a line for each statistic: over its layers and views, the least and the most."""
    of = pd.DataFrame(moving(rows))
    of = of.assign(half_to_sd=of["half"] / (1.96 * of["sd"]), drift_in_sd=of["drift"] / of["sd"])
    whole = {"covered": ["mean", "min", "max"], "half_to_sd": "median", "drift_in_sd": ["min", "max"]}
    return of.groupby("statistic", sort=False).agg(whole).to_string(float_format="{:.3f}".format, na_rep="")


def moving(rows: Sequence[Row]) -> list[Row]:
    """Return those of numbers that move: the others have nothing to cover."""
    return [row for row in rows if row.sd > 1e-9 * abs(row.mean)]


def counted(rows: Sequence[Row], texts: int, name: str, subsets: int) -> list[Coverage]:
    """Return a line of the file for each statistic that has an interval and is no constant."""
    covered: dict[str, list[float]] = defaultdict(list)
    for row in moving(rows):
        if np.isfinite(row.covered):
            covered[row.statistic].append(row.covered)
    below = {statistic: sum(one < _coverage.LEAST_IN_LAYER for one in of) for statistic, of in covered.items()}
    numbers = {statistic: (len(of), below[statistic], round(sum(of) / len(of), 3)) for statistic, of in covered.items()}
    return [Coverage(statistic, texts, name, subsets, *of) for statistic, of in numbers.items()]


def write(path: Path, lines: Sequence[Coverage]) -> None:
    """Put lines into the file; those of the same statistic, texts and input are replaced."""
    kept = {line[:3]: line for line in (*_coverage.read(path), *lines)} if path.exists() else {x[:3]: x for x in lines}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Coverage._fields)
        writer.writerows(kept[key] for key in sorted(kept))


def made_up(count: int) -> FakeTexts:
    """Return distinct texts of 4 to 40 words of the tiny model."""
    return FakeTexts(list(dict.fromkeys(made_up_texts(2 * count, longest=40, shortest=4)))[:count])


def read_texts(path: Path, unit: str, most: int, min_words: int) -> FakeTexts:
    """Return distinct texts of a file in random order: its lines, or what blank lines separate."""
    whole = path.read_text(encoding="utf-8")
    parts = whole.splitlines() if unit == "line" else whole.split("\n\n")
    texts = list(dict.fromkeys(text for part in parts if len((text := " ".join(part.split())).split()) >= min_words))
    np.random.default_rng(0).shuffle(texts)
    return FakeTexts(texts[:most])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a folder in the transformers format; none: a tiny random model")
    parser.add_argument("--base", type=Path, help="the folder of the model it was made from, for `change`")
    parser.add_argument("--texts", type=Path, help="a text file; none: made-up texts")
    parser.add_argument("--unit", choices=("line", "paragraph"), default="line", help="what is a text of the file")
    parser.add_argument("--min-words", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--texts-in-all", type=int, default=2000)
    parser.add_argument("--subset", type=int, default=100)
    parser.add_argument("--subsets", type=int, default=200)
    parser.add_argument("--layers", help="such as 0,3,6; none: the first, the middle one and the last")
    parser.add_argument("--metrics", default="anisotropy,spectrum,variance,motion,convergence,contextuality")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options by metric")
    parser.add_argument("--views", default="words,no-sinks")
    parser.add_argument("--role", choices=("encoder", "decoder"), default="encoder", help="of the tiny random model")
    parser.add_argument(
        "--write", metavar="INPUT", help="put coverage at each size into the file that ships, so called"
    )
    parser.add_argument("--sizes", default="10,20,50,100", help="with --write: texts of a subset")
    parser.add_argument("--no-drift", action="store_true", help="measure subsets of one size alone")
    asked = parser.parse_args(arguments)
    known = {name: m for name, m in catalogue().items() if not any(_reads_more(need) for need in m.needs)}
    alone = [name for name, metric in known.items() if not metric.compares_only]
    wanted = alone if asked.metrics == "all" else asked.metrics.split(",")
    if unknown := [name for name in wanted if name not in known]:
        parser.error(f"--metrics: {', '.join(unknown)}: choose from {', '.join(known)}")
    if asked.base is None and (lacking := [name for name in wanted if known[name].compares_only]):
        parser.error(f"--metrics: {', '.join(lacking)} needs --base")
    if (asked.model is None) != (asked.texts is None):
        parser.error("a model needs --texts, and texts need a --model: the tiny model reads made-up words only")
    if asked.model is None:
        model, texts = FakeModel(role=asked.role, width=32), made_up(asked.texts_in_all)
    else:
        model, texts = loaded(asked.model), read_texts(asked.texts, asked.unit, asked.texts_in_all, asked.min_words)
    sizes = list(map(int, asked.sizes.split(",")))
    largest = max(sizes) if asked.write else asked.subset
    if len(texts) < 2 * largest:
        parser.error(f"{len(texts)} texts: subsets of {largest} need at least twice as many")
    layers = [int(part) for part in asked.layers.split(",")] if asked.layers else None
    source = Source(model, texts, layers, asked.max_tokens)
    base = None if asked.base is None else Source(loaded(asked.base), texts, layers, asked.max_tokens)
    chosen, views = [known[name] for name in wanted], asked.views.split(",")
    if asked.write:
        for size in sizes:
            rows = study(source, chosen, views, size, asked.subsets, asked.options, (1,), base=base)
            write(Path(_coverage.__file__).parent / _coverage.FILE, counted(rows, size, asked.write, asked.subsets))
            _tell(f"{size} texts are counted")
        return

    def tick(done: int) -> None:
        if done % 20 == 0:
            _tell(f"{done} of {asked.subsets} subsets")

    compared = (1,) if asked.no_drift else SIZES
    rows = study(source, chosen, views, asked.subset, asked.subsets, asked.options, compared, tick, base)
    print(f"{asked.subsets} subsets of {asked.subset} of {len(texts)} texts\n\n{table(rows)}\n\n{summary(rows)}")


def _reads_more(name: str) -> bool:
    return KINDS[name].reads_head or KINDS[name].reads_vocabulary or KINDS[name].reads_inside


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
