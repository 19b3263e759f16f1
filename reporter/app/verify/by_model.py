"""A model as anybody would run it: one text at a time, no padding, its own ``hidden_states``, float32 on the CPU."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from scipy.stats import rankdata
from torch import Tensor, nn

from reporter.app.verify.by_token import mean, means
from reporter.app.verify.reading import CorpusReading, Floats, Ints, NoPath, Remeasured, StatePlace, key, tokenised
from reporter.core.errors import ReporterError
from reporter.models.checkpoint import loading, local_folder
from reporter.models.tokenizer import load_tokenizer
from reporter.models.weights import build, load_module, read_config

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint


class PlainModel:
    """A model whose states are its own ``hidden_states``.

    Their last entry is what the last block returned only where nothing follows the blocks. Elsewhere, in most decoders,
    it has gone through the final norm; then what the last block returned is taken by one hook on that block. Those of
    state-space models begin with what the first block returned: what entered it is taken by a hook, too.

    Args:
        checkpoint: what to load.
        layers: blocks L, as the table ``models`` says.
        last: what the model's own last state is, as that table says: ``block`` or ``final``.
        offline: never ask a hub.

    Raises:
        ReporterError: if it cannot be loaded.
    """

    def __init__(self, checkpoint: Checkpoint, layers: int, last: str, offline: bool) -> None:
        with loading(checkpoint, offline), torch.inference_mode(False):
            folder = local_folder(checkpoint, offline)
            self.tokenizer: Any = load_tokenizer(checkpoint, folder, offline)
            module, *_ = load_module(checkpoint, folder)
        self.full_precision = all(p.dtype == torch.float32 for p in module.parameters())
        self.module = module.float()
        self.checkpoint, self.layers, self.last = checkpoint, layers, last
        self._blocks: tuple[nn.Module, nn.Module] | None = None  # the first and the last

    def states(self, ids: list[int]) -> tuple[list[Tensor], Tensor | None]:
        """Return what enters the first block and what each block returns, and the state after the final norm.

        Raises:
            ReporterError: if the model is not what the table ``models`` says, or its last block is not found.
        """
        if self.last == "block":
            hidden, final = self._run(ids)
            if not torch.equal(hidden[-1], final):
                raise self._error("its last hidden state is not the output of its last block, as the table models says")
            return [h[0] for h in hidden], None
        if self._blocks is None:
            self._blocks = self._find_blocks(ids)
        with calls_of([[block] for block in self._blocks]) as calls:
            hidden, final = self._run(ids)
        (entering, _), (_, raw) = calls[0][-1], calls[1][-1]
        if raw.shape == final.shape and torch.equal(raw, final):
            raise self._error("nothing follows its last block, contrary to the table models")
        if torch.equal(hidden[-2], raw):
            entered = next(x for x in entering if x.shape == raw.shape)
            return [h[0] for h in (entered, *hidden[:-1])], final[0]
        return [h[0] for h in (*hidden[:-1], raw)], final[0]

    def embedding(self) -> Any:
        """Return the module that makes vectors of tokens."""
        module: Any = self.module
        return module.get_input_embeddings()

    def norms(self) -> list[list[nn.Module]]:
        """Return the norms inside each block: modules that are called so; none where the blocks are not found."""
        lists = [m for m in self.module.modules() if isinstance(m, nn.ModuleList) and len(m) == self.layers]
        blocks = max(lists, key=lambda modules: sum(p.numel() for p in modules.parameters()), default=nn.ModuleList())
        return [[m for m in block.modules() if "norm" in type(m).__name__.lower()] for block in blocks]

    def _run(self, ids: list[int]) -> tuple[tuple[Tensor, ...], Tensor]:
        x = torch.tensor([ids])
        with torch.inference_mode():
            result = self.module(input_ids=x, attention_mask=torch.ones_like(x), output_hidden_states=True)
        if len(result.hidden_states) != self.layers + 1:
            raise self._error(f"it has {len(result.hidden_states) - 1} blocks, but {self.layers} in the table models")
        return result.hidden_states, result.last_hidden_state

    def _find_blocks(self, ids: list[int]) -> tuple[nn.Module, nn.Module]:
        lists = [m for m in self.module.modules() if isinstance(m, nn.ModuleList) and len(m) == self.layers]
        candidates = [blocks[-1] for blocks in lists]
        with calls_of([[module] for module in candidates]) as calls:
            hidden, _ = self._run(ids)
        for place, module in enumerate(candidates):
            passed = [x for taken, returned in calls[place][-1:] for x in (*taken, returned)]
            if any(x.shape == hidden[-2].shape and torch.equal(x, hidden[-2]) for x in passed):
                return lists[place][0], module
        raise self._error("its last block was not found in a list of modules, so its output cannot be read")

    def _error(self, text: str) -> ReporterError:
        return ReporterError(f"{self.checkpoint.label}: {text}")


Call = tuple[list[Tensor], Tensor]
"""The tensors that a module takes, and the first one that it returns."""


@contextmanager
def calls_of(modules: list[list[nn.Module]]) -> Iterator[list[list[Call]]]:
    """Keep, while this lasts, what the modules of each list take and return, in the order in which they are called."""
    calls: list[list[Call]] = [[] for _ in modules]

    def keep(place: int) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            taken = [x.clone() for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
            calls[place].append((taken, (output if isinstance(output, Tensor) else output[0]).clone()))

        return hook

    every = [(place, module) for place, group in enumerate(modules) for module in group]
    hooks = [module.register_forward_hook(keep(place), with_kwargs=True) for place, module in every]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


@dataclass
class VerifiedModel:
    """The model behind a reading, for paths that need more than its states.

    ``moved`` is the mean relative distance of the run's states from these; 0 in float32.
    """

    model: PlainModel
    causal: bool
    offline: bool
    moved: float = 0.0

    @cached_property
    def whole(self) -> Any:
        """The whole language model as transformers builds it.

        Raises:
            NoPath: it has no head, or a random one.
        """
        import transformers

        checkpoint = self.model.checkpoint
        if checkpoint.initialised is not None:
            raise NoPath("the head of a model with random weights has other random weights")
        if checkpoint.part == "decoder":
            raise NoPath("the head of a decoder beside its encoder has no second path")
        kind = transformers.AutoModelForCausalLM if self.causal else transformers.AutoModelForMaskedLM
        with loading(checkpoint, self.offline), torch.inference_mode(False):
            folder = local_folder(checkpoint, self.offline)
            config = read_config(checkpoint, folder)
            if not self.causal and type(config) not in transformers.MODEL_FOR_MASKED_LM_MAPPING:
                raise NoPath("transformers has no masked language model for it")
            model, missing = build(kind, checkpoint, folder, config)
        if missing:
            raise NoPath("its files have no language-model head")
        return model.float()


# What the language-model head reads at each layer: ``lens``, through transformers' own model.


MASKED = 0.15  # of the own tokens of a text, hidden from a masked language model


def loss(reading: CorpusReading, options: Mapping[str, Any], subject: VerifiedModel) -> Iterator[Remeasured]:
    """Yield the mean of −log p over the tokens that the model predicts."""
    whole, mask_id = subject.whole, subject.model.tokenizer.mask_token_id
    losses_of_texts = []
    for text in reading.texts:
        ids, counted = np.array(text.ids), ~text.special
        if reading.causal:
            predicted = counted.copy()
            predicted[0] = False
            inputs, positions = ids, np.flatnonzero(predicted) - 1
        else:
            hidden = [key(reading.seed, text.index, place) < int(MASKED * 2.0**64) for place in range(len(ids))]
            assert mask_id is not None  # without one a run stores no loss
            predicted = counted & np.array(hidden)
            inputs, positions = np.where(predicted, mask_id, ids), np.flatnonzero(predicted)
        losses = np.full(len(ids), np.nan)
        if len(positions):
            x = torch.from_numpy(inputs.astype(np.int64))[None]
            with torch.inference_mode():
                logits = whole(input_ids=x, attention_mask=torch.ones_like(x)).logits[0][positions]
            losses[predicted] = -_log_softmax(logits)[np.arange(len(positions)), ids[predicted]]
        losses_of_texts.append(losses)
    everything = np.concatenate(losses_of_texts)
    for view, mask in reading.masks.items():
        yield Remeasured("lm", view, None, mean(everything, mask))


def lens(reading: CorpusReading, options: Mapping[str, Any], subject: VerifiedModel) -> Iterator[Remeasured]:
    """Yield what ``lens`` measures: the whole model's own forward pass, given states instead of its blocks' output."""
    whole, closing = subject.whole, _closing(reading, subject.model)
    if closing is None:
        raise NoPath("several modules lie between its blocks and its head")
    drawn = np.flatnonzero(reading.sampled(options["sample"]))
    final = next((place for place in reading.places if place.site == "final"), None)  # a study may not read it
    following, since, tied = _following(reading), np.zeros(len(reading.ids)), np.zeros(len(reading.ids))
    divergences: dict[str, list[float]] = {view: [] for view in reading.masks}
    for layer, place in enumerate(reading.path):
        columns = np.full((6, len(reading.ids)), np.nan)
        for rows in np.array_split(drawn, max(1, len(drawn) // 64)):
            if not len(rows):
                continue
            end = torch.from_numpy(reading.at(final or reading.path[-1])[rows]).float()
            last = _log_softmax(_head(whole, end if final else closing(end)))
            here = last
            if place != reading.path[-1]:
                here = _log_softmax(_head(whole, closing(torch.from_numpy(reading.at(place)[rows]).float())))
            p, q = np.exp(last), np.exp(here)
            entropy = -np.where(q > 0, q * here, 0.0).sum(axis=1)
            divergence = np.where(p > 0, p * (last - here), 0.0).sum(axis=1).clip(min=0)
            loss = np.where(following[rows] < 0, np.nan, -here[np.arange(len(rows)), following[rows]])
            (top, ties), (of_last, ties_of_last) = (_top(log_p, subject.moved) for log_p in (here, last))
            overlap = [np.isin(x, y).mean() for x, y in zip(top, of_last, strict=True)]
            columns[:, rows] = entropy, divergence, loss, top[:, 0] == of_last[:, 0], overlap, ties | ties_of_last
        *measured, near = columns
        since, tied = np.where(measured[3] == 1, since, layer + 1), np.fmax(tied, near)
        for view, mask in reading.masks.items():
            divergences[view].append(mean(measured[1], mask))
            for name, values in zip(("entropy", "kl", "loss", "top1", "top5"), measured, strict=True):
                slack = np.nan_to_num(mean(near, mask)) if name.startswith("top") else 0.0
                yield Remeasured(name, view, place, mean(values, mask), slack)
    exits = np.where(np.isfinite(near), since / (len(reading.path) - 1), np.nan)
    for view, mask in reading.masks.items():
        yield Remeasured("exit", view, None, mean(exits, mask), mean(tied, mask & np.isfinite(near)))
        early, first, late = (_stays_near(divergences[view], 1 + sign * (1e-3 + subject.moved)) for sign in (1, 0, -1))
        yield Remeasured("depth", view, None, first, np.nan_to_num(late - early))


_TIED = 1e-4  # two logarithms of probabilities that differ by less may stand in either order


def _top(log_p: Floats, moved: float) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the five most likely tokens of each row, and whether any of them nearly ties with the next one."""
    order = np.argsort(-log_p, axis=1)
    ranked = np.take_along_axis(log_p, order[:, :6], axis=1)
    near = -np.diff(ranked, axis=1) < _TIED + 3 * moved * log_p.std(axis=1, keepdims=True)
    return order[:, :5], near.any(axis=1)


