"""Attention: how much heads give to the first token, how evenly they spread what is left, and how far they reach.

Weights exist only where a model computes attention plainly, so a bounded sample of texts goes through it that way. All
texts are cut to one length and shorter ones are left out: the share that goes to the first token falls with the number
of tokens that there are to attend to, so that texts of different lengths cannot be averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from reporter.analyses._attention_charts import CHARTS
from reporter.analyses._samples import stream
from reporter.analyses.base import Context, Corpus
from reporter.analyses.registry import analysis
from reporter.effort import Effort
from reporter.errors import ReporterError
from reporter.forward.places import Place
from reporter.geometry.intervals import normal_interval
from reporter.metrics.base import Source, Statistic, Value
from reporter.spec.offer import Reference, Section
from reporter.spec.part import Name, Part
from reporter.table import Comparable, OfModel, Row, at_place, column, of_cell

if TYPE_CHECKING:
    from torch import Tensor

GU = Source(
    "Gu et al. 2024",
    "Gu et al. 2024, 'When Attention Sink Emerges in Language Models: An Empirical View', ICLR 2025, arXiv:2410.10781",
)
XIAO = Source(
    "Xiao et al. 2023",
    "Xiao et al. 2023, 'Efficient Streaming Language Models with Attention Sinks', ICLR 2024, arXiv:2309.17453",
)
CLARK = Source(
    "Clark et al. 2019",
    "Clark, Khandelwal, Levy & Manning 2019, 'What Does BERT Look At? An Analysis of BERT's Attention', BlackboxNLP, "
    "arXiv:1906.04341",
)

FEWEST = 5  # texts for an interval
_AT_ONCE = 512  # texts tokenised in one go
_WEIGHTS = 2**26  # of all blocks at once: 256 MB in float32


class AttentionSpec(Part):
    """A corpus on which heads are watched."""

    corpus: Name = Field(description="A corpus of this study.")
    texts: int = Field(64, ge=2, le=1024, description="Texts; the first so many long enough ones in a random order.")
    tokens: int = Field(
        64, ge=4, le=512, description="Tokens of each text, the tokenizer's own among them; shorter texts are left out."
    )
    threshold: float = Field(
        0.3, gt=0, lt=1, description="The mean weight on the first token from which on a head has a sink there."
    )


class AttentionHead(OfModel, table="attention_heads", metric="attention"):
    """A head of a block: how it attends, as means over the texts."""

    compared = (Comparable(("first_token", "sink_rate", "entropy", "distance"), "item", of="'head ' || head"),)

    item = of_cell("name of the reading in the study", part="corpus")
    place: Place = at_place()
    head: int = column("number of the head, from 0", key=True)
    first_token: float = column("mean weight on the first token, over all later tokens")
    sink_rate: float = column("share of texts in which its mean weight on the first token exceeds the threshold")
    entropy: float = column("mean entropy of its weights over the log of the tokens that it may attend to")
    distance: float = column("mean distance in tokens of what it attends to")


_SAID = (
    "a_ij is what a head gives in row i (the token that looks) to token j, after the softmax, in plain attention; T "
    "tokens a text, the tokenizer's own among them: texts are cut to the first T, shorter ones left out, equal ones "
    "read once; 64 texts of 64 tokens unless the study says otherwise"
)
_INTERVAL = f"95 %, mean ± 1.96 standard errors over texts; none for fewer than {FEWEST} texts"

STATISTICS = (
    Statistic(
        "sink_rate",
        "share of heads with a sink",
        f"share of texts and heads in which the mean weight on the first token, Σ_i a_i1 / T, exceeds `threshold` (0.3 "
        f"unless the study says otherwise); {_SAID}",
        (GU,),
        interval=_INTERVAL,
        bounds=(0, 1),
        smallest=0.01,
        headline=True,
        trap="Row 1 of a decoder, which can look at nothing else, counts as 1 of the T, as in the published code: with "
        "few tokens that alone comes near the threshold. Where a tokenizer puts its own token first ([CLS], BOS), that "
        "is the first token.",
    ),
    Statistic(
        "first_token",
        "attention to the first token",
        f"mean over heads and the tokens i = 2…T of a_i1; {_SAID}. Floor: the same where a token attends equally to "
        "all that it may, which are the tokens up to itself in decoders and all in encoders.",
        (XIAO, GU),
        interval=_INTERVAL,
        floor=True,
        noise="equal attention",
        bounds=(0, 1),
        smallest=0.01,
        trap="A mean over heads: one head that does nothing else and nine that never do read as 0.1. The table "
        "`attention_heads` has each.",
    ),
    Statistic(
        "entropy",
        "normalised entropy of attention",
        f"mean over heads and the tokens i = 2…T of −Σ_j p ln p / ln m, p = a_ij/Σ_j a_ij and m the tokens that i may "
        f"attend to: i in decoders, T in encoders; {_SAID}",
        (CLARK,),
        interval=_INTERVAL,
        bounds=(0, 1),
        smallest=0.01,
        trap="1 is attention that is spread evenly, 0 a single token. Where attention is local, only a part of the m "
        "tokens is within reach, so that 1 cannot be read.",
    ),
    Statistic(
        "distance",
        "distance of attention",
        f"mean over heads and the tokens i = 2…T of Σ_j p |i − j|, in tokens; {_SAID}. Floor: the same where a token "
        "attends equally to all that it may.",
        (CLARK,),
        interval=_INTERVAL,
        floor=True,
        noise="equal attention",
        bounds=(0, None),
        trap="A head that parks its weight on the first token reads as one that looks far back: read it beside "
        "`first_token`.",
    ),
)


@dataclass(frozen=True)
class _Read:
    """What heads do in some texts, each (texts, heads)."""

    sinks: NDArray[np.float64]  # 1 where the mean weight on the first token exceeds the threshold
    first_token: NDArray[np.float64]
    entropy: NDArray[np.float64]
    distance: NDArray[np.float64]


@analysis(
    name="attention",
    title="Attention by head",
    summary="How many heads park their attention on the first token, how evenly heads spread it, and how far they "
    "reach.",
    statistics=STATISTICS,
    cost="a forward pass over the sample with plain attention, whose weights are layers × heads × tokens² numbers a "
    "text",
    effort=lambda scale, said: Effort(bytes=40.0 * scale.texts * scale.length**2 * 12 * scale.places),
    tables=(AttentionHead,),
    charts=CHARTS,
    section=Section(
        AttentionSpec,
        "Corpora on which heads are watched, by a short name.",
        ("reading", "readings"),
        (Reference("corpus", "corpora"),),
    ),
    baselines=True,
)
def attention(item: AttentionSpec, context: Context) -> Iterator[Row]:
    """Yield what the heads of each block attend to.

    Args:
        item: the corpus, and how much of it.
        context: the model, and what to read it with.

    Raises:
        ReporterError: the model returns no weights, or too few texts are long enough.
    """
    texts = _long_enough(context.corpora[item.corpus], item, context)
    blocks = _read(texts, item, context)
    causal = context.model.anatomy.role == "decoder"
    floors = {"first_token": _evenly_first(item.tokens, causal), "distance": _evenly_far(item.tokens, causal)}
    for layer, read in enumerate(blocks, 1):
        place = Place("block", layer)
        for name, found in (
            ("sink_rate", read.sinks),
            ("first_token", read.first_token),
            ("entropy", read.entropy),
            ("distance", read.distance),
        ):
            yield _value(name, place, found.mean(axis=1))
            if name in floors:
                yield Value(f"{name}_floor", place, floors[name], len(found))
        for head in range(read.sinks.shape[1]):
            columns = (read.first_token, read.sinks, read.entropy, read.distance)
            yield AttentionHead(place, head, *(float(one[:, head].mean()) for one in columns))


def _value(name: str, place: Place, values: NDArray[np.float64]) -> Value:
    """Return a mean over texts with its interval, within the bounds of the statistic."""
    if len(values) < FEWEST:
        return Value(name, place, float(values.mean()), len(values))
    mean, low, high = normal_interval(values)
    top = next(one.bounds[1] for one in STATISTICS if one.name == name)
    return Value(name, place, mean, len(values), max(0.0, low), high if top is None else min(float(top), high))


def _long_enough(corpus: Corpus, item: AttentionSpec, context: Context) -> NDArray[np.int64]:
    """Return the token ids of the sampled texts, (texts, item.tokens)."""
    from reporter.forward.measure import longest
    from reporter.texts.tokens import tokenise_texts

    limit = longest(min(item.tokens, corpus.max_tokens), context.model)
    if limit < item.tokens:
        raise ReporterError(f"texts are cut at {limit} tokens, fewer than the {item.tokens} asked for; lower `tokens`")
    order = stream(context.seed, "texts").permutation(len(corpus.texts))
    found: dict[bytes, NDArray[np.int64]] = {}
    for start in range(0, len(order), _AT_ONCE):
        texts = [corpus.texts[index] for index in order[start : start + _AT_ONCE].tolist()]
        long = (text for text in tokenise_texts(texts, context.model.tokenizer, limit) if len(text.ids) == item.tokens)
        for text in long:
            found.setdefault(np.asarray(text.ids).tobytes(), np.asarray(text.ids, dtype=np.int64))
        if len(found) >= item.texts:
            break
    if len(found) < 2:
        many = "no text" if not found else "one text"
        raise ReporterError(f"corpus '{item.corpus}' has {many} of {item.tokens} tokens or more; lower `tokens`")
    return np.stack(list(found.values())[: item.texts])


def _read(ids: NDArray[np.int64], item: AttentionSpec, context: Context) -> list[_Read]:
    """Return what the heads of each block do."""
    import torch

    model = context.model
    causal = model.anatomy.role == "decoder"
    parts: list[list[_Read]] = [[] for _ in range(model.anatomy.layers)]
    start, at_once = 0, 1
    while start < len(ids):
        rows = torch.as_tensor(ids[start : start + at_once], device=model.device)
        with torch.inference_mode():
            found = model.attention_weights(rows, torch.ones_like(rows))
            for block, weights in zip(parts, found, strict=True):
                block.append(_heads(weights.float(), item.threshold, causal))
        start += len(rows)
        context.tell("texts", start, len(ids))
        each = sum(weights[0].numel() for weights in found)
        at_once = max(1, min(_WEIGHTS // each, context.batch_tokens // ids.shape[1]))
    return [
        _Read(*(np.concatenate(column) for column in zip(*(_columns(one) for one in block), strict=True)))
        for block in parts
    ]


def _columns(read: _Read) -> tuple[NDArray[np.float64], ...]:
    return read.sinks, read.first_token, read.entropy, read.distance


def _heads(weights: Tensor, threshold: float, causal: bool) -> _Read:
    """Return what heads do with some weights, (texts, heads, T, T)."""
    import torch

    length = weights.shape[-1]
    places = torch.arange(length, device=weights.device, dtype=torch.float32)
    first = weights[..., 0]
    later = weights[..., 1:, :]
    p = later / later.sum(dim=-1, keepdim=True)
    may = places[1:] + 1 if causal else torch.full_like(places[1:], length)
    entropy = torch.special.entr(p).sum(dim=-1) / may.log()
    distance = (p * (places[1:, None] - places).abs()).sum(dim=-1)
    found = (first.mean(dim=-1) > threshold, first[..., 1:].mean(dim=-1), entropy.mean(dim=-1), distance.mean(dim=-1))
    if not all(bool(one.isfinite().all()) for one in found[1:]):
        raise ReporterError("its attention weights are not finite; the weights may be damaged")
    return _Read(*(one.double().cpu().numpy() for one in found))


def _evenly_first(length: int, causal: bool) -> float:
    return float(np.mean(1 / np.arange(2, length + 1))) if causal else 1 / length


def _evenly_far(length: int, causal: bool) -> float:
    rows = np.arange(1, length)
    if causal:
        return float(np.mean(rows / 2))
    return float(np.abs(rows[:, None] - np.arange(length)).mean())
