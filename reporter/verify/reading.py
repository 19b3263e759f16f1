"""The states of one checkpoint on one corpus, read text by text and put on disk, so that any corpus fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reporter.errors import ReporterError
from reporter.verify.tokens import Floats, Ints, Kinds, Mask, Rule, context_keys, key, kinds_of_text, never_a_word

if TYPE_CHECKING:
    from reporter.texts import Texts
    from reporter.verify.plain_model import PlainModel


class Place(NamedTuple):
    """Where states are read: site and layer, as the tables name them."""

    site: str
    layer: int


class Found(NamedTuple):
    """A number that was measured again.

    Args:
        statistic: its name.
        view: the view.
        place: site and layer; for two layers those of the first; None for a number of the whole model.
        value: NaN where there is none.
        slack: by how much float32 rounding may move it beyond the tolerance, since it counts what exceeds something.
        other: the second layer, of a number for two.
    """

    statistic: str
    view: str
    place: Place | None
    value: float
    slack: float = 0.0
    other: int | None = None


@dataclass(frozen=True)
class Tokenised:
    """One text as the model sees it.

    Args:
        index: its place in the corpus.
        ids: token ids.
        special: which of them are no tokens of the text's own, shape (tokens,).
        cut: whether the text was longer than the limit.
        original: the place in the corpus of the first text that says the same.
    """

    index: int
    ids: list[int]
    special: Mask
    cut: bool
    original: int


@dataclass
class Reading:
    """The tokens of a corpus, their states on disk and what they are; arrays have the shape (tokens,).

    Args:
        folder: where states are put.
        seed: the study's seed.
        causal: whether the model is a decoder.
        corpus: texts in the corpus, those without a token included.
        texts: what the model saw.
        shuffled: whether the tokens of each text are shuffled before the model reads them.
        rule: what makes a token a sink.
        views: the study's views.
        sites: where the study reads states.
        positions_added: whether what enters the first block hangs on the position.
    """

    folder: Path
    seed: int
    causal: bool
    corpus: int
    texts: list[Tokenised]
    shuffled: bool
    rule: Rule
    views: tuple[str, ...]
    sites: tuple[str, ...]
    positions_added: bool
    widths: dict[Place, int] = field(default_factory=dict)
    """The places that were read, in the order of the path, and then ``final``; the dimension of the states there."""
    notes: list[str] = field(default_factory=list)
    _kinds: list[Kinds] = field(default_factory=list)
    _memo: dict[Any, Any] = field(default_factory=dict)

    def read(self, model: PlainModel, tick: Callable[[int], None]) -> None:
        """Send every text through the model, alone, and put its states on disk.

        Raises:
            ReporterError: if states are not finite, or the model is not what the tables say.
        """
        for text in self.texts:
            if self.shuffled:
                own = [token for token, special in zip(text.ids, text.special, strict=True) if not special]
                moved = iter(np.random.default_rng([self.seed, text.index]).permutation(own).tolist())
                text.ids[:] = [
                    token if special else next(moved) for token, special in zip(text.ids, text.special, strict=True)
                ]
            path, final = model.states(text.ids)
            states = {Place("block" if layer else "embedding", layer): h.numpy() for layer, h in enumerate(path)}
            if final is not None and "final" in self.sites:
                states[Place("final", model.layers)] = final.numpy()
            for place, x in states.items():
                if not np.isfinite(x).all():
                    raise ReporterError(f"text {text.index}: its states are not finite at {place.site} {place.layer}")
                self.widths[place] = x.shape[1]
                with self._file(place).open("ab") as file:
                    file.write(np.ascontiguousarray(x, dtype=np.float32).tobytes())
            blocks = [h.numpy().astype(np.float64) for h in path[1:]]
            self._kinds.append(kinds_of_text(blocks, text.special, self.rule))
            tick(1)

    def at(self, place: Place) -> Floats:
        """Return the states at a place, shape (tokens, width), in float64; the few read last are kept."""
        held: dict[Place, Floats] = self._memo.setdefault("states", {})
        if place not in held:
            while len(held) > 3:
                del held[next(iter(held))]
            flat = np.fromfile(self._file(place), dtype=np.float32)
            held[place] = flat.reshape(-1, self.widths[place]).astype(np.float64)
        return held[place]

    def _file(self, place: Place) -> Path:
        return self.folder / f"{place.site}-{place.layer}"

    def once(self, name: Any, compute: Callable[[], Any]) -> Any:
        """Return ``compute()``, computed once."""
        if name not in self._memo:
            self._memo[name] = compute()
        return self._memo[name]

    @property
    def places(self) -> list[Place]:
        """Every place that was read."""
        return list(self.widths)

    @property
    def path(self) -> list[Place]:
        """What enters the first block, and what each block returns."""
        return [place for place in self.widths if place.site != "final"]

    @cached_property
    def ids(self) -> Ints:
        """Token ids."""
        return np.concatenate([np.array(text.ids, dtype=np.int64) for text in self.texts])

    @cached_property
    def text(self) -> Ints:
        """The place in the corpus of each token's text."""
        return np.concatenate([np.full(len(text.ids), text.index) for text in self.texts])

    @cached_property
    def position(self) -> Ints:
        """The place of each token in its text."""
        return np.concatenate([np.arange(len(text.ids)) for text in self.texts])

    @cached_property
    def kinds(self) -> Kinds:
        """What each token is."""
        return Kinds.joined(self._kinds)

    @cached_property
    def masks(self) -> dict[str, Mask]:
        """Which tokens each view of the study holds."""
        return {view: self.kinds.view(view) for view in self.views}

    @cached_property
    def spans(self) -> list[tuple[int, slice]]:
        """Each text's place in the corpus, and where its tokens lie."""
        ends = np.cumsum([len(text.ids) for text in self.texts])
        return [
            (text.index, slice(int(end) - len(text.ids), int(end))) for text, end in zip(self.texts, ends, strict=True)
        ]

    @cached_property
    def type_counts(self) -> Counter[int]:
        """How often each token id occurs in the corpus, special tokens left out."""
        return Counter(self.ids[~self.kinds.special].tolist())

    @cached_property
    def frequent(self) -> Mask:
        """Whether a token's type occurs more often than the median type of those that occur by themselves."""
        everywhere = Counter(self.ids.tolist())
        middle = float(np.median(list(self.type_counts.values()))) if self.type_counts else 0.0
        return np.array([everywhere[token] > middle for token in self.ids.tolist()], dtype=bool)

    def drawn(self, mask: Mask, wanted: int) -> Ints:
        """Return the tokens of a mask with the smallest hashes of seed, text and position, in the order of these."""
        rows = np.flatnonzero(mask)
        return rows[np.argsort(self._draws[rows])][:wanted]

    @cached_property
    def _draws(self) -> NDArray[np.uint64]:
        pairs = zip(self.text.tolist(), self.position.tolist(), strict=True)
        return np.array([key(self.seed, text, position) for text, position in pairs], dtype=np.uint64)

    @cached_property
    def contexts(self) -> NDArray[np.uint64]:
        """The hash of what decided each token's block states."""
        found = [context_keys(text.ids, self.causal, self.seed) for text in self.texts]
        return np.array([one for keys in found for one in keys], dtype=np.uint64)


def tokenised(texts: Texts, tokenizer: Any, limit: int) -> list[Tokenised]:
    """Tokenise a corpus text by text, as the tokenizer does by default, cut at ``limit``; texts of no token left out.

    Args:
        texts: the corpus.
        tokenizer: a transformers tokenizer.
        limit: the most tokens of a text.
    """
    never = never_a_word(tokenizer)
    first: dict[str, int] = {}
    found = []
    for index, text in enumerate(texts):
        original = first.setdefault(text, index)
        whole = tokenizer(text, verbose=False)["input_ids"]
        seen = tokenizer(text, truncation=True, max_length=limit, return_special_tokens_mask=True, verbose=False)
        ids, added = list(seen["input_ids"]), seen["special_tokens_mask"]
        if ids:
            special = np.array([bool(a) or i in never for i, a in zip(ids, added, strict=True)])
            found.append(Tokenised(index, ids, special, len(whole) > limit, original))
    return found
