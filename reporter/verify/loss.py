"""The language-model loss, from the logits of the whole language model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from reporter.verify.by_token import mean
from reporter.verify.reading import Found, Reading
from reporter.verify.tokens import key

MASKED = 0.15  # of the own tokens of a text, hidden from a masked language model


def loss(seen: Reading, model: Any, mask_id: int | None, views: Mapping[str, Any]) -> Iterator[Found]:
    """Yield the mean of −log p over the tokens that the model predicts.

    Args:
        seen: tokens and views.
        model: the whole language model.
        mask_id: the mask token of a masked language model.
        views: which tokens each view holds.
    """
    found = []
    for text in seen.texts:
        ids, own = np.array(text.ids), ~text.special
        if seen.causal:
            predicted = own.copy()
            predicted[0] = False
            asked, at = ids, np.flatnonzero(predicted) - 1
        else:
            hidden = [key(seen.seed, text.index, place) < int(MASKED * 2.0**64) for place in range(len(ids))]
            assert mask_id is not None  # without one a run stores no loss
            predicted = own & np.array(hidden)
            asked, at = np.where(predicted, mask_id, ids), np.flatnonzero(predicted)
        losses = np.full(len(ids), np.nan)
        if len(at):
            x = torch.from_numpy(asked.astype(np.int64))[None]
            with torch.inference_mode():
                logits = model(input_ids=x, attention_mask=torch.ones_like(x)).logits[0].double().numpy()[at]
            top = logits.max(axis=1)
            log_sum = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
            losses[predicted] = log_sum - logits[np.arange(len(at)), ids[predicted]]
        found.append(losses)
    everything = np.concatenate(found)
    for view, mask in views.items():
        yield Found("lm", view, None, mean(everything, mask))
