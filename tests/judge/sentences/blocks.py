"""Which blocks can be removed: a model with four blocks and the trial ``t``. Not a test."""

from judge.sentences.patterns import text_of

from reporter.judge.questions.blocks import BLOCKS
from reporter.judge.questions.question import answered

FILES = ("judge/questions/blocks.py",)


def without(blocks, change, half, twice=None, ends=(None, None), by="loss", weights=None, unigram=None):
    """A set of blocks that was removed: the change of the loss, ± half; and the best repetition."""
    model = {"model": "dec", "checkpoint": "final", "item": "t", "by": by, "proposal": 1, "tokens": 400}
    low, high = (None, None) if half is None else (change - half, change + half)
    repeated = {"twice": twice, "twice_change": -0.2, "twice_low": ends[0], "twice_high": ends[1]} if twice else {}
    sizes = {"many": len(blocks.split("–")), "blocks": blocks, "whole": 4.5}
    sizes |= {"weights": weights, "products": weights, "unigram_entropy": unigram}
    return model | sizes | repeated | {"change": change, "change_low": low, "change_high": high}


def trial(changes, influences=(0.5, 0.2, 0.1, 0.6), lows=(0.1,) * 4, half=0.1, item="t", rank=(0.4, 0.1, 0.7)):
    """Numbers of the blocks of a trial: what each costs, its influence, and the lower end of its excess."""
    rows = [("rank_influence", None, *rank, 4), ("stability", None, 0.9, None, None, 60)] if rank else []
    for layer, (change, influence, low) in enumerate(zip(changes, influences, lows, strict=True)):
        rows.append(("change", layer, change, change - half, change + half, 9))
        rows.append(("influence", layer, influence, None, None, 9))
        rows.append(("excess", layer, change - min(changes), low, 0.5, 9))
    names = ("statistic", "layer", "value", "ci_low", "ci_high", "n")
    model = {"model": "dec", "checkpoint": "final", "item": item}
    return [model | dict(zip(names, row, strict=True)) for row in rows]


def answer(tried=(), singles=(), others=(), cells=()):
    """Answer which blocks can go, from the sets that were removed and the numbers of single blocks."""

    def read(sql):
        return tried if "FROM skipped" in sql else [*singles, *others] if "AS item" in sql else cells

    return answered(BLOCKS, "s", read)


def blocks(**given):
    return text_of(answer(**given))


def of(*tried):
    return {"tried": tried}


SAFE, COSTS = without("3", 0.0, 0.005), without("3", 0.3, 0.1)
ORDER = {"tried": [SAFE], "singles": trial([0.9, 0.4, 0.1, 0.2])}
FALLS = {"tried": [without("4", -0.3, 0.1)], "singles": trial([0.6, 0.5, 0.3, -0.3])}
REPEATED = of(without("3", 0.1, 0.1, "2–3", (-0.3, -0.1)))
FAILED = [{"model": "dec", "corpus": "t", "error": "out of memory", "reasons": None}]

