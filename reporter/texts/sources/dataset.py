"""Texts from a dataset of a hub, or from a local folder that the ``datasets`` package can read.

``datasets`` is an optional package and is imported only here. It is never asked to run a dataset's own code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from reporter.errors import ReporterError, first_line
from reporter.imports import optional
from reporter.spec.corpora import LabelledCorpus
from reporter.spec.part import Elsewhere, Text
from reporter.texts.columns import require_column
from reporter.texts.origin import Around, Origin, corpus_source, digest, file_hash
from reporter.texts.record import Record

_AT_ONCE = 1024  # rows


def _from_here(value: Any) -> Any:
    """Return what a study says, where it stands in another folder than the study, as a path if it is one at sight."""
    return value.as_path() if isinstance(value, Elsewhere) and value.startswith(".") else value


class DatasetCorpus(LabelledCorpus):
    """Texts from a dataset of a hub; needs the optional package ``datasets``."""

    dataset: Annotated[Text, BeforeValidator(_from_here, json_schema_input_type=str)] = Field(
        description="The dataset's id."
    )
    config: Text | None = Field(None, description="Its configuration, where there are several.")
    split: Text = Field("test", description="Its split.")
    revision: Text | None = Field(None, description="A branch, tag or commit.")
    column: Text = Field("text", description="The column that holds the texts.")
    streaming: bool = Field(
        False,
        description="Read rows as they come, without fetching the whole dataset; with `limit` only so many. Labels are "
        "given as the rows hold them.",
    )


@corpus_source("dataset", DatasetCorpus)
def dataset(said: DatasetCorpus, around: Around) -> Origin:
    """Find the dataset; nothing is fetched before it is read."""
    local = local_dataset(said.dataset, around.folder)
    # What the hub holds under a name can change. Its texts are kept as they were first fetched, so that a
    # study gives the same numbers tomorrow; another `revision` fetches others.
    state = digest(_folder_hashes(local)) if local else ""
    location = "/".join(part for part in (said.dataset, said.config, said.split) if part)
    if said.revision:
        location += f"@{said.revision}"
    return Origin(location, state, lambda: read_dataset(said, around.folder, around.offline))


def read_dataset(spec: DatasetCorpus, folder: Path, offline: bool) -> Iterator[Record]:
    """Yield the texts of one split's column; None is no text. Class labels are given by name.

    Args:
        spec: dataset, config, split, revision and columns.
        folder: the study's folder; a dataset id that names a folder in it is read from there.
        offline: use only what was fetched before.

    Raises:
        ReporterError: the package is missing, the dataset cannot be had, or a column or split is missing.
    """
    rows = _load(spec, folder, offline)
    where = f"dataset '{spec.dataset}', split '{spec.split}',"
    names = rows.column_names
    if names is None:  # a stream may not know its columns before its first row
        names = list(next(iter(rows), {}))
    columns = [require_column(spec.column, names, where)]
    if spec.label is not None:
        columns.append(require_column(spec.label, names, where, "label"))
    label_of = None if spec.label is None or rows.features is None else rows.features[spec.label]
    rows = rows.select_columns(list(dict.fromkeys(columns)))  # a column named twice is read once
    start = 0
    for batch in rows.iter(batch_size=_AT_ONCE):
        texts = batch[spec.column]
        labels = [None] * len(texts) if spec.label is None else batch[spec.label]
        for row, (text, label) in enumerate(zip(texts, labels, strict=True), start):
            if text is not None and not isinstance(text, str):
                kind = type(text).__name__
                raise ReporterError(f"{where} row {row}: the column '{spec.column}' holds not text but {kind}")
            yield Record(text, _label(label, label_of))
        start += len(texts)


def local_dataset(dataset: str, folder: Path) -> Path | None:
    """Return the folder that a dataset id names, or None where it names none and so is one of the hub."""
    path = folder / Path(dataset).expanduser()
    return path if path.is_dir() else None


def _load(spec: DatasetCorpus, folder: Path, offline: bool) -> Any:
    datasets = optional("datasets", "datasets", f"the hub's dataset '{spec.dataset}'")
    local = local_dataset(spec.dataset, folder)
    with ExitStack() as stack:
        stack.enter_context(_without_bars(datasets))
        if offline:
            stack.enter_context(_offline(datasets))
        try:
            return datasets.load_dataset(
                str(local or spec.dataset),
                spec.config,
                split=spec.split,
                revision=spec.revision,
                streaming=spec.streaming,
            )
        except Exception as error:  # a dozen kinds, from the package, its hub client and the network below
            raise ReporterError(_explain(spec, error, offline)) from error


def _explain(spec: DatasetCorpus, error: Exception, offline: bool) -> str:
    said = first_line(error)
    if offline:
        return (
            f"cannot load dataset '{spec.dataset}' offline, where only what was fetched before can be used; "
            f"run once without --offline ({said})"
        )
    return f"cannot load dataset '{spec.dataset}': {said}"


def _label(value: Any, feature: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if hasattr(feature, "int2str"):
        # Datasets write -1 where a class label is withheld, as in the test splits of benchmarks.
        return str(feature.int2str(value)) if value >= 0 else None
    return str(value)


@contextmanager
def _without_bars(datasets: Any) -> Iterator[None]:
    """Keep progress bars out of the program's own output."""
    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()


@contextmanager
def _offline(datasets: Any) -> Iterator[None]:
    """Keep ``datasets`` and the hub client under it off the network.

    Both read their environment variable once, when they are imported, which may have been long ago.
    """
    from huggingface_hub import constants

    places: tuple[Any, Any] = (datasets.config, constants)
    before = [place.HF_HUB_OFFLINE for place in places]
    for place in places:
        place.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        for place, value in zip(places, before, strict=True):
            place.HF_HUB_OFFLINE = value


def _folder_hashes(folder: Path) -> Iterator[str]:
    """Yield name and hash of every file: the names say which split a file belongs to."""
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder))
            yield file_hash(file)
