"""How far the predictions of a model are from the predictions of its base, token by token."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.table import Row
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import Error, Scale, error_over_texts, interval
from reporter.metrics._intervals import described
from reporter.metrics.base import Between, OptionalOptions, Share, Size, Statistic, Value, metric, undefined

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.forward.observed import Observed
    from reporter.forward.token_sample import Selection

_LOGITS = 8 * 2**20  # in float64, of each model at once

_TOKENS = (
    "p is the model's distribution over the vocabulary and p⁰ the base's, each from the final state in float32 and the "
    "model's own head. A hash of the seed, the text and the position draws at most `sample` tokens. An encoder reads "
    "them unmasked."
)
_KL = f"KL(p⁰ ‖ p) = Σ p⁰ (log p⁰ − log p) over the vocabulary, of one token. {_TOKENS}"
_NEXT = f"p(next) − p⁰(next), with the probability of the token that follows in the text. Decoders only. {_TOKENS}"
_divergence = partial(Size, sources=("kawrakow2024perplexity",), per="model", within_role=True)
QUANTILES = {"median": 0.5, "90": 0.9, "99": 0.99, "999": 0.999, "max": 1.0}


def _quantile(name: str, title: str, trap: str) -> Statistic:
    covered = QUANTILES[name] < 0.99
    how = "95 % CI over texts (delta method on the share of tokens below, logit scale)." * covered
    definition = f"{title.capitalize()} of KL(p⁰ ‖ p) over tokens. {_KL}"
    title = f"divergence from the base: {title}"
    return _divergence(f"kl_{name}", title, definition, unit="nats", interval=how, trap=trap)


STATISTICS = (
    _divergence(
        "kl",
        "divergence from the base",
        f"Mean over tokens of KL(p⁰ ‖ p). {_KL}",
        unit="nats",
        interval=described("log"),
        smallest=0.01,
        plainly="How much the predictions differ from the base's (0: equal).",
        trap="A few tokens dominate the mean; the median is often a tenth of it.",
    ),
    _quantile("median", "median", "Half of the tokens may be nearly certain in both models, and hide a change."),
    _quantile("90", "90 % quantile", "Depends on how many tokens of the texts are easy to predict."),
    _quantile("99", "99 % quantile", "Has no interval: a few texts decide it."),
    _quantile("999", "99.9 % quantile", "Of fewer than 1,000 tokens this is nearly the maximum. It has no interval."),
    _quantile("max", "maximum", "Grows with the number of tokens. It has no interval."),
    Share(
        "same_top",
        "same top token as the base",
        f"Share of tokens with argmax p = argmax p⁰. {_TOKENS}",
        ("kawrakow2024perplexity",),
        per="model",
        interval=described("logit"),
        trap="Two near-equal candidates swap places under the smallest change.",
        within_role=True,
    ),
    Statistic(
        "next",
        "change in probability of the next token",
        f"Mean over tokens of {_NEXT}",
        ("kawrakow2024perplexity",),
        per="model",
        interval=described("plain"),
        bounds=(-1, 1),
        trap="Gains and losses cancel, so noise has a mean near 0; see next_rms.",
        within_role=True,
    ),
    Share(
        "next_rms",
        "typical change in probability of the next token",
        f"Root of the mean over tokens of the square of {_NEXT}",
        ("kawrakow2024perplexity",),
        per="model",
        interval=described("log"),
        trap="Counts gains and losses alike.",
        within_role=True,
    ),
)


class DivergenceOptions(OptionalOptions):
    """The number of tokens."""

    sample: int = Field(default=2048, ge=32, description="tokens whose distributions in both models are compared")


def _compare(seen: Observed, bases: Sequence[Observed], options: DivergenceOptions) -> Iterator[Row]:
    """Yield how far the model predicts from its base."""
    from reporter.forward.outputs import NEXT, Outputs

    base = bases[0]
    mine, theirs = (side.get(Outputs).select(side.strata, options.sample, side.device) for side in (seen, base))
    a, b = mine.shared(theirs)
    reason = _difference(seen, base, a, b)
    numbers = None if reason else _of_tokens(seen, base, a, b, a.facts[:, NEXT])
    if numbers is None:
        yield from undefined(STATISTICS, None, len(a), reason or "the vocabularies of both models differ in size")
        return
    yield from _values(*numbers, a.texts, seen.texts)


def _values(divergence: Floats, same: Floats, change: Floats, texts: Ints, distinct: int) -> Iterator[Value]:
    """Yield all numbers, given those of each token, (n,) each, the text of each token and the number of texts."""
    error_of = partial(error_over_texts, distinct=distinct)
    yield _mean("kl", divergence, texts, error_of, "log", (0.0, inf))
    for name, share in QUANTILES.items():
        value = float(np.quantile(divergence, share))
        ends: tuple[float | None, float | None] = (None, None)
        if share < 0.99:
            below = np.where(divergence <= value, 1.0, 0.0) - share
            low, high = interval(share, error_of(below, texts, len(below)), "logit", (0.0, 1.0))
            if low is not None and high is not None:
                ends = float(np.quantile(divergence, low)), float(np.quantile(divergence, high))
        yield Value(f"kl_{name}", None, value, len(divergence), *ends)
    yield _mean("same_top", same, texts, error_of, "logit", (0.0, 1.0))
    known = np.isfinite(change)
    if not known.any():
        why = "no sampled token has a next token that the model predicts; an encoder predicts hidden tokens"
        yield from undefined(("next", "next_rms"), None, 0, why)
        return
    change, texts = change[known], texts[known]
    yield _mean("next", change, texts, error_of, "plain", (-1.0, 1.0))
    size = float(np.sqrt(np.square(change).mean()))
    error = error_of((np.square(change) - size**2) / max(2 * size, 1e-300), texts, len(change))
    yield Value("next_rms", None, size, len(change), *interval(size, error, "log", (0.0, 1.0)))


def _mean(
    name: str,
    each: Floats,
    texts: Ints,
    error_of: Callable[..., Error | None],
    scale: Scale,
    bounds: tuple[float, float],
) -> Value:
    value = float(each.mean())
    error = error_of(each - value, texts, len(each))
    return Value(name, None, value, len(each), *interval(value, error, scale, bounds))


def _difference(seen: Observed, base: Observed, a: Selection, b: Selection) -> str:
    """Return why two models have no distributions over the same tokens; empty where they have."""
    from reporter.forward.token_sample import TOKEN

    for side, of in ((seen, ""), (base, "the base: ")):
        if side.head_problem and not len(a):
            return f"{of}{side.head_problem}"
    if len(a) < 2:
        return "fewer than two tokens"
    if not np.array_equal(a.facts[:, TOKEN], b.facts[:, TOKEN]):
        return "the tokenizers differ, so the predictions are not of the same tokens"
    return "" if seen.head is not None and base.head is not None else "the models are not here"


def _of_tokens(
    seen: Observed, base: Observed, a: Selection, b: Selection, following: Ints
) -> tuple[Floats, Floats, Floats] | None:
    """Return each token's divergence, whether the top token is the same, and the change of the next one, (n,) each.

    None where the vocabularies differ in size.
    """
    import torch

    from reporter.forward.outputs import LAST

    parts: list[Tensor] = []
    states = [side.states(LAST) for side in (a, b)]
    rows = 1
    start = 0
    while start < len(a):
        some = slice(start, start + rows)
        with torch.inference_mode():
            log_p, log_q = (
                torch.log_softmax(wide(side.head.logits(x[some])), dim=-1)  # type: ignore[union-attr]
                for side, x in zip((seen, base), states, strict=True)
            )
            if log_p.shape != log_q.shape:
                return None
            q = log_q.exp()
            divergence = (q * (log_q - log_p)).where(q > 0, 0.0).sum(dim=1).clamp_min(0.0)
            target = torch.from_numpy(following[some]).to(log_p.device)[:, None]
            p_next, q_next = (x.gather(1, target.clamp_min(0)).exp() for x in (log_p, log_q))
            change = (p_next - q_next).where(target >= 0, torch.nan)[:, 0]
            parts.append(torch.stack([divergence, (log_p.argmax(dim=1) == log_q.argmax(dim=1)).double(), change]).cpu())
        start, rows = start + len(q), max(1, _LOGITS // q.shape[1])
    divergence, same, change = torch.cat(parts, dim=1).numpy()
    return divergence, same, change


@metric(
    title="Divergence from the base",
    summary="How far the predictions of a tuned, quantised or pruned model are from the predictions of its base.",
    statistics=STATISTICS,
    question="prediction",
    needs=("moments", "outputs"),
    options=DivergenceOptions,
    cost="both heads are loaded again, and two products with the vocabulary per sampled token",
    between=Between(_compare, of=("base",), own=True),
)
def divergence(seen: Observed, options: DivergenceOptions) -> Iterator[Value]:
    """Yield nothing: alone, a model does not diverge."""
    yield from ()
