"""Answers of a few sentences, claims, and what a study lacks for an answer. Not a test."""

from judge.sentences.patterns import text_of

from reporter.judge.questions import stated
from reporter.judge.questions.alike import ALIKE
from reporter.judge.questions.concepts import CONCEPTS
from reporter.judge.questions.depth import DEPTH
from reporter.judge.questions.paths import PATHS
from reporter.judge.questions.probes import PROBED
from reporter.judge.questions.question import Answer, answered, markdown
from reporter.judge.questions.sinks import SINKS
from reporter.judge.questions.training import TRAINING

NAMES = ("__init__", "alike", "concepts", "depth", "paths", "probes", "question", "sinks", "training")
FILES = tuple(f"judge/questions/{name}.py" for name in NAMES)
OF = {"model": "dec", "checkpoint": "final", "corpus": "wiki", "view": "text tokens"}


def shown(question, **tables):
    """Return the answer of stored records."""
    return text_of(Answer(question, tables))


def lacking(question, sources=("path",), read=()):
    """Return what a study lacks for an answer, given the rows of some queries by a word of each."""
    rows = {"DISTINCT source": [{"source": source} for source in sources], **dict(read)}
    return text_of(answered(question, "s", lambda sql: next((own for word, own in rows.items() if word in sql), [])))


def alike(p=0.005, pairs=(("cka", 2, 11),), searched=1):
    of = {"model_a": "enc", "model_b": "dec", "corpus": "wiki", "value": 0.8, "threshold": 0.35, "calibrated": 0.69}
    of |= {"ci_low": 0.56, "ci_high": 0.79, "p": p, "pairs": 217, "p_searched": p, "searched": searched}
    rows = [of | {"statistic": name, "layer_a": a, "layer_b": b} for name, a, b in pairs]
    return shown(ALIKE, alike_answers=rows)


def depth(exit=(0.83, 0.81, 0.85), near=(24, 24, 25), turn=None):
    values = {"lens.exit": exit, "lens.depth": near, "contributions.turn": turn}
    rows = [
        OF | {"number": name, "blocks": 30} | dict(zip(("value", "ci_low", "ci_high"), value, strict=True))
        for name, value in values.items()
        if value
    ]
    return shown(DEPTH, depth_answers=rows if exit else [])


def sinks(rows=1, token="the", types=1, dimension=7, ratio=20.0):
    first = {"token": token, "types": types, "dimension": dimension, "texts": 23, "measured": 40, "count": 46}
    first |= {"position_first": 0, "position_last": 0, "layer_first": 2, "layer_last": 9, "norm_ratio": ratio}
    return shown(SINKS, sink_answers=[OF | first | {"number": number} for number in range(1, rows + 1)])


def paths(tokens=1, rank=0, left=0, near="bank banks", asked=0, pairs=(), any_two=0.3):
    """Return the answer about the tokens of a trajectory, the first of which leaves its vector.

    ``pairs``: the cosines at the embedding and at the last layer of the first token with each of the next.
    """
    of = OF | {"journey": "mine", "text": 1, "token": "bank", "layers": 6, "nearest": near}
    rows = [
        of | {"position": i, "rank": 0 if i else rank, "left": None if i or not rank + left else 4}
        | {"asked": not asked or i < asked}
        for i in range(tokens)
    ]  # fmt: skip
    names = {"text_a": 1, "position_a": 0, "token_a": "bank", "token_b": "bank", "layers": 6, "any_two": any_two}
    both = [
        of | names | {"text_b": 1, "position_b": i, "first": first, "last": last}
        for i, (first, last) in enumerate(pairs, 1)
    ]
    return shown(PATHS, journey_answers=rows, journey_pair_answers=both)


def training(**numbers):
    """Return the answer about main statistics, each with the steps of its half-way point (low, at, high), or turn."""
    rows = []
    for name, kinds in numbers.items():
        if kinds == "":
            continue
        metric, statistic = ("anisotropy", name) if name != "step_cosine" else ("motion", name)
        of = OF | {"metric": metric, "statistic": statistic, "value": 0.5, "first": 0.1, "last": 0.8, "checkpoints": 6}
        rows.append(of | {"kind": "rest", "step": 1000})
        for kind, (low, at, high) in (kinds or {}).items():
            rows.append(of | {"kind": kind, "step": at, "step_low": low, "step_high": high, "size": 0.4})
    return shown(TRAINING, training_answers=rows)


