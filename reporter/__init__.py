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
    __version__: str
    from pydantic import Field as Field

    import reporter.geometry as geometry
    from reporter.app.measuring import Measured as Measured
    from reporter.app.measuring import measure as measure
    from reporter.app.results import Results as Results
    from reporter.app.results import open_results as open  # noqa: F401
    from reporter.app.results import run as run
    from reporter.app.results import validate as validate
    from reporter.core.errors import ReporterError as ReporterError
    from reporter.core.errors import UsageError as UsageError
    from reporter.core.sources import Source as Source
    from reporter.core.table import Comparable as Comparable
    from reporter.core.table import OfCorpus as OfCorpus
    from reporter.core.table import OfModel as OfModel
    from reporter.core.table import UnderView as UnderView
    from reporter.core.table import at_place as at_place
    from reporter.core.table import column as column
    from reporter.core.table import of_cell as of_cell
    from reporter.forward.observed import Observed as Observed
    from reporter.judge.claims import claim_kind as claim_kind
    from reporter.judge.kinship import Kinship as Kinship
    from reporter.judge.numbers import Numbers as Numbers
    from reporter.judge.outcomes import Detail as Detail
    from reporter.judge.outcomes import Outcome as Outcome
    from reporter.judge.outcomes import Range as Range
    from reporter.judge.profiles import Profiles as Profiles
    from reporter.metrics._items import encode as encode
    from reporter.metrics._items import pooled as pooled
    from reporter.metrics.analysis import Context as Context
    from reporter.metrics.analysis import analysis as analysis
    from reporter.metrics.base import Between as Between
    from reporter.metrics.base import Difference as Difference
    from reporter.metrics.base import Options as Options
    from reporter.metrics.base import PairValue as PairValue
    from reporter.metrics.base import SampleOptions as SampleOptions
    from reporter.metrics.base import Statistic as Statistic
    from reporter.metrics.base import Value as Value
    from reporter.metrics.base import metric as metric
    from reporter.models.states import save_states as save_states
    from reporter.study.claims import Claim as Claim
    from reporter.study.claims import Selection as Selection
    from reporter.study.claims import StatisticName as StatisticName
    from reporter.study.corpora import CorpusPart as CorpusPart
    from reporter.study.offer import Reference as Reference
    from reporter.study.offer import Section as Section
    from reporter.study.part import Name as Name
    from reporter.study.part import Part as Part
    from reporter.study.problems import SpecError as SpecError
    from reporter.study.study import StudyFile as StudyFile
    from reporter.texts.sources import Origin as Origin
    from reporter.texts.sources import SourceContext as SourceContext
    from reporter.texts.sources import corpus_source as corpus_source
    from reporter.texts.sources import digest as digest
    from reporter.texts.sources import file_hash as file_hash
    from reporter.texts.texts import Record as Record

_HOMES = {
    "SourceContext": "reporter.texts.sources:SourceContext",
    "Between": "reporter.metrics.base:Between",
    "Claim": "reporter.study.claims:Claim",
    "Comparable": "reporter.core.table:Comparable",
    "Context": "reporter.metrics.analysis:Context",
    "CorpusPart": "reporter.study.corpora:CorpusPart",
    "Difference": "reporter.metrics.base:Difference",
    "Field": "pydantic:Field",
    "Detail": "reporter.judge.outcomes:Detail",
    "Outcome": "reporter.judge.outcomes:Outcome",
    "Kinship": "reporter.judge.kinship:Kinship",
    "StatisticName": "reporter.study.claims:StatisticName",
    "Measured": "reporter.app.measuring:Measured",
    "Name": "reporter.study.part:Name",
    "Numbers": "reporter.judge.numbers:Numbers",
    "Observed": "reporter.forward.observed:Observed",
    "OfCorpus": "reporter.core.table:OfCorpus",
    "OfModel": "reporter.core.table:OfModel",
    "Options": "reporter.metrics.base:Options",
    "Origin": "reporter.texts.sources:Origin",
    "PairValue": "reporter.metrics.base:PairValue",
    "Part": "reporter.study.part:Part",
    "Profiles": "reporter.judge.profiles:Profiles",
    "Range": "reporter.judge.outcomes:Range",
    "Record": "reporter.texts.texts:Record",
    "Reference": "reporter.study.offer:Reference",
    "ReporterError": "reporter.core.errors:ReporterError",
    "Results": "reporter.app.results:Results",
    "SampleOptions": "reporter.metrics.base:SampleOptions",
    "Section": "reporter.study.offer:Section",
    "Selection": "reporter.study.claims:Selection",
    "Source": "reporter.core.sources:Source",
    "SpecError": "reporter.study.problems:SpecError",
    "Statistic": "reporter.metrics.base:Statistic",
    "StudyFile": "reporter.study.study:StudyFile",
    "UnderView": "reporter.core.table:UnderView",
    "UsageError": "reporter.core.errors:UsageError",
    "Value": "reporter.metrics.base:Value",
    "analysis": "reporter.metrics.analysis:analysis",
    "at_place": "reporter.core.table:at_place",
    "claim_kind": "reporter.judge.claims:claim_kind",
    "column": "reporter.core.table:column",
    "corpus_source": "reporter.texts.sources:corpus_source",
    "digest": "reporter.texts.sources:digest",
    "encode": "reporter.metrics._items:encode",
    "file_hash": "reporter.texts.sources:file_hash",
    "measure": "reporter.app.measuring:measure",
    "metric": "reporter.metrics.base:metric",
    "of_cell": "reporter.core.table:of_cell",
    "open": "reporter.app.results:open_results",
    "pooled": "reporter.metrics._items:pooled",
    "run": "reporter.app.results:run",
    "save_states": "reporter.models.states:save_states",
    "validate": "reporter.app.results:validate",
}
__all__ = ["geometry", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("reporter.core.version").VERSION
    if name == "geometry":  # a room, which stays in its name's place once it is imported
        return import_module("reporter.geometry")
    if name not in _HOMES:
        raise AttributeError(f"module 'reporter' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    attribute_found = globals()[name] = getattr(import_module(module), attribute)
    return attribute_found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
