"""How often findings are made of nothing, and how often a set of layers leaves out the true peak.

``python tests/oracles/finding_calibration.py [repetitions]`` prints both; the suite does the same with fewer. A study
is made up whose numbers are a known profile and noise of the size that their intervals say: independent from layer to
layer, shared, or wandering (as in ``claim_calibration``). Noise is so large that what it makes would be worth a
sentence, were it believed. Views, floors, baselines and checkpoints have noise of their own around the same truth.
"""

import math
import sys
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles`` when run as a script

from oracles.claim_calibration import KINDS, K, noise

from reporter.geometry.intervals import quantile
from reporter.judge.estimates import Estimates
from reporter.judge.numbers import MetricRow, Numbers
from reporter.judge.points import Points
from reporter.judge.questions import look
from reporter.judge.questions.extremes import extreme
from reporter.judge.questions.subjects import Subjects
from reporter.metrics.base import Statistic

NAME = "anisotropy.top_variance_share"
TEXTS = 40


def bell(at):
    """A bell of height 1 with its peak at a layer."""
    return np.exp(-((np.arange(K) - at) ** 2) / 8)


def statistic(**more):
    """A main statistic between 0 and 1."""
    return Statistic("top_variance_share", "share", "of nothing", (), bounds=(0, 1), main=True, smallest=0.01, **more)


class MadeUp(Numbers):
    """Numbers of a study that are made up when they are asked for.

    Args:
        values: a profile of a model under a view, of a statistic, at a step.
        error: standard error of each number.
        roles: the role of each model.
        steps: training steps of the models; None for a single checkpoint.
        baselines: whether there are some.
        untrained: models whose weights are those of an initialisation.
        whole: whether they are numbers of the whole model.
        names: the statistics.
        sinks: rows of the table.
        bases: the base of each model that has one.
        corpora: the corpora.
        words: how many words each of them has.
        last: how many layers have numbers: all, or one fewer where they are of steps.
    """

    def __init__(
        self, values, error, roles, steps=(None,), baselines=(), untrained=(), whole=False, names=(NAME,), sinks=(),
        bases=None, corpora=("c",), words=(1000, 1000), last=K,
    ):  # fmt: skip
        models = {name: SimpleNamespace(base=(bases or {}).get(name)) for name in roles}
        of = {"study": "s", "views": ("text tokens", "without sinks"), "texts": "sampled", "sections": {}}
        study = SimpleNamespace(models=models, corpora=dict.fromkeys(corpora), **of)
        self.names, self._made, self._error, self._roles, self._steps = tuple(names), values, error, roles, steps
        self._baselines, self._last, self._is_whole = baselines, last, whole
        cells = [{"model": model, "corpus": corpus} for model in roles for corpus in corpora]
        keys = ("position_last", "layer_first", "layer_last", "count")
        counted = {"checkpoint": "final", "tokens": 1000, "texts": TEXTS, "sinks": TEXTS}
        sizes = zip(corpora, words, strict=False)
        answers = {  # by what is in the question
            "initialised": [{"model": model} for model in untrained],
            "max(layers)": [{"model": model, "blocks": K - 1} for model in roles],
            "model, role": [{"model": model, "role": role} for model, role in roles.items()],
            "FROM sinks": [dict(zip(keys, of, strict=True)) | at for at in cells for of in sinks],
            "tokens": [at | counted for at in cells],
            "FROM corpora": [{"corpus": corpus, "words": words, "texts": TEXTS} for corpus, words in sizes],
            "": [],
        }
        store = SimpleNamespace(records=lambda sql, _: next(rows for part, rows in answers.items() if part in sql))
        super().__init__(store, study)
        self.rows = cache(self._profiles)

    def _profiles(self, full_name, view):
        floor = full_name.endswith("_floor")
        baselines = () if floor else (f"{model} ({of})" for model in self._roles for of in self._baselines)
        return tuple(
            row
            for model in (*self._roles, *baselines)
            for step in (self._steps[-1:] if "(" in model else self._steps)
            for corpus in self.study.corpora
            for row in self._of(full_name, view, model, corpus, step, None if floor else self._error)
            if full_name.removesuffix("_floor") in self.names
        )

    def _of(self, full_name, view, model, corpus, step, error):
        half = math.nan if error is None else quantile(0.975) * error
        values = np.asarray(self._made(model, view, full_name, step))[: 1 if self._is_whole else self._last]
        checkpoint = "final" if step is None else str(step), step, step == self._steps[-1]
        for layer, value in enumerate(values.tolist()):
            at = ("block" if layer else "embedding", layer, layer / (K - 1))
            ends = (None, None) if error is None else (value - half, value + half)
            place = (None, None, None) if self._is_whole else at
            yield MetricRow(model, *checkpoint, self._roles[model.partition(" ")[0]], corpus, *place, value, *ends)


def made(numbers, against_base=(), **more):
    """Return what is found in made-up numbers."""
    statistics = {name: statistic(**more) for name in numbers.names}
    return look(Subjects(numbers, statistics, frozenset(against_base)))


