"""How well a model predicts the corpus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from reporter.metrics._intervals import BOOTSTRAP, change_of_mean, mean_with_interval
from reporter.metrics._sources import SALAZAR
from reporter.metrics.base import Between, Difference, Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed

STATISTICS = (
    Statistic(
        "lm",
        "language-model loss",
        "mean of −log p(token) over tokens, in nats. A decoder predicts each token of a text from those before it; the "
        "first token and what the tokenizer adds are not counted. An encoder with a masked-language-model head sees "
        "each text once with 15 % of its tokens masked at once and predicts those",
        (SALAZAR,),
        per="model",
        unit="nats",
        interval=BOOTSTRAP,
        bounds=(0, None),
        headline=True,
        plainly="How badly the model predicts tokens; lower is better.",
        trap="Depends on the tokenizer: a loss per token of one vocabulary does not compare with that of another, and "
        "an encoder's never with a decoder's.",
        smallest=0.01,
        within_role=True,
    ),
)


class LossOptions(Options):
    """None; but it takes more than a plain forward pass."""

    optional: ClassVar[bool] = True


def compare(a: Observed, b: Observed, options: LossOptions) -> Iterator[Difference]:
    """Yield the loss of a model minus that of its base, with an interval from paired replicates.

    Args:
        a: the model.
        b: its base.
        options: none.
    """
    from reporter.observables.losses import Losses

    mine, theirs = (one.get(Losses).average("loss", one.path[0], one.view) for one in (a, b))
    reason = a.head_problem or b.head_problem or "no token is predicted"
    yield change_of_mean("lm", None, mine, theirs, a.texts, reason)


@metric(
    name="loss",
    title="Language-model loss",
    summary="How well the model predicts the tokens of the corpus, to correlate with what its layers do.",
    statistics=STATISTICS,
    needs=("losses",),
    version=2,
    cost="a product with the vocabulary for each predicted token; for an encoder a second forward pass",
    options=LossOptions,
    between=Between(compare, of=("base",)),
    tables=(Difference,),
)
def loss(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield the mean loss.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: none.
    """
    from reporter.observables.losses import Losses

    average = seen.get(Losses).average("loss", seen.path[0], seen.view)
    yield mean_with_interval("lm", None, average, seen.texts, seen.head_problem or "no token is predicted")