def _following(reading: CorpusReading) -> Ints:
    following = np.full(len(reading.ids), -1)
    if reading.causal:
        goes_on = np.flatnonzero((reading.text[1:] == reading.text[:-1]) & ~reading.kinds.special[1:])
        following[goes_on] = np.asarray(reading.ids)[goes_on + 1]
    return following


def _stays_near(divergences: Sequence[float], factor: float) -> float:
    if any(math.isnan(divergence) for divergence in divergences):
        return math.nan
    layer = len(divergences)
    while layer and divergences[layer - 1] < factor:  # in nats
        layer -= 1
    return float(layer)


def divergence(
    reading: CorpusReading,
    base: CorpusReading,
    options: Mapping[str, Any],
    subjects: tuple[VerifiedModel, VerifiedModel],
) -> Iterator[Remeasured]:
    """Yield what ``divergence`` measures of a model and its base: both whole models read each text.

    Raises:
        NoPath: a run in bf16, whose products move predictions as much as tuning may; or a model without a head.
    """
    if any(subject.moved for subject in subjects):
        raise NoPath("bf16 products alone move predictions; run in float32")
    if not np.array_equal(reading.ids, base.ids):
        return
    shared: dict[str, Ints] = {}
    for view in reading.views:
        mine, theirs = (side.drawn(side.masks[view], options["sample"]) for side in (reading, base))
        shared[view] = np.intersect1d(mine, theirs)
    following, values = _following(reading), np.full((4, len(reading.ids)), np.nan)
    every = np.unique(np.concatenate(list(shared.values())))
    for _, span in reading.spans:
        some = every[(every >= span.start) & (every < span.stop)]
        if not len(some):
            continue
        x, both = torch.from_numpy(reading.ids[span])[None], []
        for subject in subjects:
            with torch.inference_mode():
                logits = subject.whole(input_ids=x, attention_mask=torch.ones_like(x)).logits[0]
            both.append(_log_softmax(logits[torch.from_numpy(some - span.start)]))
        p, q = np.exp(both[0]), np.exp(both[1])
        values[0, some] = np.where(q > 0, q * (both[1] - both[0]), 0.0).sum(axis=1)
        values[1, some] = p.argmax(axis=1) == q.argmax(axis=1)
        values[2, some] = np.where(following[some] < 0, np.nan, (p - q)[np.arange(len(some)), following[some]])
        values[3, some] = np.any([np.diff(np.sort(side, axis=1)[:, -2:]) < _TIED for side in both], axis=0)[:, 0]
    for view, tokens in shared.items():
        kl, same, change, near = values[:, tokens]
        if len(tokens) < 2:
            continue
        yield Remeasured("kl", view, None, float(kl.mean()))
        for name, share in (("median", 0.5), ("90", 0.9), ("99", 0.99), ("999", 0.999), ("max", 1.0)):
            yield Remeasured(f"kl_{name}", view, None, float(np.quantile(kl, share)))
        yield Remeasured("same_top", view, None, float(same.mean()), float(near.mean()))
        if len(change := change[np.isfinite(change)]):
            yield Remeasured("next", view, None, float(change.mean()))
            yield Remeasured("next_rms", view, None, float(np.sqrt((change**2).mean())))


