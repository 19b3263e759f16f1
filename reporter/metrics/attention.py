"""Attention: how much heads give to the first token, how evenly they spread what is left, and how far they reach.

Weights exist only where a model computes attention plainly, so a bounded sample of texts goes through it that way. All
texts are cut to one length and shorter ones are left out: the share that goes to the first token falls with the number
of tokens that there are to attend to, so that texts of different lengths cannot be averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from reporter.charts import SENTENCES, Chapter, Chart, choices, parts
from reporter.charts.layout import titled
from reporter.charts.profile import beside
from reporter.charts.styles import Styles, alt
from reporter.core.errors import ReporterError
from reporter.core.table import Comparable, OfModel, Row, at_place, column, of_cell
from reporter.geometry.arrays import Floats, Ints, wide
from reporter.geometry.intervals import of_units, student_interval
from reporter.metrics._items import stream, units_of
from reporter.metrics.analysis import Context, Corpus, analysis
from reporter.metrics.base import Statistic, Value
from reporter.models.places import Place
from reporter.study.offer import Reference, Section
from reporter.study.part import Name, Part

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

# The charts of attention: each head's attention to the first token, and models beside each other.


CHAPTER = Chapter(SENTENCES, "attention", "Attention", "Which heads attend mainly to the first token?", 5)


def heads(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the attention of each head to the first token, layers upwards."""
    axis = alt.Axis(grid=False, domain=False, ticks=False, labelOverlap="greedy", labelSeparation=3, labelAngle=0)
    scale = alt.Scale(scheme="viridis", domain=[0, 1], clamp=True)
    return (
        alt.Chart(frame)
        .mark_rect(strokeWidth=0.6)
        .encode(
            x=alt.X("head:O", title="head", axis=axis),
            y=alt.Y("layer:O", title="layer", sort="descending", axis=axis),
            color=alt.Color("first_token:Q", scale=scale, legend=None),
            stroke=alt.Stroke("first_token:Q", scale=scale, legend=None),
            tooltip=parts.tooltips("layer", "head", "first_token", "sink_rate", "entropy", "distance"),
        )
        .properties(width="container", height=max(160, min(420, 14 * int(frame["layer"].nunique()))))
    )


HEADS = Chart(
    "sentences.heads",
    "Attention to the first token, by head",
    """
SELECT model, checkpoint, item AS corpus, layer, head, first_token, sink_rate, entropy, distance
FROM attention_heads
WHERE study = $study
ORDER BY model, checkpoint, item, layer, head
""",
    heads,
    lead="Bright: the head attends to the first token, whatever the text.",
    columns=("first_token", "sink_rate", "entropy", "distance"),
    chapter=CHAPTER,
    picks=lambda frame, scene: [choices(frame, "corpus", "Sample")],
    value="first_token",
    legend="attention",
    half=True,
    statistics=("first_token",),
)

BESIDE = beside(
    "sentences.attention",
    "Comparison of models",
    "metric = 'attention' AND NOT ends_with(statistic, '_floor')",
    CHAPTER,
    picks=lambda frame, scene: [choices(frame, "corpus", "Sample"), titled(frame, scene, ("sink_rate",))],
)

FEWEST = 5  # texts for an interval
_AT_ONCE = 512  # texts tokenised in one go
_WEIGHTS = 2**26  # of all blocks at once: 256 MB in float32


class AttentionSpec(Part):
    """A corpus on which attention heads are measured."""

    corpus: Name = Field(description="A corpus of this study.")
    texts: int = Field(64, ge=2, le=1024, description="Number of texts, drawn at random from the long enough ones.")
    tokens: int = Field(
        64, ge=4, le=512, description="Tokens per text, including special tokens; shorter texts are left out."
    )
    threshold: float = Field(
        0.3, gt=0, lt=1, description="Mean weight on the first token above which a head has a sink there."
    )


class AttentionHead(OfModel, table="attention_heads", metric="attention"):
    """The attention of one head of a block, as means over the texts."""

    compared = (Comparable(("first_token", "sink_rate", "entropy", "distance"), "item", of="'head ' || head"),)

    item = of_cell("name of the sample in the study", part="corpus")
    place: Place = at_place()
    head: int = column("number of the head, from 0", key=True)
    first_token: float = column("mean weight on the first token, over all later tokens")
    sink_rate: float = column("share of texts in which the mean weight on the first token exceeds the threshold")
    entropy: float = column("mean entropy of the weights, divided by the log of the number of tokens in reach")
    distance: float = column("mean distance, in tokens, of the attended tokens")


