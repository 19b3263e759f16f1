"""What the language-model head reads at each layer: ``lens``, through transformers' own model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reporter.verify.by_token import mean
from reporter.verify.plain_model import PlainModel
from reporter.verify.reading import Found, Reading
from reporter.verify.tokens import Floats, key


def lens(seen: Reading, whole: Any, model: PlainModel, options: Mapping[str, Any]) -> Iterator[Found] | None:
    """Return what ``lens`` measures, or None where what stands between the blocks and the head is not found.

    The head is that of the whole model's own forward pass, whose blocks are left out: it is given states.

    Args:
        seen: tokens and states.
        whole: the whole language model.
        model: the same without its head.
        options: about how many tokens are read.
    """
    closing = _closing(seen, model)
    return None if closing is None else _lens(seen, whole, closing, options)


def _lens(
    seen: Reading, whole: Any, closing: Callable[[Tensor], Tensor], options: Mapping[str, Any]
) -> Iterator[Found]:
    limit = min(1.0, options["sample"] / len(seen.ids)) * 2.0**64
    pairs = zip(seen.text.tolist(), seen.position.tolist(), strict=True)
    drawn = np.flatnonzero([limit >= 2.0**64 or key(seen.seed, *pair) < limit for pair in pairs])
    final = next((place for place in seen.places if place.site == "final"), seen.path[-1])
    for place in seen.path:
        entropy, divergence = np.full(len(seen.ids), np.nan), np.full(len(seen.ids), np.nan)
        for rows in np.array_split(drawn, max(1, len(drawn) // 64)):
            if not len(rows):
                continue
            last = _log_softmax(_head(whole, torch.from_numpy(seen.at(final)[rows]).float()))
            here = last
            if place != seen.path[-1]:
                here = _log_softmax(_head(whole, closing(torch.from_numpy(seen.at(place)[rows]).float())))
            p, own = np.exp(last), np.exp(here)
            entropy[rows] = -np.where(own > 0, own * here, 0.0).sum(axis=1)
            divergence[rows] = np.where(p > 0, p * (last - here), 0.0).sum(axis=1).clip(min=0)
        for view, mask in seen.masks.items():
            yield Found("entropy", view, place, mean(entropy, mask))
            yield Found("kl", view, place, mean(divergence, mask))


def _log_softmax(logits: Tensor) -> Floats:
    x = logits.double().numpy()
    x = x - x.max(axis=1, keepdims=True)
    found: Floats = x - np.log(np.exp(x).sum(axis=1, keepdims=True))
    return found


def _head(whole: Any, states: Tensor) -> Tensor:
    """Return the logits that the whole model makes of last hidden states, (tokens, width)."""
    from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

    def given(*args: Any, **kwargs: Any) -> Any:
        return BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=states[None])

    base = whole.base_model
    base.forward = given
    try:
        with torch.inference_mode():
            ids = torch.zeros(1, len(states), dtype=torch.int64)
            found: Tensor = whole(input_ids=ids).logits[0]
            return found
    finally:
        del base.forward  # that of its class again


def _closing(seen: Reading, model: PlainModel) -> Callable[[Tensor], Tensor] | None:
    """Return what takes the last block's output to the last hidden state, or None where no single module does."""
    if model.last == "block":
        return lambda x: x
    text = seen.texts[0]
    path, final = model.states(text.ids)
    raw = path[-1]

    def is_it(module: nn.Module) -> bool:
        try:
            with torch.inference_mode():
                found = module(raw[None])
        except Exception:  # most modules take something else
            return False
        return isinstance(found, Tensor) and final is not None and torch.equal(found[0], final)

    norm = next((module for module in model.module.children() if is_it(module)), None)
    if norm is None:
        return None

    def close(x: Tensor) -> Tensor:
        with torch.inference_mode():
            found: Tensor = norm(x[None])[0]
            return found

    return close
