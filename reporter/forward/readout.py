"""Reads states with what a model has of its vocabulary.

Its own language-model head gives the loss of each token and the logit lens; its input embedding, the vector of each
token and which tokens are words of what kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from reporter.forward.batch import HiddenBatch, LayerStates, key_of
from reporter.forward.means import PerToken, SampledTokens
from reporter.forward.token_categories import SPECIAL
from reporter.geometry.arrays import Bools, Ints, wide
from reporter.geometry.neighbours import compare
from reporter.geometry.pairs import TableRows
from reporter.models.head import Head
from reporter.models.load import LoadedModel
from reporter.models.places import Place
from reporter.models.words import word_tokens
from reporter.texts.tokens import TokenBatch

MASKED_SHARE = 0.15  # of the ordinary tokens, hidden from a masked language model at once
_LOGITS = 32 * 2**20  # logits held at once


@dataclass(frozen=True, eq=False)
class Prediction:
    """Which tokens of a batch a head predicts, and from which states.

    Args:
        ids: the token ids that the model sees, (texts, length).
        read: rows and columns of the states that are read.
        tokens: rows and columns of the tokens that these states predict.
    """

    ids: Ints
    read: tuple[Ints, ...]
    tokens: tuple[Ints, ...]


@dataclass(frozen=True)
class Readout:
    """A model with its head."""

    model: LoadedModel
    head: Head

    @property
    def lens_problem(self) -> str:
        """The reason why the lens cannot read earlier states; empty if it can."""
        return self.model.closing.problem

    @property
    def loss_problem(self) -> str:
        """The reason why tokens cannot be predicted; empty if they can."""
        return self.head.problem

    @property
    def predicts_next(self) -> bool:
        """Whether the head predicts the next token, as in a decoder."""
        return self.head.kind == "causal"

    def log_probabilities(self, states: torch.Tensor, closed: bool) -> Iterator[torch.Tensor]:
        """Yield log p over the vocabulary, some tokens at a time, (some tokens, vocabulary) in float32."""
        rows = max(1, _LOGITS // self.model.anatomy.vocabulary_size)
        for start in range(0, len(states), rows):
            part = states[start : start + rows]
            log_p = torch.log_softmax(self.head.logits(part if closed else self.model.close(part)).float(), dim=-1)
            yield log_p.to(states.device)

    def prediction(self, batch: TokenBatch, seed: int) -> Prediction:
        """Return which tokens of a batch are predicted.

        A causal model predicts each token of the text from those before it; the first one, and what the tokenizer
        added, are not counted. A masked model sees the text with ``MASKED_SHARE`` of its own tokens, chosen by a hash
        of seed, text and position, replaced by its mask token, and predicts those (pseudo-likelihood). What is context
        alone is read as it stands.
        """
        predicted = batch.counted & ~batch.special
        if self.predicts_next:
            predicted[:, 0] = False
            rows, columns = np.nonzero(predicted)
            return Prediction(batch.ids, (rows, columns - 1), (rows, columns))
        assert self.head.mask_id is not None  # see ``loss_problem``
        positions = np.arange(batch.ids.shape[1])[None, :]
        hidden = key_of(seed, batch.texts[:, None], positions) < np.uint64(MASKED_SHARE * 2.0**64)
        hidden &= predicted
        where = np.nonzero(hidden)
        return Prediction(np.where(hidden, self.head.mask_id, batch.ids), where, where)

    def token_losses(self, batch: TokenBatch, last: torch.Tensor, seed: int) -> torch.Tensor:
        """Return −log p of each token, NaN for tokens that are not predicted, shape (texts, length) in float64.

        Args:
            batch: the texts.
            last: what the model returned last for them; a masked model runs once more, see ``prediction``.
            seed: the seed of the study.
        """
        prediction = self.prediction(batch, seed)
        if not self.predicts_next:
            ids, mask = (torch.as_tensor(x, device=last.device) for x in (prediction.ids, batch.mask))
            last = self.model.run(ids, mask).last
        return self.losses(batch, last, prediction)

    def losses(self, batch: TokenBatch, last: torch.Tensor, prediction: Prediction) -> torch.Tensor:
        """Return ``token_losses`` from what the model returned last for ``prediction.ids``."""
        device = last.device
        # Places are known on the host.
        where = tuple(torch.as_tensor(index, device=device) for index in prediction.tokens)
        states = last[tuple(torch.as_tensor(index, device=device) for index in prediction.read)]
        targets = torch.as_tensor(batch.ids[prediction.tokens], device=device)
        parts, start = [], 0
        for log_p in self.log_probabilities(states, closed=True):
            some = targets[start : start + len(log_p)]
            parts.append(-log_p.gather(1, some[:, None])[:, 0])
            start += len(log_p)
        losses = wide(torch.full(batch.ids.shape, torch.nan, device=device))
        if parts:
            losses[tuple(index.to(losses.device) for index in where)] = wide(torch.cat(parts))
        return losses


NO_WORD, FUNCTION, CONTENT = range(3)
"""Kinds of tokens: no whole word of letters; a function word (one of scikit-learn's English stop words); any other."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A model's input embedding and the words among its tokens.

    Args:
        table: (V, d), as the model has it.
        kinds: ``NO_WORD``, ``FUNCTION`` or ``CONTENT`` for each token, (V,).
        goes_on: whether a token goes on with the word of the token before it, (V,).
        unfinished: whether the token after it goes on with its word, (V,).
    """

    table: torch.Tensor
    kinds: Ints
    goes_on: Bools
    unfinished: Bools

    @classmethod
    def of(cls, model: LoadedModel) -> Vocabulary:
        """Return the vocabulary of a model."""
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        words = word_tokens(model.tokenizer, len(model.vocabulary))
        kinds = np.full(len(model.vocabulary), NO_WORD, dtype=np.int64)
        for token, word in words.words.items():
            kinds[token] = FUNCTION if word.lower() in ENGLISH_STOP_WORDS else CONTENT
        return cls(model.vocabulary, kinds, words.goes_on, words.unfinished)

    def kinds_in(self, ids: Ints, texts: Ints, positions: Ints) -> Ints:
        """Return the kind of each token where it stands: the first piece of a longer word is no word, (tokens,)."""
        order = np.lexsort((positions, texts))
        sorted_ids, sorted_texts = ids[order], texts[order]
        same_text = sorted_texts[1:] == sorted_texts[:-1]
        joined = same_text & (self.goes_on[sorted_ids[1:]] | self.unfinished[sorted_ids[:-1]])
        part = np.zeros(len(ids), dtype=bool)
        part[:-1] |= joined
        part[1:] |= joined
        kinds = self.kinds[ids]
        kinds[order[part]] = NO_WORD
        return kinds


# The logit lens: what the language-model head reads in a sample of token states at each layer.


TOP = 5
"""Tokens of the output that the lens is compared with, the most likely ones."""


class Lens(SampledTokens):
    """The distribution p_l that the head reads at layer l, beside the last layer's p_L and the next token.

    - ``entropy``: −Σ p_l log p_l, in nats
    - ``kl``: KL(p_L ‖ p_l) = Σ p_L (log p_L − log p_l), in nats
    - ``loss``: −log p_l of the next token, in nats, where a decoder's text goes on with a token of its own
    - ``top1``: 1 if the most likely token is that of p_L, else 0
    - ``top5``: share of the five most likely tokens of p_L that are among those of p_l
    - ``exit``: first layer from which ``top1`` is 1 up to the last one, over L; at l = L

    States of the residual stream pass through the final norm first, where the model has one.
    """

    name = "lens"
    version = 2
    quantities = ("entropy", "kl", "loss", "top1", "top5", "exit")
    reads_head = True

    _rows: torch.Tensor  # tokens of the batch at hand that are read
    _last: list[torch.Tensor]  # what the last layer predicts for them
    _top: torch.Tensor  # its most likely tokens, (tokens read, 5)
    _next: torch.Tensor  # the token after each, −1 where there is none
    _since: torch.Tensor  # the layer from which the most likely token is that of the last layer

    def start(self, batch: HiddenBatch) -> None:
        """Choose the tokens, and read the last layer."""
        super().start(batch)
        rows = np.flatnonzero(self.drawn(batch))
        self._rows = torch.as_tensor(rows, device=batch.device)
        self._last = []
        if batch.readout is not None and not batch.readout.lens_problem and len(rows):
            path = self.layout.layers
            final = self.layout.final_width is not None
            states = batch.states[path + 1 if final else path][self._rows]
            self._last = list(batch.readout.log_probabilities(states, closed=final))
            self._top = torch.cat([_top(log_p) for log_p in self._last])
            following = next_tokens(batch)[rows] if batch.readout.predicts_next else np.full(len(rows), -1)
            self._next = torch.as_tensor(following, device=batch.device)
            self._since = torch.zeros(len(rows), dtype=torch.float64, device=batch.device)

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the quantities of the chosen tokens, NaN for all others, shape (tokens, 6)."""
        shape = (len(layer.norms), len(self.quantities))
        quantities = torch.full(shape, torch.nan, dtype=torch.float64, device=layer.norms.device)
        readout = layer.batch.readout
        if readout is None or not self._last:
            return quantities
        if at_end := layer.index == self.layout.layers:
            read = iter(self._last)
        else:
            read = readout.log_probabilities(layer.states[self._rows], closed=False)
        parts, start = [], 0
        for here, last in zip(read, self._last, strict=True):
            rows = slice(start, start + len(here))
            start += len(here)
            entropy = -(here.exp() * here).nan_to_num(nan=0.0).sum(dim=1)
            p = last.exp()
            # Where p is 0 the term is 0; elsewhere a token that the layer rules out makes the divergence infinite.
            divergence = (p * (last - here)).where(p > 0, 0.0).sum(dim=1)
            following = self._next[rows, None]
            loss = -here.gather(1, following.clamp_min(0)).where(following >= 0, torch.nan)[:, 0]
            top, of_last = _top(here), self._top[rows]
            shared = (top[:, :, None] == of_last[:, None, :]).sum(dim=(1, 2)) / top.shape[1]
            same = (top[:, 0] == of_last[:, 0]).to(here.dtype)
            parts.append(torch.stack([entropy, divergence.clamp_min(0.0), loss, same, shared], dim=1).double())
        measured = torch.cat(parts)
        self._since = self._since.where(measured[:, 3] == 1, layer.index + 1)
        depth = self._since / max(self.layout.layers, 1) if at_end else torch.full_like(self._since, torch.nan)
        quantities[self._rows] = torch.cat([measured, depth[:, None]], dim=1)
        return quantities


def _top(log_p: torch.Tensor) -> torch.Tensor:
    """Return the most likely tokens, the most likely one first, (tokens, 5), or fewer of a tiny vocabulary."""
    return log_p.topk(min(TOP, log_p.shape[1]), dim=1).indices


def next_tokens(batch: HiddenBatch) -> Ints:
    """Return the token of the text after each one, −1 where the tokenizer added it or there is none, (tokens,)."""
    order = np.lexsort((batch.positions, batch.texts))
    here, after = order[:-1], order[1:]
    joined = (batch.texts[here] == batch.texts[after]) & (batch.positions[here] + 1 == batch.positions[after])
    joined &= batch.strata[after] != SPECIAL
    following = np.full(len(order), -1)
    following[here[joined]] = batch.token_ids[after[joined]]
    return following


# Words against the vocabulary: how many other tokens' vectors are nearer to a word's state than its own.


class Journey(SampledTokens):
    """Rank by cosine, and cosine, of a word's state and its row of the input embedding, at every place that is read.

    - ``rank_function``, ``cosine_function``: of function words
    - ``rank_content``, ``cosine_content``: of content words
    - ``other_width``: dimensions of the input embedding where they are not those of the states, of all words

    Of the sampled tokens only whole words are read.
    """

    name = "journey"
    version = 2
    quantities = ("rank_function", "rank_content", "cosine_function", "cosine_content", "other_width")
    reads_vocabulary = True

    _rows: Ints  # words of the batch at hand that are read
    _kinds: Ints  # of each

    @property
    def places(self) -> tuple[Place, ...]:
        """All places that are read."""
        return self.layout.places

    def start(self, batch: HiddenBatch) -> None:
        """Choose the tokens."""
        super().start(batch)
        self._rows = np.zeros(0, dtype=np.int64)
        if batch.vocabulary is None:
            return
        kinds = batch.vocabulary.kinds_in(batch.token_ids, batch.texts, batch.positions)
        self._rows = np.flatnonzero(self.drawn(batch) & ((kinds == FUNCTION) | (kinds == CONTENT)))
        self._kinds = kinds[self._rows]

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return rank and cosine of the chosen words, NaN for all other tokens, shape (tokens, 5)."""
        quantities = np.full((len(layer.norms), len(self.quantities)), np.nan)
        vocabulary, rows = layer.batch.vocabulary, self._rows
        if vocabulary is not None and len(rows):
            if vocabulary.table.shape[1] == layer.states.shape[1]:
                states = layer.states[torch.from_numpy(rows).to(layer.states.device)].to(vocabulary.table.device)
                closeness = compare(states, layer.batch.token_ids[rows], TableRows(vocabulary.table), ("cosine",))
                rank = closeness.ranks["cosine"]
                for kind, column in ((FUNCTION, 0), (CONTENT, 1)):
                    chosen = self._kinds == kind
                    quantities[rows[chosen], column] = np.where(rank < 0, np.nan, rank)[chosen]
                    quantities[rows[chosen], column + 2] = closeness.cosine[chosen]
            else:
                quantities[rows, 4] = vocabulary.table.shape[1]
        return torch.from_numpy(quantities).to(self._row_of_text.device)


# The language-model loss of each token, by stratum, with bootstrap replicates.


class Losses(PerToken):
    """−log p of each token that the model predicts, in nats; tokens that it does not predict are left out.

    It is kept at the embedding's place, the first one, since it belongs to no layer.
    """

    name = "losses"
    quantities = ("loss",)
    reads_head = True

    @property
    def places(self) -> tuple[Place, ...]:
        """One: a loss belongs to the whole model."""
        return self.layout.path[:1]

    def of_tokens(self, layer: LayerStates) -> torch.Tensor:
        """Return the losses, NaN everywhere for a model without a head, shape (tokens, 1)."""
        losses = layer.batch.losses
        return torch.full_like(layer.norms, torch.nan)[:, None] if losses is None else losses[:, None]