NULLS = {
    "one model": {"roles": {"a": "decoder"}},
    "one model, baselines": {"roles": {"a": "encoder"}, "baselines": ("random-init", "shuffled")},
    "checkpoints": {"roles": {"a": "decoder"}, "steps": (0, 10, 100, 1000, 2000, 4000, 8000)},
    "three of each role": {"roles": {name: "encoder" if name < "d" else "decoder" for name in "abcdef"}},
    "one of each role, two corpora": {"roles": {"a": "encoder", "d": "decoder"}, "corpora": ("c", "d")},
    "two of a role": {"roles": {"a": "encoder", "b": "encoder"}},
    "a model and its base": {"roles": {"a": "encoder", "b": "encoder"}, "bases": {"b": "a"}},
}
ALIKE = ("one of each role, two corpora", "two of a role", "a model and its base")
"""Where models differ by the noise of texts alone: few models are described with intervals over texts."""
TRUTHS = {"flat": np.full(K, 0.5), "rising": np.linspace(0.3, 0.7, K)}


def of_nothing(study, truth, kind, seed, error=0.1):
    """Return what is found where there is nothing: the same profile everywhere, and noise.

    Where there are several models, each deviates by as much as the noise of texts, floor and all, unless few are
    described. Of a rising profile a peak would be wrong.
    """
    rng = np.random.default_rng([seed, list(NULLS).index(study), KINDS.index(kind), list(TRUTHS).index(truth)])
    differ = len(NULLS[study]["roles"]) > 1 and study not in ALIKE
    own = {model: rng.standard_normal() * differ for model in NULLS[study]["roles"]}

    def values(model, view, full_name, step):
        of_model = TRUTHS[truth] + error * own[model.partition(" ")[0]]
        return of_model if full_name.endswith("_floor") else of_model + error * noise(rng, kind)

    return made(MadeUp(values, error, **NULLS[study]))


def peak(seed, kind, error=0.03, at=7):
    """Return the findings about a bell with its peak at a layer."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    shape = 0.2 + 0.6 * bell(at)
    same = {view: shape + error * noise(rng, kind) for view in ("text tokens", "without sinks")}
    result = made(MadeUp(lambda model, view, name, step: same[view], error, {"a": "decoder"}))
    return [row for row in result.rows if row["kind"] == "extremes"]


def of_texts(seed, kind, paired, height=0.5, error=0.03, at=7):
    """Return a bell of numbers that are means over texts.

    Args:
        seed: of the texts.
        kind: of noise, from text to text; how the errors of layers go together is estimated, too.
        paired: whether that is made use of.
        height: of the bell; 0 makes all layers equal.
        error: standard error of each layer.
        at: the layer that is the highest.
    """
    rng = np.random.default_rng([seed, len(kind)])
    texts = 0.3 + height * bell(at) + error * math.sqrt(TEXTS) * noise(rng, kind, (TEXTS,))
    mean = texts.mean(axis=0)
    parts = (texts - mean).T / math.sqrt(TEXTS * (TEXTS - 1))
    numbers = Estimates.of_parts(mean[None], parts[None], TEXTS)
    if not paired:
        numbers = Estimates.of_texts(numbers.value, numbers.error, numbers.df)
    return Points(numbers, np.linspace(0, 1, K))


def not_told_apart(seed, kind, paired):
    """Return the set of layers not told apart from the top of a bell, at 5 %."""
    return extreme(of_texts(seed, kind, paired), 0.01, 0.05)


def ruled_out(seed, kind, paired):
    """Return whether a layer is ruled out as the highest, at 5 %, where all layers are equal."""
    p = of_texts(seed, kind, paired, height=0).differences().above(0.0).reshape(K, K)
    return bool((K - 1) * p[:, 7].min() <= 0.05)


def main():
    """Print how often."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for study, truth, kind in product(NULLS, TRUTHS, KINDS):
        rate = np.mean([bool(of_nothing(study, truth, kind, i).rows) for i in range(repetitions)])
        print(f"{study}, {truth}, {kind}: {rate:.3f}")
    for kind in KINDS:
        sets = [(row["layer_first"], row["layer_last"]) for i in range(repetitions) for row in peak(i, kind)]
        print(f"peak, {kind}: {told([range(first, last + 1) for first, last in sets], repetitions)}")
    for kind, paired in product((*KINDS, "opposite"), (False, True)):
        peaks = [result.among for i in range(repetitions) if (result := not_told_apart(i, kind, paired)) is not None]
        wrong = np.mean([ruled_out(i, kind, paired) for i in range(repetitions)])
        of = f"peak of {TEXTS} texts, {kind}, {'paired' if paired else 'bounded'}"
        print(f"{of}: {told(peaks, repetitions)}, one of equals left out {wrong:.3f}")


def told(sets, repetitions):
    """Return how often there is a set of layers, how often the peak is in it, and how large it is, as text."""
    inside, width = np.mean([7 in among for among in sets]), np.mean([len(among) for among in sets])
    return f"found {len(sets) / repetitions:.2f}, in the set {inside:.3f}, {width:.1f} layers"


if __name__ == "__main__":
    main()
