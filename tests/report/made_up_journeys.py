"""Made-up journeys: an encoder with attention, a decoder with two checkpoints; hostile tokens. Not a test."""

import math
from itertools import product

import numpy as np

LONG = "long" * 125
# tokens and texts are hostile; names of groups, concepts and corpora cannot be
HOSTILE = ("<script>alert(1)</script>", "\"quoted'", "back\\slash", "שלום", "zero\u200bwidth", "\x07bell\x1b")
HOSTILE += ("", LONG, "\u202eturned")
# name, role, layers, checkpoints, sites besides the path, position vectors
MODELS = (("bert", "encoder", 6, (None,), ("final", "attention"), True), ("gpt2", "decoder", 4, (50, 600), (), False))
JOURNEYS = {
    "mouse": (
        ["the", "mouse", "was", "gone", ".", "the", "cat", "sat", "useless", "."],
        ["the", "mouse", "was", "gone", ".", "the", "screen", "is", "dark", "."],
    ),
    "hostile": (["say", *HOSTILE, "now"],),
}
FOLLOWED = {"mouse": ("mouse", "cat", "screen"), "hostile": ()}
WORDS = ["rat", "cat", "animal", "rabbit", "dog", "button", "keyboard", "screen", "cursor", "bird", "mice", "snake"]
"""What a state may come close to; later words come in at later layers."""
TOP = 8


def journeys():
    """Rows of the tables of journeys, by table."""
    rows = {"journeys": [], "neighbours": [], "projections": []}
    for name, role, layers, checkpoints, more, with_positions in MODELS:
        places, sides = places_of(layers, more), ("without", "with")[: 1 + with_positions]
        for step, (journey, texts) in product(checkpoints, JOURNEYS.items()):
            who = {"model": name, "checkpoint": "final" if step is None else f"step{step}", "step": step, "role": role}
            age = 0.3 if step == 50 else 1.0
            for text, words in enumerate(texts):
                tokens = tokens_of(words, role)
                rows["projections"] += paths_of(who, journey, text, tokens, places)
                for (position, token), positions, place in product(enumerate(tokens), sides, places):
                    row = step_of(who, journey, text, position, token, place, age)
                    row |= {"positions": positions, "norm_before": "closing" if role == "decoder" else "none"}
                    rows["journeys"].append(row)
                    if row["followed"]:
                        rows["neighbours"] += nearest(row, vocabulary_of(role), row["depth"] * age)
    return rows


def tokens_of(words, role):
    if role == "encoder":
        return ["[CLS]", *words, "[SEP]"]
    return ["␣" + word if word and word.isalpha() and place else word for place, word in enumerate(words)]


def vocabulary_of(role):
    words = [token for texts in JOURNEYS.values() for text in texts for token in tokens_of(text, role)]
    more = [word if role == "encoder" else f"␣{word}" for word in WORDS]
    return list(dict.fromkeys([*words, *more, *HOSTILE]))


def places_of(layers, more):
    """Site, layer and relative depth of the states of a model."""
    places = [("block" if layer else "embedding", layer, layer / layers) for layer in range(layers + 1)]
    places += [("final", layers, 1.0)] if "final" in more else []
    return places + [("attention", i, i / layers) for i in range(1, layers + 1) if "attention" in more]


def step_of(who, journey, text, position, token, place, age):
    """A row of ``journeys``."""
    site, layer, depth = place
    drift = age * depth * (1 + math.sin(position * 2.1) * 0.6) + 0.05 * (site == "attention")
    rank = int(max(0.0, math.expm1(9 * drift - 2 - 0.4 * text)))
    first, final = depth == 0, site == "final"
    row = who | {"journey": journey, "text": text, "position": position, "token": token}
    row |= {"token_id": vocabulary_of(who["role"]).index(token), "special": token in ("[CLS]", "[SEP]")}
    row |= {"followed": not FOLLOWED[journey] or token.lstrip("␣") in FOLLOWED[journey]}
    row |= {"site": site, "layer": layer, "depth": depth, "norm": 1.4 + 10 * depth}
    row |= {"cosine": round(math.exp(-1.6 * drift), 6), "rank_cosine": min(rank, 30521)}
    row |= {"distance": 0.4 + 9 * drift, "rank_distance": min(rank // 3, 30521)}
    row |= {"step_length": None if final else 1 + 3 * abs(math.sin(position + 3 * depth)) * age}
    row |= {"step_cosine": None if final else 0.7 + 0.25 * math.cos(2 * depth + position)}
    for measure, least in (("cosine", 0.08), ("distance", 0.05)):
        turned = min(1.0, least + 0.5 * abs(math.sin(position + 4 * depth + least)) * age)
        row[f"turnover_{measure}"] = None if first else turned
    return row


def nearest(row, vocabulary, depth):
    """Rows of ``neighbours`` of a row of ``journeys``: the token itself stands at its rank."""
    rng = np.random.default_rng(row["token_id"])
    taste, shift = rng.normal(0, 1, len(vocabulary)), rng.normal(0, 1 + row["text"], len(vocabulary))
    score = taste + 2.2 * depth * shift
    here = ("model", "checkpoint", "step", "role", "journey", "text", "position", "token", "token_id")
    here += ("positions", "norm_before", "site", "layer", "depth")
    for measure in ("cosine", "distance"):
        order = list(np.argsort(-(score + (0.4 * taste if measure == "distance" else 0)), kind="stable"))
        order.remove(row["token_id"])
        order.insert(row[f"rank_{measure}"], row["token_id"])
        for place, neighbour in enumerate(order[:TOP], start=1):
            cosine = 0.95 - 0.5 * depth - 0.02 * place
            near = {"neighbour_id": int(neighbour), "neighbour": vocabulary[neighbour], "cosine": cosine}
            near |= {"measure": measure, "place": place, "distance": 9 - 8 * cosine}
            yield {name: row[name] for name in here} | near


def paths_of(who, journey, text, tokens, places):
    """Rows of ``projections``: one with the last layer, and one without it."""
    projections = ("pca-joint", "pca-joint-without-last")
    for projection, (position, token), (site, layer, depth) in product(projections, enumerate(tokens), places):
        if site == "attention" or (depth == 1 and projection != "pca-joint"):
            continue
        turn = 2.4 * position + depth * (1.5 if text else -0.7)
        reach = 1 + 4 * depth + (2 if depth == 1 else 0)
        row = who | {"analysis": "journeys", "item": journey, "projection": projection, "part": str(text)}
        row |= {"point": position, "label": token, "site": site, "layer": layer, "depth": depth}
        yield row | {"x": reach * math.cos(turn) + 3 * depth, "y": reach * math.sin(turn) * 0.7}
