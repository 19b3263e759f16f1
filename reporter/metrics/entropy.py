"""Entropy of the directions of the states of one text (Sanchez Giraldo et al. 2015; Skean et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.geometry.arrays import Floats, Ints
from reporter.metrics.base import Options, Share, Statistic, Value, metric, undefined, valued

if TYPE_CHECKING:
    from reporter.forward.observed import Observed
    from reporter.forward.text_entropy import TextEntropies


_GRAM = "λ are the eigenvalues, clipped at 0, of the Gram matrix of a text's centred states in the token set."
_TEXTS = (
    "A hash chooses about `texts` texts (64 by default). Texts with fewer than three tokens in the token set, and "
    "texts whose states are all equal, are left out."
)
_SAME_TEXTS = "The texts are those of entropy.prompt."


def _over_texts(width: str, with_sinks: str, note: str = "") -> str:
    return (
        f"Typically ± {width} % with 64 texts.{note} In a decoder with its sinks: ± {with_sinks} %. These "
        "are medians over layers, 1.25 times as wide as with 100 texts. Measured on paragraphs of Wikipedia with an "
        "encoder of 6 and a decoder of 30 layers."
    )


_IF_EQUAL = " If the texts have about the same length: ± 2 %."

_of_texts = partial(Statistic, floor=True, method="bootstrap")
_share_of_texts = partial(_of_texts, bounds=(0, 1))

STATISTICS = (
    _of_texts(
        "prompt",
        "entropy of a text's states",
        f"Mean over texts of −Σ p log p, with p = λ/Σλ. {_GRAM} {_TEXTS}",
        ("giraldo2015measures", "skean2025layer"),
        unit="nats",
        interval=_over_texts("9", "14", _IF_EQUAL),
        bounds=(0, None),
        trap="Grows with text length, up to log(min(n − 1, d)). A single sink pulls it towards 0. The literature uses "
        "this name for several numbers.",
        smallest=0.01,
        published="The formula of Skean et al. keeps the mean: prompt_raw. The code of Skean et al. subtracts the "
        "mean, scales each state to length 1 and sets negative products to 0: prompt_unit. This form is neither.",
    ),
    _share_of_texts(
        "prompt_normalised",
        "normalised entropy of a text's states",
        "Mean over texts of −Σ p log p / log(min(n − 1, d)), with n the text's tokens in the token set and p = λ/Σλ. "
        f"{_GRAM} {_TEXTS}",
        ("giraldo2015measures", "skean2025layer"),
        short="normalised entropy",
        interval=_over_texts("2.5", "11"),
        plainly="How evenly a text's states spread over directions (1: evenly, 0: along one).",
        trap="Even random states stay below 1 in a short text; compare the chance level.",
        published="Skean et al. divide by log(min(n, d)), which n centred states cannot reach; see prompt_unit.",
    ),
    _of_texts(
        "prompt_raw",
        "entropy of a text's states with their mean",
        "Mean over texts of −Σ p log p, with p = σ²/Σσ² and σ the singular values of a text's states in the token set. "
        f"The states are neither centred nor scaled. {_SAME_TEXTS} Divided by log(min(n, d)), it is comparable with "
        "normalised curves.",
        ("giraldo2015measures", "skean2025layer", "queipo2026attention"),
        unit="nats",
        interval=_over_texts("9", "12", _IF_EQUAL),
        bounds=(0, None),
        trap="A long common mean or one long state lowers the entropy. In a text with a sink the number shows little "
        "else.",
        published="Skean et al. print this formula. Queipo-de-Llano et al. use it for attention sinks and compression "
        "valleys. The code of Skean et al. computes prompt_unit.",
    ),
    _share_of_texts(
        "prompt_unit",
        "normalised entropy of a text's directions",
        "Mean over texts of −Σ p log p / log(min(n, d)), with n the text's tokens in the token set and p = λ/Σλ. λ are "
        "the positive eigenvalues of UUᵀ (n ≤ d) or UᵀU (n > d). Negative entries of that matrix are set to 0 first. U "
        f"are the states, centred and each scaled to length 1. {_SAME_TEXTS}",
        ("skean2025layer",),
        interval=_over_texts("2", "5"),
        trap="A sink still matters: it moves the mean, and all other states then point away from it. The zeroed "
        "entries change the eigenvalues.",
        published="The code of Skean et al. computes this number as prompt (sentence) entropy under 'maxEntropy'. That "
        "code uses every token of a text: the token set `with special tokens` is nearest.",
    ),
    Share(
        "skipped",
        "texts too short for an entropy",
        "Share of texts with one or two tokens in the token set, among the chosen texts with any token in it.",
        ("skean2025layer",),
        per="model",
    ),
)


_NO_TEXT = "no text has three tokens whose states differ"
_IN_NATS = ("prompt", "prompt_raw")
_SHARES = ("prompt_normalised", "prompt_unit")


class EntropyOptions(Options):
    """The number of texts."""

    texts: int = Field(default=64, ge=1, description="texts whose states are decomposed, chosen by a hash")


@metric(
    title="Entropy within a text",
    summary="Over how many directions, and how evenly, the states of a text spread.",
    statistics=STATISTICS,
    question="dimension",
    needs=("text_entropy",),
    options=EntropyOptions,
    version=6,
    against_base=(*_IN_NATS, *_SHARES),
    cost="eigenvalues of three tokens × tokens matrices for each measured text, layer and token set",
)
def entropy(seen: Observed, options: EntropyOptions) -> Iterator[Value]:
    """Yield the entropies and their floors at every place, and the share of texts that are too short."""
    from reporter.forward.text_entropy import text_entropies

    entropies: TextEntropies | None = None
    for place in seen.places:
        entropies = text_entropies(seen, place, options.texts)
        width, n = seen.width(place), len(entropies.values)
        if not n:
            yield from undefined((*_IN_NATS, *_SHARES), place, 0, _NO_TEXT)
            continue
        floors = _floor(tuple(entropies.lengths.tolist()), width, seen.seed)
        numbers = numbers_of(entropies.values, entropies.lengths, width)
        for name in (*_IN_NATS, *_SHARES):
            if width < 2 and name in _SHARES:
                yield Value(name, place, None, n, reason="states of one dimension have no entropy")
                continue
            values = numbers[name]
            drawn, total = entropies.weights.sum(axis=1), entropies.weights @ values
            replicates = np.divide(total, drawn, out=np.full(len(total), np.nan), where=drawn > 0)
            mean, texts = float(values.mean()), entropies.distinct
            yield Value(name, place, mean, n, texts=texts, spread=replicates, floor=floors[name])
    texts, short = (entropies.texts, entropies.short) if entropies else (0, 0)
    yield valued("skipped", None, short / texts if texts else None, texts, "no text has a token")


def numbers_of(entropies: Floats, lengths: Ints | Floats, d: int) -> dict[str, Floats]:
    """Return each statistic of each text, shape (n,); shares of the most that there can be are 0 for d = 1."""
    centred, raw, unit = entropies.T
    # n centred states span n − 1 directions; the source divides by log(min(n, d)) all the same.
    return {
        "prompt": centred,
        "prompt_raw": raw,
        "prompt_normalised": _share(centred, np.minimum(lengths - 1, d)),
        "prompt_unit": _share(unit, np.minimum(lengths, d)),
    }


def _share(entropies: Floats, directions: Ints | Floats) -> Floats:
    most = np.log(directions)
    share = np.divide(entropies, most, out=np.zeros(len(entropies)), where=most > 0)
    return np.asarray(np.minimum(share, 1.0))


_DRAWN_LENGTHS = 24  # beyond so many different lengths those between are read off a line in log n


@lru_cache(maxsize=256)
def _floor(lengths: tuple[int, ...], d: int, seed: int) -> dict[str, float]:
    """Return each statistic of isotropic Gaussian states in texts of the same lengths."""
    distinct, count = np.unique(lengths, return_counts=True)
    drawn = distinct
    if len(distinct) > _DRAWN_LENGTHS:
        drawn = np.unique(np.geomspace(distinct[0], distinct[-1], _DRAWN_LENGTHS).round().astype(np.int64))
    values = np.array([gaussian_entropies(int(n), d, seed) for n in drawn])
    entropies = np.stack([np.interp(np.log(distinct), np.log(drawn), form) for form in values.T], axis=1)
    return {name: float(count @ of_text / count.sum()) for name, of_text in numbers_of(entropies, distinct, d).items()}


@lru_cache(maxsize=4096)
def gaussian_entropies(n: int, d: int, seed: int) -> tuple[float, ...]:
    """Return the entropies of n isotropic Gaussian states in d dimensions in each form.

    The mean of several draws where n is small.
    """
    import torch

    from reporter.geometry.entropy import entropies_of

    draws = max(1, 256 // n)
    x = torch.from_numpy(np.random.default_rng([seed, n, d]).standard_normal((draws * n, d)))
    texts = list(np.arange(draws * n).reshape(draws, n))
    return tuple(entropies_of(x, texts, [np.ones((1, n), dtype=bool)] * draws)[:, 0].mean(dim=0).tolist())