def concepts(pairs=12, p=0.0851, same_token=None, pooling="last", strongest=2, **shared):
    """Return the answer about concepts, each with a mark for each of four layers: whether it is a shared direction."""
    rows = [
        OF | {"pair_set": "set", "concept": concept, "layer": layer, "pooling": pooling, "same_token": same_token}
        | {"shared": mark == "x", "consistency": 0.6, "ci_low": 0.5, "ci_high": 0.7, "chance": 0.1}
        | {"strongest": layer == strongest, "alike": mark == "x", "n": pairs, "p": 0.01 if mark == "x" else p}
        for concept, marks in shared.items()
        if marks
        for layer, mark in enumerate(marks)
    ]  # fmt: skip
    return shown(CONCEPTS, concept_answers=rows)


def probes(base=(), layers=(), statistic="linear"):
    """Return the answer about probes: differences from the base by layer, and between layers, with their intervals."""
    of = OF | {"probe": "mood", "statistic": statistic, "last": True, "n": 60}
    rows = []
    for i, (x, low, high) in enumerate(base):
        row = {"kind": "base", "other": "old", "layer": i, "layer_b": i, "value": x, "ci_low": low, "ci_high": high}
        rows.append(of | row | {"apart": low is not None and not low <= 0 <= high})
    for i, apart in enumerate(layers):
        rows.append(of | {"kind": "layers", "other": "dec", "layer": i, "layer_b": i + 1, "apart": apart})
    return shown(PROBED, probe_differences=rows)


CLAIM = {"claim": "c", "number": 1, "reading": 1, "says": "A is large.", "view": "text tokens", "baseline": None}
CLAIM |= {"detail": None}
CLAIM |= {"registration": None, "verdict": "supported", "value": 0.9, "ci_low": 0.8, "ci_high": 0.95}
OF_MODEL = [{"claim": "c", "model": "bert", "verdict": "refuted", "value": 0.2, "ci_low": 0.1, "ci_high": 0.3}]
FINDING = {"says": "In m it peaks.", "value": 0.5, "ci_low": 0.4, "ci_high": 0.6, "looked_at": 1234}


def claims(rows=(CLAIM,), by_model=(), findings=()):
    tables = {"claims_by_model": by_model, "FROM claims": rows, "FROM findings": findings}
    only = ("claims", "findings")
    return markdown(stated(lambda sql: next(own for words, own in tables.items() if words in sql), only))


def unanswered(lacks=(), asked=True, **tables):
    return markdown([Answer(DEPTH, tables, lacks)], asked)


COSINE, VARIANCE = {"half-way": (10, 100, 1000)}, {"half-way": (1000, 2000, 4000)}
TURN = {"turn": (10, 100, 1000)}
MANY = {"a": "xxxx", "b": "..xx", "c": "...x", "d": "...."}
MORE_CONCEPTS = dict.fromkeys("abcdefgh", "..xx")
FIRST = {"rows": 1, "token": None, "types": 5}
MORE, LESS, OPEN = (0.2, 0.1, 0.3), (-0.2, -0.3, -0.1), (0.2, 0.0, 0.4)
EXIT = OF | {"number": "lens.exit", "blocks": 3, "value": 0.5, "ci_low": None, "ci_high": None, "n": 9}
LISTED = [{"model": "dec", "corpus": "wiki", "tokens": 6017, "texts": 60, "sinks": 312, "listed": False}]

