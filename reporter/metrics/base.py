"""Metrics: a definition that people read and a function from observables to values.

A metric is one short file that ends in one decorated function::

    @metric(name="norms", title="Norms", needs=("moments",), statistics=(Statistic(...),))
    def norms(seen: Observed, options: Options) -> Iterator[Value]:
        ...

Everything else (a table row, a chart, a page of ``reporter metrics``, a schema entry) follows from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from reporter.charts import Chart
from reporter.core.errors import ReporterError, hint
from reporter.core.imports import Registry, code_of
from reporter.core.sources import BIBLIOGRAPHY, Source
from reporter.core.table import (
    HIGH,
    LOW,
    METRIC,
    VIEW,
    OfPair,
    OfStudy,
    Row,
    UnderView,
    aside,
    at_place,
    column,
    of_cell,
)
from reporter.geometry import intervals
from reporter.geometry.intervals import FEWEST_TEXTS, Error, Interval, Scale, Spread
from reporter.texts.excerpts import EXCERPT

if TYPE_CHECKING:
    from reporter.forward.observed import Observed, Place
    from reporter.geometry.arrays import Floats

# Values that a definition fixes: a similarity to the last state of 1 at the last layer says nothing of the model.
#
# :attr:`Statistic.fixed` declares where such values can occur. Whether one occurs depends on the model: the states of
# a token type are equal at layer 0 unless positions are added there. :func:`settled` therefore compares the number
# with the declared value. A number that equals it up to rounding becomes exactly that value, has no interval and is
# marked in the column ``by_definition``. Every mean over layers and every claim reads this mark. A metric whose number
# can reach the declared value by measurement, as a rank can be 0, decides itself and sets ``Value.by_definition`` to
# False.


ROUNDING = 1e-6
"""Difference from the declared value that rounding in float32 explains, for numbers without a unit."""

PATH = ("embedding", "block")


def settled(statistic: Statistic, number: Value, layers: int) -> Value:
    """Return a number, settled and marked where its value is fixed by definition."""
    place = number.place
    if number.by_definition is not None or number.value is None or place is None or place.site not in PATH:
        return number
    last = layers - 1 if statistic.per == "step" else layers
    ends = {"first": 0, "last": last}
    for end, value in statistic.fixed:
        # A number without an upper bound may be small in the units of the states: only the value itself counts.
        tolerance = 0.0 if statistic.bounds == (0, None) else ROUNDING
        if place.layer == ends[end] and abs(number.value - value) <= tolerance:
            reason = f"the definition fixes it at {value:g} here"
            return replace(number, value=value, ci_low=None, ci_high=None, reason=reason, by_definition=True)
    return number


VALUE = "the number; NULL where it could not be computed (reason in cells.reasons)"
N = "number of observations"

INFLUENCES = 4096
"""Sampled tokens whose influence on a number its error is taken from."""

P = ParamSpec("P")
D = TypeVar("D", bound="Definition")
F = TypeVar("F", bound="Compute")

Per = Literal["layer", "step", "model", "pair"]
Method = Literal["", "delta method", "bootstrap", "half-samples", "jackknife"]
"""How an interval over texts follows from the spread of a number (``METHODS``); empty: the metric makes it itself."""
Comparison = Literal["models", "corpora", "base"]
Question = Literal["directions", "similarity", "updates", "dimension", "sinks", "prediction", "other"]
"""What a definition's charts ask of the layers; a report puts charts of the same question together."""


