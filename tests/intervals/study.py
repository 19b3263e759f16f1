"""Do the intervals cover? Many random subsets of many texts, each measured as a corpus of its own.

    python tests/intervals/study.py                                # a tiny model of random weights, made-up texts
    python tests/intervals/study.py --model FOLDER --texts FILE    # a model and texts of your own
    python tests/intervals/study.py --model FOLDER --texts FILE --unit paragraph --layers 0,3,6 --views "text tokens"
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
``contributions`` are left out; their intervals are made as those of ``motion`` are. All layers are measured; of pairs
of layers those are counted of which both are chosen. Floors are those of 1000 tokens, since nothing is asked about them
here.
"""

import argparse
import json
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles`` and ``intervals`` when run as a script

from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from oracles.families import loaded

from reporter.forward.measure import measure
from reporter.forward.observable import Setting
from reporter.forward.observed import KINDS, Observed
from reporter.forward.output import Settings
from reporter.forward.reading import tokenised
from reporter.forward.type_moments import FEWEST_OCCURRENCES
from reporter.forward.type_sample import count_types
from reporter.geometry import noise
from reporter.metrics import _coverage
from reporter.metrics._coverage import Coverage, full_name
from reporter.metrics.base import Difference, PairValue, Value, catalogue
from reporter.models.places import Layout

KEY = ["statistic", "view", "layer"]
NUMBERS = [*KEY, "draw", "size", "value", "low", "high"]
"""Columns of what is measured: a number of each subset, by its size; NaN where there is none, or no interval."""
SIZES = (0.5, 1, 2, 4)  # of a subset


