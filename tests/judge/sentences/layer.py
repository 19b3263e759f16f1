"""Which layer to take: a model with four blocks and a final norm, and one probe or one set of pairs. Not a test."""

import re

from judge.sentences.patterns import text_of

from reporter.judge.questions.layer import LAYER
from reporter.judge.questions.question import Answer, answered

FILES = ("judge/questions/layer.py",)
OF = {"model": "m", "checkpoint": "final", "view": "text tokens", "same_token": None, "probe": None, "probe_loss": None}
OF |= dict.fromkeys(("probe_loss_low", "probe_loss_high", "balanced", "macro_f1", "needed")) | {"end": "high"}
METRICS = {"labels": "probes.linear", "halves": "partners.recall", "partners": "partners.recall"}
METRICS |= {"scores": "partners.spearman"}
METRICS |= {"groups": "groups.silhouette", "neighbours": "probes.label_overlap", "no labels": "entropy.prompt_unit"}


def cells_of(cells, kind, n, chance, normed, item="mood", criterion=""):
    """Rows of a criterion.

    A cell is named by its layer and its pooling, such as ``l2``, ``l2_first``, ``last_centred`` or ``own``, and has a
    value, the interval of what it loses against the best (0 at its lower end: not significant), and how many texts
    would decide.
    """
    best = max(cells, key=lambda name: cells[name][0])
    of_pairs = any("centred" in name for name in cells) or "own" in cells
    for name, (value, *ends) in cells.items():
        match = re.fullmatch(r"(?:l(\d)|last|own|block)_?(\w*)", name)
        layer, pooling = int(match[1] or 4), match[2]
        site = "final" if name[:3] in ("las", "own") else "block" if layer else "embedding"
        at_end = site == "final" or name.startswith("block")
        loss = cells[best][0] - value
        low, high, needed = (*ends, None, None, None)[:3] if ends else (max(0.0, loss - 0.05), loss + 0.05, None)
        row = {"site": site, "layer": layer, "value": value, "ci_low": value - 0.1, "ci_high": value + 0.1}
        row |= {"loss": loss, "loss_low": low, "loss_high": high, "needed": needed, "best": name == best}
        row |= {"pooling": "own" if name == "own" else {"": "mean", "centred": "mean"}.get(pooling, pooling)}
        row |= {"variant": ("centred" if pooling == "centred" else "raw") if of_pairs else None}
        row |= {"entry": "last_hidden_state" if at_end else None if layer == 4 else f"hidden_states[{layer}]"}
        row |= {"usual": at_end and not pooling and name != "own", "normed": normed if layer else None}
        row |= {"kind": kind, "criterion": criterion or METRICS[kind], "item": item, "n": n, "chance": chance}
        yield OF | row


def layer(kind="labels", n=300, chance=0.5, normed=False, more=(), same_token=None, **cells):
    """Return the answer to which layer, from the cells of the main criterion and those of further criteria."""
    cells = {name: cell for name, cell in cells.items() if cell}
    rows = [*cells_of(cells, kind, n, chance, normed)] if cells else []
    for further, criterion, others in more:
        pooling = {"same_token": same_token, "pooling": None if further == "no labels" else "last"}
        rows += [row | pooling for row in cells_of(others, further, n, None, normed, "other", criterion)]
    return text_of(Answer(LAYER, {"layer_answers": rows}))


def lacking(models=(), rows=()):
    tables = {"FROM cells": (), "FROM models": models, "FROM probe_poolings LEFT": rows, "": ()}
    return text_of(answered(LAYER, "s", lambda sql: next(own for name, own in tables.items() if name in sql)))


BEST = {"l1": (0.5,), "l2": (0.9, 0, 0), "last": (0.4,)}
LAST = {"l1": (0.5,), "l2": (0.6,), "last": (0.9, 0, 0)}
CLOSE = {"l1": (0.5,), "l2": (0.9, 0, 0), "last": (0.898, 0, 0.009)}
OPEN = {"l1": (0.5,), "l2": (0.9, 0, 0), "last": (0.85, 0, 0.1, 1234)}
NEITHER = {"l1": (0.85, 0, 0.2), "l2": (0.9, 0, 0), "last": (0.88, 0, 0.1)}
FEW = {"l1": (0.5, None), "l2": (0.9, None), "last": (0.4, None)}
CENTRED = {"l2": (0.5,), "last": (0.89, 0, 0.05), "last_centred": (0.9, 0, 0), "kind": "halves"}
OWN_BEST = {"kind": "halves", "l2": (0.5,), "last": (0.8,), "own": (0.9, 0, 0)}
OWN_NEAR = {"kind": "halves", "l1": (0.6,), "l2": (0.92, 0, 0), "last": (0.8,), "own": (0.9, 0, 0.06)}
GROUPS = [("groups", "", {"l1": (0.5, None), "l2": (0.9, None)})]
PROXIES = [("no labels", name, {"l1": (0.5, None), "l2": (0.9, None)})
           for name in ("entropy.prompt_unit", "intrinsic_dimension.twonn", "token_path.curvature")]  # fmt: skip
