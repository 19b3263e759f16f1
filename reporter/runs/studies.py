"""From a file, or what a program hands over, to a study whose names are known: its plugins are loaded first."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from reporter.analyses.registry import ANALYSES
from reporter.claims.kind import claim_kinds
from reporter.errors import UsageError
from reporter.metrics.registry import METRICS, statistics
from reporter.registry import forget_plugins, load_plugin
from reporter.spec.layers import Layers
from reporter.spec.load import check_layers, layers_of, load_studies, plugins_of
from reporter.spec.offer import Offer
from reporter.spec.problems import Problem, SpecError
from reporter.spec.study import StudyFile
from reporter.texts.origin import SOURCES

_HANDED_OVER = Path("study")  # what messages call a study that is no file; its relative paths start from here


def offer(plugins: Collection[Path] = ()) -> Offer:
    """Return what a study may ask for.

    Args:
        plugins: the study's plugins, loaded; those of other studies are not for it.
    """
    metrics, looked_at = METRICS.all(plugins), ANALYSES.all(plugins)
    for name in metrics.keys() & looked_at.keys():
        raise UsageError(f"{name!r} is the name of a metric and of an analysis; their numbers could not be told apart")
    return Offer(
        metrics={name: m.options for name, m in metrics.items()},
        statistics=statistics(metrics) | {n: {s.name: s.per for s in a.statistics} for n, a in looked_at.items()},
        fixed={f"{m.name}.{s.name}": s.fixed for m in metrics.values() for s in m.statistics if s.fixed},
        sources={key: source.form for key, source in SOURCES.all(plugins).items()},
        sections={name: analysis.section for name, analysis in looked_at.items()},
        claims=claim_kinds(plugins),
    )


def read_study(path: Path, changes: Sequence[str] = ()) -> StudyFile:
    """Read and check the study in a YAML file.

    Args:
        path: the file.
        changes: what a call says otherwise, each as ``models.bert=./mine``.

    Raises:
        SpecError: it cannot be read, or something in it is wrong.
        UsageError: a plugin of it cannot be run.
    """
    return read_studies([path], changes)[0]


def read_studies(paths: Sequence[Path], changes: Sequence[str] = ()) -> list[StudyFile]:
    """Read and check several studies, each with its own plugins; those of earlier calls are forgotten.

    Args:
        paths: the files.
        changes: what a call says otherwise in each of them.

    Raises:
        SpecError: the problems of all of them; two studies with one id are a problem, too.
        UsageError: a plugin cannot be run.
    """
    forget_plugins()
    loaded: set[Path] = set()

    def load(path: Path) -> StudyFile:
        return _parse(layers_of(path, changes), loaded)

    return load_studies(paths, load)


def read_text(path: Path, text: str) -> StudyFile:
    """Read and check a study whose text was read before, with its plugins.

    Args:
        path: the file it is from, which relative paths start from.
        text: its text.

    Raises:
        SpecError: something in it is wrong.
        UsageError: a plugin of it cannot be run.
    """
    forget_plugins()
    return _parse(layers_of(path, text=text), set())


def absent(file: StudyFile, changes: Sequence[str] = ()) -> list[Problem]:
    """Return what a study that was just read names and this machine does not have, with the places in the file.

    Args:
        file: the study.
        changes: what the call said otherwise.
    """
    from reporter.runs.presence import missing  # looks at models, texts and analyses

    said = layers_of(file.path, changes)
    return [said.problem(complaint) for complaint in missing(file)]


def study_of(said: str | Path | Mapping[str, Any] | StudyFile) -> StudyFile:
    """Return the study that a program names or hands over.

    Args:
        said: a YAML file; or what such a file says, as a mapping whose relative paths start from the current folder;
            or what this function returned.

    Raises:
        SpecError: something in it is wrong.
        UsageError: it is neither of these, or a plugin of it cannot be run.
    """
    if isinstance(said, str | Path):
        return read_study(Path(said))
    if isinstance(said, StudyFile):
        # again: whoever was read since then had other plugins
        return replace(read_text(said.path, said.text), notes=said.notes)
    if not isinstance(said, Mapping):
        raise UsageError(f"a study is a YAML file or a mapping, not {type(said).__name__}")
    try:
        text = json.dumps(said, ensure_ascii=False, indent=1, default=_as_text)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a study that is a mapping holds text, numbers, lists and mappings: {error}") from None
    forget_plugins()
    try:
        return _parse(layers_of(_HANDED_OVER, text=text), set())
    except SpecError as error:  # of a text that nobody wrote, lines and columns say nothing
        raise SpecError(Problem(p.file, 0, 0, p.where, p.message) for p in error.problems) from None


def study_of_text(text: str) -> StudyFile:
    """Return the study whose text the database holds; its relative paths start from the current folder.

    Args:
        text: as ``studies.spec`` has it.

    Raises:
        SpecError: something in it is wrong here, such as a plugin that this machine does not have.
        UsageError: a plugin of it cannot be run.
    """
    forget_plugins()
    return _parse(layers_of(_HANDED_OVER, text=text), set())


def _parse(said: Layers, loaded: set[Path]) -> StudyFile:
    plugins = plugins_of(said)
    for plugin in plugins:
        if plugin.resolve() not in loaded:
            load_plugin(plugin)
            loaded.add(plugin.resolve())
    return check_layers(said, offer(plugins))


def _as_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"not {type(value).__name__}")
