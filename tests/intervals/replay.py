"""Keeps the states of one pass in memory and shows those of some texts again, as a pass over these texts alone would.

What hangs on the corpus is taken from the chosen texts, not from all: the places of the texts, which token types are
frequent, how often each occurs. So an observable cannot tell a replay from a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch

from reporter.forward.batch import GROUPS, HiddenBatch, LayerStates, groups_of, key_of
from reporter.forward.measure import Settings, measure, tokenised
from reporter.forward.observable import Observable, Setting
from reporter.forward.observed import KINDS
from reporter.forward.token_categories import SPECIAL, STRATA, Sinks
from reporter.forward.type_moments import FEWEST_OCCURRENCES
from reporter.forward.type_sample import TypeCounts, count_types
from reporter.models.places import Layout
from reporter.texts.texts import originals

TEXTS_AT_ONCE = 128  # texts in a batch of a replay
PER_TOKEN = ("token_ids", "texts", "positions", "first_own", "contexts", "embedding_contexts", "strata")


@dataclass
class Recorder:
    """Watches a pass and keeps the path's states at some layers, and every fact of every token.

    Args:
        layers: which of 0..L, ascending.
    """

    layers: Sequence[int]
    states: list[list[torch.Tensor]] = field(default_factory=list)
    norms: list[torch.Tensor] = field(default_factory=list)
    facts: list[dict[str, np.ndarray]] = field(default_factory=list)

    def start(self, batch: HiddenBatch) -> None:
        """Keep a batch."""
        self.states.append([batch.states[layer].cpu() for layer in self.layers])
        self.norms.append(batch.norms[list(self.layers)].cpu())
        of_sinks = {field.name: getattr(batch.sinks, field.name) for field in fields(Sinks)}
        self.facts.append({name: getattr(batch, name) for name in PER_TOKEN} | of_sinks)

    def observe(self, layer: LayerStates) -> None:
        """Do nothing: the batch was kept as a whole."""

    def finish(self, batch: HiddenBatch) -> None:
        """Do nothing."""

    def settle(self) -> None:
        """Do nothing: everything is on the host."""


@dataclass(frozen=True)
class Recording:
    """All tokens of a corpus at some layers, in the order of their texts.

    Args:
        layers: which of the model's layers; a replay numbers them 0, 1, 2, …
        layout: of a replay.
        originals: place of the first text of the corpus with the same content, shape (texts,).
        vocabulary: token ids of the model.
        states: for each layer (tokens, width).
        norms: shape (layers, tokens).
        facts: of each token, by name of the field of a ``HiddenBatch`` or of its ``Sinks``.
        ends: where each text's tokens end, shape (texts + 1,).
    """

    layers: tuple[int, ...]
    layout: Layout
    originals: np.ndarray
    vocabulary: int
    states: list[torch.Tensor]
    norms: torch.Tensor
    facts: Mapping[str, np.ndarray]
    ends: np.ndarray

    @property
    def texts(self) -> int:
        """Texts of the corpus."""
        return len(self.originals)

    def observables(self, chosen: np.ndarray, names: Collection[str], sizes: Mapping[str, int], seed: int):
        """Return observables that have seen the chosen texts, and nothing else.

        Args:
            chosen: places of the texts in the corpus; in the replay they are texts 0, 1, 2, …
            names: the observables.
            sizes: how much each bounded one must keep.
            seed: of bootstrap weights and samples.
        """
        rows = [np.arange(self.ends[text], self.ends[text + 1]) for text in chosen]
        _, first, which = np.unique(self.originals[chosen], return_index=True, return_inverse=True)
        first_of = first[which]
        counted = self._types(rows, groups_of(first_of, seed))
        types = counted.at_least(FEWEST_OCCURRENCES)
        in_all = int(counted.counts.sum() + counted.added.sum())
        found: dict[str, Observable] = {}
        for name in names:
            strings = dict.fromkeys(types, "")
            setting = Setting(self.layout, seed, len(chosen), sizes[name], types, strings, in_all, counted.splits)
            found[name] = KINDS[name].empty(setting)
        for start in range(0, len(chosen), TEXTS_AT_ONCE):
            batch = self._batch(rows[start : start + TEXTS_AT_ONCE], start, first_of, counted.frequent, seed)
            for one in found.values():
                one.start(batch)
            for layer in batch.layers():
                for one in found.values():
                    one.observe(layer)
            for one in found.values():
                one.finish(batch)
        return found

    def _types(self, rows: list[np.ndarray], groups: np.ndarray) -> TypeCounts:
        counts, added = np.zeros((2, GROUPS, self.vocabulary), dtype=np.int32)
        at, group = np.concatenate(rows), np.repeat(groups, [len(of_text) for of_text in rows])
        special = self.facts["strata"][at] == SPECIAL
        for found, of in ((counts, ~special), (added, special)):
            np.add.at(found, (group[of], self.facts["token_ids"][at[of]]), 1)
        return TypeCounts.of_groups(counts, added)

    def _batch(
        self, rows: list[np.ndarray], first: int, first_of: np.ndarray, frequent: np.ndarray, seed: int
    ) -> HiddenBatch:
        texts = np.repeat(first + np.arange(len(rows)), [len(of_text) for of_text in rows])
        at = np.concatenate(rows)
        order = np.argsort(self.facts["strata"][at], kind="stable")
        at, texts = at[order], texts[order]
        facts = {name: array[at] for name, array in self.facts.items()}
        # So that each seed samples other contexts: the pass that was recorded had seed 0.
        contexts = facts["contexts"] ^ key_of(seed) ^ key_of(0)
        return HiddenBatch(
            layout=self.layout,
            states=[x[torch.from_numpy(at)] for x in self.states],
            known_norms=self.norms[:, torch.from_numpy(at)].numpy(),
            peaks=np.stack([x[torch.from_numpy(at)].abs().amax(dim=1).numpy() for x in self.states]),
            norms=self.norms[:, torch.from_numpy(at)],
            token_ids=facts["token_ids"],
            texts=texts,
            originals=first_of[texts],
            units=first_of[texts],
            positions=facts["positions"],
            first_own=facts["first_own"],
            contexts=contexts,
            embedding_contexts=facts["embedding_contexts"],
            frequent=frequent[facts["token_ids"]],
            sizes=tuple(np.bincount(facts["strata"], minlength=len(STRATA)).tolist()),
            sinks=Sinks(*(facts[field.name] for field in fields(Sinks))),
        )


def record(model: Any, texts: Any, layers: Sequence[int] | None, max_tokens: int) -> Recording:
    """Run a model once over texts and keep its states.

    Args:
        model: a loaded model, or one with its face.
        texts: with the face of ``reporter.texts.Texts``.
        layers: which of 0..L; None: the first, the middle one and the last.
        max_tokens: where texts are cut.

    Raises:
        ValueError: if the model has no such layer, or there are fewer than two.
    """
    anatomy = model.anatomy
    chosen = tuple(sorted(set(layers or (0, anatomy.layers // 2, anatomy.layers))))
    if chosen[0] < 0 or chosen[-1] > anatomy.layers or len(chosen) < 2:
        raise ValueError(f"layers {list(chosen)}: name at least two of 0 to {anatomy.layers}")
    recorder = Recorder(chosen)
    whole = Layout.of(anatomy, ())
    corpus = tokenised(model, texts, max_tokens)
    frequent = count_types(corpus, anatomy.vocabulary_size, 0).frequent
    for _ in measure(model, corpus, [recorder], Settings(4096, 0, "float32", whole, frequent)):
        pass
    facts = {name: np.concatenate([batch[name] for batch in recorder.facts]) for name in recorder.facts[0]}
    order = np.argsort(facts["texts"], kind="stable")
    states = []
    for at in range(len(chosen)):  # one layer at a time, so that only one is held twice
        states.append(torch.cat([batch[at] for batch in recorder.states])[torch.from_numpy(order)])
        for batch in recorder.states:
            batch[at] = torch.zeros(0)
    facts = {name: array[order] for name, array in facts.items()}
    ends = np.searchsorted(facts["texts"], np.arange(len(texts) + 1))
    norms = torch.cat(recorder.norms, dim=1)[:, torch.from_numpy(order)]
    layout = Layout(len(chosen) - 1, anatomy.width)
    return Recording(chosen, layout, originals(texts), anatomy.vocabulary_size, states, norms, facts, ends)
