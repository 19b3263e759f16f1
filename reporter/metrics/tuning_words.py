"""What tuning added to the states of a model whatever the text, read as words."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.core.errors import ReporterError
from reporter.core.table import TOKEN, TOKEN_ID, OfModel, column, of_cell
from reporter.geometry.arrays import Floats, wide
from reporter.geometry.intervals import percentile_interval, sums_of_units
from reporter.metrics._items import drawn_texts
from reporter.metrics.analysis import Context, analysis
from reporter.metrics.base import Statistic, Value
from reporter.models.words import token_names
from reporter.study.offer import Reference, Section
from reporter.study.part import Name, Part

if TYPE_CHECKING:
    from torch import Tensor

    from reporter.models.head import Head
    from reporter.models.load import LoadedModel

POSITIONS = {"first": slice(1, 6), "later": slice(6, None)}
"""The text's own tokens without the first one, which is often a sink: the next five, and all others."""
LISTED = 20
NEAR = 0.01
"""Share of the vocabulary at the top of which a text agrees."""

_share = partial(Statistic, sources=("minder2026narrow",), method="bootstrap", bounds=(None, 1))
_DEFINED = (
    "‖m‖² / mean ‖δ‖² over tokens, with δ = h − h⁰ the state minus the base's state of the same token. ‖m‖² is the "
    "mean of δ·δ′ over pairs of tokens of different texts, so that chance gives 0. Of each text the"
)


class TuningWords(Part):
    """A corpus to read with a model and its base, and how many of its texts."""

    corpus: Name = Field(description="The corpus whose texts both models read; what they are about matters little.")
    texts: int = Field(60, ge=10, le=5000, description="Number of texts of the corpus.")


class TuningWord(OfModel, table="tuning_words", metric="tuning_words"):
    """A token that a model's final norm and head read from the mean difference of its states from the base's."""

    item = of_cell("name of the trial in the study", part="corpus")
    layer: int = column("L/2 (rounded down) or L", key=True)
    positions: str = column("'first': tokens 2 to 6 of each text; 'later': the tokens after these", key=True)
    direction: str = column("'up': read from the mean difference; 'down': from its negative", key=True)
    rank: int = column("1 = the most likely", key=True)
    token_id: int = column(TOKEN_ID)
    token: str = column(TOKEN)
    agree: float = column("share of texts whose own mean difference has the token in the top 1 % of the vocabulary")


