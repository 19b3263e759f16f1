"""What changed against the base: studies of a model ``new`` from a base ``old``. Not a test."""

from judge.sentences.patterns import text_of

from reporter.judge.questions.changed import CHANGED
from reporter.judge.questions.question import answered

FILES = ("judge/questions/changed.py",)


def reading(
    distances, seeds=None, deviation=None, loss=(0.0, 0.0, 0.0), numbers=(), layers=(4, 4), cosines=None, tokens=(),
    divergence=None, weights=(None, None), words=("␣furious",), linear=(), widen=0.1, moved=None, largest=None,
    paired=(),
):  # fmt: skip
    """Return what reads a study of a model whose distance from its base at each layer is given, ± a tenth."""
    of = {"model": "new", "corpus": "wiki", "view": "text tokens", "n": 100}
    whole = of | {"site": None, "layer": None}
    ends = ("value", "ci_low", "ci_high")

    def rows(statistic, values):
        for layer, x in enumerate(values):
            place = {"checkpoint": "final", "base": "old", "site": "block", "layer": layer, "statistic": statistic}
            yield of | place | dict(zip(ends, (x, x * (1 - widen), x * (1 + widen)), strict=True))

    found = [*rows("distance", distances), *rows("moved", moved or [float(x > 0.001) for x in distances])]
    found += [*rows("cosine", cosines or [1 - x for x in distances]), *rows("distance_seed", seeds or ())]
    found += rows("linear", linear)
    of_model = {"status": "done", "precision": "float32", "precision_deviation": deviation}
    models = [
        of_model | {"model": model, "base": base, "layers": layers[at], "weights": weights[at]}
        for at, (model, base) in enumerate((("new", "old"), ("old", None)))
    ]
    most = divergence if largest is None else (largest, None, None)
    numbers_of = {"kl": divergence, "same_top": (0.9, 0.88, 0.92), "kl_median": (4e-4, 3e-4, 5e-4), "kl_max": most}
    diverges = [
        of | {"n": 10, "statistic": name} | dict(zip(ends, x or (), strict=False)) for name, x in numbers_of.items()
    ]
    losses = [whole | {"name": "loss.lm"} | dict(zip(ends, loss, strict=True))] if loss else []
    tables = {
        "JOIN text_parts": list(numbers),
        "FROM cells": [],
        "FROM studies": [],
        "metric = 'change'": found,
        "metric = 'divergence'": diverges if divergence else [],
        "tuning_words": [{"model": "new", "token": word} for word in words],
        "FROM models": models,
        "FROM differences": [*losses, *paired],
        "moved_tokens": [of | {"token": token} for token in tokens],
    }
    return lambda sql: next(of_table for words, of_table in tables.items() if words in sql)


def number(model, layer, value, half, name="spectrum.effective_rank"):
    of = {"model": model, "checkpoint": "final", "corpus": "wiki", "view": "text tokens", "site": "block", "n": 100}
    ends = (None, None) if half is None else (value - half, value + half)
    return of | {"name": name, "layer": layer, "value": value} | dict(zip(("ci_low", "ci_high"), ends, strict=True))


def cosines(change, half=1e-5, name="motion.step_cosine"):
    """Numbers of four layers, one of which changed at layer 2; the minimum meaningful difference is 0.01."""
    return [
        number(model, layer, 0.9 - change * (model == "new" and layer == 2), half, name)
        for model in ("old", "new")
        for layer in range(4)
    ]


MAIN = ("motion.step_cosine", "anisotropy.mean_cosine", "anisotropy.top_variance_share", "convergence.similarity")


def change(**given):
    """Return the answer about a model whose states changed from layer 2 on, unless the keywords say otherwise."""
    return text_of(answered(CHANGED, "s", reading(**{"distances": FROM_2} | given)))


def lacking(models=(), distance=None, why="", **more):
    """Return the answer of a study that lacks something."""
    rows = (
        [] if distance is None else [row | {"value": distance or None} for row in reading([1.0])("metric = 'change'")]
    )
    cells = [{"model": "new", "corpus": "wiki", "error": why, "reasons": None}] if why else []
    read = reading(**{"distances": []} | more)

    def ask(sql):
        if "SELECT model, base" in sql:
            return [dict(zip(("model", "base", "layers"), model, strict=True)) | FACTS for model in models]
        return (
            cells
            if "(FROM cells" not in sql and "FROM cells" in sql
            else rows
            if "metric = 'change'" in sql
            else read(sql)
        )

    return text_of(answered(CHANGED, "s", ask))