class Options(BaseModel):
    """Base of a metric's options: what a study may write under the metric's name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    optional: ClassVar[bool] = False
    """Whether ``metrics: all`` leaves the metric out, because it needs more than one plain forward pass."""

    def sample_size(self) -> int:
        """Return how much its bounded observable must keep: the option ``sample`` (tokens) or ``texts``; 0 without."""
        size: int = getattr(self, "sample", getattr(self, "texts", 0))
        return size

    def size_of(self, observable: str) -> int:
        """Return how much one of its bounded observables must keep: of sampled tokens enough for intervals."""
        return max(self.sample_size(), INFLUENCES) if observable == "tokens" else self.sample_size()


class OptionalOptions(Options):
    """Options of a metric that ``metrics: all`` leaves out."""

    optional: ClassVar[bool] = True


class SampleOptions(Options):
    """Options of a metric that reads shuffled batches of sampled tokens."""

    sample: int = Field(default=4096, ge=32, description="tokens per batch")
    batches: int = Field(default=1, ge=1, description="batches over which the mean and its interval are taken")

    def sample_size(self) -> int:
        """Return the tokens of all batches together."""
        return self.sample * self.batches

    def split(self, tokens: int) -> list[slice]:
        """Cut ``found`` sampled tokens into full batches; too few for one full batch are one batch."""
        full = min(self.batches, tokens // self.sample)
        if full == 0:
            return [slice(0, tokens)]
        return [slice(i * self.sample, (i + 1) * self.sample) for i in range(full)]


_ON_SCALE: Mapping[Scale, str] = {"plain": "", "log": ", log scale", "logit": ", logit scale", "fisher": ", Fisher's z"}


@dataclass(frozen=True)
class Statistic:
    """One number with one definition; its public name is ``<metric>.<name>``.

    Args:
        name: the part after the dot.
        title: a short label.
        definition: the formula in plain text (Unicode allowed), complete enough to compute the number by hand. Pages
            show its first sentences, at most 40 words, and the rest behind a click.
        sources: whose definition it is: keys of ``references.bib``, or works that are not in it.
        per: ``layer`` (one for each of 0..L), ``step`` (one for each step l -> l+1, stored at l), ``model`` (one;
            its layer is NULL), ``pair`` (one for each two layers, in the table ``layer_pairs``).
        unit: empty for a pure number.
        interval: how ``ci_low`` and ``ci_high`` are computed; empty when they are NULL. Pages show the first 20 words.
            Where there is a ``method``, its sentence comes first, and this is what else there is to say.
        method: how they follow from ``Value.spread``.
        scale: on which scale; with a scale alone the method is the delta method.
        skewed: whether few texts may decide the number, so that the delta method allows for large parts.
        of_tokens: whether it is a share of tokens, so that at 0 and 1 it has Wilson's interval.
        floor: whether ``<name>_floor`` is stored with it: its chance level, the value for an isotropic Gaussian of the
            same n and d unless the definition says otherwise.
        trap: a caution for readers, at most 25 words; no other caution repeats it.
        bounds: the range the number can take, for axes; None where it is open.
        main: shown among the first charts of a report; so is every statistic with ``plainly``.
        plainly: what a main statistic says, in at most 14 words without formulas, for readers new to it.
        fixed: ends of a profile over depth that can have a certain value by definition, as (end, value): S(L) = 1 says
            nothing of a model. A number there with that value has no interval and the mark ``by_definition``; means
            over layers and claims leave it out (:mod:`reporter.metrics.base`).
        smallest: the minimum meaningful difference, in the statistic's unit; claims take it where they state none.
            None: 0.01 for a number that is bounded on both sides, for others a hundredth of the profile's mean size.
        relative: whether a hundredth of the profile's mean size is the minimum wherever it is above ``smallest``.
        grows: how the number itself, not its error, changes with the size of the corpus, as measured; empty where the
            change is within its interval. Pages show the first 15 words.
        published: what published code computes under this name, where that differs from the definition.
        charted: whether a report draws a chart of it; a count that a table says needs none.
        undetermined: whether a number whose interval reaches 0 is not determined, so that its chart draws an open mark
            and no band there.
        short: a shorter name for the value axis; empty where the title does.
        noise: name of the chance level in charts and sentences; it may be above every number.
        within_role: whether an encoder's number and a decoder's are of different things, so that nothing compares them.
        rarest: of a mean over tokens that a few rare ones can decide, how large one token can be that these texts lack.
            Claims allow for it above the interval.
    """

    name: str
    title: str
    definition: str
    sources: tuple[str | Source, ...]
    per: Per = "layer"
    unit: str = ""
    interval: str = ""
    method: Method = ""
    scale: Scale | None = None
    skewed: bool = False
    of_tokens: bool = False
    floor: bool = False
    trap: str = ""
    bounds: tuple[float | None, float | None] = (None, None)
    main: bool = False
    plainly: str = ""
    fixed: tuple[tuple[Literal["first", "last"], float], ...] = ()
    smallest: float | None = None
    relative: bool = False
    grows: str = ""
    published: str = ""
    within_role: bool = False
    charted: bool = True
    undetermined: bool = False
    short: str = ""
    noise: str = "random vectors"
    rarest: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "main", self.main or bool(self.plainly))
        if self.scale and not self.method:
            object.__setattr__(self, "method", "delta method")
        if self.method and not self.interval.startswith("95 %"):
            how = f"95 % CI over texts ({self.method}{_ON_SCALE[self.scale or 'plain']})."
            object.__setattr__(self, "interval", f"{how} {self.interval}".rstrip())
        if self.smallest is None and None not in self.bounds:
            object.__setattr__(self, "smallest", 0.01)
        for key in self.sources:
            if isinstance(key, str) and key not in BIBLIOGRAPHY:
                where = hint(key, list(BIBLIOGRAPHY), "give a `reporter.Source`, or one of its keys")
                raise ReporterError(f"statistic {self.name!r}: `references.bib` has no work {key!r}{where}")

    @property
    def works(self) -> tuple[Source, ...]:
        """The works that ``sources`` names."""
        return tuple(BIBLIOGRAPHY[key] if isinstance(key, str) else key for key in self.sources)

    def ends(
        self, value: float, spread: Spread | None, texts: int = 0, within: tuple[float, float] | None = None
    ) -> Interval:
        """Return the 95 % interval of a number.

        Args:
            value: the number.
            spread: how it varies over texts: its error, replicates or half-samples, or its values without each group
                of texts, as ``method`` says; None gives no interval.
            texts: distinct texts that it rests on.
            within: least and most that it can be, where that is less than ``bounds``.
        """
        if spread is None:
            return None, None
        least, most = within or tuple(
            end if of is None else float(of) for end, of in zip((-inf, inf), self.bounds, strict=True)
        )
        if isinstance(spread, Error):
            ends = intervals.interval(value, spread, self.scale or "plain", (least, most), self.skewed)
        elif self.method == "half-samples":
            ends = intervals.half_sample_interval(value, spread, texts, (least, most))
        elif self.method == "jackknife":
            ends = self._jackknife(value, spread)
        else:
            ends = intervals.percentile_interval(spread, texts)
        return intervals.share_ends(value, ends, texts) if self.of_tokens else ends

    def _jackknife(self, value: float, without: Floats) -> Interval:
        if self.scale != "logit":
            return intervals.jackknife_interval(value, without, "log" if self.scale == "log" else "fisher")
        # Fisher's z of a number in −1…1 is half the logit of its share of the way.
        low, high = (float(end or 0) for end in self.bounds)
        middle, half = (low + high) / 2, (high - low) / 2
        ends = intervals.jackknife_interval((value - middle) / half, (without - middle) / half)
        if ends[0] is None or ends[1] is None:
            return None, None
        return min(middle + half * ends[0], value), max(middle + half * ends[1], value)


Share = partial(Statistic, bounds=(0, 1))
Size = partial(Statistic, bounds=(0, None))
Cosine = partial(Statistic, bounds=(-1, 1))


class Value(UnderView, table="layer_metrics"):
    """One number: a statistic of one model checkpoint on one corpus for one token set, at one layer.

    A number that could not be computed has the value None (NULL in the database), with the reason in ``reason``
    (``cells.reasons``). With a value, ``reason`` says why there is no interval. A number of the whole model has no
    place.
    """

    view = of_cell(
        "token set: 'text tokens', 'with special tokens', 'without sinks' (own tokens without sinks "
        "and without the first)"
    )
    statistic: str = column("statistic, the second part of a number's name", key=True)
    place: Place | None = at_place(
        "'embedding' (input of the first block), 'block' (output of a block), 'final' (after the final norm) or "
        "'attention' (before a block's feed-forward)",
        "0 = embedding, 1..L = blocks; NULL for a number of the whole model",
    )
    value: float | None = column(VALUE)
    n: int = column(N, "BIGINT", last=True)
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)
    reason: str = aside(default="")
    by_definition: bool | None = column(
        "true where the definition of the statistic fixes the value; then it has no interval, and means over layers "
        "and claims leave it out",
        default=None,
    )
    """A metric says False where it knows that the value was measured; None leaves it to :func:`settled`."""
    texts: int | None = aside(default=None, kw_only=True, compare=False)
    """Distinct texts that the number rests on, where these are fewer than the corpus has."""
    spread: Spread | None = aside(default=None, kw_only=True, compare=False)
    """How it varies over texts: for its interval, :class:`TextParts` of main statistics and differences from a base."""
    floor: float | None = aside(default=None, kw_only=True, compare=False)
    """Its chance level."""
    floor_n: int | None = aside(default=None, kw_only=True, compare=False)
    """Observations that the chance level is of, where these are not ``n``."""
    paired: Error | None = aside(default=None, kw_only=True, compare=False)
    """Its error as a difference from a base takes it, where that is not ``spread``."""


class TextParts(UnderView, table="text_parts"):
    """How much each group of texts moves a main statistic: what any difference of two of them is sure of.

    A number minus another number on the same texts, such as that of another layer or another model, has the standard
    error √Σ(a − b)², a and b the lists of both, each times its scale. What a text does to both falls out.
    """

    statistic: str = column("statistic, the second part of a number's name", key=True)
    layer: int = column("0 = embedding, or a number of the whole model; 1..L = blocks", key=True)
    scale: float = column("what the whole numbers of the list are multiples of")
    parts: list[int] = column(
        "list: the part of each group of texts in the number's distance from its expectation, as multiples of scale; "
        "the squares add up to the square of its standard error over texts. Up to 100 texts are groups of one",
        "SMALLINT[]",
    )


def beginning(text: str) -> Any:
    """Declare a column with the beginning of a text; the runner fills it where a row names a text of its corpus."""
    return column(f"the first {EXCERPT} characters of {text}", default="")


TEXT_NUMBER = "position of the text in the corpus, from 1; with `cluster`, of the first text of the cluster"


class TextInfluence(UnderView, table="text_influences"):
    """One of the texts that a main statistic depends on most at a layer, under the study's first token set.

    With `cluster` it is a whole cluster of texts. Statistics with a bootstrap have no rows in a corpus of more than 100
    texts, since their intervals rest on groups of texts.
    """

    statistic: str = column("statistic, the second part of a number's name", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    rank: int = column("1 = the text that moves the number most", key=True)
    text: int = column(TEXT_NUMBER)
    value_without: float = column(
        "the number without this text, or this cluster: of means exact or nearly so, of others to first order"
    )
    begins: str = beginning("the text")


class PairValue(OfPair, table="layer_pairs"):
    """A number for two layers, of one model or of two, on the same texts.

    A number that could not be computed has the value None (NULL in the database), with the reason in ``reason``
    (``cells.reasons``).
    """

    statistic: str = column("statistic, such as 'cka' or 'knn'", key=True)
    model_a = of_cell("name of the first model")
    checkpoint_a = of_cell("its checkpoint")
    layer_a: int = column("layer of the first model, 0 = embedding", key=True)
    model_b = of_cell("name of the second model; the first again inside one model")
    checkpoint_b = of_cell("its checkpoint")
    layer_b: int = column("layer of the second model", key=True)
    value: float | None = column(VALUE)
    n: int = column(N, "BIGINT", last=True)
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)
    reason: str = aside(default="")
    spread: Spread | None = aside(default=None, kw_only=True, compare=False)
    floor: float | None = aside(default=None, kw_only=True, compare=False)


class Difference(OfStudy, table="differences"):
    """A statistic on one side of a comparison minus the same on the other: two corpora, or a model and its base.

    The other fields are as in a value; ``n`` is the number of texts of the smaller side.
    """

    kind = of_cell("'corpora' (one model on two corpora) or 'base' (a model minus its base)")
    view = VIEW
    metric = METRIC
    statistic: str = column("the statistic that is compared", key=True)
    model_a = of_cell("model of the first side")
    checkpoint_a = of_cell("its checkpoint")
    corpus_a = of_cell("its corpus")
    model_b = of_cell("model of the second side, which is subtracted")
    checkpoint_b = of_cell("its checkpoint")
    corpus_b = of_cell("its corpus")
    place: Place | None = at_place()
    value: float | None = column("first minus second; NULL where it could not be computed")
    n: int = column(N, "BIGINT", last=True)
    ci_low: float | None = column(LOW, default=None)
    ci_high: float | None = column(HIGH, default=None)
    reason: str = aside(default="")


Numeric = Value | PairValue | Difference
"""What may lack a value, and then has a reason."""

Compute = Callable[..., Iterator[Row]]
"""A function of observables and options; of an analysis, of an item and its context."""
Compare = Callable[..., Iterator[Row]]
"""A function of the first side, of the other one (of a sequence of others for ``Between.own``), and of options."""


@dataclass(frozen=True)
class Between:
    """The comparison of two sides: two models on one corpus, one model on two corpora, or a model and its base.

    Args:
        compare: a function of both sides.
        of: which comparisons it is made for: ``models`` (any two models of the study on one corpus), ``corpora`` (any
            two corpora, one model), ``base`` (a model that names a ``base``, minus that base, on one corpus).
        own: whether what comes out are numbers of the first side alone, in ``layer_metrics``, of each of its
            checkpoints; then the metric has none of a single side, and ``compare`` gets a sequence as the other side:
            the base and, where the study has it, the first one's ``twin`` from another seed.
    """

    compare: Compare = field(repr=False)
    of: tuple[Comparison, ...]
    own: bool = False


def _undefined(*_: object) -> Iterator[Row]:
    raise NotImplementedError("this definition has no function yet; use it as a decorator")


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The description of something that yields numbers: a metric, or an analysis of tokens, sentences, vocabularies.

    Args:
        name: the part before the dot, and the key in a study; the name of the function if left out.
        title: heading in the report.
        summary: one or two sentences: what question it answers.
        statistics: every number it yields.
        options: the options model; the default takes none.
        version: raise it when numbers change, so that cached cells are computed again.
        question: what it asks of the layers (a :data:`Question`); the report groups charts by it.
        cost: what it adds to the forward pass, in words.
        tables: row classes that it yields besides ``Value``; each has a table of its own.
        charts: charts besides those that each statistic gets for free.
        compute: the decorated function.
        code: hash of the file or notebook cell that defines it, so that an edited one is computed again; empty for
            those of reporter, whose ``version`` says as much.
    """

    name: str = ""
    title: str
    summary: str
    statistics: tuple[Statistic, ...]
    options: type[BaseModel] = Options
    version: int = 1
    question: Question = "other"
    cost: str = ""
    tables: tuple[type[Row], ...] = ()
    charts: tuple[Chart, ...] = ()
    compute: Compute = field(default=_undefined, repr=False)
    code: str = ""

    def __post_init__(self) -> None:
        if self.question not in (known := get_args(Question)):
            where = hint(self.question, list(known), "choose one of")
            raise ReporterError(f"{self.name or self.title!r}: there is no question {self.question!r}{where}")

    def statistic(self, name: str) -> Statistic:
        """Return the statistic called ``name``; raise ``KeyError`` if there is none."""
        return {s.name: s for s in self.statistics}[name]


