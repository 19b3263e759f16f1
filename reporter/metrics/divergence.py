"""How far the predictions of a model are from the predictions of its base, token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.table import Row
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import error_over_texts, interval
from reporter.metrics.base import Between, OptionalOptions, Statistic, Value, metric, undefined
from reporter.store.answers import INDISTINGUISHABLE

if TYPE_CHECKING:
    from reporter.forward.observed import Observed
    from reporter.forward.token_sample import TokenSelection

_LOGITS = 8 * 2**20  # in float64, of each model at once

_TOKENS = (
    "p is the model's distribution over the vocabulary and p⁰ the base's, each from the final state in float32 and the "
    "model's own head. A hash of the seed, the text and the position draws at most `sample` tokens. An encoder reads "
    "them unmasked."
)
_KL = f"KL(p⁰ ‖ p) = Σ p⁰ (log p⁰ − log p) over the vocabulary, of one token. {_TOKENS}"
_NEXT = f"p(next) − p⁰(next), with the probability of the token that follows in the text. Decoders only. {_TOKENS}"
QUANTILES = {"median": 0.5, "90": 0.9, "99": 0.99, "999": 0.999, "max": 1.0}
WITH_INTERVAL = 0.9
"""The highest quantile with an interval: a few texts decide those above."""

_of_model = partial(Statistic, sources=("kawrakow2024perplexity",), per="model", within_role=True)
_divergence = partial(_of_model, unit="nats", bounds=(0, None), smallest=INDISTINGUISHABLE)
_RARE = "The upper end allows for 3 tokens as large as the largest that no text has (rule of three)."
_SHARES = "95 % CI over texts (delta method on the share of tokens below, logit scale)."


def _quantile(name: str, title: str, trap: str) -> Statistic:
    definition = f"{title.capitalize()} of KL(p⁰ ‖ p) over tokens. {_KL}"
    how = _SHARES * (QUANTILES[name] <= WITH_INTERVAL)
    title, charted = f"divergence from the base: {title}", name == "median"
    least = 0.1 if name == "max" else INDISTINGUISHABLE  # the largest of 1,100 tokens is 0.015 in a bf16 copy
    return _divergence(f"kl_{name}", title, definition, interval=how, trap=trap, charted=charted, smallest=least)


STATISTICS = (
    _divergence(
        "kl",
        "divergence from the base",
        f"Mean over tokens of KL(p⁰ ‖ p). {_KL}",
        scale="log",
        interval=f"{_RARE} Too narrow if rarer tokens, which the texts lack, diverge most: see its coverage.",
        rarest=20.0,  # a next token that the model holds for impossible, e^-20, and the base for certain
        plainly="How much the predictions differ from the base's (0: equal).",
        trap="A few tokens dominate the mean; compare the median. With 8-bit weights its interval covered 61 to 84 %.",
    ),
    _quantile("median", "median", "Half of the tokens may be nearly certain in both models, and hide a change."),
    _quantile("90", "90 % quantile", "Depends on how many tokens of the texts are easy to predict."),
    _quantile("99", "99 % quantile", "Has no interval: a few texts decide it."),
    _quantile("999", "99.9 % quantile", "Of fewer than 1,000 tokens this is nearly the maximum. It has no interval."),
    _quantile("max", "maximum", "Grows with the number of tokens. It has no interval."),
    _of_model(
        "same_top",
        "same top token as the base",
        f"Share of tokens with argmax p = argmax p⁰. {_TOKENS}",
        scale="logit",
        of_tokens=True,
        bounds=(0, 1),
        smallest=0.02,
        trap="Two near-equal candidates swap places under the smallest change.",
    ),
    _of_model(
        "next",
        "change in probability of the next token",
        f"Mean over tokens of {_NEXT}",
        scale="plain",
        bounds=(-1, 1),
        trap="Gains and losses cancel, so noise has a mean near 0; see next_rms.",
    ),
    _of_model(
        "next_rms",
        "typical change in probability of the next token",
        f"Root of the mean over tokens of the square of {_NEXT}",
        scale="log",
        interval=_RARE,
        bounds=(0, 1),
        trap="Counts gains and losses alike.",
    ),
)

_DECLARED = {statistic.name: statistic for statistic in STATISTICS}


class DivergenceOptions(OptionalOptions):
    """The number of tokens."""

    sample: int = Field(default=2048, ge=32, description="tokens whose distributions in both models are compared")


def _compare(seen: Observed, bases: Sequence[Observed], options: DivergenceOptions) -> Iterator[Row]:
    """Yield how far the model predicts from its base."""
    from reporter.forward.token_sample import Outputs

    sides = seen, bases[0]
    a, b = (side.get(Outputs).select(side.strata, options.sample, side.device) for side in sides)
    a, b = a.shared(b)
    try:
        yield from _values(_of_tokens(sides, (a, b)), a.texts, seen.texts)
    except LookupError as reason:
        yield from undefined(STATISTICS, None, len(a), str(reason))


def _of_tokens(sides: Sequence[Observed], samples: Sequence[TokenSelection]) -> Floats:
    """Return each token's divergence, whether the top token is the same, and the change of the next one, (3, n).

    Raises:
        LookupError: the models have no distributions over the same tokens; it says why.
    """
    import torch

    from reporter.forward.token_sample import LAST, NEXT, TOKEN

    a, b = samples
    if len(a) < 2:
        why = [side.head_problem for side in sides if side.head_problem]
        raise LookupError(why[0] if why else "fewer than two tokens")
    if not np.array_equal(a.facts[:, TOKEN], b.facts[:, TOKEN]):
        raise LookupError("the tokenizers differ, so the predictions are not of the same tokens")
    heads, states = [side.head for side in sides], [side.states(LAST) for side in samples]
    parts, start, rows = [], 0, 1
    while start < len(a):
        some = slice(start, start + rows)
        with torch.inference_mode():
            logits = [wide(head.logits(x[some])) for head, x in zip(heads, states, strict=True)]
            if logits[0].shape != logits[1].shape:
                raise LookupError("the vocabularies of the models differ in size")
            log_p, log_q = (torch.log_softmax(x, dim=-1) for x in logits)
            p, q = log_p.exp(), log_q.exp()
            divergence = (q * (log_q - log_p)).where(q > 0, 0.0).sum(dim=1).clamp_min(0.0)
            target = torch.from_numpy(a.facts[some, NEXT]).to(p.device)[:, None]
            change = (p - q).gather(1, target.clamp_min(0)).where(target >= 0, torch.nan)[:, 0]
            parts.append(torch.stack([divergence, (p.argmax(dim=1) == q.argmax(dim=1)).double(), change]).cpu())
        start, rows = start + rows, max(1, _LOGITS // p.shape[1])
    return np.asarray(torch.cat(parts, dim=1))


def _values(tokens: Floats, texts: Ints, distinct: int) -> Iterator[Value]:
    """Yield all numbers, given those of each token, (3, n), the text of each token and the number of texts."""
    divergence, same, change = tokens

    def mean(name: str, each: Floats, of: Ints) -> Value:
        value, statistic = float(each.mean()), _DECLARED[name]
        low, high = statistic.ends(value, error_over_texts(each - value, of, len(each), distinct), distinct)
        if statistic.scale == "log" and high is not None:  # rule of three: what no text has may be 3 in n tokens
            high = min(high + 3 * float(each.max()) / len(each), statistic.bounds[1] or inf)
        return Value(name, None, value, len(each), low, high)

    yield mean("kl", divergence, texts)
    for name, share in QUANTILES.items():
        value = float(np.quantile(divergence, share))
        error = error_over_texts(np.where(divergence <= value, 1.0, 0.0) - share, texts, len(texts), distinct)
        low, high = interval(share, error, "logit", (0.0, 1.0)) if share <= WITH_INTERVAL else (None, None)
        ends = () if low is None or high is None else np.quantile(divergence, [low, high]).tolist()
        yield Value(f"kl_{name}", None, value, len(texts), *ends)
    yield mean("same_top", same, texts)
    has_next = np.isfinite(change)
    if not has_next.any():
        why = "no sampled token has a next token that the model predicts; an encoder predicts hidden tokens"
        yield from undefined(("next", "next_rms"), None, 0, why)
        return
    change, texts = change[has_next], texts[has_next]
    yield mean("next", change, texts)
    square = mean("next_rms", np.square(change), texts)
    roots = [None if x is None else x**0.5 for x in (square.value, square.ci_low, square.ci_high)]
    yield Value("next_rms", None, roots[0], len(change), roots[1], roots[2])


@metric(
    title="Divergence from the base",
    summary="How far the predictions of a tuned, quantised or pruned model are from the predictions of its base.",
    statistics=STATISTICS,
    question="prediction",
    needs=("moments", "outputs"),
    options=DivergenceOptions,
    version=2,
    cost="both heads are loaded again, and two products with the vocabulary per sampled token",
    between=Between(_compare, of=("base",), own=True),
)
def divergence(seen: Observed, options: DivergenceOptions) -> Iterator[Value]:
    """Yield nothing: alone, a model does not diverge."""
    yield from ()
