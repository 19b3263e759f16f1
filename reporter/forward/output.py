"""The output of a model for token batches, and how it becomes a batch of states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reporter.core.errors import ReporterError
from reporter.forward.batch import HiddenBatch, context_keys, embedding_keys
from reporter.forward.precision import Precision, autocast
from reporter.forward.readout import Readout, Vocabulary
from reporter.forward.token_categories import DEFAULT_RULE, STRATA, SinkRule, Sinks, find_sinks, first_own, strata
from reporter.geometry.arrays import Bools
from reporter.models.load import LoadedModel
from reporter.models.places import Layout
from reporter.models.states import SavedStates
from reporter.texts.tokens import TokenBatch, TokenisedCorpus

FLOAT16_END = 65504.0
_LARGEST = 1e16  # a norm; squares of larger ones leave float32


@dataclass(frozen=True)
class Settings:
    """Settings of a pass through a model; ``batch_tokens`` changes speed and memory, never a number beyond rounding."""

    batch_tokens: int
    seed: int
    precision: Precision
    layout: Layout
    frequent: Bools
    shuffled: bool = False
    readout: Readout | None = None
    losses: bool = False
    contributions: bool = False
    vocabulary: Vocabulary | None = None
    sinks: SinkRule = DEFAULT_RULE


@dataclass(eq=False)
class ModelOutput:
    """The output of the model for one batch, padding included.

    Args:
        batch: the token ids.
        states: at each place, (texts, length, width); a place is let go of once its states lie among others.
        norms: of the states, (places, texts, length).
        sizes: norms and, second, max |x_j|, on the host, (2, places, texts, length).
        sinks: arrays (texts, length).
        losses: (texts, length), where they were asked for.
        contributions: (L, texts, length, 2, 2), where they were asked for.
        half: whether the states are float16.
    """

    batch: TokenBatch
    states: list[torch.Tensor]
    norms: torch.Tensor
    sizes: NDArray[np.float32]
    sinks: Sinks
    losses: torch.Tensor | None
    contributions: torch.Tensor | None
    half: bool = False

    @property
    def strained(self) -> int:
        """Tokens with a state in float16 that comes near the end of its range; a model may clamp it there."""
        if not self.half:
            return 0
        return int(((self.sizes[1] > 0.9 * FLOAT16_END).any(axis=0) & (self.batch.mask == 1)).sum())


def forward(model: LoadedModel | SavedStates, batch: TokenBatch, settings: Settings, corpus: str) -> ModelOutput:
    """Return what a model makes of one batch.

    Raises:
        ReporterError: states are not finite.
    """
    with torch.inference_mode(), autocast(model.device, settings.precision):
        if isinstance(model, SavedStates):
            captured = model.captured(batch)
        else:
            ids = torch.as_tensor(batch.ids, device=model.device)
            mask = torch.as_tensor(batch.mask, device=model.device)
            captured = model.run(ids, mask, settings.layout.attention, settings.contributions)
        losses = None
        if settings.losses and settings.readout is not None and not settings.readout.loss_problem:
            losses = settings.readout.token_losses(batch, captured.last, settings.seed)
    states = captured.at(settings.layout)
    contributions = captured.contributions
    del captured
    with torch.inference_mode():
        norms = torch.stack([x.float().norm(dim=-1) for x in states])
        peaks = torch.stack([torch.maximum(x.amax(dim=-1), -x.amin(dim=-1)).float() for x in states])
        # The one time that the device is waited for, but for the sinks: which rows belong together hangs on them.
        sizes = torch.stack([norms, peaks]).cpu().numpy()
        half = states[0].dtype == torch.float16
        _check_finite(sizes[0], sizes[1], batch, corpus, half)
        blocks = slice(1, settings.layout.layers + 1)
        sinks = find_sinks(states[blocks], sizes[0, blocks], batch.mask, settings.sinks)
    return ModelOutput(batch, states, norms, sizes, sinks, losses, contributions, half)


def _check_finite(
    norms: NDArray[np.float32], peaks: NDArray[np.float32], batch: TokenBatch, corpus: str, half: bool
) -> None:
    bad = np.argwhere(~(norms <= _LARGEST) & (batch.mask == 1))
    if len(bad):
        layer, row, position = bad[0].tolist()
        what, why = "not finite", "write `run: {precision: float32}`, or check the weights"
        if np.isfinite(peaks[layer, row, position]):
            what, why = "too large", "float32 cannot hold their squares. Divide the states by a constant"
        elif half:
            why = f"float16 ends at {FLOAT16_END:g}. Add `dtype: float32` or `dtype: bfloat16` to the model"
        raise ReporterError(
            f"states are {what}, first at layer {layer}, text {batch.texts[row]} of corpus {corpus!r}, "
            f"token {position}; {why}"
        )


def joined(
    parts: list[ModelOutput], model: LoadedModel | SavedStates, corpus: TokenisedCorpus, settings: Settings
) -> HiddenBatch:
    """Lay the states of some batches side by side, without padding and context; the batches lose theirs."""
    causal = model.anatomy.role == "decoder"
    mixed = isinstance(model, SavedStates) and model.states.begins_mixed
    positions_added = model.anatomy.positions == "added"
    columns: list[dict[str, NDArray[Any]]] = []
    before = 0
    for part in parts:
        batch, shape = part.batch, part.batch.ids.shape
        inputs = model.seen(batch, corpus.originals) if isinstance(model, SavedStates) else batch.ids
        contexts = context_keys(inputs, batch.mask.sum(axis=1), causal, settings.seed)
        facts = {
            "index": before + np.arange(batch.ids.size).reshape(shape),
            "stratum": strata(part.sinks.sink, batch.mask, batch.special),
            "texts": batch.texts[:, None],
            "positions": np.arange(shape[1]),
            "token_ids": batch.ids,
            "first_own": first_own(batch.mask, batch.special),
            "contexts": contexts,
            "embedding_contexts": contexts if mixed else embedding_keys(inputs, positions_added),
            **vars(part.sinks),
        }
        columns.append({name: np.broadcast_to(x, shape)[batch.counted] for name, x in facts.items()})
        before += batch.ids.size
    whole = {name: np.concatenate([column[name] for column in columns]) for name in columns[0]}
    order = np.argsort(whole["stratum"], kind="stable")
    whole = {name: column[order] for name, column in whole.items()}
    index, stratum, texts = whole.pop("index"), whole.pop("stratum"), corpus.text_of(whole["texts"])
    sinks = Sinks(*(whole.pop(name) for name in Sinks.__dataclass_fields__))
    with torch.inference_mode():
        flat = torch.as_tensor(index, device=model.device)
        states = []
        for place in range(len(parts[0].states)):
            of_place = [part.states[place].flatten(0, 1) for part in parts]
            for part in parts:  # let go, so that padded and flat copies never all live at once
                part.states[place] = part.norms
            x = of_place[0] if len(of_place) == 1 else torch.cat(of_place)
            states.append(_with_float64(x.index_select(0, flat).float()))
        norms = _with_float64(torch.cat([part.norms.flatten(1) for part in parts], dim=1)[:, flat])
        losses = [part.losses.flatten() for part in parts if part.losses is not None]
        added = [part.contributions.flatten(1, 2) for part in parts if part.contributions is not None]
        return HiddenBatch(
            layout=settings.layout,
            states=states,
            norms=norms,
            known_norms=_on_host(parts, 0)[:, index],
            peaks=_on_host(parts, 1)[:, index],
            originals=corpus.originals[texts],
            units=corpus.units[texts],
            frequent=settings.frequent[whole["token_ids"]],
            sizes=tuple(np.bincount(stratum, minlength=len(STRATA)).tolist()),
            sinks=sinks,
            losses=torch.cat(losses)[flat.to(losses[0].device)] if losses else None,
            contributions=_with_float64(torch.cat(added, dim=1).index_select(1, flat)) if added else None,
            readout=settings.readout,
            vocabulary=settings.vocabulary,
            **whole,
        )


def _on_host(parts: list[ModelOutput], size: int) -> NDArray[np.float32]:
    """Return norms (0) or peaks (1) of some batches, padding included, (places, tokens)."""
    return np.concatenate([part.sizes[size].reshape(len(part.sizes[size]), -1) for part in parts], axis=1)


def _with_float64(x: torch.Tensor) -> torch.Tensor:
    return x.cpu() if x.device.type == "mps" else x
