"""The logit lens: what a model would predict if it stopped at a layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from reporter.metrics._intervals import BOOTSTRAP, changes_along, mean_with_interval
from reporter.metrics._sources import BELROSE, NOSTALGEBRAIST
from reporter.metrics.base import Between, Difference, Options, Statistic, Value
from reporter.metrics.registry import metric

if TYPE_CHECKING:
    from reporter.observables.observed import Observed

STATISTICS = (
    Statistic(
        "entropy",
        "entropy of the lens",
        "mean over a uniform sample of tokens of −Σ p_l log p_l, with p_l = softmax(head(norm(h_l))): the "
        "language-model head applied to the state at layer l after the model's own closing norm, where it has one",
        (NOSTALGEBRAIST,),
        unit="nats",
        interval=BOOTSTRAP,
        bounds=(0, None),
        trap="Early layers are not written in the head's basis: a confident lens may be confidently meaningless.",
        smallest=0.01,
        within_role=True,
    ),
    Statistic(
        "kl",
        "distance of the lens from the output",
        "mean over the same tokens of KL(p_L ‖ p_l), with p_L what the model itself predicts",
        (NOSTALGEBRAIST, BELROSE),
        unit="nats",
        interval=BOOTSTRAP,
        bounds=(0, None),
        headline=True,
        plainly="How far a prediction read off this layer is from the one that the model makes; 0 the same.",
        trap="A head was trained for the last layer alone; a tuned lens would read earlier layers better.",
        fixed=(("last", 0.0),),
        smallest=0.01,
        within_role=True,
    ),
)


class LensOptions(Options):
    """How many tokens are read."""

    optional: ClassVar[bool] = True
    sample: int = Field(default=2048, ge=16, description="about how many tokens of the corpus are read")

    def sample_size(self) -> int:
        """Return the tokens read."""
        return self.sample


def compare(a: Observed, b: Observed, options: Options) -> Iterator[Difference]:
    """Yield both numbers of a model minus those of its base, layer by layer, with intervals from paired replicates.

    Args:
        a: the model.
        b: its base.
        options: the sample.
    """
    from reporter.observables.lens import Lens

    ends = dict.fromkeys(("entropy", "kl"), min(a.layers, b.layers) + 1)
    yield from changes_along(a, b, ends, Lens, a.head_problem or b.head_problem or "no token was read")


@metric(
    name="lens",
    title="Logit lens",
    summary="What the model would predict if it stopped at a layer: how sure it would be, and how far from its output.",
    statistics=STATISTICS,
    needs=("lens",),
    options=LensOptions,
    version=4,
    cost="a product with the vocabulary for each sampled token and layer",
    between=Between(compare, of=("base",)),
    tables=(Difference,),
)
def lens(seen: Observed, options: Options) -> Iterator[Value]:
    """Yield entropy and divergence at every layer.

    Args:
        seen: observables of one checkpoint on one corpus under one view.
        options: the sample.
    """
    from reporter.observables.lens import Lens

    for place in seen.path:
        for statistic in ("entropy", "kl"):
            average = seen.get(Lens).average(statistic, place, seen.view)
            reason = seen.head_problem or "no token was read"
            yield mean_with_interval(statistic, place, average, seen.texts, reason)