FACTS = {"precision": "float32", "precision_deviation": None, "weights": None}
FROM_2, NONE, ALL = [0, 0, 0.2, 0.2, 0.2], [0] * 5, [0.1, 0.2, 0.5, 0.6, 0.9]
HASHES = '{"embeddings": "a", "1": "b", "2": "c", "3": "d", "4": "e"}'
ONE, TWO = HASHES.replace('"c"', '"x"'), HASHES.replace('"c"', '"x"').replace('"b"', '"y"')
THREE = TWO.replace('"d"', '"z"')
SAME, LITTLE, MUCH = (4e-4, 2e-4, 9e-4), (4e-4, 2e-4, 2e-3), (0.008, 0.006, 0.012)
SMALL = [0, 0, 0.06, 0.06, 0.06]
TINY = [0, 0, 0.004, 0.004, 0.004]
PAIRED = [number("new", layer, -0.02, 1e-3, "motion.step_cosine") for layer in range(4)]
BOTH = (("new", "old", 4), ("old", None, 4))

CASES = {
    "change": [
        # which records the verdict needs
        ("new against old, on wiki", {}, "", {"distances": []}),
        ("Verdict: changed from layer 2 on.", {}, "Verdict: changed from the embedding on.", {"distances": ALL}),
        ("None of 100 states moved by more than rounding at any layer", {"distances": NONE}, "first at layer 4",
         {"distances": [0] * 4 + [1e-4], "moved": [0] * 4 + [0.01], "widen": 1.0}),
        (("Verdict: indistinguishable from the base on these texts. ", "Other texts may show a change."),
         {"distances": NONE}, ("Verdict: changed in the predictions alone.", "Other texts may show a larger change"),
         {"loss": (0.3, 0.2, 0.4)}),
        ("texts (mean divergence below 0.001 nats)", {"divergence": SAME}, "a small change from layer 2 on (mean",
         {"divergence": LITTLE}),
        ("(mean divergence below 0.001 nats)", {"divergence": SAME, "distances": NONE}, "", {"divergence": None}),
        ("from layer 2 on (mean divergence not below 0.01 nats)", {"divergence": MUCH},
         "in the predictions alone (mean divergence not below", {"distances": NONE}),
        ("Verdict: changed from layer 2 on (mean div", {"divergence": MUCH}, "Verdict: changed from layer 2 on. ",
         {"divergence": (0.008, None, None)}),
        ("a small change from layer 2 on (states", {"distances": SMALL}, "", {"distances": [0, 0, 0.06, 0.092, 0.06]}),
        ("indistinguishable from the base on these", {"distances": TINY}, "Verdict: a small",
         {"distances": [0, 0, 0.0095, 0, 0]}),
        # noise: a second seed, or products in bf16
        (("Verdict: not changed significantly more than another", "No layer differs significantly from"),
         {"distances": ALL, "seeds": ALL}, "States differ from the base by more", {"seeds": [0.1, 0.19, *[0.2] * 3]}),
        ("No layer differs significantly from", {"distances": [0, 0.004, 0.005, 0.006, 0.007], "deviation": 0.01},
         "States differ from the base by more", {"distances": [0, 0.004, 0.005, 0.006, 0.02]}),
        ("from the base by more than bf16 rounding", {"distances": [0.02] * 5, "deviation": 0.01},
         "States differ from the base: first at", {"deviation": None}),
        ("from the base by more than a different", {"distances": ALL, "seeds": NONE}, "from the base: first at",
         {"seeds": None}),
        # where states differ
        ("; up to layer 1 states are unchanged", {}, "; the embedding is unchanged", {"distances": [0, *[0.2] * 4]}),
        ("; the embedding is unchanged. At the", {"distances": [0, *[0.2] * 4]}, "by 0.2 of their norm. At",
         {"distances": [0.2] * 5}),
        ("At the last layer they differ by 0.20", {}, "", {"distances": NONE}),
        ("The distance grows most at layer 3.", {"distances": [0, 0, 0.1, 0.4, 0.5]}, "",
         {"distances": [0, 0, 0.3, 0.4, 0.5]}),
        ("A linear map from the states of the", {"linear": [0.98] * 5}, "No linear map from the states of the",
         {"linear": [0.0] * 5}),
        ("No linear map from the states", {"linear": [-0.1] * 5}, "", {"linear": ()}),
        # the predictions
        ("The mean divergence is 0.00040 [0.00020, 0.00090] nats,", {"divergence": SAME}, "", {"divergence": None}),
        ("The most likely token is the same for", {"divergence": SAME}, "", {"divergence": None}),
        ("One token makes up 10 % of the mean.", {"divergence": SAME}, "", {"largest": 1.9e-4}),
        ("The interval of the mean is too narrow", {"divergence": SAME}, "", {"divergence": (4e-4, None, None)}),
        # the weights and the blocks
        ("changed from layer 2 on; of the blocks, only block 2 has other weights.", {"weights": (ONE, HASHES)}, "",
         {"distances": NONE}),
        ("(states differ by less than 0.01 of their norm on average at every layer); of the blocks, only",
         {"weights": (ONE, HASHES), "distances": TINY}, "Verdict: changed", {"distances": FROM_2}),
        ("The embedding has exactly the weights of the base.", {"weights": (ONE, HASHES)}, "",
         {"weights": (ONE.replace('"a"', '"y"'), HASHES)}),
        ("only blocks 1–2 have other weights.", {"weights": (TWO, HASHES)}, "Block 4 and the embedding have exactly",
         {"weights": (THREE, HASHES)}),
        ("exactly the weights of the base", {"weights": (THREE, HASHES)}, "", {"distances": NONE}),
        ("exactly the weights of the base", {"weights": (THREE, HASHES)}, "", {"weights": (THREE, None)}),
        ("The model has 1 block fewer than its base.", {"distances": [0, 0, 0.3, 0.3], "layers": (3, 4)}, "",
         {"layers": (3, 3)}),
        ("first block that is missing", {"distances": [0, 0, 0.3, 0.3], "layers": (3, 4)}, "",
         {"seeds": [0, 0, 0.1, 0.1]}),
        ("The model has 1 block fewer than", {"layers": (4, 5)}, "The model has 1 block more than", {"layers": (5, 4)}),
        ("After a missing or an added block", {"layers": (4, 5)}, "", {"distances": NONE}),
        # the loss, whose minimum meaningful difference is 0.01
        ("The loss is unchanged.", {}, "The loss changes by +0.0010 [−0.0020,", {"loss": (0.001, -0.002, 0.004)}),
        ("The loss rises significantly: +0.30 [0.20, 0.40] nats.", {"loss": (0.3, 0.2, 0.4)},
         "which is not significant", {"loss": (0.3, 0.0, 0.6)}),
        ("The loss falls significantly: −0.3", {"loss": (-0.3, -0.4, -0.2)}, "not significant",
         {"loss": (-0.3, -0.6, 0.0)}),
        ("The loss rises significantly", {"loss": (0.3, 0.2, 0.4)}, "The loss falls significantly",
         {"loss": (-0.3, -0.4, -0.2)}),
        ("nats, less than the minimum meaningful difference of 0.01.", {"loss": (0.008, 0.005, 0.009)},
         "The loss rises significantly", {"loss": (0.008, 0.005, 0.011)}),
        ("nats, with too few texts for an interval.", {"loss": (0.3, None, None)}, "which is not significant",
         {"loss": (0.3, -0.1, 0.7)}),
        ("the change of the loss is unknown: add `loss`", {"loss": None}, "The loss is unchanged.",
         {"loss": (0.0, 0.0, 0.0)}),
        ("the divergence of the predictions is unknown: add `divergence`", {}, "", {"divergence": SAME}),
        # main statistics
        ("1 main statistic changes significantly, by the minimum meaningful difference or more: cosine of consecutive "
         "states at block 3 from 0.90000 to 0.88000.", {"numbers": cosines(0.02)},
         "No main statistic changes enough to matter:",
         {"numbers": cosines(0.0004)}),
        ("4 main statistics change significantly, by the minimum meaningful difference or more:",
         {"numbers": [row for name in MAIN for row in cosines(0.3, name=name)]}, "1 main statistic changes",
         {"numbers": cosines(0.3)}),
        (", and 1 more.", {"numbers": [row for name in MAIN for row in cosines(0.3, name=name)]}, "",
         {"numbers": [row for name in MAIN[:2] for row in cosines(0.3, name=name)]}),
        ("No main statistic changed significantly.", {"numbers": cosines(0.02, half=0.1)},
         "No change of a main statistic was tested.", {"numbers": cosines(0.02, half=None)}),
        ("the largest significant change is 0.04 of the minimum meaningful", {"numbers": cosines(0.0004)},
         "No main statistic changed significantly.", {"numbers": cosines(0.0004, half=0.001)}),
        ("1 main statistic changes significantly", {"numbers": cosines(0.02)}, "", {"distances": NONE}),
        ("No main statistic changed significantly.", {"numbers": cosines(0.0)}, "", {"numbers": ()}),
        (", not paired", {"numbers": cosines(0.02)}, "", {"paired": PAIRED}),
        ("Intervals of the table, and what is significant, are corrected for the", {"numbers": cosines(0.02)}, "",
         {"numbers": cosines(0.02, half=None)}),
        # tokens
        ("Tokens that moved most on average: `` ` ``, `the`.", {"tokens": ["`", "the"]}, "", {"distances": NONE}),
        ("Words read from the mean change of early tokens: `␣furious`.", {}, "", {"distances": SMALL}),
    ],
    "lacking": [
        ("no model has a base, the model that", {"models": (("new", None, 4),)},
         "no model was compared with its base: add `change`", {"models": BOTH}),
        ("no model was compared with its base", {"models": BOTH}, "new on wiki: out of memory",
         {"why": "out of memory"}),
        ("new on wiki cannot be compared with its base: a", {"models": BOTH, "distance": 0.0}, "", {"distance": None}),
        ("a measurement failed", {"models": BOTH, "distance": 0.0}, "cannot be compared with its base: too few",
         {"why": "too few"}),
    ],
}  # fmt: skip
