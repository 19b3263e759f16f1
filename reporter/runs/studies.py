"""From a file, or what a program hands over, to a study whose names are known: its plugins are loaded first."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from reporter.analyses.registry import ANALYSES
from reporter.claims.kind import claim_forms
from reporter.errors import UsageError
from reporter.metrics.registry import METRICS, statistics
from reporter.registry import forget_plugins, load_plugin
from reporter.spec.load import load_studies, parse_study, plugins_of, read_text
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
        claims=claim_forms(plugins),
    )


def read_study(path: Path) -> StudyFile:
    """Read and check the study in a YAML file.

    Raises:
        SpecError: it cannot be read, or something in it is wrong.
        UsageError: a plugin of it cannot be run.
    """
    return read_studies([path])[0]


def read_studies(paths: Sequence[Path]) -> list[StudyFile]:
    """Read and check several studies, each with its own plugins; those of earlier calls are forgotten.

    Raises:
        SpecError: the problems of all of them; two studies with one id are a problem, too.
        UsageError: a plugin cannot be run.
    """
    forget_plugins()
    loaded: set[Path] = set()

    def load(path: Path) -> StudyFile:
        return _parse(read_text(path), path, loaded)

    return load_studies(paths, load)


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
        forget_plugins()
        return _parse(said.text, said.path, set())  # again: whoever was read since then had other plugins
    if not isinstance(said, Mapping):
        raise UsageError(f"a study is a YAML file or a mapping, not {type(said).__name__}")
    try:
        text = json.dumps(said, ensure_ascii=False, indent=1, default=_as_text)
    except (TypeError, ValueError) as error:
        raise UsageError(f"a study that is a mapping holds text, numbers, lists and mappings: {error}") from None
    forget_plugins()
    try:
        return _parse(text, _HANDED_OVER, set())
    except SpecError as error:  # of a text that nobody wrote, lines and columns say nothing
        raise SpecError(Problem(p.file, 0, 0, p.where, p.message) for p in error.problems) from None


def _parse(text: str, path: Path, loaded: set[Path]) -> StudyFile:
    plugins = plugins_of(text, path)
    for plugin in plugins:
        if plugin.resolve() not in loaded:
            load_plugin(plugin)
            loaded.add(plugin.resolve())
    return parse_study(text, path, offer(plugins))


def _as_text(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"not {type(value).__name__}")