_SAMPLED = (
    "a_ij is the weight that a head gives to token j for token i, after the softmax, in plain attention. Texts are cut "
    "to their first T tokens, special tokens included; shorter texts are left out, and equal texts count once. By "
    "default 64 texts of 64 tokens."
)
_EQUAL = (
    "Chance level: attention spread equally over the tokens in reach, which are all tokens up to i in decoders and all "
    "tokens in encoders."
)
_INTERVAL = f"95 % CI over texts (mean ± t standard errors). None with fewer than {FEWEST} texts."

_head = partial(Statistic, interval=_INTERVAL)

STATISTICS = (
    _head(
        "sink_rate",
        "share of heads with a sink",
        "Share of texts and heads whose mean weight on the first token, Σ_i a_i1 / T, exceeds `threshold` (0.3 by "
        f"default). {_SAMPLED} In a decoder the first token attends to itself with weight 1, and this counts, as in "
        "the published code.",
        ("gu2025sink",),
        bounds=(0, 1),
        main=True,
        plainly="Share of heads that attend mainly to the first token.",
        trap="With few tokens a decoder's first row alone comes near the threshold. The first token may be a [CLS] or "
        "BOS.",
    ),
    _head(
        "first_token",
        "attention to the first token",
        f"Mean over heads and the tokens i = 2…T of a_i1. {_SAMPLED} {_EQUAL}",
        ("xiao2024streaming", "gu2025sink"),
        floor=True,
        noise="equal attention",
        bounds=(0, 1),
        trap="A mean over heads: one head with weight 1 and nine with 0 give 0.1. The table `attention_heads` has "
        "every head.",
    ),
    _head(
        "entropy",
        "normalised entropy of attention",
        "Mean over heads and the tokens i = 2…T of −Σ_j p ln p / ln m, with p = a_ij/Σ_j a_ij. m is the number of "
        f"tokens in reach of token i: i in decoders, T in encoders. 1: spread evenly; 0: a single token. {_SAMPLED}",
        ("clark2019bert",),
        short="normalised entropy",
        bounds=(0, 1),
        trap="Heads with local attention reach only some of the m tokens, so they cannot attain 1.",
    ),
    _head(
        "distance",
        "distance of attention",
        f"Mean over heads and the tokens i = 2…T of Σ_j p |i − j|, with p = a_ij/Σ_j a_ij. {_SAMPLED} {_EQUAL}",
        ("clark2019bert",),
        floor=True,
        noise="equal attention",
        bounds=(0, None),
        trap="Attention to the first token counts as long distance; compare attention.first_token.",
    ),
)


HEAD = ("first_token", "sink_rate", "entropy", "distance")
"""What is measured of each head, in the order of the columns of ``attention_heads``."""


@analysis(
    title="Attention by head",
    summary="How many heads attend mainly to the first token, how evenly heads spread their attention, and how far it "
    "reaches.",
    statistics=STATISTICS,
    question="sinks",
    version=2,
    cost="a forward pass over the sample with plain attention, with layers × heads × tokens² weights per text",
    tables=(AttentionHead,),
    charts=(HEADS, BESIDE),
    section=Section(
        AttentionSpec,
        "Corpora on which attention heads are measured, by a short name.",
        ("attention sample", "attention samples"),
        (Reference("corpus", "corpora"),),
        example="{heads: {corpus: CORPUS}}",
    ),
    baselines=True,
)
def attention(item: AttentionSpec, context: Context) -> Iterator[Row]:
    """Yield what the heads of each block attend to.

    Raises:
        ReporterError: the model returns no weights, or too few texts are long enough.
    """
    texts, units = _long_enough(context.corpora[item.corpus], item, context)
    blocks = _heads_of_texts(texts, item, context)
    causal = context.model.anatomy.role == "decoder"
    floors = dict(zip(("first_token", "distance"), _evenly(item.tokens, causal), strict=True))
    for layer, read in enumerate(blocks, 1):
        place = Place("block", layer)
        for statistic in STATISTICS:
            name, values = statistic.name, read[HEAD.index(statistic.name)]
            yield _value(statistic, place, values.mean(axis=1), units, floors.get(name))
        for head, means in enumerate(read.mean(axis=1).T.tolist()):
            yield AttentionHead(place, head, *means)


