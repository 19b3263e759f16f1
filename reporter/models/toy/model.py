"""Small models of recipes: built with transformers' own classes, shown their training texts, trained step by step."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import seeded
from reporter.models.toy.training import role_ids
from reporter.study.recipes import Recipe
from reporter.texts.texts import Texts

# What a recipe model is trained on: rows of token ids, and which of them it has to predict.


IGNORED = -100  # the label of a token that is not to be predicted

HELD_OUT_SHARE, HELD_OUT_LEAST, HELD_OUT_MOST = 0.05, 16, 256
_DISGUISED = 0.2  # of the tokens to guess: half are shown as they are, half as another token (Devlin et al. 2019)
_MASKINGS = 4  # of each held-out text, so that the loss of few texts is not a matter of luck
_AT_ONCE = 1024  # texts tokenised in one go
_TOKENS_AT_ONCE = 4096  # of a batch of held-out texts


def is_encoder(recipe: Recipe) -> bool:
    """Tell whether the recipe's architecture learns by filling in masked tokens, rather than by guessing the next."""
    return "mask" in role_ids(recipe.architecture)


@dataclass(frozen=True)
class TrainingBatch:
    """Input of one step.

    Args:
        ids: token ids (rows, length).
        mask: 1 for a token, 0 for padding, (rows, length).
        labels: the token to predict at each place, ``IGNORED`` where there is none, (rows, length).
    """

    ids: Tensor
    mask: Tensor
    labels: Tensor