def declaring(kind: Callable[P, D], registry: Registry[D]) -> Callable[P, Callable[[F], F]]:
    """Return the decorator that registers a function as what ``kind`` makes of the decorator's arguments.

    A cell of a notebook that runs again, or a module that is loaded again, replaces what it registered before; a name
    that another module has raises ``ReporterError``.
    """

    @wraps(kind)
    def declare(*args: P.args, **kwargs: P.kwargs) -> Callable[[F], F]:
        definition = kind(*args, **kwargs)

        def register(compute: F) -> F:
            name = definition.name or compute.__name__
            numbers = completing(definition.statistics)(compute)
            registry.add(name, replace(definition, name=name, compute=numbers, code=code_of(compute)), compute)
            return compute

        return register

    return declare


@dataclass(frozen=True, kw_only=True)
class Metric(Definition):
    """A metric as the registry holds it. The decorator ``reporter.metric`` takes the same arguments.

    Args:
        needs: names of the observables it reads.
        between: how it compares two models or two corpora; None where it does not.
        against_base: statistics with a ``Value.spread`` or ``Value.paired``: those of a model minus those of its base
            are stored, with intervals from the paired replicates or influences.
    """

    options: type[Options] = Options
    needs: tuple[str, ...]
    between: Between | None = None
    against_base: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.against_base:
            object.__setattr__(self, "between", Between(partial(_minus_base, self), of=("base",)))
        if self.between and not self.between.own and Difference not in self.tables and PairValue not in self.tables:
            object.__setattr__(self, "tables", (*self.tables, Difference))

    @property
    def optional(self) -> bool:
        """Whether ``metrics: all`` leaves it out."""
        return self.options.optional

    @property
    def compares_only(self) -> bool:
        """Whether it says nothing of a single side."""
        return self.between is not None and self.between.own


