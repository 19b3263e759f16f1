"""The untrained models that recipes make, with transformers' own classes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from reporter.models.toy.data import IGNORED, Batch, Stream, held_out
from reporter.models.toy.tokenizer import SPECIAL_TOKENS

if TYPE_CHECKING:
    from reporter.spec.recipes import Recipe
    from reporter.texts.texts import Texts

_seeding = Lock()  # weights are drawn from the one generator of the process


def new_model(recipe: Recipe, counts: NDArray[np.int64]) -> Any:
    """Return a model with random weights and a head that predicts tokens; the recipe's seed decides the weights.

    Three things let a narrow encoder learn within seconds instead of staying where it knows only how often each
    token occurs. Its first weights have a standard deviation of 1/√width, unless the recipe scales it (the customary
    0.02 is made for a width of 768 and more). What a part of a block adds begins small, by a factor of 1/(2 layers);
    GPT-2 does the like by itself. And the bias of its head begins at the frequencies, so that no step is spent on
    learning them.

    There is no dropout, as pocket models are too small to overfit. The table of positions is as long as the
    recipe's context, so that no position is ever measured that was not trained.

    Args:
        recipe: architecture, size, context and seed.
        counts: how often each token of the vocabulary is to be predicted in the training texts, shape (vocabulary,).
    """
    with _seeding, torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        model = _BUILDERS[recipe.architecture](recipe, len(counts))
    if is_encoder(recipe):
        _calm_branches(model, 1 / (2 * recipe.layers))
        _predict_frequencies(model, counts)
    return model


def saved_model(recipe: Recipe, folder: Path) -> Any:
    """Return the model that a checkpoint's folder holds, with its head, as it was when it was saved."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    kind = AutoModelForMaskedLM if is_encoder(recipe) else AutoModelForCausalLM
    return kind.from_pretrained(folder, dtype=torch.float32, local_files_only=True)


def _calm_branches(model: Any, factor: float) -> None:
    with torch.no_grad():
        for name, module in model.base_model.encoder.named_modules():
            if name.endswith("output.dense"):
                module.weight.mul_(factor)


def _predict_frequencies(model: Any, counts: NDArray[np.int64]) -> None:
    share = torch.from_numpy((counts + 0.5) / (counts + 0.5).sum())  # a half, for tokens that do not occur
    with torch.no_grad():
        model.get_output_embeddings().bias.copy_(share.log())


def is_encoder(recipe: Recipe) -> bool:
    """Tell whether the recipe's architecture learns by filling in masked tokens, rather than by guessing the next."""
    return "mask" in SPECIAL_TOKENS[recipe.architecture].roles


def _bert(recipe: Recipe, vocabulary_size: int) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(BertConfig(**_encoder(recipe, vocabulary_size), max_position_embeddings=recipe.context))


def _roberta(recipe: Recipe, vocabulary_size: int) -> Any:
    from transformers import RobertaConfig, RobertaForMaskedLM

    offset = SPECIAL_TOKENS["roberta"].id("pad") + 1  # RoBERTa counts positions from there
    more = {"max_position_embeddings": recipe.context + offset, "type_vocab_size": 1}
    more |= {
        "bos_token_id": SPECIAL_TOKENS["roberta"].id("cls"),
        "eos_token_id": SPECIAL_TOKENS["roberta"].id("sep"),
    }
    return RobertaForMaskedLM(RobertaConfig(**_encoder(recipe, vocabulary_size), **more))


def _gpt2(recipe: Recipe, vocabulary_size: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    eos = SPECIAL_TOKENS["gpt2"].id("eos")
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=vocabulary_size,
            n_embd=recipe.width,
            n_layer=recipe.layers,
            n_head=recipe.heads,
            n_positions=recipe.context,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            activation_function="gelu_pytorch_tanh",  # GPT-2's own function, computed in one go
            initializer_range=recipe.initial_scale / math.sqrt(recipe.width),
            bos_token_id=eos,
            eos_token_id=eos,
        )
    )


def _llama(recipe: Recipe, vocabulary_size: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    eos = SPECIAL_TOKENS["llama"].id("eos")
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary_size,
            hidden_size=recipe.width,
            intermediate_size=8 * recipe.width // 3,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            max_position_embeddings=recipe.context,
            initializer_range=recipe.initial_scale / math.sqrt(recipe.width),
            tie_word_embeddings=True,
            bos_token_id=eos,
            eos_token_id=eos,
        )
    )


def _encoder(recipe: Recipe, vocabulary_size: int) -> dict[str, Any]:
    return {
        "vocab_size": vocabulary_size,
        "hidden_size": recipe.width,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "intermediate_size": 4 * recipe.width,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": recipe.initial_scale / math.sqrt(recipe.width),
        "pad_token_id": SPECIAL_TOKENS[recipe.architecture].id("pad"),
    }


_BUILDERS = {"bert": _bert, "roberta": _roberta, "gpt2": _gpt2, "llama": _llama}


# Trains one recipe model, step by step: AdamW, a warm-up, then a linear decay.


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
    states = model.base_model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
    guess = batch.labels != IGNORED
    head = getattr(model, "cls", None) or model.lm_head  # of BERT, of RoBERTa
    return cross_entropy(head(states[guess]), batch.labels[guess])
