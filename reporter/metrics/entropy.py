"""Entropy of the directions of the states of one text (Sanchez Giraldo et al. 2015; Skean et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import percentile_interval
from reporter.metrics._intervals import BOOTSTRAP
from reporter.metrics.base import Options, Share, Statistic, Value, metric, undefined, with_floor

if TYPE_CHECKING:
    from reporter.forward.observed import Observed
    from reporter.forward.text_entropy import TextEntropies


_PROMPT = (
    "−Σ p log p, p = λ/Σλ, λ the eigenvalues, cut off at 0, of the Gram matrix of the view's states of one text minus "
    "their mean; texts of fewer than three tokens in the view, and texts of equal states, are left out; about `texts` "
    "texts (64 unless the study says otherwise), chosen by a hash"
)

_OVER_TEXTS = (
    f"{BOOTSTRAP}; of 64 texts it is, in the median over layers, ± 9 % of prompt and prompt_raw (± 2 % where texts are "
    "about equally long), ± 2.5 % of prompt_normalised and ± 2 % of prompt_unit (± 14, 12, 11 and 5 % in a decoder "
    "with its sinks in the view): 1.25 times what 100 texts give "
    "(paragraphs of Wikipedia, an encoder of 6 and a decoder of 30 layers)"
)

_of_texts = partial(Statistic, interval=_OVER_TEXTS, floor=True)
_share_of_texts = partial(_of_texts, bounds=(0, 1))

STATISTICS = (
    _of_texts(
        "prompt",
        "entropy of a text's states",
        f"mean over texts of {_PROMPT}",
        ("giraldo2015measures", "skean2025layer"),
        unit="nats",
        bounds=(0, None),
        trap="Grows with the length of the text, up to log(min(n − 1, d)); a single sink in a text pulls it towards 0. "
        "Three other numbers go by the same name: see prompt_raw and prompt_unit.",
        smallest=0.01,
        published="The formula of Skean et al. leaves the mean in (prompt_raw); their code takes it off, scales each "
        "state to length 1 and takes negative products as 0 (prompt_unit). This form is neither.",
    ),
    _share_of_texts(
        "prompt_normalised",
        "normalised entropy of a text's states",
        f"mean over texts of the entropy over log(min(n − 1, d)), n the text's tokens in the view; the entropy being "
        f"{_PROMPT}",
        ("giraldo2015measures", "skean2025layer"),
        short="normalised entropy",
        plainly="How evenly a text's states spread over directions: near 1 evenly, near 0 along one.",
        trap="Isotropic states do not reach 1 in a finite text: see the floor.",
        published="Skean et al. divide by log(min(n, d)), which n centred states cannot reach: see prompt_unit.",
    ),
    _of_texts(
        "prompt_raw",
        "entropy of a text's states with their mean",
        "mean over the same texts as `prompt` of −Σ p log p, p = λ/Σλ, λ the eigenvalues of the Gram matrix of the "
        "view's states of one text as they are, neither centred nor scaled: p = σ²/Σσ², σ their singular values",
        ("giraldo2015measures", "skean2025layer", "queipo2026attention"),
        unit="nats",
        bounds=(0, None),
        trap="A long common mean reads as low entropy, and so does one long state: of a text with one sink little else "
        "is seen. Divide by log(min(n, d)) to compare with normalised curves.",
        published="The formula printed by Skean et al. and used by Queipo-de-Llano et al. for attention sinks and "
        "compression valleys; the code of Skean et al. computes prompt_unit.",
    ),
    _share_of_texts(
        "prompt_unit",
        "normalised entropy of a text's directions",
        "mean over the same texts as `prompt` of H/log(min(n, d)), n the text's tokens in the view, H = −Σ p log p, "
        "p = λ/Σλ over the positive eigenvalues λ of the matrix UUᵀ for n ≤ d, UᵀU for n > d, U the states minus their "
        "mean and each scaled to length 1, with negative entries of that matrix set to 0",
        ("skean2025layer",),
        trap="A sink still tells: it moves the mean, and all other states then point away from it. Entries set to 0 "
        "change the eigenvalues, not alike for n > d and n ≤ d; negative ones are left out.",
        published="What the code of Skean et al. computes as prompt (sentence) entropy under 'maxEntropy'. It takes in "
        "every token of a text: the view 'all' is nearest.",
    ),
    Share(
        "skipped",
        "texts too short for an entropy",
        "share of the chosen texts with any token in the view that have fewer than three tokens in it",
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
    summary="Over how many directions, and how evenly, the states of one text spread.",
    statistics=STATISTICS,
    question="dimension",
    needs=("text_entropy",),
    options=EntropyOptions,
    version=6,
    against_base=(*_IN_NATS, *_SHARES),
    cost="eigenvalues of three tokens × tokens matrices for each measured text, layer and view",
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
            texts, mean = entropies.distinct, float(values.mean())
            ends = percentile_interval(replicates, texts)
            yield from with_floor(Value(name, place, mean, n, *ends, texts=texts, spread=replicates), floors[name])
    if entropies is None or not entropies.texts:
        yield Value("skipped", None, None, 0, reason="no text has a token")
    else:
        yield Value("skipped", None, entropies.short / entropies.texts, entropies.texts)


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
    entropies = entropies_of(x, texts, [np.ones((1, n), dtype=bool)] * draws)[:, 0]
    return tuple(entropies.mean(dim=0).tolist())
