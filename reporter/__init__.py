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
    from pydantic import Field as Field

    import reporter.geometry as geometry
    from reporter.analyses._encode import encode as encode
    from reporter.analyses._encode import pooled as pooled
    from reporter.analyses.base import Context as Context
    from reporter.analyses.registry import analysis as analysis
    from reporter.claims.finding import Finding as Finding
    from reporter.claims.finding import Range as Range
    from reporter.claims.kind import claim_kind as claim_kind
    from reporter.claims.kinship import Kinship as Kinship
    from reporter.claims.numbers import Numbers as Numbers
    from reporter.claims.profiles import Profiles as Profiles
    from reporter.door.measuring import Measured as Measured
    from reporter.door.measuring import measure as measure
    from reporter.door.results import Results as Results
    from reporter.door.results import open_results as open  # noqa: F401
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
    from reporter.spec.claims import Claim as Claim
    from reporter.spec.claims import Selection as Selection
    from reporter.spec.claims import StatisticName as StatisticName
    from reporter.spec.corpora import CorpusPart as CorpusPart
    from reporter.spec.offer import Reference as Reference
    from reporter.spec.offer import Section as Section
    from reporter.spec.part import Name as Name
    from reporter.spec.part import Part as Part
    from reporter.spec.problems import SpecError as SpecError
    from reporter.spec.study import StudyFile as StudyFile
    from reporter.table import Comparable as Comparable
    from reporter.table import OfCorpus as OfCorpus
    from reporter.table import OfModel as OfModel
    from reporter.table import UnderView as UnderView
    from reporter.table import at_place as at_place
    from reporter.table import column as column
    from reporter.table import of_cell as of_cell
    from reporter.texts.origin import Around as Around
    from reporter.texts.origin import Origin as Origin
    from reporter.texts.origin import corpus_source as corpus_source
    from reporter.texts.origin import digest as digest
    from reporter.texts.origin import file_hash as file_hash
    from reporter.texts.record import Record as Record

__version__ = "0.1.0"

_HOMES = {
    "Around": "reporter.texts.origin:Around",
    "Between": "reporter.metrics.base:Between",
    "Claim": "reporter.spec.claims:Claim",
    "Comparable": "reporter.table:Comparable",
    "Context": "reporter.analyses.base:Context",
    "CorpusPart": "reporter.spec.corpora:CorpusPart",
    "Difference": "reporter.metrics.base:Difference",
    "Field": "pydantic:Field",
    "Finding": "reporter.claims.finding:Finding",
    "Kinship": "reporter.claims.kinship:Kinship",
    "StatisticName": "reporter.spec.claims:StatisticName",
    "Measured": "reporter.door.measuring:Measured",
    "Name": "reporter.spec.part:Name",
    "Numbers": "reporter.claims.numbers:Numbers",
    "Observed": "reporter.observables.observed:Observed",
    "OfCorpus": "reporter.table:OfCorpus",
    "OfModel": "reporter.table:OfModel",
    "Options": "reporter.metrics.base:Options",
    "Origin": "reporter.texts.origin:Origin",
    "PairValue": "reporter.metrics.base:PairValue",
    "Part": "reporter.spec.part:Part",
    "Profiles": "reporter.claims.profiles:Profiles",
    "Range": "reporter.claims.finding:Range",
    "Record": "reporter.texts.record:Record",
    "Reference": "reporter.spec.offer:Reference",
    "ReporterError": "reporter.errors:ReporterError",
    "Results": "reporter.door.results:Results",
    "SampleOptions": "reporter.metrics.base:SampleOptions",
    "Section": "reporter.spec.offer:Section",
    "Selection": "reporter.spec.claims:Selection",
    "Source": "reporter.metrics.base:Source",
    "SpecError": "reporter.spec.problems:SpecError",
    "Statistic": "reporter.metrics.base:Statistic",
    "StudyFile": "reporter.spec.study:StudyFile",
    "UnderView": "reporter.table:UnderView",
    "UsageError": "reporter.errors:UsageError",
    "Value": "reporter.metrics.base:Value",
    "analysis": "reporter.analyses.registry:analysis",
    "at_place": "reporter.table:at_place",
    "claim_kind": "reporter.claims.kind:claim_kind",
    "column": "reporter.table:column",
    "corpus_source": "reporter.texts.origin:corpus_source",
    "digest": "reporter.texts.origin:digest",
    "encode": "reporter.analyses._encode:encode",
    "file_hash": "reporter.texts.origin:file_hash",
    "measure": "reporter.door.measuring:measure",
    "metric": "reporter.metrics.registry:metric",
    "of_cell": "reporter.table:of_cell",
    "open": "reporter.door.results:open_results",
    "pooled": "reporter.analyses._encode:pooled",
    "run": "reporter.door.results:run",
    "save_states": "reporter.models.states:save_states",
    "validate": "reporter.door.results:validate",
}
__all__ = ["geometry", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "geometry":  # a room, which stays in its name's place once it is imported
        return import_module("reporter.geometry")
    if name not in _HOMES:
        raise AttributeError(f"module 'reporter' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    found = globals()[name] = getattr(import_module(module), attribute)
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
