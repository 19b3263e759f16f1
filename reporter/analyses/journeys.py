"""Journeys: tokens of a text followed through the layers, and held against the vocabulary at each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reporter.analyses.analysis import Analysis, Context
from reporter.analyses.results import Finding
from reporter.metrics._sources import EXPLORER
from reporter.metrics.base import Statistic, Value

if TYPE_CHECKING:
    from reporter.spec import Study

STATISTICS = (
    Statistic(
        "vocabulary",
        "vocabulary vectors",
        "rows of the input embedding that each state is compared with, as they are stored (Gemma and T5-like models "
        "multiply them before the first block); NULL where they have another number of dimensions than the states",
        (EXPLORER,),
        per="model",
    ),
    Statistic(
        "vocabulary_with_positions",
        "vocabulary vectors with positions",
        "the same where a token's own position vector is added to each of them; NULL where the model adds none",
        (EXPLORER,),
        per="model",
    ),
)


def _items(study: Study) -> Mapping[str, Any]:
    return study.journeys


def _compute(item: Any, context: Context) -> Iterator[Value | Finding]:
    from reporter.analyses.encode import encode
    from reporter.analyses.follow import Written, followed
    from reporter.analyses.paths import paths
    from reporter.analyses.steps import Journey, steps
    from reporter.forward.places import Layout
    from reporter.weights.kinds import static_vectors
    from reporter.weights.token_classes import classify

    vectors = static_vectors(context.model)
    strings = vectors.strings
    bare = [token.text for token in classify(strings, vectors.special)]
    layout = Layout.of(context.model.anatomy, ("final", "attention"))
    raw = item["texts"] or [item["text"]]
    texts = sorted(encode(raw, replace(context, layout=layout)), key=lambda text: text.index)
    written = [
        Written(
            raw[text.index],
            text.ids,
            text.special,
            tuple(strings[i] or "" for i in text.ids.tolist()),
            tuple(bare[i] for i in text.ids.tolist()),
        )
        for text in texts
    ]
    chosen = followed(item["follow"], written, context.model.tokenizer)
    journeys = [Journey(text, one.tokens, marked) for text, one, marked in zip(texts, written, chosen, strict=True)]
    yield from steps(journeys, vectors, layout, item["top"], item["positions"], context.tell)
    labels = {text.index: one.tokens for text, one in zip(texts, written, strict=True)}
    yield from paths(texts, labels, layout.path)


JOURNEYS = Analysis(
    name="journeys",
    title="Journeys",
    summary="Tokens of a text on their way through the layers: how long each stays the token that it was, what it is "
    "near to instead, and where it goes.",
    statistics=STATISTICS,
    cost="a product of each token's state at each layer with the vocabulary; twice that and V·d sums for each position "
    "where positions are added",
    tables=("journeys", "neighbours", "projections"),
    items=_items,
    compute=_compute,
)