CASES = {
    "blocks": [
        (("Other texts may need other blocks", "Each row is the best of up to four sets"), of(SAFE),
         "no block was removed: add `skip: {trial:", of()),
        ("no block was removed", {}, "dec, t: the loss is unknown: out of memory", {"cells": FAILED}),
        ("Block 3 can be removed without a rise", of(SAFE), "may be removable: the loss does not",
         of(without("3", 0.0, 0.02))),
        ("Block 3 can be removed without a rise of the loss.", of(without("3", -0.1, 0.1)),
         "a rise of the loss by more than +0.001 nats", of(without("3", -0.1, 0.101))),
        ("Block 3 may be removable", of(without("3", 0.09, 0.1)), "No tested set of blocks can be removed without a",
         of(without("3", 0.11, 0.1))),
        ("No tested set of blocks can be removed", of(COSTS), "", of(without("3", 0.3, None))),
        ("No tested set of blocks can be removed", of(COSTS), "Blocks 2–3 may be removable", of(COSTS,
         without("2–3", 0.3, 0.4))),
        ("can be removed without", of(SAFE), "", of(without("3", 0.0, None))),
        ("That saves 20 % of the weights and 20 % of the multiplications; the perplexity is 1 times that of the whole "
         "model.",
         of(without("3", 0.0, 0.005, weights=0.2)), "", of(SAFE)),
        # single blocks; the interval of each is corrected for all
        ("Without block 4 the loss falls significantly:", FALLS, "", {"singles": trial([0.6, 0.5, 0.3, -0.11])}),
        ("A model that predicts better without a block fits these texts poorly.", FALLS, "", ORDER),
        ("fits these texts poorly.", FALLS, "poorly: the token frequencies of its training texts alone give 4.20.",
         of(without("4", -0.3, 0.1, unigram=4.2))),
        ("The loss also falls significantly without block 3 alone.", FALLS | {"singles": trial([0.6, 0.5, -0.2, -0.3])},
         "", {"singles": trial([0.6, 0.5, -0.11, -0.3])}),
        ("The loss also falls significantly without blocks 1, 3 alone.",
         FALLS | {"singles": trial([-0.25, 0.5, -0.2, -0.3])}, "without block 3 alone",
         {"singles": trial([0.6, 0.5, -0.2, -0.3])}),
        ("Without block 3 the loss changes least:", ORDER, "changes least: by +0.2",
         {"singles": trial([0.9, 0.4, 0.3, 0.2])}),
        ("Without block 3 the loss changes least", ORDER, "Without block 3 the loss changes by", {"singles": ()}),
        (", though block 3 alone raises it significantly.",
         ORDER | of(without("3–4", 0.0, 0.005)) | {"singles": trial([0.6, 0.5, 0.3, -0.3])}, "",
         {"singles": trial([0.6, 0.5, 0.1, -0.3])}),
        (", though blocks 2–3 alone raise it significantly.",
         ORDER | of(without("2–3", 0.0, 0.005)) | {"singles": trial([0.6, 0.5, 0.3, -0.3])}, "", of(SAFE)),
        ("Block 4 does not differ significantly from block 3.",
         {"tried": [SAFE], "singles": trial([0.9, 0.4, 0.1, 0.2], lows=(0.3, 0.2, 0, 0))}, "",
         {"singles": trial([0.9, 0.4, 0.1, 0.2], lows=(0.3, 0.2, 0, 0.01))}),
        ("Block 3 also turns the states least (influence).", ORDER, "Block 2 turns the states least (influence), but "
         "removing it costs +0.30 [0.10, 0.50] nats more than removing block 3.",
         {"singles": trial([0.9, 0.4, 0.1, 0.2], (0.5, 0.1, 0.2, 0.6))}),
        (("Influence and loss put the blocks in orders whose rank correlation is 0.40 [0.10, 0.70].",
          "The order by loss correlates with the order on resampled texts: τ = 0.9 (no interval)."),
         ORDER, "", {"singles": trial([0.9, 0.4, 0.1, 0.2], rank=None)}),
        ("The order of trial other correlates",
         ORDER | {"others": trial([1, 2, 3, 4], item="other") + trial([4, 3, 1, 2], item="third")}, "", {"others": ()}),
        # repetitions, whose interval is corrected for the search
        ("Corrected for the search, the repetition lowers", REPEATED,
         "the repetition does not change the loss significantly", of(without("3", 0.1, 0.1, "2–3", (-0.5, 0.0)))),
        ("the repetition does not change the loss", of(without("3", 0.1, 0.1, "2", (-0.5, 0.0))),
         "the repetition raises the loss significantly", of(without("3", 0.1, 0.1, "2", (0.01, 0.5)))),
        ("the repetition raises the loss", of(without("3", 0.1, 0.1, "2", (0.01, 0.5))), "does not change the loss",
         of(without("3", 0.1, 0.1, "2", (0.0, 0.5)))),
        ("If block 2 runs twice", of(without("3", 0.1, 0.1, "2")), "If blocks 2–3 run",
         of(without("3", 0.1, 0.1, "2–3"))),
        ("If blocks 2–3 run twice", REPEATED, "", of(without("3", 0.1, 0.1))),
        ("Corrected for the search", REPEATED, "", of(without("3", 0.1, 0.1, "2–3"))),
    ],
}  # fmt: skip
