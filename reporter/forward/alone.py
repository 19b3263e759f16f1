"""A run checks itself: a few texts, each alone and without padding, against what the run sees of them.

A text's states are its own: neither padding, nor its neighbours in a batch, nor the texts before it decide about them.
Some models break this, and only at some lengths: rotary embeddings that change their factors beyond a length, attention
that becomes sparse. So the check takes texts of the lengths that the corpus has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import torch

from reporter.core.errors import ReporterError, is_out_of_memory
from reporter.forward.output import ModelOutput, Settings, forward
from reporter.forward.precision import autocast
from reporter.forward.reading import batched, run_together, unpadded
from reporter.models.load import LoadedModel
from reporter.texts.tokens import TokenBatch, TokenisedCorpus, TokenisedText

ROUNDING = 1e-3
"""Mean relative deviation that other kernels for another shape may cause in float32."""
HALF_ROUNDING = 0.05
"""The same in half precision, whose products are rounded to three digits."""
DIRECTIONS = 16
"""States are compared along so many random directions, so that the states of the texts need little memory."""


@dataclass(frozen=True)
class _Alone:
    """A text as the model reads it alone: at each place (tokens, ``DIRECTIONS``), and the mean norm of its states."""

    tokens: int
    along: list[torch.Tensor]
    norms: list[float]


@dataclass(eq=False)
class AloneCheck:
    """Compares batches of a pass with a few texts that were measured alone.

    Args:
        model: the model, whose condition is as it was loaded whenever it runs.
        corpus: the corpus that is measured.
        settings: of the pass.
        largest: the largest deviation so far: the mean over a text's tokens of ‖h − h_alone‖ / ‖h_alone‖, estimated
            along random directions, at the place where it is largest.
    """

    model: LoadedModel
    corpus: TokenisedCorpus
    settings: Settings
    largest: float = 0.0
    _texts: list[TokenisedText] = field(default_factory=list)
    _alone: dict[int, _Alone] = field(default_factory=dict)
    _directions: dict[int, torch.Tensor] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)  # batches come from several threads

    def __post_init__(self) -> None:
        numbers = chosen(self.corpus)
        for shard in self.corpus.shards:
            inside = numbers[(numbers >= shard.start) & (numbers < shard.stop)]
            if len(inside):
                texts = {text.index: text for text in self.corpus.of(shard) if text.index in inside}
                self._texts += texts.values()
        if self.settings.shuffled:
            self._texts = [text.shuffled(self.settings.seed) for text in self._texts]
        alone = run_together(self._read, self._texts, self.model)
        self._alone = {text.index: states for text, states in zip(self._texts, alone, strict=True)}

    def _read(self, text: TokenisedText) -> _Alone:
        ids = torch.as_tensor(text.ids[None], device=self.model.device)
        with torch.inference_mode(), autocast(self.model.device, self.settings.precision):
            states = self.model.run(ids, torch.ones_like(ids)).at(replace(self.settings.layout, attention=False))
        norms = [float(x.float().norm(dim=-1).mean()) for x in states]
        return _Alone(len(text), [self._along(x[0]) for x in states], norms)

    @property
    def unpadded(self) -> bool:
        """Whether texts are read without padding, since it changes their states."""
        return unpadded(self._texts, self.model)

    def run(self) -> None:
        """Compare these texts, batched together, before the corpus is measured.

        Raises:
            ReporterError: the states of one deviate beyond rounding.
        """
        for batch in batched(self._texts, self.settings.batch_tokens, self.model):
            self._run(batch, replace(self.settings, losses=False, contributions=False))

    def _run(self, batch: TokenBatch, settings: Settings) -> None:
        try:
            self.compare([forward(self.model, batch, settings, self.corpus.name)])
        except Exception as error:
            if not is_out_of_memory(error) or len(batch.texts) == 1:
                raise
            for part in batch.split(1):
                self._run(part, settings)

    def compare(self, parts: Sequence[ModelOutput]) -> None:
        """Compare the texts in some batches that were measured alone with their states there.

        Raises:
            ReporterError: the states of one deviate beyond rounding.
        """
        for part in parts:
            half = part.states[0].dtype != torch.float32 or self.settings.precision == "mixed"
            for row in np.flatnonzero(np.isin(part.batch.texts, list(self._alone))).tolist():
                text = int(part.batch.texts[row])
                alone = self._alone[text]
                for place, (x, along) in enumerate(zip(part.states, alone.along, strict=False)):
                    here = self._along(x[row, : alone.tokens])
                    deviation = float(((here - along).norm(dim=-1) / along.norm(dim=-1).clamp_min(1e-30)).mean())
                    with self._lock:
                        self.largest = max(self.largest, deviation)
                    where = self.settings.layout.places[place]
                    if not deviation <= (HALF_ROUNDING if half else ROUNDING):
                        norm = float(x[row, : alone.tokens].float().norm(dim=-1).mean())
                        raise ReporterError(
                            f"text {text + 1} of corpus '{self.corpus.name}' ({alone.tokens:,} tokens) has other "
                            f"states in a batch than alone, by {deviation:.1%} at {where.site} {where.layer} (mean "
                            f"norm {norm:.4g} in the batch, {alone.norms[place]:.4g} alone). At this length the "
                            "model's states depend on padding or on other texts, so reporter cannot measure it; try a "
                            "smaller `max_tokens`"
                        )

    def _along(self, x: torch.Tensor) -> torch.Tensor:
        width = x.shape[-1]
        if width not in self._directions:
            draws = torch.Generator().manual_seed(width)
            self._directions[width] = torch.randn(width, DIRECTIONS, generator=draws)
        with torch.inference_mode(), torch.autocast(x.device.type, enabled=False):
            return (x.float() @ self._directions[width].to(x.device)).cpu()


def chosen(corpus: TokenisedCorpus) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the places of the shortest, the median and the longest text that have tokens, and of one that was cut."""
    lengths = np.diff(corpus.starts)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    if not len(order):
        return order
    cut = np.flatnonzero(corpus.cut)[:1].tolist()
    return np.unique([order[0], order[len(order) // 2], order[-1], *cut])