NO_CELLS = {"l1": None, "l2": None, "last": None}
MODEL = {"model": "m", "checkpoint": "final", "layers": 4, "last_hidden_state": "final", "norm_placement": "pre"}

CASES = {
    "layer": [
        (("A probe shows that states contain a", "Another task may have another best layer.",
         "Intervals compare layers and poolings on the same held-out texts. They are valid for any number of layers "
         "and poolings,", "m: Accuracy at every layer by pooling, with 95 % intervals for each layer alone, "
         "majority class 0.5; balanced"), BEST, "", NO_CELLS),
        ("account for classifiers", BEST, "Vectors are compared by their cosine.", {"kind": "scores"}),
        (", majority class 0.5", BEST, "", {"chance": None}),
        ("(majority class 0.5)", BEST, "(chance 0.5)", {"kind": "halves"}),
        # which layer, by whether the last hidden state differs
        ("Take layer 2 with mean pooling: the accuracy of the linear probe `mood` is 0.9 [0.8, 1.0] "
         "(majority class 0.5). The last hidden state with mean pooling scores 50 [45, 55] points less. All", BEST,
         "Keep the last hidden state with mean pooling: it scores at most 0.9 points less than",
         {"last": (0.898, 0, 0.009)}),
        ("Keep the last hidden state with mean", CLOSE, "Layer 2 with mean pooling scores best: the accuracy of the "
         "linear probe `mood` is 0.9 [0.8, 1.0] (majority class 0.5). The last hidden state with mean pooling scores "
         "0.2 points less (at most 1.1), which is not significant with 300 texts. 1 of", {"last": (0.898, 0, 0.011)}),
        ("; a decision needs about 1,300 texts.", OPEN, "", {"last": (0.85, 0, 0.1)}),
        ("The number of texts for a decision assumes", OPEN, "", {"last": (0.85, 0, 0.1)}),
        ("points less (at most 10.0), which is not significant", OPEN, "scores 5.0 [0.1, 10.0] points less. ",
         {"last": (0.85, 0.001, 0.1)}),
        ("Layer 2 with mean pooling and the last", BEST | {"last": (0.9, 0, 0.1)}, "scores 0.1 points less (at most",
         {"last": (0.899, 0, 0.1)}),
        ("Take the last hidden state with mean pooling: the accuracy of the linear probe `mood` is highest", LAST,
         "is 0.9 [0.8, 1.0] (majority class 0.5). All other", {"last": None, "l4": (0.9, 0, 0)}),
        ("The accuracy of the linear probe `mood` is", FEW, "Take layer 2", BEST),
        ("The best other layer, layer 2 with mean pooling, scores 30 [25", LAST,
         "points less, which is not significant.", {"l2": (0.6, 0, 0.6)}),
        ("The best other layer, layer 1 with mean pooling, scores 32 [27, 37] points less than", OWN_NEAR, "",
         {"l1": None, "last": None}),
        ("These 300 texts do not decide between layers: with mean pooling, none scores significantly less than the "
         "best. Highest is layer 2 with mean pooling: the accuracy of the linear probe `mood` is 0.9 [0.8, 1.0] "
         "(majority class 0.5). The last hidden state with mean pooling scores 2.0 points less (at most 10.0).",
         NEITHER,
         "points less (at most 10.0), which is not significant with 300 texts", {"l1": (0.7, 0.01, 0.3)}),
        ("points less (at most 10.0). 2 of 2", NEITHER, "a decision needs about 900 texts.",
         {"last": (0.88, 0, 0.1, 900)}),
        # ties
        ("All other layers score significantly less.", BEST,
         "1 of 2 other layers do not differ significantly from the best.", {"l1": (0.5, 0, 0.6)}),
        ("All other layers score", BEST, "All other layers with an interval score significantly less.",
         {"l1": (0.5, None)}),
        ("All other layers score significantly", BEST, "All other layers and poolings score significantly less.",
         {"l1_first": (0.3,)}),
        ("; the earliest within 3.0 points of", BEST | {"l1": (0.875, 0, 0.1)}, "", {"l1": (0.865, 0, 0.1)}),
        ("all layers", {"l1": (0.88, 0, 0.1), "l2": (0.9, 0, 0)}, "", {"l1": (0.88, 0.001, 0.1)}),
        # another pooling of the same layer, and what a sentence encoder returns
        ("Keep the last hidden state with mean pooling: the share of texts whose first half finds its second half in "
         "`mood` is 0.89 [0.79, 0.99] (chance 0.5). Mean pooling of centred vectors scores 1.0 points more (at most "
         "5.0),", CENTRED, "Take the last hidden state with mean", {"last": (0.89, 0.001, 0.05)}),
        ("scores 1.0 points more (at most 5.0), which is not", CENTRED, "it scores at most 0.9 points less",
         {"last": (0.89, 0, 0.009)}),
        (" The best other layer, layer 2 with mean pooling, scores 40 [35, 45] points less than", CENTRED, "",
         {"l2": None}),
        ("Keep what the model itself returns: the share of texts", OWN_BEST, "What the model itself returns scores",
         {"l2": (1.0, 0, 0), "own": (0.9, 0.05, 0.15)}),
        (" The last hidden state with mean pooling, without added tokens, scores 10 [5", OWN_BEST,
         "scores 10 [0, 15] points less,", {"last": (0.8, 0, 0.15)}),
        ("without added tokens, scores 10 [5, 15]", OWN_BEST, "added tokens, scores the same.", {"last": (0.9, 0, 0)}),
        ("without added tokens", OWN_BEST, "Layer 2 with mean pooling scores 2.0 points more (at most 6.0),",
         {"l2": (0.92, 0, 0), "own": (0.9, 0, 0.06)}),
        ("Keep what the model itself", OWN_NEAR, "Take layer 2", {"own": (0.9, 0.01, 0.06)}),
        # the kind of what ranks layers
        ("the accuracy of the linear probe `mood`", BEST, "the correlation of cosines with the scores of `mood`",
         {"kind": "scores"}),
        ("the share of texts that find their partner in `mood`", BEST | {"kind": "partners"},
         ("the share of texts whose first half", "For a task of your own, labels or pairs say more: the halves"),
         {"kind": "halves"}),
        ("Share found at every layer", BEST | {"kind": "partners"}, "Correlation at every layer", {"kind": "scores"}),
        # the states and the line to copy
        ("The last hidden state is after the model's", LAST, "states = model(**inputs, "
         "output_hidden_states=True).hidden_states[2]", {"l2": (1.0, 0, 0), "last": (0.9,)}),
        ("These states are the output of the block", BEST, "Each block of this model ends in a norm", {"normed": True}),
        ("the output of the block", BEST, "Take the embedding with", {"l2": None, "l0": (0.9, 0, 0)}),
        ("# hidden_states has no entry for layer", BEST | {"l4": (0.95, 0, 0)},
         "states = model(**inputs).last_hidden_state", {"l4": None, "last": None, "block": (0.95, 0, 0)}),
        ("the last hidden state (layer 4)", {"l1": (0.5,), "block": (0.95, 0, 0)}, "Take the last hidden state with",
         {"block": None, "last": (0.95, 0, 0)}),
        ("with first-token pooling", {"l1_first": (0.9, 0, 0), "l2_first": (0.5,)}, "with last-token pooling",
         {"l1_first": None, "l1_last": (0.9, 0, 0)}),
        ("# then the first token of each text", {"l1_first": (0.9, 0, 0), "l2_first": (0.5,)},
         "# then the last token of each text,", {"l1_first": None, "l1_last": (0.9, 0, 0)}),
        (("with mean pooling", "# then the mean over the tokens of each"), {"l1": (0.9, 0, 0), "l2": (0.5,)}, "",
         {"l1": None, "l2": None, "l1_last": (0.9, 0, 0), "l2_last": (0.5,)}),
        (("mean pooling of centred vectors", "\n# then minus the mean of these vectors over all texts"),
         {"l1": (0.7,), "l1_centred": (0.9, 0, 0)}, "", {"l1_centred": (0.6,)}),
        ("vectors = SentenceTransformer(…).encode(texts) ", OWN_BEST, "", {"own": None}),
        ("with its own pooling", {"kind": "halves", "l1": (0.5, None), "own": (0.9, None)}, "", {"own": (0.4, None)}),
        # other numbers
        ("Other numbers are highest or lowest", BEST | {"more": GROUPS}, "", {"more": ()}),
        ("the silhouette of the groups", {"more": GROUPS}, "the share of neighbours of the same class in `other`",
         {"more": [("neighbours", "", {"l1": (0.5, None), "l2": (0.9, None)})]}),
        ("Warning: all texts of the groups end in the token `.`", {"more": GROUPS, "same_token": "."}, "",
         {"same_token": None}),
        (("the lowest entropy of a text's directions (`other`)", "the highest intrinsic dimension (`other`)",
         "the straightest path from token to token (`other`)"), {"more": PROXIES}, "", {"more": GROUPS}),
        ("No labels, pairs or halves", {"more": PROXIES}, "Other numbers are", BEST),
        ("Label-free proxies are weak", BEST | {"more": PROXIES}, "", {"more": GROUPS}),
    ],
    "lacking": [
        ("only labels or pairs of texts rank layers: add `partners: {mine: {halves: CORPUS}}`, which needs no",
         {"models": [MODEL]}, "", {"rows": [MODEL | row | {"metric": "probes", "statistic": "linear", "units": None,
         "main": True} for row in cells_of({"l1": (0.5,), "l2": (0.6,)}, "labels", 9, 0.5, False)]}),
    ],
}  # fmt: skip