class Source:
    """A model, and the texts that subsets are drawn from.

    Args:
        model: a loaded model, or one with its face.
        texts: with the face of ``reporter.texts.Texts``.
        layers: which of 0..L are counted; None: the first, the middle one and the last.
        max_tokens: where texts are cut.
    """

    def __init__(self, model, texts, layers, max_tokens):
        last = model.anatomy.layers
        self.layers = set(layers or (0, last // 2, last))
        if not self.layers <= set(range(last + 1)):
            raise ValueError(f"layers {sorted(self.layers)}: name some of 0 to {last}")
        self.model, self.texts, self.max_tokens = model, texts, max_tokens
        self.layout = Layout.of(model.anatomy, ())

    def observables(self, chosen, sizes, seed):
        """Return observables that have seen the chosen texts; ``sizes`` says how much each bounded one must keep."""
        texts = FakeTexts(self.texts[i] for i in chosen)
        corpus = tokenised(self.model, texts, self.max_tokens)
        counted = count_types(corpus, self.model.anatomy.vocabulary_size, seed)
        types, in_all = counted.at_least(FEWEST_OCCURRENCES), int(counted.counts.sum() + counted.added.sum())
        of_types = types, dict.fromkeys(types, ""), in_all, counted.splits
        given = {name: Setting(self.layout, seed, len(texts), size, *of_types) for name, size in sizes.items()}
        found = {name: KINDS[name].empty(setting) for name, setting in given.items()}
        settings = Settings(4096, seed, "float32", self.layout, counted.frequent)
        list(measure(self.model, corpus, [*found.values()], settings))
        return found

    def place(self, value):
        """Return the layer or layers of a value as text; None for what is no number or of layers not chosen."""
        if isinstance(value, Value | Difference):
            at = () if value.place is None else (value.place.layer,)
        elif isinstance(value, PairValue) and value.layer_a < value.layer_b:
            at = value.layer_a, value.layer_b
        else:
            return None
        return "-".join(map(str, at)) if self.layers.issuperset(at) else None


def study(source, metrics, views, subset, subsets, options=None, sizes=SIZES, base=None):
    """Measure random subsets of the texts and say of each statistic whether its interval covers.

    Args:
        source: the model and all texts.
        metrics: what to compute.
        views: under which views.
        subset: texts of a subset.
        subsets: how many.
        options: of the metrics, by name.
        sizes: times ``subset``: the sizes of corpus that the drift is taken over; those that fit.
        base: the model that this one was made from, for what compares the two.
    """
    set_up = [(metric, metric.options(**(options or {}).get(metric.name, {}))) for metric in metrics]
    kept = {"moments": 0}  # views read their tokens there
    for metric, own in set_up:
        kept |= {name: max(kept.get(name, 0), own.size_of(name)) for name in metric.needs}
    known = {subset, *(size for of in sizes if (size := round(subset * of)) <= len(source.texts) * 0.8)}
    found, rng, sides = [], np.random.default_rng(0), [source] if base is None else [source, base]
    with floors_of_one_size():
        for draw in range(subsets):
            order = rng.permutation(len(source.texts)).tolist()
            for size in known if draw < max(20, subsets // 4) else {subset}:
                for *key, value in _measured(sides, order[:size], set_up, kept, views, draw):
                    found.append((*key, draw, size, value.value, value.ci_low, value.ci_high))
            if draw % 20 == 19:
                print(f"{draw + 1} of {subsets} subsets", file=sys.stderr, flush=True)
    return judged(pd.DataFrame(found, columns=NUMBERS), subset, len(source.texts))


def _measured(sides, chosen, set_up, kept, views, seed):
    observables = [side.observables(chosen, kept, seed) for side in sides]
    memos = [{} for _ in sides]
    distinct = len({sides[0].texts[i] for i in chosen})
    for view in views:
        of_sides = zip(observables, sides, memos, strict=True)
        seen, *base = (Observed(of, side.layout, distinct, view, seed, memo) for of, side, memo in of_sides)
        for metric, options in set_up:
            results = [] if metric.compares_only else [metric.compute(seen, options)]
            if base and metric.between is not None and "base" in metric.between.of:
                results.append(metric.between.compare(seen, base if metric.between.own else base[0], options))
            for value in chain(*results):
                where = sides[0].place(value)
                if where is not None and not value.statistic.endswith("_floor"):
                    yield full_name(metric.name, value), view, where, value


def judged(numbers, subset, texts):
    """Return a row for each statistic, view and layer.

    Its columns: ``mean`` over the subsets; ``sd`` of a corpus of that many texts, corrected for the finite number of
    texts; ``half``, mean half-width of the interval; ``covered``, share of the intervals that hold the mean; ``drift``
    of the mean when the corpus doubles, and ``drift_error`` over the subsets; ``missing`` subsets without a value.
    """
    numbers = numbers.astype(dict.fromkeys(NUMBERS[-3:], float))
    return pd.DataFrame([_row(key, of, subset, texts) for key, of in numbers.groupby(KEY, sort=False)])


def _row(key, numbers, subset, texts):
    own, finite = numbers[numbers["size"] == subset], np.sqrt(1 - subset / texts)
    mean, has = own["value"].mean(), own.dropna()
    # Rounding is no error: an interval of no width covers a number that never moves.
    target, slack = has["value"] - (has["value"] - mean) / finite, 1e-9 * abs(mean)
    inside = (has["low"] - slack <= target) & (target <= has["high"] + slack)
    # The subsets of a draw lie in one another, so that most of their noise is shared.
    draws = numbers.pivot(index="draw", columns="size", values="value").dropna()
    x = np.log2(draws.columns.to_numpy(float))
    slopes = draws @ (x - x.mean()) / np.square(x - x.mean()).sum()
    of = {"mean": mean, "sd": own["value"].std() / finite, "half": (has["high"] - has["low"]).mean() / 2}
    of |= {"covered": inside.mean(), "drift": slopes.mean(), "drift_error": slopes.std() / np.sqrt(len(slopes))}
    return dict(zip(KEY, key, strict=True)) | of | {"missing": int(own["value"].isna().sum())}


def floors_of_one_size():
    """Draw each floor once, for 1000 tokens: drawing them for each subset would take most of the time."""
    names = ("eigenvalues", "top_variance_share", "mean_cosine", "pair_cosine", "step_angle")
    drawn = {name: partial(lambda of, n, d, seed: of(1000, d, 0), getattr(noise, name)) for name in names}
    return patch.multiple(noise, **drawn)


def table(rows):
    """Return every row as text."""
    return rows.to_string(index=False, float_format="{:.4g}".format, na_rep="")


def summary(rows):
    """Return a line for each statistic: over its layers and views, the least and the most."""
    of = moving(rows)
    of = of.assign(half_to_sd=of["half"] / (1.96 * of["sd"]), drift_in_sd=of["drift"] / of["sd"])
    whole = {"covered": ["mean", "min", "max"], "half_to_sd": "median", "drift_in_sd": ["min", "max"]}
    return of.groupby("statistic", sort=False).agg(whole).to_string(float_format="{:.3f}".format, na_rep="")


def moving(rows):
    """Return those of numbers that move: the others have nothing to cover."""
    return rows[rows["sd"] > 1e-9 * rows["mean"].abs()]


def counted(rows, texts, name, subsets):
    """Return a line of the file for each statistic that has an interval and is no constant."""
    covered = moving(rows).dropna(subset="covered").groupby("statistic", sort=False)["covered"]
    below, mean = covered.agg(lambda of: (of < _coverage.LEAST_IN_LAYER).sum()), covered.mean().round(3)
    return [Coverage(one, texts, name, subsets, len(of), int(below[one]), float(mean[one])) for one, of in covered]


def write(path, lines):
    """Put lines into the file; those of the same statistic, texts and input are replaced."""
    kept = {line[:3]: line for line in (*(_coverage.read(path) if path.exists() else ()), *lines)}
    rows = pd.DataFrame([kept[key] for key in sorted(kept)], columns=Coverage._fields)
    rows.to_csv(path, index=False, lineterminator="\n")


def made_up(count):
    """Return distinct texts of 4 to 40 words of the tiny model."""
    return FakeTexts(list(dict.fromkeys(made_up_texts(2 * count, longest=40, shortest=4)))[:count])


def read_texts(path, unit, most, min_words):
    """Return distinct texts of a file in random order: its lines, or what blank lines separate."""
    whole = path.read_text(encoding="utf-8")
    parts = whole.splitlines() if unit == "line" else whole.split("\n\n")
    texts = list(dict.fromkeys(text for part in parts if len((text := " ".join(part.split())).split()) >= min_words))
    np.random.default_rng(0).shuffle(texts)
    return FakeTexts(texts[:most])


def main(arguments=None):
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a folder in the transformers format; none: a tiny random model")
    parser.add_argument("--base", type=Path, help="the folder of the model it was made from, for `change`")
    parser.add_argument("--texts", type=Path, help="a text file; none: made-up texts")
    parser.add_argument("--unit", choices=("line", "paragraph"), default="line", help="what is a text of the file")
    usual = {"min-words": 4, "max-tokens": 96, "texts-in-all": 2000, "subset": 100, "subsets": 200}
    for name, number in usual.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--layers", help="such as 0,3,6; none: the first, the middle one and the last")
    parser.add_argument("--metrics", default="anisotropy,spectrum,variance,motion,convergence,contextuality")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON: options by metric")
    parser.add_argument("--views", default="text tokens,without sinks")
    parser.add_argument("--role", choices=("encoder", "decoder"), default="encoder", help="of the tiny random model")
    parser.add_argument("--write", metavar="INPUT", help="put coverage at each size into the file, under this name")
    parser.add_argument("--sizes", default="10,20,50,100", help="with --write: texts of a subset")
    parser.add_argument("--no-drift", action="store_true", help="measure subsets of one size alone")
    asked = parser.parse_args(arguments)
    more = {name for name, kind in KINDS.items() if kind.reads_head or kind.reads_vocabulary or kind.reads_inside}
    known = {name: metric for name, metric in catalogue().items() if more.isdisjoint(metric.needs)}
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
            print(f"{size} texts are counted", file=sys.stderr, flush=True)
        return

    compared = (1,) if asked.no_drift else SIZES
    rows = study(source, chosen, views, asked.subset, asked.subsets, asked.options, compared, base)
    print(f"{asked.subsets} subsets of {asked.subset} of {len(texts)} texts\n\n{table(rows)}\n\n{summary(rows)}")


if __name__ == "__main__":
    main()
