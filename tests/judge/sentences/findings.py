"""Findings of a made-up study whose numbers are exact, each with a standard error. Not a test."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from oracles.finding_calibration import K, MadeUp, statistic

from reporter.judge.questions import look
from reporter.judge.questions.subjects import Subjects

NAMES = ("__init__", "extremes", "models", "sinks", "subjects")
FILES = tuple(f"judge/questions/{name}.py" for name in NAMES)


class Exact(MadeUp):
    """Numbers of a study: the first of some tables of profiles that has one.

    Args:
        profile: the profile of every model, or one number for all layers.
        without: the same without sinks.
        by: other profiles by model, null baseline, corpus or statistic.
        floor: chance levels, by statistic.
        records: rows of some queries, by words of each.
        views: the token sets.
        begins: the first token of each model's texts.
        more: of :class:`MadeUp`.
    """

    def __init__(
        self, profile=0.5, without=None, by=(), floor=0.5, records=(), begins=(), views=None, error=0.01,
        **more,
    ):  # fmt: skip
        self.by = dict(by)
        of_baselines = [name for name in ("random-init", "shuffled") if self.by.get(name) is not None]

        def values(model, view, name, step):
            if name.endswith("_floor"):
                return np.broadcast_to(floor, K)
            keys = (model.partition("(")[2].rstrip(")"), model, self.corpus, step, name)
            rest = profile if without is None or view == "text tokens" else without
            return np.broadcast_to(next((self.by[key] for key in keys if self.by.get(key) is not None), rest), K)

        super().__init__(values, error, more.pop("roles", {"a": "decoder"}), baselines=of_baselines, **more)
        self.study.views = views or self.study.views
        answers, records = self.store.records, dict(records)

        def read(sql, keys):
            return next((rows for word, rows in records.items() if word in sql), None) or answers(sql, keys)

        self.store = SimpleNamespace(records=read)
        rows = ({"model": model, "role": role} for model, role in self._roles.items())
        vars(self.facts)["models"] = [row | {"first_token": dict(begins).get(row["model"])} for row in rows]

    def _of(self, full_name, view, model, corpus, step, error):
        self.corpus = corpus
        yield from super()._of(full_name, view, model, corpus, step, error)


def finding(kind, per="layer", within_role=False, grows="", **study):
    """Return what a reader sees of the findings of a kind, with their notes and tests."""
    numbers = Exact(**study)
    one = statistic(per=per, within_role=within_role, grows=grows)
    statistics = {
        name: replace(one, title=f"share {name[-1]}" if len(numbers.names) > 1 else "share") for name in numbers.names
    }
    subjects = Subjects(numbers, statistics, frozenset())
    return "\n".join(
        line
        for row in look(subjects).rows
        if row["kind"] == kind
        for line in (
            row["says"], row["detail"]["what"], row["detail"]["test"], *row["detail"]["notes"],
            *(curve["label"] for curve in row["detail"]["curves"]),
        )
    )  # fmt: skip


def curve(*points, rest=0.2):
    """Return a profile that is flat but for some layers."""
    values = np.full(K, rest)
    for layer, value in points:
        values[layer] = value
    return values


def kind(name, **study):
    return {"kind": name} | study


PEAK, DIP = curve((6, 0.8)), curve((6, 0.2), rest=0.8)
TOP = kind("extremes", profile=PEAK)
HILLS = np.array([0.1, 0.3, 0.5, 0.52, 0.5, 0.3, 0.2, 0.5, 0.9, 0.9, 0.9, 0.9, 0.3])
BROAD = np.array([0.1, 0.3, 0.5, 0.52, 0.5, 0.2, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.3])
BOTH = curve((3, 0.9), (9, 0.9))
TWICE = kind("extremes", profile=BROAD)
SEARCHED = {"model": "a", "corpus": "c", "checkpoint": "final", "tokens": 1000, "texts": 40, "sinks": 0}
NO_SINKS = {"sinks IS NOT NULL": [SEARCHED]}
AWAY = kind("sinks", profile=curve(*((i, 0.95) for i in range(4, 11)), rest=0.1), without=0.1)
ROLES = {name: "encoder" if name < "d" else "decoder" for name in "abcdef"}
LOW, HIGH = dict.fromkeys("abc", 0.2), dict.fromkeys("def", 0.7)
APART = kind("roles", roles=ROLES, by=LOW | HIGH)
PAIR = kind("roles", roles={"a": "encoder", "d": "decoder"}, by={"a": 0.2, "d": 0.7})
THREE = kind("models", roles=dict.fromkeys("abc", "encoder"), by={"a": 0.2, "b": 0.5, "c": 0.45})
TWO = kind("models", roles=dict.fromkeys("ab", "encoder"), by={"a": 0.2, "b": 0.5})
PLACES = kind("corpora", corpora=("c", "d"), by={"c": 0.2, "d": 0.6})
TRAINED = kind("references", profile=0.8, by={"random-init": 0.2})
WORDS = kind("references", profile=0.8, by={"shuffled": 0.2})
STATISTICS = ("anisotropy.s0", "anisotropy.s1")
CHANCE = kind("chance", names=STATISTICS, floor=0.3, by={"anisotropy.s0": 0.3, "anisotropy.s1": 0.8}, error=0.001)

WIDE = {
    "the share peaks at layer": TOP,
    "the share is lowest at": TOP | {"profile": DIP},
    "peaks twice over the layers": TWICE,
    "with random weights": TRAINED,
    "depends on word order": WORDS,
    "but 0.10 without sinks": AWAY,
    "this says nothing about encoders and decoders in general": PAIR,
    "The share ranges from": THREE,
    "The share is 0.20 in a and": TWO,
    "is 0.20 on c and 0.60 on d": PLACES,
}
"""What is not said if the same numbers have wide intervals."""

CASES = {
    "finding": [
        *((says, given, "", {"error": 0.4}) for says, given in WIDE.items()),
        # peaks and dips: another layer that does not differ, too small a height, a height that random weights have
        (("share: peak (layer 6) minus the higher end", "layer 6 exceeds every other layer by more than 0.01 (12"), TOP,
         "", {"profile": curve((6, 0.29))}),
        ("layer 6 exceeds every other layer by more than", TOP, ("Layer 7 does not differ significantly from it.",
         "all layers but 6–7 lie below another"), {"profile": curve((6, 0.8), (7, 0.79))}),
        ("Layers 5 and 7 do not differ significantly from it.",
         TOP | {"profile": curve((5, 0.79), (6, 0.8), (7, 0.79))}, "Layer 7 does not",
         {"profile": curve((5, 0.7), (6, 0.8), (7, 0.79))}),
        ("In a, the share peaks at", TOP, "", {"profile": curve((0, 0.8))}),
        ("share: minimum (layer 6) minus the lower end", TOP | {"profile": DIP}, "",
         {"profile": curve((6, 0.71), rest=0.8)}),
        ("all layers but 6–7 lie above another one by more than",
         TOP | {"profile": curve((6, 0.2), (7, 0.21), rest=0.8)}, "lies below every other", {"profile": DIP}),
        ("random weights", TOP | {"by": {"random-init": 0.2}}, "add `baselines", {"by": {}}),
        ("peaks at layer 6", TOP | {"by": {"random-init": 0.2}}, "", {"by": {"random-init": PEAK}}),
        # two peaks
        ("A second, smaller peak is at layer 3: 0.52,", kind("extremes",
         profile=np.where(np.arange(K) == 9, 1.0, HILLS)), "",
         {"profile": np.where(np.arange(K) == 9, 1.0, HILLS.clip(0.5))}),
        ("In a, the share peaks at layers 3 and", kind("extremes", profile=BOTH), "A second, smaller peak",
         {"profile": curve((3, 0.7), (9, 0.9))}),
        (("In a, the share peaks twice over the layers: 0.52 at layer 3 and 0.90 at layer 6 of 12,",
         "share, layer 3 minus layer 5, the lowest between the two peaks", "both peaks are higher by more than 0.01"),
         TWICE, "", {"profile": np.where(np.arange(K) == 5, 0.49, BROAD)}),
        ("; the dip is deeper than with random weights", TWICE | {"by": {"random-init": 0.2}}, "add `base", {"by": {}}),
        ("peaks twice over the layers (sinks included): ", TWICE | {"without": 0.2, "records": NO_SINKS},
         "twice over the layers: 0.52", {"without": None}),
        # means over layers against a null baseline, and against chance
        ("share, mean over layers, minus the mean with random weights", TRAINED, "", {"by": {"random-init": 0.71}}),
        ("In a, the share depends on word order: it averages 0.80 over layers, against 0.20 on", WORDS,
         "In a, the share averages 0.80", TRAINED),
        ("averages 0.80 over layers", TRAINED, "averages 0.80 over blocks", {"per": "step", "last": K - 1}),
        ("depends on word order", WORDS, "", {"by": {"shuffled": 0.8}}),
        ("the mean over layers lies within 0.01 of that for", CHANCE, "",
         {"by": {"anisotropy.s0": 0.32, "anisotropy.s1": 0.8}}),
        ("does not differ from chance", CHANCE, "", {"error": 0.01}),
        ("does not differ from chance", CHANCE, "", {"by": {"anisotropy.s0": 0.3, "anisotropy.s1": 0.3}}),
        # sinks
        (("share, layers 4–10: with sinks minus without", "each of these layers differs with and",
         "40 of 1,000 tokens are sinks at some layer", "without sinks, each text's first token is left out as well"),
         AWAY, "", {"without": curve(*((i, 0.95) for i in range(4, 11)), rest=0.1)}),
        ("but 0.10 without sinks", AWAY, "", {"records": NO_SINKS}),
        ("Layer 3 shows a smaller effect.",
         AWAY | {"profile": curve((3, 0.5), *((i, 0.95) for i in range(4, 11)), rest=0.1)}, "",
         {"profile": curve((3, 0.11), *((i, 0.95) for i in range(4, 11)), rest=0.1)}),
        ("Layers 2–3 show a smaller effect.",
         AWAY | {"profile": curve((2, 0.4), (3, 0.5), *((i, 0.95) for i in range(4, 11)), rest=0.1)}, "Layer 3 shows",
         {"profile": curve((3, 0.5), *((i, 0.95) for i in range(4, 11)), rest=0.1)}),
        (" All of the sinks there are the first tokens of their texts.", AWAY | {"sinks": [(0, 2, 12, 100)]},
         " All but at most 3 of the sinks there", {"sinks": [(0, 2, 12, 100), (7, 1, 4, 3)]}),
        ("of the sinks there are the first tokens", AWAY | {"sinks": [(0, 2, 12, 100), (7, 1, 4, 5)]}, "",
         {"sinks": [(0, 2, 12, 100), (7, 1, 4, 6)]}),
        # roles: from three models of each on, the claim is about them
        (("Welch's t over independent models; the", "Hedges' g over models is"),
         APART | {"by": LOW | HIGH | {"a": 0.21, "d": 0.71}}, "each encoder differs from each decoder",
         {"roles": {name: ROLES[name] for name in "bcdef"}}),
        ("share, mean over layers: encoders minus decoders", APART, "", {"by": LOW | HIGH | {"a": 0.9}}),
        ("share, mean over layers: a minus d", PAIR, "share, mean over layers: encoders minus d",
         {"roles": {"a": "encoder", "b": "encoder", "d": "decoder"}, "by": {"a": 0.2, "b": 0.2, "d": 0.7}}),
        ("Encoders and decoders differ in the share", APART, "", {"within_role": True}),
        ("One model of each role: this says nothing", PAIR, "Few models: this",
         {"roles": {"a": "encoder", "b": "encoder", "d": "decoder"}, "by": {"a": 0.2, "b": 0.2, "d": 0.7}}),
        ("The share is 0.20 in the encoder a", PAIR, "", {"by": {"a": 0.2, "d": 0.29}}),
        ("texts begin differently (a with [CLS],", PAIR | {"views": ("text tokens",), "begins": {"a": "[CLS]",
         "d": "word"}}, "", {"views": ("text tokens", "without sinks")}),
        ("texts begin differently", PAIR | {"views": ("text tokens",), "begins": {"a": "[CLS]", "d": "word"}}, "",
         {"begins": {"a": "word", "d": "word"}}),
        ("on average over layers and corpora. ", PAIR | {"corpora": ("c", "d")}, "on average over layers. ",
         {"corpora": ("c",)}),
        # models of one role, corpora
        (("The share ranges from 0.20 in a to 0.50 in b over", ", corrected for 3 pairs of models"), THREE,
         "The share is 0.20 in a and 0.50 in b, on average over layers.", {"roles": dict.fromkeys("ab", "encoder")}),
        ("the interval is over texts: it is about", TWO, "", {"by": {"a": 0.2, "b": 0.205}}),
        ("both models differ by more than 0.01,", TWO, "", {"by": {"a": 0.2, "b": 0.29}}),
        ("the means on both corpora differ by", PLACES, "", {"by": {"c": 0.2, "d": 0.29}}),
        ("is 0.20 on c and 0.60 on d", PLACES | {"grows": "with the corpus"}, "", {"words": (1000, 3000)}),
        (" Also seen in b.", PLACES | {"roles": {"a": "encoder", "b": "encoder"}, "by": {"c": 0.2, "d": 0.6}}, "",
         {"roles": {"a": "encoder"}}),
    ],
}  # fmt: skip
