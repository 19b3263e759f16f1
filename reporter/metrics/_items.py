"""Shared parts of analyses of texts: shipped lists, samples, vectors of texts, and the tables of their pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from reporter.core.errors import ReporterError
from reporter.core.files import instead_of
from reporter.core.table import ALL_GROUPS, WEIGHTS, Comparable, OfModel, at_place, column, of_cell
from reporter.geometry.arrays import Bools, Floats, Ints
from reporter.geometry.components import coordinates
from reporter.models.places import Place
from reporter.study.part import AsTuple, Name, Part, complaints_of, failure
from reporter.study.problems import Problem, SpecError, show, show_location
from reporter.study.yaml_reader import read_yaml

if TYPE_CHECKING:
    import torch

    from reporter.core.places import Pooling
    from reporter.metrics.analysis import Context, Corpus
    from reporter.texts.tokens import TokenBatch

ModelNames = Literal["all"] | Annotated[tuple[Name, ...], AsTuple]
"""Models that an item is about."""
ALL_MODELS: Any = Field("all", description="Models of this study, or 'all'.", exclude=True)  # changes no number

# Random choices of an analysis: each has a stream of its own, so that one more of them changes no other.


MOST_LABEL = 80
_AT_ONCE = 512


def stream(seed: int, *what: str | int) -> np.random.Generator:
    """Return the random numbers of one purpose under a study's seed."""
    return np.random.default_rng([seed, *(crc32(str(part).encode()) for part in what)])


def number_or_null(value: float) -> float | None:
    """Return a number, or None for NaN and infinity."""
    return float(value) if np.isfinite(value) else None


def evenly(count: int, most: int) -> list[int]:
    """Return at most ``most`` of ``count`` places, spread evenly from the first to the last."""
    if count <= most:
        return list(range(count))
    return [round(place) for place in np.linspace(0, count - 1, most).tolist()]


def drawn_texts(corpus: Corpus, size: int, context: Context) -> tuple[list[str], Ints]:
    """Return the first ``size`` distinct texts of a corpus in a random order, and the unit of each: 0, 1, ….

    Texts in which the tokenizer finds no token are passed over. A smaller sample is the beginning of a larger one.
    """
    order = stream(context.seed, "texts").permutation(len(corpus.texts))
    rows = dict(list(distinct_texts(corpus, order, size, context).items())[:size])
    return list(rows), units_of(corpus, list(rows.values()))


def distinct_texts(
    corpus: Corpus, order: Ints, size: int, context: Context, seen: set[bytes] | None = None
) -> dict[str, int]:
    """Return the rows of distinct texts in an order, ``size`` of them or a few more.

    Texts are distinct if the model reads different ids of them.

    Args:
        corpus: where the texts are.
        order: rows of the corpus.
        size: how many are wanted.
        context: has the model.
        seen: what the model reads of texts that do not count again; this call adds to it.
    """
    seen, distinct = set() if seen is None else seen, dict[str, int]()
    for start in range(0, len(order), _AT_ONCE):
        if len(distinct) >= size:
            break
        rows = order[start : start + _AT_ONCE].tolist()
        texts = [corpus.texts[row] for row in rows]
        distinct |= {texts[index]: rows[index] for index in unseen(ids_read(texts, context, corpus.max_tokens), seen)}
    return distinct


def unseen(read: Mapping[int, Hashable], seen: set[Any]) -> list[int]:
    """Return the places of what comes for the first time, and add it to what was seen."""
    places = []
    for place, what in read.items():
        if what not in seen:
            seen.add(what)
            places.append(place)
    return places


def units_of(corpus: Corpus, rows: Sequence[int]) -> Ints:
    """Return the unit of observation of some texts of a corpus, each another one or those of a cluster one: 0, 1, …."""
    clusters = rows if corpus.texts.clusters is None else corpus.texts.clusters[list(rows)].tolist()
    numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    return np.array([numbers[cluster] for cluster in clusters], dtype=np.int64)


def ids_read(texts: Sequence[str], context: Context, max_tokens: int | None = None) -> dict[int, bytes]:
    """Return the ids that the model reads of each text, by its place; without texts in which there is no token."""
    from reporter.forward.reading import tokenised_texts

    tokens = tokenised_texts(texts, context.model, max_tokens or sys.maxsize)
    return {text.index: text.ids.tobytes() for text in tokens}


