"""Journeys: tokens of a text followed through the layers, and held against the vocabulary at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from reporter.analyses._journey_charts import PAIRED
from reporter.analyses._journey_rows import JourneyStep, Neighbour, TokenPair
from reporter.analyses._pictures import Point
from reporter.analyses.base import Context
from reporter.analyses.registry import analysis
from reporter.effort import Effort
from reporter.errors import ReporterError
from reporter.metrics._sources import EXPLORER
from reporter.metrics.base import Statistic
from reporter.spec.offer import Section
from reporter.spec.part import AsTuple, Complaint, Part, Prose, failure
from reporter.table import Row

if TYPE_CHECKING:
    from reporter.analyses._steps import Close
    from reporter.models.load import LoadedModel


class JourneySpec(Part):
    """One or several texts, and which of their tokens to follow.

    Several texts share one plane: that is how to look at a word with two meanings.
    """

    text: Prose | None = Field(None, description="The text.")
    texts: Annotated[tuple[Prose, ...], AsTuple] = Field((), description="Several texts, to be seen side by side.")
    follow: Annotated[tuple[Prose, ...], AsTuple] = Field(
        (),
        description="Words or tokens of the texts to list the nearest vocabulary tokens of, and to compare with each "
        "other; all if left out, and then none is compared.",
    )
    top: int = Field(15, ge=1, le=100, description="How many nearest vocabulary tokens are listed at each layer.")
    positions: bool = Field(
        False,
        description="Look also among vocabulary vectors to which the position's own vector is added; these are "
        "compared with states as they are.",
    )
    norm: Literal["auto", "closing", "none"] = Field(
        "auto",
        description="What a state passes before it is compared with the vocabulary. `closing`: the norm that closes "
        "the model, as in the logit lens. `none`: nothing, the residual stream as it is. `auto`: `closing` for a "
        "decoder that has such a norm, `none` for an encoder. The vocabulary's vectors are those of the input "
        "embedding, also where a model predicts tokens with another matrix.",
    )

    @model_validator(mode="after")
    def _one_text_or_several(self) -> JourneySpec:
        if self.text is not None and self.texts:
            raise failure(Complaint("'text' and 'texts' exclude each other; keep one of them", ("texts",), "key"))
        if self.text is None and not self.texts:
            raise failure(Complaint("needs 'text', or 'texts' for several", (), "parent"))
        return self

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The texts, also where there is one."""
        return self.texts if self.text is None else (self.text,)


STATISTICS = (
    Statistic(
        "vocabulary",
        "vocabulary vectors",
        "rows of the input embedding that each state is compared with, as they are stored (Gemma and T5-like models "
        "multiply them before the first block); NULL where they have another number of dimensions than the states. "
        "The states of a decoder pass its closing norm first, unless the journey says `norm: none`",
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


@analysis(
    name="journeys",
    title="Journeys",
    summary="Tokens of a text on their way through the layers: how long each stays the token that it was, what it is "
    "near to instead, and where it goes.",
    statistics=STATISTICS,
    cost="a product of each token's state at each layer with the vocabulary; twice that and V·d sums for each position "
    "where positions are added",
    effort=lambda scale, said: Effort(products=40.0 * scale.vocabulary * scale.width * scale.tokens * scale.places),
    tables=(JourneyStep, Neighbour, TokenPair, Point),
    charts=(PAIRED,),
    version=3,  # states of decoders pass the closing norm; tokens are decoded
    section=Section(JourneySpec, "Tokens to follow through the layers, by a short name.", ("journey", "journeys")),
)
def journeys(item: JourneySpec, context: Context) -> Iterator[Row]:
    """Yield the steps of each token, what a followed one is near to, how alike two are, and the way of all.

    Args:
        item: the texts and what to follow in them.
        context: the model, and what to read it with.
    """
    from reporter.analyses._encode import encode
    from reporter.analyses._follow import Written, followed
    from reporter.analyses._steps import Journey, between, paths, steps
    from reporter.forward.places import Layout
    from reporter.weights.kinds import static_vectors
    from reporter.weights.token_classes import classify

    vectors = static_vectors(context.model)
    shown, raw_tokens = vectors.shown, vectors.strings
    bare = [token.text for token in classify(raw_tokens, vectors.special)]
    layout = Layout.of(context.model.anatomy, ("final", "attention"))
    raw = item.all_texts
    texts = sorted(encode(raw, replace(context, layout=layout)), key=lambda text: text.index)
    written = [
        Written(
            raw[text.index],
            text.ids,
            text.special,
            tuple(shown[i] or "" for i in text.ids.tolist()),
            tuple(raw_tokens[i] or "" for i in text.ids.tolist()),
            tuple(bare[i] for i in text.ids.tolist()),
        )
        for text in texts
    ]
    chosen = followed(item.follow, written, context.model.tokenizer)
    journeys = [Journey(text, one.tokens, marked) for text, one, marked in zip(texts, written, chosen, strict=True)]
    yield from steps(journeys, vectors, layout, item.top, item.positions, _closing(item, context.model), context.tell)
    if item.follow:  # else every token is followed
        yield from between(journeys, layout.places)
    labels = {text.index: one.tokens for text, one in zip(texts, written, strict=True)}
    yield from paths(texts, labels, layout.path)


def _closing(item: JourneySpec, model: LoadedModel) -> Close | None:
    """Return what states pass before they are compared with the vocabulary; None where that is nothing.

    Raises:
        ReporterError: the item asks for the closing norm, and it cannot be applied to the states of all layers.
    """
    if item.norm == "none" or (item.norm == "auto" and (model.anatomy.role != "decoder" or model.closing.problem)):
        return None
    if model.closing.last == "block":
        if item.norm == "closing":
            raise ReporterError("norm: closing: the model has no closing norm; write `norm: none`, or leave it out")
        return None
    if model.closing.problem:
        raise ReporterError(f"norm: closing: {model.closing.problem}; write `norm: none`, or leave it out")

    import torch

    modules = [*(module for module, _ in model.closing.modules), model.module]
    weight = next(weight for module in modules for weight in module.parameters())

    def close(states: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            return model.close(states.to(weight.device, weight.dtype)).float().cpu()

    return close
