"""Write the study that ``reporter look`` runs: commented, readable, ready to edit."""

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from reporter.core.errors import ReporterError, UsageError, failing_as, one_line
from reporter.core.files import as_path, instead_of
from reporter.core.outputs import is_untouched, replace_file, with_checksum
from reporter.core.places import listed
from reporter.models.model_folder import base_of_adapter, is_adapter, width_of
from reporter.study.models import HUB_ID
from reporter.study.part import LONGEST_NAME
from reporter.study.problems import SpecError
from reporter.study.study import StudyFile
from reporter.study.yaml_reader import read_yaml
from reporter.texts.sources.stored import kind_of
from reporter.texts.tables import TableKind, read_marks

FOLDER = Path("look")
TEXTS = 102
"""Texts that are read, so that a model of 135 million parameters takes about 90 seconds on two cores."""
_WORDS = {"yes", "no", "on", "off", "y", "n", "true", "false", "null", "."}
"""Words that YAML may read as something else than text."""

MOST_CLASSES = 20
FEWEST_IN_CLASS = 5
LABELS = ("label", "labels", "class", "category")
"""Columns that are taken for the label among several that could be."""
_ALL = "  # remove `limit` to read all texts"
_SAMPLE = "  # of the 150 paragraphs that ship"
_STUDY = """\
# Written by `reporter look`. Edit it and run it again:
#
#   reporter run {file}
#   reporter docs                 explains all keys
#
study: {id}
title: {title}

models:                           # a short name for each; add more to compare them
{models}
corpora:                          # every model is measured on every corpus
{corpora}
metrics:                          # or `all`; `reporter metrics` lists them
{metrics}
views: [text tokens, without sinks]   # the texts, and the texts without the few tokens with giant states
{analyses}"""
_METRICS = {
    "anisotropy": "how much the states point the same way",
    "intrinsic_dimension: {sample: 2048}": "how many coordinates describe a state's neighbourhood",
    "entropy": "over how many directions the states of a text spread",
    "convergence": "how similar a state is to its last state",
    "motion": "how far each block moves and turns the states",
    "token_path": "how much states turn from token to token",
    "outliers: {sample: 1024}": "which tokens are sinks",
    "ranges": "how large activations get, and what rounding to 8 bits loses",
}


_AGAINST_BASE = """\
weight_change: all                # how far each weight is from the same weight of the base
run: {precision: float32}         # bf16 would hide the rounding of a bf16 copy, and add its own
"""
Keys = dict[str, Any]
"""The keys of a model or a corpus; a path is relative to the current folder, or absolute."""


@dataclass(frozen=True)
class _Model:
    """A model of the study: its name, its keys and, for an adapter, the base that the adapter names."""

    name: str
    keys: Keys
    base: str | None = None


@dataclass(frozen=True)
class _Corpus:
    """The corpus of the study: its name, its keys, a comment behind them and a note for the log."""

    name: str
    keys: Keys
    comment: str = ""
    note: str = ""


def write_study(
    models: Sequence[str],
    base: str | None = None,
    text: str | None = None,
    *,
    label: str | None = None,
    limit: int | None = None,
    cache: Path = Path("results/cache"),
    offline: bool = False,
) -> StudyFile:
    """Write the study of some models into ``look/`` and return it, read and checked.

    Args:
        models: hub ids, folders, GGUF files, or folders of adapters.
        base: the model that they were made from, named in the same way; an adapter names its own base.
        text: a file of texts, or a corpus as a study writes it, ``{dataset: wikitext, …}``; the sample if left out.
        label: the column of the texts' labels; left out, one that evidently holds them.
        limit: how many texts are read at most; ``TEXTS`` if left out.
        cache: the folder of caches, which keeps the texts of a data set.
        offline: never ask a hub.

    Raises:
        UsageError: a model or a text is missing, or the file of the study was edited.
        ReporterError: a model or a data set of the hub cannot be found, or the file cannot be written.
    """
    from reporter.runs.planner import check_hub
    from reporter.runs.studies import missing, read_text

    chosen = _with_bases([_read_model(model) for model in dict.fromkeys(models)], base)
    corpus = _read_corpus(text, label, limit)
    stem = "-".join([*(model.name.lower() for model in chosen), *([corpus.name.lower()] if text else [])])
    stem = re.sub(r"[^a-z0-9_-]+", "-", stem)[: LONGEST_NAME - len("look--99")].strip("-")
    stem = _name_of_study(stem, chosen, corpus)
    path = FOLDER / f"{stem}.yaml"
    try:  # with paths from here, so that messages show them as they were typed
        checked = read_text(Path(path.name), _content(path, stem, chosen, corpus, Path()))
    except SpecError as error:
        raise UsageError("\n".join(f"{problem.where}: {problem.message}" for problem in error.problems)) from None
    if lacking := [complaint.message for complaint in missing(checked)]:
        if "no column 'text'" in lacking[-1]:
            lacking[-1] += f"; name one: --text '{{file: {corpus.keys['file']}, column: NAME}}'"
        raise UsageError("\n".join(lacking))
    if path.exists() and not is_untouched(path):
        raise UsageError(
            f"{path} was edited since `reporter look` wrote it. Run `reporter run {path}`, or delete the file."
        )
    _check_widths(chosen)
    try:
        check_hub(checked, cache, offline)
    except ReporterError as error:
        of_hub = [model.keys["hub"] for model in chosen if "hub" in model.keys]
        no_folder = f"; there is no folder {' or '.join(of_hub)} here" if str(error).startswith("model ") else ""
        raise type(error)(f"{error}{no_folder}") from error
    content = _content(path, stem, chosen, corpus, FOLDER)
    replace_file(path, content.encode(), is_untouched)
    file = read_text(path, content)
    return replace(file, notes=(*file.notes, corpus.note)) if corpus.note else file