def _minus_base(metric: Metric, a: Observed, b: Observed, options: Options) -> Iterator[Difference]:
    """Yield the numbers of a model minus those of its base where both have them."""
    numbers, base_numbers = (
        {
            (value.statistic, value.place): value
            for value in metric.compute(replace(side, only=metric.against_base), options)
            if isinstance(value, Value) and value.statistic in metric.against_base
        }
        for side in (a, b)
    )
    for (statistic, place), x in numbers.items():
        y = base_numbers.get((statistic, place))
        if y is None or (place is not None and place.site not in PATH):
            continue
        if x.value is None or y.value is None:
            yield Difference(statistic, place, None, 0, reason=x.reason or y.reason)
            continue
        difference, texts = x.value - y.value, min(x.texts or a.texts, y.texts or b.texts)
        mine, theirs = ((side.spread if side.paired is None else side.paired, texts) for side in (x, y))
        yield Difference(statistic, place, difference, texts, *interval_of_difference(difference, mine, theirs, a.seed))


def interval_of_difference(
    difference: float,
    mine: tuple[Spread | None, int],
    theirs: tuple[Spread | None, int],
    seed: int,
    paired: bool = True,
) -> Interval:
    """Return the interval of a difference of two numbers, from how each varies over how many texts.

    On the same texts (``paired``) what a text does to both falls out. Claims and ``diff`` have the same interval.
    """
    from reporter.forward.parts import parts_of

    parts = [None if spread is None else parts_of(spread, texts, seed) for spread, texts in (mine, theirs)]
    texts = min(mine[1], theirs[1])
    if parts[0] is None or parts[1] is None or texts < FEWEST_TEXTS:
        return None, None
    joined = parts[0] - parts[1] if paired else np.concatenate((parts[0], -parts[1]))
    return intervals.interval_over_texts(difference, joined, texts)


