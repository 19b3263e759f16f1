"""Measure what transformer layers do to text: one study in, a database and a report out.

From a program or a notebook::

    results = reporter.run("study.yaml")    # or a mapping
    results = reporter.open("results")      # later, read-only
    results.layer_metrics                   # a DataFrame; one attribute a table
    reporter.measure(states)                # hidden states of your own
    reporter.geometry.twonn(x)              # the mathematics alone: arrays in, numbers out

What is named here is imported when it is first used, so that ``import reporter`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import reporter.geometry as geometry
    from reporter.door.measuring import Measured as Measured
    from reporter.door.measuring import measure as measure
    from reporter.door.results import Results as Results
    from reporter.door.results import open_results as open
    from reporter.door.results import run as run
    from reporter.door.results import validate as validate
    from reporter.errors import ReporterError as ReporterError
    from reporter.errors import UsageError as UsageError
    from reporter.metrics.base import Between as Between
    from reporter.metrics.base import Difference as Difference
    from reporter.metrics.base import Options as Options
    from reporter.metrics.base import PairValue as PairValue
    from reporter.metrics.base import SampleOptions as SampleOptions
    from reporter.metrics.base import Source as Source
    from reporter.metrics.base import Statistic as Statistic
    from reporter.metrics.base import Value as Value
    from reporter.metrics.registry import metric as metric
    from reporter.models.states import save_states as save_states
    from reporter.observables.observed import Observed as Observed
    from reporter.spec.problems import SpecError as SpecError
    from reporter.spec.study import StudyFile as StudyFile

__version__ = "0.1.0"

_HOMES = {
    "Between": "reporter.metrics.base:Between",
    "Difference": "reporter.metrics.base:Difference",
    "Measured": "reporter.door.measuring:Measured",
    "Observed": "reporter.observables.observed:Observed",
    "Options": "reporter.metrics.base:Options",
    "PairValue": "reporter.metrics.base:PairValue",
    "ReporterError": "reporter.errors:ReporterError",
    "Results": "reporter.door.results:Results",
    "SampleOptions": "reporter.metrics.base:SampleOptions",
    "Source": "reporter.metrics.base:Source",
    "SpecError": "reporter.spec.problems:SpecError",
    "Statistic": "reporter.metrics.base:Statistic",
    "StudyFile": "reporter.spec.study:StudyFile",
    "UsageError": "reporter.errors:UsageError",
    "Value": "reporter.metrics.base:Value",
    "measure": "reporter.door.measuring:measure",
    "metric": "reporter.metrics.registry:metric",
    "open": "reporter.door.results:open_results",
    "run": "reporter.door.results:run",
    "save_states": "reporter.models.states:save_states",
    "validate": "reporter.door.results:validate",
}
__all__ = [
    "Between",
    "Difference",
    "Measured",
    "Observed",
    "Options",
    "PairValue",
    "ReporterError",
    "Results",
    "SampleOptions",
    "Source",
    "SpecError",
    "Statistic",
    "StudyFile",
    "UsageError",
    "Value",
    "geometry",
    "measure",
    "metric",
    "open",
    "run",
    "save_states",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name == "geometry":  # a room, which stays in its name's place once it is imported
        return import_module("reporter.geometry")
    if name not in _HOMES:
        raise AttributeError(f"module 'reporter' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