def _name_of_study(stem: str, models: Sequence[_Model], corpus: _Corpus) -> str:
    """Return the stem, with a number if a study of that name is about other models or texts."""
    for number in count(1):
        name = stem if number == 1 else f"{stem}-{number}"
        path = FOLDER / f"{name}.yaml"
        if not path.exists() or not is_untouched(path):
            break
        contents = path.read_text("utf-8"), _content(path, name, models, corpus, FOLDER)
        then, now = (read_yaml(content).data for content in contents)
        if then["models"] == now["models"] and then["corpora"] == now["corpora"]:
            break
    return name


def _read_model(text: str) -> _Model:
    path = as_path(text)
    name = (path.resolve() if path.exists() else path).name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)).strip("-._")
    name = name[:40] or "model"
    if is_adapter(path):
        return _Model(name, {"adapter": path}, base_of_adapter(path) or "")
    if path.exists():
        return _Model(name, {"path": path})
    if HUB_ID.fullmatch(text) and path.suffix.lower() != ".gguf":
        return _Model(name, {"hub": text})
    raise UsageError(f"{one_line(text)} is not a folder, a file or a hub id{instead_of(path, Path.exists)}")


def _with_bases(models: Sequence[_Model], base: str | None) -> list[_Model]:
    """Return the models, the base of a model before it; each has a name of its own."""
    entries: list[_Model] = []

    def add(model: _Model) -> str:
        for entry in entries:
            if entry.keys == model.keys:
                return entry.name
        taken, name, number = {entry.name.lower() for entry in entries}, model.name, 2
        while name.lower() in taken:
            name, number = f"{model.name}-{number}", number + 1
        entries.append(_Model(name, model.keys))
        return name

    for model in models:
        named = model.base if base is None else base
        if named is None:
            add(model)
            continue
        if not named:
            raise UsageError(f"the adapter {model.name} does not name its base; add --base MODEL")
        origin = _read_model(named)
        if "adapter" in origin.keys:
            raise UsageError(f"the base {one_line(named)} is an adapter; name a whole model with --base")
        keys = {**origin.keys, **model.keys} if "adapter" in model.keys else model.keys
        if keys == origin.keys:
            raise UsageError(f"{model.name} is its own base; name another model with --base")
        add(_Model(model.name, {**keys, "base": add(origin)}))
    return entries


def _check_widths(models: Sequence[_Model]) -> None:
    """Refuse a base whose states are wider or narrower, where both are folders: nothing could be compared."""
    folders = {model.name: model.keys["path"] for model in models if "path" in model.keys}
    widths = {name: width_of(folder) for name, folder in folders.items() if folder.is_dir()}
    for model in models:
        size, base = widths.get(model.name), widths.get(model.keys.get("base", ""))
        if size and base and size != base:
            raise UsageError(
                f"the states of {model.name} have {size:,} dimensions, those of the base {model.keys['base']} "
                f"{base:,}: name the model that it was made from, or leave out --base to see both side by side"
            )


def _read_corpus(text: str | None, label: str | None, limit: int | None) -> _Corpus:
    """Return the corpus of the study; a file and a mapping with the same file are the same corpus."""
    if text is None:
        if label not in (None, "register"):
            raise UsageError(f"--label {one_line(str(label))}: the texts that ship have the label 'register'")
        return _Corpus("sample", {"sample": "english", "limit": TEXTS} | _asked(label, limit), _SAMPLE)
    given: Keys = {"file": as_path(text)}
    if text.lstrip().startswith("{"):
        document = read_yaml(text)
        for *_, problem in document.problems:
            raise UsageError(f"--text {one_line(text)}: {problem}")
        given = dict(document.data)
        if not isinstance(given.get("file"), str):
            usual = {"limit": TEXTS} if "dataset" in given else {}
            return _Corpus("texts", usual | given | _asked(label, limit))
        given["file"] = as_path(given["file"])
    path = given["file"]
    if not path.exists():
        raise UsageError(f"--text: there is no file {one_line(str(path))}{instead_of(path)}")
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.split(".")[0]).strip("-_")[:40] or "texts"
    kind = kind_of(path)
    keys = given | _asked(label, limit)
    if not {"unit", "column", "chat"} & keys.keys():
        keys |= {"unit": _unit(path)} if kind == "text" else {"column": "text"}
    note, most = "", keys.pop("limit", None)
    most = TEXTS if most is None else most
    if kind != "text" and not {"label", "chat"} & keys.keys() and (evident := _evident_label(path, kind, keys, most)):
        keys["label"], classes = evident
        note = f"label: {keys['label']} ({classes} classes)"
    return _Corpus(name, {**keys, "limit": most}, _ALL, note)