class Stream:
    """The tokens of a run of texts, one text after the other; of decoders with the end-of-text token after each.

    A row of an encoder lies inside one text, as it will when it is measured. A row of a decoder may go on into the next
    text, so that no token is wasted.

    Args:
        recipe: architecture and context.
        texts: the corpus.
        start: the first text.
        stop: the text after the last.
        tokenizer: of the library ``tokenizers``.
    """

    def __init__(self, recipe: Recipe, texts: Texts, start: int, stop: int, tokenizer: Any) -> None:
        self._recipe, self._encoder = recipe, is_encoder(recipe)
        self._special = role_ids(recipe.architecture)
        self._room = recipe.context - 2 * self._encoder  # for the opening and closing special tokens
        end = [] if self._encoder else [self._special["eos"]]
        parts = [np.empty(0, dtype=np.int32)]
        for first in range(start, stop, _AT_ONCE):
            few = texts.slice(first, min(first + _AT_ONCE, stop))
            encoded = tokenizer.encode_batch_fast(few, add_special_tokens=False)
            parts += [np.asarray(e.ids + end, dtype=np.int32) for e in encoded]
        self.tokens = np.concatenate(parts)
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        runs = np.stack([ends[:-1], ends[1:]] if self._encoder else [ends[:1], ends[-1:]], axis=1)
        self._runs = runs[runs[:, 1] - runs[:, 0] >= (1 if self._encoder else 2)]  # inside which a row must lie
        if len(self._runs) == 0 or self._room < 1:
            raise ReporterError(
                f"corpus '{texts.name}' has too few words to train on; add longer texts, or raise `context`"
            )

    def entropy(self) -> float:
        """Return −Σ p log p over the tokens to be predicted, in nats."""
        counts = np.bincount(self.tokens)
        p = counts[counts > 0] / counts.sum()
        return float(-(p * np.log(p)).sum())

    def unknown_share(self) -> float:
        """Return the share of tokens that the tokenizer does not know."""
        return float((self.tokens == self._special["unk"]).mean())

    def draw(self, generator: torch.Generator) -> TrainingBatch:
        """Return the rows of one step: from random texts, and of a long text a random part."""
        rows = torch.randint(len(self._runs), (self._recipe.batch,), generator=generator).numpy()
        starts, stops = self._runs[rows].T
        spare = np.maximum(stops - starts - self._room, 0)
        shares = torch.rand(len(rows), generator=generator, dtype=torch.float64).numpy()
        starts = starts + (shares * (spare + 1)).astype(np.int64)
        pieces = np.stack([starts, np.minimum(stops, starts + self._room)], axis=1)
        return self._batch(pieces, generator, disguised=_DISGUISED)

    def all(self, generator: torch.Generator) -> list[TrainingBatch]:
        """Return every token in rows that do not overlap, in order; of an encoder under several maskings.

        What an encoder has to guess is always hidden here. Counting tokens that are shown, which it only has
        to copy, would make its loss look better than what it has learned.
        """
        spans = [
            (start, min(start + self._room, stop))
            for begin, stop in self._runs.tolist()
            for start in range(begin, stop, self._room)
            if self._encoder or stop - start > 1
        ]
        pieces, size = np.asarray(spans, dtype=np.int64), max(1, _TOKENS_AT_ONCE // self._recipe.context)
        starts = list(range(0, len(pieces), size)) * (_MASKINGS if self._encoder else 1)
        return [self._batch(pieces[i : i + size], generator, disguised=0.0) for i in starts]

    def _batch(self, pieces: NDArray[np.int64], generator: torch.Generator, disguised: float) -> TrainingBatch:
        lengths = pieces[:, 1] - pieces[:, 0]
        columns = np.arange(lengths.max())
        real = columns < lengths[:, None]
        ids = self.tokens[np.where(real, pieces[:, :1] + columns, 0)]
        rows, present = torch.from_numpy(ids).long(), torch.from_numpy(real)
        if self._encoder:
            return self._masked(rows, present, generator, disguised)
        return TrainingBatch(rows, present.long(), rows.where(present, torch.tensor(IGNORED)))

    def _masked(self, ids: Tensor, real: Tensor, generator: torch.Generator, disguised: float) -> TrainingBatch:
        special = self._special
        guess = real & (torch.rand(ids.shape, generator=generator) < self._recipe.mask_share)
        guess[:, 0] |= ~guess.any(dim=1)  # at least one in each row
        labels = ids.where(guess, torch.tensor(IGNORED))
        how = torch.rand(ids.shape, generator=generator)
        random_ids = self.tokens[torch.randint(len(self.tokens), ids.shape, generator=generator).numpy()]
        shown = torch.where(how < disguised / 2, ids, torch.from_numpy(random_ids).long())
        shown = torch.where(how < disguised, shown, torch.tensor(special["mask"]))
        ids = torch.where(guess, shown, ids)

        rows, length = ids.shape
        framed = torch.full((rows, length + 2), special["pad"])
        targets = torch.full((rows, length + 2), IGNORED)
        lengths = real.sum(dim=1)
        framed[:, 0] = special["cls"]
        framed[:, 1:-1] = torch.where(real, ids, special["pad"])
        framed[torch.arange(rows), lengths + 1] = special["sep"]
        targets[:, 1:-1] = labels
        return TrainingBatch(framed, (torch.arange(length + 2) < lengths[:, None] + 2).long(), targets)


def held_out(texts: int) -> int:
    """Return how many texts, the last ones, are kept from training to measure the loss on: 5 %, at least 16.

    Of fewer than 32 texts it is half of them; of a single one none, and the loss is measured on what was
    trained on.
    """
    share = min(max(HELD_OUT_LEAST, math.ceil(HELD_OUT_SHARE * texts)), HELD_OUT_MOST)
    return min(share, texts // 2)


# The model itself, with random weights.


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
    with _seeding, seeded(recipe.seed):
        model = _kind(recipe).from_config(_config(recipe, len(counts)))
    if is_encoder(recipe):
        share = torch.from_numpy((counts + 0.5) / (counts + 0.5).sum())  # a half, for tokens that do not occur
        with torch.no_grad():
            for name, module in model.base_model.encoder.named_modules():
                if name.endswith("output.dense"):
                    module.weight.mul_(1 / (2 * recipe.layers))
            model.get_output_embeddings().bias.copy_(share.log())
    return model


def _kind(recipe: Recipe) -> Any:
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    return AutoModelForMaskedLM if is_encoder(recipe) else AutoModelForCausalLM


def _config(recipe: Recipe, vocabulary_size: int) -> Any:
    from transformers import AutoConfig

    special = role_ids(recipe.architecture)
    settings: dict[str, Any] = {
        "vocab_size": vocabulary_size,
        "hidden_size": recipe.width,
        "num_hidden_layers": recipe.layers,
        "num_attention_heads": recipe.heads,
        "max_position_embeddings": recipe.context,
        "initializer_range": recipe.initial_scale / math.sqrt(recipe.width),
    }
    if is_encoder(recipe):
        settings |= {"intermediate_size": 4 * recipe.width, "pad_token_id": special["pad"]}
        settings |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    else:
        settings |= {"bos_token_id": special["eos"], "eos_token_id": special["eos"]}
    match recipe.architecture:
        case "roberta":
            settings["max_position_embeddings"] += special["pad"] + 1  # RoBERTa counts positions from there
            settings |= {"bos_token_id": special["cls"], "eos_token_id": special["sep"], "type_vocab_size": 1}
        case "gpt2":
            settings |= {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
            settings["activation_function"] = "gelu_pytorch_tanh"  # GPT-2's own function, computed in one go
        case "llama":
            settings |= {"intermediate_size": 8 * recipe.width // 3, "tie_word_embeddings": True}
    return AutoConfig.for_model(recipe.architecture, **settings)


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
        tokenizer: of the library ``tokenizers``.
        begin: the folder of the model that is trained further; None to begin with random weights.
    """

    def __init__(self, recipe: Recipe, texts: Texts, tokenizer: Any, begin: Path | None = None) -> None:
        self._recipe, self._begin, self._vocabulary_size = recipe, begin, tokenizer.get_vocab_size()
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
            model = _kind(recipe).from_pretrained(self._begin, dtype=torch.float32, local_files_only=True)
        else:
            model = new_model(recipe, np.bincount(self.stream.tokens, minlength=self._vocabulary_size))
        model.train()
        generator = torch.Generator().manual_seed(recipe.seed + 1)
        optimiser = torch.optim.AdamW(model.parameters(), recipe.learning_rate, betas=BETAS, weight_decay=WEIGHT_DECAY)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step, recipe.steps))
        yield State(0, model, None)
        for step in range(1, steps + 1):
            loss = cross_entropy(*self._predictions(model, self.stream.draw(generator)))
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
                logits, targets = self._predictions(model, batch)
                predicted = int((targets != IGNORED).sum())
                total += cross_entropy(logits, targets).item() * predicted
                tokens += predicted
        model.train()
        return total / tokens

    def _predictions(self, model: Any, batch: TrainingBatch) -> tuple[Tensor, Tensor]:
        """Return logits and the tokens to be predicted: of an encoder those that it has to guess alone."""
        if not is_encoder(self._recipe):
            logits = model(input_ids=batch.ids, use_cache=False).logits[:, :-1]
            return logits.flatten(0, 1), batch.labels[:, 1:].flatten()
        states = model.base_model(input_ids=batch.ids, attention_mask=batch.mask).last_hidden_state
        guess = batch.labels != IGNORED
        head = getattr(model, "cls", None) or model.lm_head  # of BERT, of RoBERTa
        return head(states[guess]), batch.labels[guess]


def rate(step: int, steps: int) -> float:
    """Return the factor on the learning rate: it rises to 1 over the warm-up, then falls to ``LAST_RATE``."""
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return 1 - (1 - LAST_RATE) * (step - warm) / max(1, steps - warm)