def label(text: str) -> str:
    """Return what a point is called: the first words of its text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_LABEL else line[: MOST_LABEL - 1].rstrip() + "…"


T = TypeVar("T")

LISTS = Path(__file__).parent / "lists"
"""The folder of the lists that come with reporter."""


def read_list(path: Path, example: str, check: Callable[[dict[str, Any]], T]) -> T:
    """Return what a YAML file says, once it was checked.

    Raises:
        SpecError: the file cannot be read or something in it is wrong; with line and column.
    """
    from reporter.study.load import read_text

    text = read_text(path, instead_of(path) or "; check the path")
    document = read_yaml(text)
    if document.data is None and (not document.problems or not text.strip()):
        raise SpecError.of_file(path, f"is empty; expected a mapping such as {example}")
    if document.problems:
        raise SpecError(
            Problem(str(path), *position, show_location(where), message)
            for position, where, message in document.problems
        )
    if not isinstance(document.data, dict):
        raise SpecError.of_file(path, f"expected a mapping such as {example}, got {show(document.data)}")
    try:
        return check(document.data)
    except ValidationError as error:
        placed = ((*document.place(complaint), complaint.message) for complaint in complaints_of(error))
        raise SpecError(Problem(str(path), *position, where, message) for position, where, message in placed) from None


Form = TypeVar("Form", bound=Part)


def under(form: type[Form], key: str, value: Any, kind: str = "") -> Form:
    """Return a form from a file that holds the value of one of its keys.

    Raises:
        ValidationError: it is wrong; the key, and the name of a ``kind``, are left out of the locations.
    """
    try:
        return form.model_validate({key: value})
    except ValidationError as error:
        found = complaints_of(error)
    raise failure(*(replace(c, location=tuple(part for part in c.location[1:] if part != kind)) for c in found))


# Pictures of analyses: points, bins and curves; texts as points on the first two principal components.


MOST_POINTS = 300  # of one part


class OfItem(OfModel):
    """A row about an item of an analysis, in a table that several analyses share."""

    analysis = of_cell("'journeys', 'groups', 'pairs', 'clouds', 'probes' or 'vocabulary'", part="metric")
    item = of_cell(f"name of the item in the study; '{ALL_GROUPS}' or '{WEIGHTS}' for all together", part="corpus")


class Point(OfItem, table="projections"):
    """A point of a projection to 2 or 3 dimensions: vectors of a layer, of a path through layers or of the weights."""

    projection: str = column(
        "'pca' (each layer separately), 'pca-joint' (all layers and texts in one plane), 'pca-joint-without-last' or "
        "'tsne'; '… of token' for one kind of vector",
        key=True,
    )
    place: Place | None = at_place()
    part: str = column(
        "group, concept, class, corpus, text or kind of vector of the point; 'mean …' is the mean difference of a "
        "concept",
        key=True,
    )
    point: int = column("number of the text, pair, position, token id or position vector", key=True)
    label: str | None = column("name of the point: the token, or the text's first words")
    x: float = column("first coordinate")
    y: float = column("second coordinate")
    z: float | None = column("third coordinate; NULL in two dimensions", default=None)


class HistogramBin(OfItem, table="histograms"):
    """One bin of a distribution."""

    measure: str = column("'norm', 'distance', 'dot' or 'cosine'", key=True)
    part: str = column("kind of vectors or pairs: 'token', 'token–position', a corpus, or two corpora", key=True)
    place: Place | None = at_place()
    low: float = column("lower end of the bin", key=True)
    high: float = column("upper end of the bin")
    count: int = column("number of vectors or pairs in the bin", "BIGINT")


class Explained(OfItem, table="explained_variance"):
    """The share of variance of the first principal components."""

    compared = (Comparable(("share",), "item || ': ' || part", "'share of ' || components"),)

    part: str = column("kind of vectors: 'token', 'token and position', a corpus", key=True)
    place: Place | None = at_place()
    components: int = column("number of components", key=True)
    share: float = column("share of the variance that these components explain")
    n: int = column("number of vectors", "BIGINT")


def explained_rows(part: str, place: Place | None, shares: Floats, n: int) -> Iterator[Explained]:
    """Yield the share of the variance that the first 1, 2, … components explain, given the share of each."""
    for components, share in enumerate(np.cumsum(shares).tolist(), 1):
        yield Explained(part, place, components, min(share, 1.0), n)


def points(place: Place, parts: Mapping[str, Floats], texts: Mapping[str, Sequence[str]]) -> Iterator[Point]:
    """Yield at most ``MOST_POINTS`` texts of each part, on components of the vectors of all parts together."""
    scores = coordinates(np.concatenate(list(parts.values())), 2)
    start = 0
    for part, x in parts.items():
        for row in evenly(len(x), MOST_POINTS):
            yield Point("pca", place, part, row, label(texts[part][row]), *scores[start + row].tolist())
        start += len(x)


# Sends texts that a study writes itself through a model: every token's state at every place, or one vector a text.


Vectors = Mapping[Place, Floats]
PooledVectors = Mapping[Place, NDArray[Any]]
"""Float64 where several tokens are averaged, float32 (as the states are) where one token is read."""


@dataclass(frozen=True)
class EncodedText:
    """One text as the model saw it.

    Args:
        index: which text.
        ids: token ids, (tokens,), special tokens included.
        special: True where the tokenizer added the token, (tokens,).
        states: at each place (tokens, width) in float32, on the CPU.
    """

    index: int
    ids: Ints
    special: Bools
    states: Mapping[Place, torch.Tensor]


def encode(texts: Sequence[str], context: Context, max_tokens: int | None = None) -> Iterator[EncodedText]:
    """Yield each text with its states, in the order in which they were batched (by length, longest first).

    Raises:
        ReporterError: if a text gives no token, or states are not finite.
    """
    import torch

    from reporter.forward.reading import batched, run_batches, tokenised_texts

    model, layout = context.model, context.layout
    tokens = tokenised_texts(texts, model, max_tokens or sys.maxsize)
    missing = set(range(len(texts))) - {text.index for text in tokens}
    if missing:
        raise ReporterError(f"its tokenizer finds no token in {texts[min(missing)]!r}")

    def states_of(batch: TokenBatch) -> list[torch.Tensor]:
        ids = torch.as_tensor(batch.ids, device=model.device)
        mask = torch.as_tensor(batch.mask, device=model.device)
        with torch.inference_mode():
            return [x.float().cpu() for x in model.run(ids, mask, attention=layout.attention).at(layout)]

    for batch, states in run_batches(states_of, batched(tokens, context.batch_tokens, model), model, layout):
        for row, index in enumerate(batch.texts.tolist()):
            n = int(batch.mask[row].sum())
            states_at = {place: x[row, :n] for place, x in zip(layout.places, states, strict=True)}
            if not all(bool(x.isfinite().all()) for x in states_at.values()):
                raise ReporterError(f"the states of {texts[index][:60]!r} are not finite; the weights may be damaged")
            yield EncodedText(index, batch.ids[row, :n], batch.special[row, :n], states_at)


def pooled(texts: Sequence[str], context: Context, max_tokens: int | None = None, what: str = "texts") -> Vectors:
    """Return the vectors of some texts, (texts, width) in float64 at each place, in the order of the texts.

    Raises:
        ReporterError: if a text gives no token, or none of its own where those are needed.
    """
    vectors = pooled_by(texts, context, (context.pooling,), max_tokens, what)[context.pooling]
    return {place: x.astype(np.float64, copy=False) for place, x in vectors.items()}


def pooled_by(
    texts: Sequence[str],
    context: Context,
    poolings: Sequence[Pooling],
    max_tokens: int | None = None,
    what: str = "texts",
    also: Callable[[str, EncodedText], None] | None = None,
) -> Mapping[Pooling, PooledVectors]:
    """Return the vectors of some texts by pooling, all from one forward pass; see ``pooled``.

    Texts that come twice are read once; each that goes through the model is shown to ``also``. Memory: 8·texts·width
    bytes for each place and a mean, half of it for the first and for the last token.
    """
    distinct = list(dict.fromkeys(texts))
    layout = context.layout
    vectors: dict[Pooling, dict[Place, NDArray[Any]]] = {
        pooling: {
            place: np.empty((len(distinct), width), dtype=np.float64 if pooling == "mean" else np.float32)
            for place, width in zip(layout.places, layout.widths, strict=True)
        }
        for pooling in poolings
    }
    from reporter.forward.text_vectors import rows_pooled

    row_of = {text: row for row, text in enumerate(distinct)}
    known = context.known.get(max_tokens or sys.maxsize, {})
    for text in distinct:
        for pooling, by_place in vectors.items() if text in known else ():
            for place, vector in zip(layout.places, known[text][pooling], strict=True):
                by_place[place][row_of[text]] = vector
    unread = [text for text in distinct if text not in known]
    for done, encoded in enumerate(encode(unread, context, max_tokens) if unread else (), 1):
        if also is not None:
            also(unread[encoded.index], encoded)
        for pooling, by_place in vectors.items():
            rows = rows_pooled(encoded.special, pooling)
            for place, x in encoded.states.items():
                by_place[place][row_of[unread[encoded.index]]] = x[rows].double().mean(dim=0).numpy()
        context.tell(what, done, len(unread))
    order = [row_of[text] for text in texts]
    return {pooling: {place: x[order] for place, x in by_place.items()} for pooling, by_place in vectors.items()}


def same_token(texts: Sequence[str], context: Context, max_tokens: int | None = None) -> str | None:
    """Return the token that is read in every text; None where several tokens are averaged, or texts differ in it.

    Special tokens do not count in an encoder: [CLS] is there to be read.
    """
    from reporter.forward.reading import tokenised_texts
    from reporter.forward.text_vectors import rows_pooled

    if context.pooling == "mean" or len(set(texts)) < 2:
        return None
    model = context.model
    read = {
        (int(text.ids[position]), bool(text.special[position]))
        for text in tokenised_texts(list(dict.fromkeys(texts)), model, max_tokens or sys.maxsize)
        for position in rows_pooled(text.special, context.pooling)
    }
    if len(read) > 1:
        return None
    (token, special), *_ = read
    return None if special and model.anatomy.role == "encoder" else str(model.tokenizer.decode([token]))