@analysis(
    title="Words that tuning added",
    summary="How much of the change against the base is the same in every text, and which words are read from it.",
    statistics=(
        _share(
            "static_first",
            "static share of the change of early tokens",
            f"{_DEFINED} own tokens 2 to 6 count.",
            plainly="Share of the change that is the same in every text, early in it.",
            trap="Tokens with large states decide it.",
        ),
        _share(
            "static_later",
            "static share of the change of later tokens",
            f"{_DEFINED} tokens from the 7th on count.",
            trap="A share of 0 may hide changes that depend on the text.",
        ),
    ),
    question="similarity",
    cost="a forward pass of both models over the sample; the base is loaded once more",
    tables=(TuningWord,),
    section=Section(
        TuningWords,
        "Corpora on which the words that tuning added are read, by a short name.",
        ("trial of tuning words", "trials of tuning words"),
        (Reference("corpus", "corpora"),),
        example="{words: {corpus: CORPUS}}",
    ),
    last_only=True,
    against_base=True,
    version=4,
)
def tuning_words(item: TuningWords, context: Context) -> Iterator[Value | TuningWord]:
    """Yield the static share at each layer, and the words at the middle layer and the last one."""
    import torch

    from reporter.forward.reading import batched, tokenised_texts
    from reporter.models.head import load_head

    assert context.base is not None  # the planner asks for no other model
    model, base = context.model, context.base()
    if model.tokenizer_hash != base.tokenizer_hash or model.anatomy.width != base.anatomy.width:
        raise ReporterError("the model and its base differ in width or tokenizer, so states cannot be subtracted")
    head = None
    try:
        head = load_head(model.checkpoint, model, offline=True)
    except ReporterError as why:
        context.warnings.append(f"no words: {why}")
    texts, units = drawn_texts(context.corpora[item.corpus], item.texts, context)
    layers = min(model.anatomy.layers, base.anatomy.layers)
    sums = {name: torch.zeros(len(texts), layers + 1, model.anatomy.width) for name in POSITIONS}
    squares, counts = ({name: np.zeros((len(texts), width)) for name in POSITIONS} for width in (layers + 1, 1))
    done, tokens = 0, tokenised_texts(texts, model, context.corpora[item.corpus].max_tokens)
    for batch in batched(tokens, context.batch_tokens, model, base):
        ids, mask = (torch.as_tensor(x, device=model.device) for x in (batch.ids, batch.mask))
        own_tokens = (batch.mask == 1) & ~batch.special
        order = np.where(own_tokens, own_tokens.cumsum(axis=1) - 1, -1)
        with torch.inference_mode():
            paths = [side.states(ids, mask)[: layers + 1] for side in (model, base)]
            kept = {
                name: (order >= span.start) & (order < (span.stop or order.size)) for name, span in POSITIONS.items()
            }
            inside = {name: torch.from_numpy(mask).float().to(model.device) for name, mask in kept.items()}
            lengths, of_texts = [], {name: list[torch.Tensor]() for name in POSITIONS}
            for x, y in zip(*paths, strict=True):
                delta = (x - y).float()
                lengths.append(wide(delta).square().sum(dim=2))
                for name, mask in inside.items():
                    of_texts[name].append(torch.einsum("tlw,tl->tw", delta, mask))
            of_tokens = torch.stack(lengths).cpu().numpy()
            for name in POSITIONS:
                sums[name][batch.texts] = torch.stack(of_texts[name], dim=1).cpu()
                squares[name][batch.texts] = (of_tokens * kept[name]).sum(axis=2).T
                counts[name][batch.texts, 0] = kept[name].sum(axis=1)
        done += len(batch.texts)
        context.tell("texts", done, len(texts))
    for name in POSITIONS:
        n, total = counts[name][:, 0], int(counts[name].sum())
        counted, energy = sums_of_units(n, units), sums_of_units(squares[name], units)
        certain = set()  # layers whose mean difference is no noise
        for layer, place in enumerate(context.layout.path[: layers + 1]):
            of_units = sums_of_units(sums[name][:, layer].double().numpy(), units)
            shares = _static(of_units, energy[:, layer], counted, context.seed)
            if np.isfinite(shares[0]):
                ends = percentile_interval(shares[1:], len(counted))
                certain |= {layer} if ends[0] is not None and ends[0] > 0 else set()
                yield Value(f"static_{name}", place, float(shares[0]), total, *ends)
            else:
                yield Value(f"static_{name}", place, None, total, reason="no state changed")
        with_tokens = n > 0
        if head is None or not with_tokens.any():
            continue
        for layer in sorted({layers // 2, layers} & certain):
            each = sums[name][with_tokens, layer] / torch.from_numpy(n[with_tokens, None]).float()
            yield from _words(model, head, sums[name][:, layer].sum(dim=0), each, layer, name)


def _static(sums: Floats, squares: Floats, n: Floats, seed: int) -> Floats:
    """Return the static share, then its replicates under Poisson weights of the units.

    Args:
        sums: sum of the differences of each unit, (units, width).
        squares: sum of their squared lengths, (units,).
        n: tokens of each unit, (units,).
        seed: of the weights.
    """
    from reporter.forward.parts import poisson_weights

    weights = np.vstack([np.ones(len(n)), poisson_weights(np.arange(len(n)), seed).T])
    gram = sums @ sums.T
    products = ((weights @ gram) * weights).sum(axis=1) - weights**2 @ gram.diagonal()
    pairs = (weights @ n) ** 2 - weights**2 @ n**2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(products / pairs / (weights @ squares / (weights @ n)))


def _words(
    model: LoadedModel, head: Head, mean: Tensor, each: Tensor, layer: int, positions: str
) -> Iterator[TuningWord]:
    """Yield the tokens that the head reads from a mean difference, up to its length, and those of the opposite."""
    import torch

    def read(states: Tensor) -> Tensor:
        with torch.inference_mode():
            return head.logits(model.close(states.to(model.device))).cpu()

    for direction, sign in (("up", 1.0), ("down", -1.0)):
        logits = read(sign * mean[None])[0]
        best = logits.topk(min(LISTED, len(logits))).indices
        near = max(1, round(NEAR * len(logits)))
        agree = [
            (of_texts[:, best] >= of_texts.topk(near).values[:, -1:]).double()
            for of_texts in map(read, torch.split(sign * each, 64))
        ]
        names, shares = token_names(model.tokenizer, best.tolist()), torch.cat(agree).mean(dim=0).tolist()
        for rank, (token, share) in enumerate(zip(best.tolist(), shares, strict=True), 1):
            yield TuningWord(layer, positions, direction, rank, token, names[token], share)
