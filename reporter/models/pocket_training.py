"""Trains one recipe model, step by step: AdamW, a warm-up, then a linear decay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from reporter.models.pocket_data import IGNORED, Batch, Stream, held_out
from reporter.models.pocket_model import is_encoder, new_model, saved_model

if TYPE_CHECKING:
    from reporter.spec.recipes import Recipe
    from reporter.texts.texts import Texts

WARM_UP = 0.1  # share of the steps during which the rate rises
LAST_RATE = 0.1  # of the peak, at the last step
BETAS = (0.9, 0.999)
WEIGHT_DECAY = 0.01
LARGEST_GRADIENT = 1.0


@dataclass(frozen=True)
class State:
    """A model after some steps of training.

    Args:
        step: how many.
        model: the model itself, which goes on being trained.
        train_loss: mean loss of the steps since the state before, in nats; None before the first step.
    """

    step: int
    model: Any
    train_loss: float | None


class Training:
    """A recipe and its texts, ready to train.

    Args:
        recipe: what to build and how to train it.
        texts: what to train it on.
        tokenizer: the folder of the tokenizer.
        vocabulary_size: of that tokenizer.
        begin: the folder of the model that is trained further; None to begin with random weights.
    """

    def __init__(
        self, recipe: Recipe, texts: Texts, tokenizer: Path, vocabulary_size: int, begin: Path | None = None
    ) -> None:
        self._recipe = recipe
        self._vocabulary_size = vocabulary_size
        self._begin = begin
        self.held_out_texts = held_out(len(texts))
        split = len(texts) - self.held_out_texts
        self.stream = Stream(recipe, texts, 0, split, tokenizer)
        kept = Stream(recipe, texts, split, len(texts), tokenizer) if self.held_out_texts else self.stream
        # Its own generator, so that measuring the loss changes nothing about the training after it.
        self._held_out = kept.all(torch.Generator().manual_seed(recipe.seed))

    def states(self, steps: int) -> Iterator[State]:
        """Train for ``steps`` steps and yield the model after each, beginning with step 0."""
        recipe = self._recipe
        if self._begin is not None:
            model = saved_model(recipe, self._begin)
        else:
            model = new_model(recipe, self.stream.counts(self._vocabulary_size))
        model.train()
        generator = torch.Generator().manual_seed(recipe.seed + 1)
        optimiser = torch.optim.AdamW(model.parameters(), recipe.learning_rate, betas=BETAS, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step, recipe.steps))
        yield State(0, model, None)
        for step in range(1, steps + 1):
            loss = _loss(model, recipe, self.stream.draw(generator))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
            optimiser.step()
            schedule.step()
            yield State(step, model, loss.item())

    def held_out_loss(self, model: Any) -> float:
        """Return the mean loss per predicted token on texts that were not trained on, in nats."""
        model.eval()
        total, tokens = 0.0, 0
        with torch.inference_mode():
            for batch in self._held_out:
                predicted = int((_targets(self._recipe, batch) != IGNORED).sum())
                total += _loss(model, self._recipe, batch).item() * predicted
                tokens += predicted
        model.train()
        return total / tokens


def rate(step: int, steps: int) -> float:
    """Return the factor on the learning rate: it rises to 1 over the warm-up, then falls to ``LAST_RATE``."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return 1 - (1 - LAST_RATE) * (step - warm) / max(1, steps - warm)


def _targets(recipe: Recipe, batch: Batch) -> Tensor:
    return batch.labels if is_encoder(recipe) else batch.labels[:, 1:]


def _loss(model: Any, recipe: Recipe, batch: Batch) -> Tensor:
    if is_encoder(recipe):
        return _masked_loss(model, batch)
    logits = model(input_ids=batch.ids, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), _targets(recipe, batch).flatten())


def _masked_loss(model: Any, batch: Batch) -> Tensor:
    """Return the loss of a masked language model, running its vocabulary head on the tokens to be guessed alone."""
    states = model.base_model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
    guess = batch.labels != IGNORED
    head = getattr(model, "cls", None) or model.lm_head  # of BERT, of RoBERTa
    return cross_entropy(head(states[guess]), batch.labels[guess])