def _asked(label: str | None, limit: int | None) -> Keys:
    return {key: value for key, value in {"label": label, "limit": limit}.items() if value is not None}


def _evident_label(path: Path, kind: TableKind, keys: Keys, most: Any) -> tuple[str, int] | None:
    """Return the one column of a table that evidently holds labels of the texts that are read, and its classes.

    These are few, and each has some texts. Of several such columns, one that is called a label is it.
    """
    if not isinstance(most, int) or most < 1:
        return None  # the study says what is wrong
    classes: dict[str, int] = {}
    with suppress(ReporterError):  # which the study says with its place
        texts, marks = read_marks(path, kind, str(keys["column"]), most, keys.get("table"))
        for name, sizes in marks.items():
            are_few = 2 <= len(sizes) <= MOST_CLASSES and min(sizes.values()) >= FEWEST_IN_CLASS
            if are_few and sizes.total() >= 0.9 * texts:
                classes[name] = len(sizes)
    named = [name for name in classes if name.lower() in LABELS or len(classes) == 1]
    return (named[0], classes[named[0]]) if len(named) == 1 else None


def _unit(path: Path) -> str:
    """Return the unit of a file of plain text: paragraphs if an empty line separates them. A folder holds documents."""
    if path.is_dir():
        return "document"
    if path.suffix == ".gz":
        return "paragraph"
    with failing_as(f"cannot read {path}", OSError), path.open(encoding="utf-8", errors="replace") as file:
        return "paragraph" if "\n\n" in file.read(100_000) else "line"


def _content(path: Path, stem: str, models: Sequence[_Model], corpus: _Corpus, folder: Path) -> str:
    """Return the text of a study in ``folder``, the first line with a checksum of the other lines."""
    metrics = dict(_METRICS)
    if any("base" in model.keys for model in models):
        metrics["change"] = "how far the states lie from those of the base"
        if not any(map(_lacks_head, models)):
            metrics["divergence"] = "how far the predictions lie from those of the base"
            metrics["loss"] = "how well each predicts the texts"
    body = _STUDY.format(
        file=path,
        id=f"look-{stem}",
        title=json.dumps("A look at " + listed(model.name for model in models), ensure_ascii=False),
        models="".join(f"  {model.name}: {_mapping(model.keys, folder)}\n" for model in models),
        corpora=f"  {corpus.name}: {_mapping(corpus.keys, folder)}{corpus.comment}\n",
        metrics="".join(f"  - {metric:<37}# {says}\n" for metric, says in metrics.items()),
        analyses="".join(_analyses(corpus)) + _AGAINST_BASE * ("change" in metrics),
    )
    return with_checksum(body, "# {}")


def _lacks_head(model: _Model) -> bool:
    """Return whether a model that is on this machine surely predicts no tokens."""
    from reporter.models.head import lacks_head
    from reporter.models.resolve import cached_snapshot

    hub, path = model.keys.get("hub"), model.keys.get("path")
    folder = cached_snapshot(hub, "main") if hub else path
    return folder is not None and folder.is_dir() and lacks_head(folder)


def _analyses(corpus: _Corpus) -> Iterator[str]:
    if "label" in corpus.keys:
        yield "probes:                           # how well a linear classifier reads the label at each layer\n"
        name = re.sub(r"[^A-Za-z0-9_-]+", "-", str(corpus.keys["label"])).strip("-_")[:40] or "label"
        yield f"  {_scalar(name, FOLDER)}: {{corpus: {corpus.name}, hidden: 0}}\n"
    yield "partners:                         # which layer finds the second half of a text by its first\n"
    yield f"  halves: {{halves: {corpus.name}}}\n"
    yield "skip:                             # the loss without each of the blocks that turn states least\n"
    yield f"  one-block: {{corpus: {corpus.name}, blocks: [1], texts: 12, every_block: false}}\n"


def _mapping(keys: Keys, folder: Path) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value, folder)}" for key, value in keys.items()) + "}"


def _scalar(value: Any, folder: Path) -> str:
    if isinstance(value, Path):
        value = str(value) if value.is_absolute() else Path(os.path.relpath(value, folder)).as_posix()
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z./][A-Za-z0-9._/-]*", value)
    return value if plain and value.lower() not in _WORDS else json.dumps(value, ensure_ascii=False)