def _log_softmax(logits: Tensor) -> Floats:
    log_p: Floats = log_softmax(logits.double().numpy(), axis=1)
    return log_p


def _head(whole: Any, states: Tensor) -> Tensor:
    """Return the logits that the whole model makes of last hidden states, (tokens, width)."""
    from transformers.modeling_outputs import BaseModelOutputWithPoolingAndCrossAttentions

    def given(*args: Any, **kwargs: Any) -> Any:
        output = BaseModelOutputWithPoolingAndCrossAttentions(last_hidden_state=states[None])
        output.cache_params = None  # what Mamba adds
        return output

    base = whole.base_model
    base.forward = given
    try:
        with torch.inference_mode():
            ids = torch.zeros(1, len(states), dtype=torch.int64)
            logits: Tensor = whole(input_ids=ids).logits[0]
            return logits
    finally:
        del base.forward  # that of its class again


def _closing(reading: CorpusReading, model: PlainModel) -> Callable[[Tensor], Tensor] | None:
    """Return what takes the last block's output to the last hidden state, or None where no single module does."""
    if model.last == "block":
        return lambda x: x
    text = reading.texts[0]
    path, final = model.states(text.ids)
    raw = path[-1]

    def is_it(module: nn.Module) -> bool:
        try:
            with torch.inference_mode():
                output = module(raw[None])
        except Exception:  # most modules take something else
            return False
        return isinstance(output, Tensor) and final is not None and torch.equal(output[0], final)

    norm = next((module for module in model.module.children() if is_it(module)), None)
    if norm is None:
        return None

    def close(x: Tensor) -> Tensor:
        with torch.inference_mode():
            output: Tensor = norm(x[None])[0]
            return output

    return close