CASES = {
    "alike": [
        (("Layer 2 of enc and layer 11 of dec are the most similar by all distances (CKA): calibrated 0.69 [0.56, "
         "0.79] (0: chance, 1: same). Chance does", "enc and dec on wiki", "Two models with random weights are alike "
         "too, since both read the"), {}, "", {"pairs": ()}),
        ("Chance does not explain this similarity", {"p": 0.049}, "Chance may explain this similarity", {"p": 0.051}),
        ("by all distances (CKA)", {}, "by shared neighbours", {"pairs": (("knn", 3, 4),)}),
        ("shared neighbours | 3 and 4", {"pairs": (("cka", 2, 11), ("knn", 3, 4))}, "", {"pairs": (("cka", 2, 11),)}),
    ],
    "depth": [
        (", and the lens stays within 1 nat of the output from", {},
         ", and the lens stays within 1 nat of the output at", {"near": (30, 29, 30)}),
        (("share of the depth after which the most likely token stays the", "The head was trained for the last layer."),
         {}, "", {"exit": None}),
        ("of the depth on average.", {"near": None}, (", and the lens stays within 1 nat of the output",
         "first layer from which the divergence"), {"near": (24, None, None)}),
        ("block after which updates amplify the stream", {"turn": (28, 28, 28)}, "", {"turn": None}),
    ],
    "sinks": [
        ("`the` is a sink in 23 of 40 texts: blocks 2–9,", {}, "", {"rows": 0}),
        (", on dimension 7", {}, "", {"dimension": None}),
        ("`the` is a sink", {}, "The first token of a text, any of 5, is a sink in 23 of 40 texts: blocks 2–9, most",
         FIRST),
        ("any of 5 tokens", FIRST, "", {"token": "the"}),
        ("most often on", FIRST, "", {"dimension": None}),
        ("; 1 other token is a sink as well.", {"rows": 2}, "; 2 other tokens are sinks as well.", {"rows": 3}),
        ("as well", {"rows": 2}, "times the median of its text. The", {"rows": 1}),
        ("The table sink_answers has 1 more.", {"rows": 13}, "", {"rows": 12}),
        (("Near the limit of the rule: no norm exceeds 3.9 medians.", "another limit counts more or fewer"),
         {"ratio": 3.9}, "", {"ratio": 4.1}),
    ],
    "paths": [
        (("`bank` of text 1 stays nearest to its own vocabulary vector up to layer 6, followed by `banks`.",
          "These are single tokens, not a"), {}, "", {"tokens": 0}),
        ("`bank` of text 1 stays", {}, "`bank` of text 1 leaves its own vocabulary vector at layer 4 and is nearest to "
         "it again at layer 6, followed by `banks`.", {"left": 1}),
        ("nearest to it again", {"left": 1}, "leaves its own vocabulary vector at layer 4; at layer 6, 2 other entries "
         "are nearer: `bank` and `banks`.", {"rank": 2}),
        ("2 other entries are nearer", {"rank": 2}, "1 other entry is nearer: `bank`.", {"rank": 1}),
        ("2 other entries are nearer: ", {"rank": 2}, "4 other entries are nearer, first of all `bank`", {"rank": 4}),
        ("of text 1 stays nearest", {"tokens": 4, "asked": 1}, "", {"asked": 0}),
        ("All 4 tokens stay nearest to their own vocabulary vector up to layer 6.", {"tokens": 4}, "", {"tokens": 3}),
        ("All 4 tokens", {"tokens": 4}, "At layer 6, 3 tokens of 4 are nearest to their own vocabulary vector. `bank` "
         "of text 1 is farthest from its own: 1,200 other entries are nearer, first of all `bank` and `banks`.",
         {"rank": 1200}),
        ("All 2 tokens", {"tokens": 2, "asked": 1}, "", {"asked": 0}),
        ("`bank` of text 1 and `bank` of text 1 have a cosine of 0.99 at the embedding and 0.8 at layer 6, where any "
         "two tokens have 0.3 on average.", {"tokens": 2, "pairs": [(0.99, 0.8)]}, "", {"pairs": ()}),
        (", where any two", {"tokens": 2, "pairs": [(0.99, 0.8)]}, "0.8 at layer 6.", {"any_two": None}),
        ("have a cosine of", {"tokens": 2, "pairs": [(0.99, 0.8)]}, "", {"asked": 1}),
        ("The table journey_answers has 3 more.", {"tokens": 15}, "", {"tokens": 12}),
        ("The table journey_pair_answers has 1 more.", {"tokens": 3, "pairs": [(0.9, 0.8), (0.9, 0.7)]}, "",
         {"pairs": [(0.9, 0.8)]}),
    ],
    "training": [
        (("None of 1 main statistics changes significantly,", "Numbers are means over all layers at 6 checkpoints."),
         {"mean_cosine": None}, "", {"mean_cosine": ""}),
        (("None of 1 main statistics",), {"mean_cosine": None}, "Another seed may change at other steps",
         {"mean_cosine": COSINE}),
        ("No other of 2 main statistics changes significantly.", {"mean_cosine": COSINE, "step_cosine": None},
         "1 more of 2 main statistics changes significantly: cosine of consecutive states.", {"step_cosine": VARIANCE}),
        ("1 more of 3 main statistics changes", {"mean_cosine": COSINE, "step_cosine": COSINE, "top_variance_share":
         None}, "2 more of 3 main statistics change significantly", {"top_variance_share": COSINE}),
        ("The mean cosine of two tokens is the first to reach half of its change (between steps 10 and 1,000).",
         {"mean_cosine": COSINE, "step_cosine": VARIANCE}, "", {"step_cosine": {"half-way": (999, 2000, 4000)}}),
        ("The cosine of consecutive states is the last (between steps 1,000 and 4,000).",
         {"mean_cosine": COSINE, "step_cosine": VARIANCE}, "", {"step_cosine": {"half-way": (999, 2000, 4000)}}),
        ("Mean cosine of two tokens rises from 0.10 to 0.80, on average over all layers, embedding included; half of "
         "it is reached by step 100 [10, 1,000].",
         {"mean_cosine": COSINE}, "Mean cosine of two tokens rises from 0.10 to 0.50 between steps 10 and 1,000 "
         "and falls to 0.80 by the end, on average over all layers, embedding included.", {"mean_cosine": TURN}),
        ("to 0.50 between steps 10 and 1,000 and falls", {"mean_cosine": TURN},
         "to 0.50 at step 100 and", {"mean_cosine": {"turn": (100, 100, 100)}}),
        ("rises from 0.10 to 0.80", {"mean_cosine": COSINE}, "", {"mean_cosine": None}),
        ("on average over all layers, embedding", {"mean_cosine": COSINE}, ", on average over all blocks; half",
         {"mean_cosine": None, "step_cosine": COSINE}),
        ("Not monotonic: cosine of consecutive states.", {"mean_cosine": TURN, "step_cosine": TURN}, "",
         {"step_cosine": COSINE}),
    ],
    "concepts": [
        (("dec, pairs set: `a` is a shared direction from layer 2 on, strongest at layer 2 (0.6; chance",
         "A shared direction shows what states contain, not", "A concept is a shared direction at layers"),
         {"a": "..xx"}, "", {"a": ""}),
        ("from layer 2 on", {"a": "..xx"}, "`a` is a shared direction in layers 1–2, strongest", {"a": ".xx."}),
        ("is a shared direction in layer 3, strongest", {"a": "...x"}, "from layer 2 on", {"a": "..xx"}),
        ("`a` is a shared direction", {"a": "..x."}, "`a` is not shown to be a shared direction at any layer (smallest",
         {"a": "...."}),
        ("a | not tested", {"a": "....", "strongest": 9}, "a | not shown at any layer (smallest corrected p 0.085) | 2",
         {"strongest": 2}),
        ("is not shown to be a shared direction at any layer (4", {"a": "....", "pairs": 4},
         "at any layer (smallest corrected p 0.085).", {"pairs": 6}),
        ("at any layer (smallest corrected p 0.085)", {"a": "...."}, "(smallest corrected p 0.12)", {"p": 0.12}),
        ("at any layer (smallest corrected p 0.085) |", {"a": "...."}, "a | from layer 2 on |", {"a": "..xx"}),
        ("for the layers and the 2 concepts of the set.", {"a": "..xx", "b": "...."}, "corrected for the layers.",
         {"b": ""}),
        ("3 of 4 concepts are shared directions at some layer: `a`, `b` and `c`; not shown for `d` (smallest corrected",
         MANY, "4 of 4 concepts are shared directions at some layer: `a`, `b`, `c` and `d`.", {"d": "...x"}),
        ("`f` and 2 more.", MORE_CONCEPTS, "`f` and `g`.", {"h": ""}),
        ("3 of 4 concepts are shared", MANY, "`a` is a shared direction", {"d": ""}),
        ("; not shown for", MANY, "0 of 4 concepts are shared directions at some layer.",
         dict.fromkeys("abc", "....")),
        ("1 of them is so at the embedding already: a word", MANY, "2 of them are so at", {"b": "x.xx"}),
        (("of them is", "a word that all second texts share is enough for that, and says nothing"), MANY, "",
         {"a": ".xxx"}),
        ("It is so at the embedding", {"a": "x.xx"}, "", {"a": "..xx"}),
        ("Warning: all texts of these pairs end in", {"a": "..xx", "same_token": "."}, "", {"same_token": None}),
    ],
    "probes": [
        (("dec against old: The linear probe `mood` is more accurate at layer 1 than",
         "Intervals are paired over texts and"), {"base": [OPEN, MORE]}, "", {"base": []}),
        ("is more accurate at layer 1 than on old.", {"base": [OPEN, MORE]},
         "is not significantly more or less accurate", {"base": [OPEN, OPEN]}),
        ("not significantly more or less", {"base": [(0.2, None, None)]}, "less accurate at layer 0 than on",
         {"base": [LESS]}),
        ("The linear probe", {"base": [MORE]}, "The one-hidden-layer probe", {"statistic": "hidden"}),
        ("dec: 1 of 2 pairs of layers differ significantly. Layers are compared on the",
         {"base": [MORE], "layers": [True, False]}, "", {"layers": []}),
        ("dec: No layer of a model is significantly better than another. Layers are compared",
         {"base": [MORE], "layers": [False, False]}, "2 of 2 pairs of layers differ", {"layers": [True, True]}),
    ],
    "claims": [
        ("**Verdicts**: 1 supported, corrected for the number of claims.", {}, "", {"rows": ()}),
        ("| the same | without sinks |", {"rows": (CLAIM, CLAIM | {"reading": 2, "view": "without sinks"})}, "",
         {"rows": (CLAIM, CLAIM | {"claim": "d"})}),
        ("**Model by model**: the verdict of each", {"by_model": OF_MODEL}, "", {"by_model": ()}),
        ("**Exploratory**: corrected for 1,234 tests.", {"findings": [FINDING]}, "", {"findings": ()}),
    ],
    "unanswered": [
        ("Nothing found in the numbers of this study.", {}, "no lens", {"lacks": ("no lens",)}),
        ("Not answered by this study: depth. `reporter answer STUDY --only NAME` says what to add.", {"asked": False},
         "**How deep does the model work?** no lens", {"asked": True, "lacks": ("no lens",)}),
        ("Not answered here: ", {"lacks": ("no lens",), "depth_answers": [EXIT]}, "", {"lacks": ()}),
    ],
    "lacking": [
        ("no two models were compared: add `layer_pairs`", {"question": ALIKE}, "", {"question": DEPTH}),
        ("no token was followed: add `journeys: {mine: {texts:", {"question": PATHS}, "", {"question": DEPTH}),
        ("no layer was read: add `metrics: [lens, contributions]`", {"question": DEPTH}, "The most likely token",
         {"read": {"FROM layer_metrics": [EXIT]}}),
        ("no pairs of texts that differ in one", {"question": CONCEPTS}, "",
         {"read": {"FROM pair_directions": [{"model": "dec", "checkpoint": "final"}]}}),
        ("no model has 3 checkpoints with a known", {"question": TRAINING, "read": {"AS steps FROM": [{"steps": 2}]}},
         "no main statistic with an interval was", {"read": {"AS steps FROM": [{"steps": 3}]}}),
        ("no probe: add `probes: {mine: {words:", {"question": PROBED}, "probe wiki of dec has no accuracy: one label",
         {"read": {"FROM cells": [OF | {"error": "one label", "reasons": None}]}}),
        (". Models of saved `states` cannot run and are left out", {"question": DEPTH, "sources": ("path", "states")},
         "", {"sources": ("path",)}),
        ("; add a model by `hub`, `path` or `recipe`", {"question": DEPTH, "sources": ("states",)}, "",
         {"sources": ("path", "states")}),
        ("no model has read a corpus: add a corpus", {"question": SINKS}, "312 of 6,017 tokens of wiki are sinks",
         {"read": {"AS listed": LISTED}}),
        ("are sinks in dec; to list them", {"question": SINKS, "read": {"AS listed": LISTED}}, "",
         {"read": {"AS listed": [LISTED[0] | {"sinks": 0}]}}),
    ],
}  # fmt: skip