def _value(statistic: Statistic, place: Place, values: Floats, units: Ints, floor: float | None) -> Value:
    if len(by_unit := of_units(values, units)) < FEWEST:
        return Value(statistic.name, place, float(values.mean()), len(values), floor=floor)
    mean, low, high = student_interval(by_unit)
    ends = max(0.0, low), min(statistic.bounds[1] or inf, high)
    return Value(statistic.name, place, mean, len(values), *ends, floor=floor)


def _long_enough(corpus: Corpus, item: AttentionSpec, context: Context) -> tuple[Ints, Ints]:
    """Return the token ids of the sampled texts, (texts, item.tokens), and the unit of each."""
    from reporter.forward.reading import longest, tokenised_texts

    limit = longest(min(item.tokens, corpus.max_tokens), context.model)
    if limit < item.tokens:
        raise ReporterError(
            f"texts are cut at {limit} tokens, which is less than `tokens: {item.tokens}`; lower `tokens`"
        )
    order = stream(context.seed, "texts").permutation(len(corpus.texts))
    distinct: dict[bytes, tuple[Ints, int]] = {}
    for start in range(0, len(order), _AT_ONCE):
        rows = order[start : start + _AT_ONCE].tolist()
        for text in tokenised_texts([corpus.texts[row] for row in rows], context.model, limit):
            if len(text.ids) == item.tokens:
                distinct.setdefault(text.ids.tobytes(), (text.ids, rows[text.index]))
        if len(distinct) >= item.texts:
            break
    if len(distinct) < 2:
        many = "no text" if not distinct else "only one text"
        raise ReporterError(f"corpus '{item.corpus}' has {many} of {item.tokens} tokens or more; lower `tokens`")
    ids, chosen = zip(*list(distinct.values())[: item.texts], strict=True)
    return np.stack(ids), units_of(corpus, chosen)


def _heads_of_texts(ids: Ints, item: AttentionSpec, context: Context) -> list[Floats]:
    """Return what the heads of each block do, (4, texts, heads)."""
    import torch

    model = context.model
    causal = model.anatomy.role == "decoder"
    parts: list[list[Floats]] = [[] for _ in range(model.anatomy.layers)]
    start, at_once = 0, 1
    while start < len(ids):
        rows = torch.as_tensor(ids[start : start + at_once], device=model.device)
        with torch.inference_mode():
            weights_of = model.attention_weights(rows, torch.ones_like(rows))
            for block, weights in zip(parts, weights_of, strict=True):
                block.append(_heads(weights.float(), item.threshold, causal))
        start += len(rows)
        context.tell("texts", start, len(ids))
        each = sum(weights[0].numel() for weights in weights_of)
        at_once = max(1, min(_WEIGHTS // each, context.batch_tokens // ids.shape[1]))
    return [np.concatenate(block, axis=1) for block in parts]


def _heads(weights: Tensor, threshold: float, causal: bool) -> Floats:
    """Return what heads do with some weights, (texts, heads, T, T): (4, texts, heads), in the order of ``HEAD``."""
    import torch

    length = weights.shape[-1]
    places = torch.arange(length, device=weights.device, dtype=torch.float32)
    first = weights[..., 0]
    later = weights[..., 1:, :]
    p = later / later.sum(dim=-1, keepdim=True)
    may = places[1:] + 1 if causal else torch.full_like(places[1:], length)
    entropy = (torch.special.entr(p).sum(dim=-1) / may.log()).mean(dim=-1)
    distance = (p * (places[1:, None] - places).abs()).sum(dim=-1).mean(dim=-1)
    sinks = first.mean(dim=-1) > threshold
    measured = wide(torch.stack([first[..., 1:].mean(dim=-1), sinks.to(entropy), entropy, distance]))
    if not bool(measured.isfinite().all()):
        raise ReporterError("its attention weights are not finite; the weights may be damaged")
    return np.asarray(measured.cpu().numpy())


def _evenly(length: int, causal: bool) -> tuple[float, float]:
    """Return the weight on the first token, and the distance, of attention that is equal on all that it may look at."""
    rows = np.arange(1, length)
    if causal:
        return float(np.mean(1 / (rows + 1))), float(np.mean(rows / 2))
    return 1 / length, float(np.abs(rows[:, None] - np.arange(length)).mean())