# Words against the vocabulary: ``journey``, each sampled word beside every row of the input embedding.


_EQUAL = 2e-6  # two cosines of float32 states that differ by less may stand in either order


def journey(reading: CorpusReading, options: Mapping[str, Any], subject: VerifiedModel) -> Iterator[Remeasured]:
    """Yield what ``journey`` measures: each sampled word against every row of the input embedding."""
    vectors: Floats = subject.model.embedding().weight.detach().double().numpy()
    words = _Words(subject.model.tokenizer, len(vectors))
    if words.by_end:
        raise NoPath("its tokenizer marks the ends of words, which `verify` does not support")
    if any(width != vectors.shape[1] for width in reading.widths.values()):
        raise NoPath("its input embedding and its states differ in dimension")
    # A random move by a share of a state's length moves the difference of two cosines by √(2/d) of that share on
    # average; within three times that distance either row may be the nearer one.
    equal = _EQUAL + 3 * subject.moved * math.sqrt(2 / vectors.shape[1])
    kinds = [kind for text in reading.texts for kind in words.kinds(list(text.ids))]
    rows = np.flatnonzero(reading.sampled(options["sample"]) & np.array([bool(kind) for kind in kinds]))
    with np.errstate(invalid="ignore", divide="ignore"):
        units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for place in reading.places:
        rank, near, cosine = (np.full(len(reading.ids), np.nan) for _ in range(3))
        for some in np.array_split(rows, max(1, len(rows) // 64)):
            rank[some], near[some], cosine[some] = _against(reading.at(place)[some], reading.ids[some], units, equal)
        for kind in ("function", "content"):
            chosen = np.array([label == kind for label in kinds])
            for view, mask in reading.masks.items():
                yield Remeasured(f"rank_{kind}", view, place, mean(rank, mask & chosen), mean(near, mask & chosen))
            yield from means(reading, place, {f"cosine_{kind}": np.where(chosen, cosine, np.nan)})


def _against(x: Floats, ids: Ints, units: Floats, equal: float) -> tuple[Floats, Floats, Floats]:
    with np.errstate(invalid="ignore", divide="ignore"):
        all_cosines = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ units.T
    cosine = all_cosines[np.arange(len(x)), ids]
    rest = np.nan_to_num(all_cosines, nan=-2.0)
    rest[np.arange(len(x)), ids] = -2.0
    nearer = (rest > cosine[:, None]).sum(axis=1)
    near = (np.abs(rest - cosine[:, None]) < equal).sum(axis=1)
    return np.where(np.isfinite(cosine), nearer, np.nan), near.astype(np.float64), cosine


class _Words:
    """Finds the tokens that are whole words in their place, from how the tokenizer itself writes them.

    A word begins with the mark of a space where the vocabulary has one, else with anything but ``##``; a token that is
    followed by one that goes on with its word is none.

    Args:
        tokenizer: a transformers tokenizer.
        size: rows of the embedding.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        self.stop, self.tokenizer = ENGLISH_STOP_WORDS, tokenizer
        decoder = getattr(tokenizer, "added_tokens_decoder", {})
        added = decoder.values() if isinstance(decoder, dict) else ()
        self.added = {str(token) for token in added if not token.special}
        self.special = {*tokenizer.all_special_tokens, *(str(token) for token in added)}
        vocabulary = {piece: token_id for piece, token_id in tokenizer.get_vocab().items() if token_id < size}
        pieces = [piece for piece in vocabulary if piece not in self.special]
        counts = {mark: sum(piece.startswith(mark) for piece in pieces) for mark in "Ġ▁"}
        self.space = max("Ġ▁", key=lambda mark: counts[mark]) if any(counts.values()) else ""
        self.by_end = not self.space and any(piece.endswith(("</w>", "@@")) for piece in pieces)
        self.piece_of = {token_id: piece for piece, token_id in vocabulary.items()}

    def kinds(self, ids: list[int]) -> list[str]:
        """Return ``function``, ``content`` or nothing for each token of a text."""
        pieces = [self.piece_of.get(token, "") for token in ids]
        on = [self._goes_on(piece) for piece in pieces]
        kinds = []
        for piece, continues, following in zip(pieces, on, [*on[1:], False], strict=True):
            apart = piece in self.special and piece not in self.added
            word = "" if continues or following or apart else self._word(piece)
            letters = word[:1].isalpha() and "".join(filterfalse(self._joins, word)).isalpha()
            letters = letters and (len(word) > 1 or word in ("a", "A", "I"))
            kinds.append(("function" if word.lower() in self.stop else "content") if letters else "")
        return kinds

    def _word(self, piece: str) -> str:
        if piece in self.added:
            return piece.strip()
        return self._text(piece).strip() if not self.space or piece.startswith(self.space) else ""

    def _text(self, piece: str) -> str:
        return str(self.tokenizer.convert_tokens_to_string([piece])) if self.space == "Ġ" else piece.lstrip("▁")

    def _goes_on(self, piece: str) -> bool:
        if not piece or piece in self.special:
            return False
        if not self.space:
            return piece.startswith("##") and len(piece) > 2
        if piece.startswith(self.space):
            return False
        if self.space == "▁" and re.fullmatch("<0x[89A-F].>", piece):
            return True
        text = self._text(piece)
        return not text or text[0] == "\ufffd" or text[0].isalnum() or text[0] in "'’" or self._joins(text[0])

    @staticmethod
    def _joins(character: str) -> bool:
        """Whether it is an accent or a vowel sign, or joins or parts letters of a word."""
        return character in "\u200c\u200d" or unicodedata.category(character) in ("Mn", "Mc", "Me")


# Pairs of texts, read one by one and compared in plain NumPy: the table ``partner_numbers``.


AXES = {"raw": None, "centred": 0, "without 1 axis": 1, "without 3 axes": 3}
_DIGITS = 6  # distances of unit vectors that agree so far are a tie
_NEAR = 1e-5  # float32 may swap distances that are so near


def partners(
    model: PlainModel, pairs: Sequence[tuple[str, str, float | None]], poolings: Sequence[str], limit: int
) -> Iterator[Remeasured]:
    """Yield each number with its chance level; its view is the treatment and the pooling."""
    texts, partner_texts, scores = zip(*pairs, strict=True)
    vectors: dict[tuple[str, StatePlace], list[Floats]] = {}
    for text in tokenised([*texts, *partner_texts], model.tokenizer, limit):
        path, final = model.states(text.ids)
        tokens = np.arange(len(text.ids)) if text.special.all() else np.flatnonzero(~text.special)
        rows = {"mean": tokens, "last": tokens[-1:], "first": np.array([0])}
        states = {StatePlace("block" if layer else "embedding", layer): h for layer, h in enumerate(path)}
        states |= {StatePlace("final", model.layers): final} if final is not None else {}
        for place, h in states.items():
            for pooling in poolings:
                vectors.setdefault((pooling, place), []).append(h.double().numpy()[rows[pooling]].mean(axis=0))
    for (pooling, place), of_texts in vectors.items():
        x, n = np.array(of_texts), len(texts)
        if np.allclose(x, x[0], rtol=0, atol=1e-6 * np.abs(x).max()):
            continue
        for variant, axes in AXES.items():
            y = x if axes is None else x - x.mean(axis=0)
            if axes:
                along = np.linalg.svd(y, full_matrices=False)[2][:axes]
                y = y - y @ along.T @ along
            y = y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-30)
            near = -np.array([np.linalg.norm(y[n:] - row, axis=1) for row in y[:n]])
            numbers = _searched(near) if scores[0] is None else _graded(near.diagonal(), np.array(scores))
            for name, value, slack in numbers:
                yield Remeasured(name, f"{variant}, pooling {pooling}", place, value, slack)


def _graded(nearness: Floats, scores: Floats) -> Iterator[tuple[str, float, float]]:
    n, near = len(scores), int((np.diff(np.sort(nearness)) < _NEAR).sum())
    ranks = rankdata(np.round(nearness, _DIGITS)), rankdata(scores)
    if np.ptp(ranks[0]):
        yield "spearman", float(np.corrcoef(*ranks)[0, 1]), 12 * near / (n * (n * n - 1))
        yield "spearman_floor", 0.0, 0.0


def _searched(nearness: Floats) -> Iterator[tuple[str, float, float]]:
    n, c = len(nearness), np.round(nearness, _DIGITS)
    apart, of_pair = ~np.eye(n, dtype=bool), nearness.diagonal()
    ranks = 1 + ((c >= c.diagonal()[:, None]) & apart).sum(axis=1)
    best = _is_alone_at_the_top(c) & _is_alone_at_the_top(c.T).T
    off = np.minimum(np.abs(nearness - of_pair[:, None]), np.abs(nearness.T - of_pair[:, None]))
    slack = float((apart & (off < _NEAR)).any(axis=1).mean())
    for name, value, floor in (
        ("recall", (ranks == 1).mean(), 1 / n),
        ("mrr", (1 / ranks).mean(), (1 / np.arange(1, n + 1)).mean()),
        ("mexa", best.diagonal().mean(), best.mean()),
    ):
        yield name, float(value), slack
        yield f"{name}_floor", float(floor), slack


def _is_alone_at_the_top(c: Floats) -> NDArray[np.bool_]:
    """Return which numbers are greater than all others of their row."""
    second, first = np.sort(c, axis=1)[:, -2:].T
    alone: NDArray[np.bool_] = (c == first[:, None]) & (first > second)[:, None]
    return alone