def undefined(statistics: Iterable[str | Statistic], place: Place | None, n: int, reason: str) -> Iterator[Value]:
    """Yield each of some statistics as NULL, with the reason."""
    for statistic in statistics:
        name = statistic if isinstance(statistic, str) else statistic.name
        yield Value(name, place, None, n, reason=reason)


def valued(statistic: str, place: Place | None, value: float | None, n: int, reason: str) -> Value:
    """Return a number, or NULL with the reason."""
    return Value(statistic, place, value, n, reason=reason if value is None else "")


def completing(statistics: Iterable[Statistic]) -> Callable[[Compute], Compute]:
    """Return a decorator: the rows of a metric get intervals and chance levels as their statistics declare them."""
    declared = {statistic.name: statistic for statistic in statistics}

    def decorate(compute: Compute) -> Compute:
        @wraps(compute)
        def completed(seen: Any, *more: Any) -> Iterator[Row]:
            for row in compute(seen, *more):
                if isinstance(row, Value | PairValue) and row.statistic in declared:
                    yield from _completed(row, declared[row.statistic], getattr(seen, "texts", 0))
                else:
                    yield row

        return completed

    return decorate


def _completed(number: Value | PairValue, statistic: Statistic, texts: int) -> Iterator[Row]:
    """Yield a number with the interval that follows from its spread, and its chance level."""
    ends, spread, floor_n = (number.ci_low, number.ci_high), number.spread, number.n
    if isinstance(number, Value):
        texts, floor_n = number.texts or texts, number.n if number.floor_n is None else number.floor_n
    if statistic.method and number.value is not None and ends[0] is None:
        ends = statistic.ends(number.value, spread, texts)
    if statistic.method == "jackknife":  # values without each group of texts are no replicates that have parts of texts
        spread = None
    yield replace(number, ci_low=ends[0], ci_high=ends[1], spread=spread, floor=None)
    if number.floor is not None:
        bare = replace(number, ci_low=None, ci_high=None, reason="", spread=None, floor=None)
        yield replace(bare, statistic=f"{number.statistic}_floor", value=number.floor, n=floor_n)


HELPERS = ("base", "analysis")
"""Modules of this folder that register nothing."""

METRICS: Registry[Metric] = Registry("metric", "metrics", "reporter.metrics", helpers=HELPERS)


metric = declaring(Metric, METRICS)


def catalogue() -> dict[str, Metric]:
    """Every metric by name, in alphabetical order. Imports the metric modules, but neither torch nor scipy."""
    return METRICS.all()


def statistics(metrics: Mapping[str, Metric] | None = None) -> dict[str, dict[str, str]]:
    """Return, by metric, the names of its statistics, floors among them, and what each has one number for."""
    return {
        name: {f"{s.name}{floor}": s.per for s in metric.statistics for floor in (("", "_floor") if s.floor else ("",))}
        for name, metric in (catalogue() if metrics is None else metrics).items()
    }
