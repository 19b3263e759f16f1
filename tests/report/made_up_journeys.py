"""Made-up journeys: an encoder with attention, a decoder with two checkpoints; hostile tokens. Not a test."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted'",
    "back\\slash",
    "שלום",
    "zero\u200bwidth",
    "\x07bell\x1b",
    "",
    "long" * 125,
    "\u202eturned",
)
# name, role, layers, checkpoints, sites besides the path, position vectors
MODELS = (
    ("bert", "encoder", 6, (None,), ("final", "attention"), True),
    ("gpt2", "decoder", 4, (50, 600), (), False),
)
JOURNEYS = {
    "mouse": (
        ["the", "mouse", "was", "gone", ".", "the", "cat", "sat", "useless", "."],
        ["the", "mouse", "was", "gone", ".", "the", "screen", "stayed", "dark", "."],
    ),
    "hostile": (["say", *HOSTILE, "now"],),
}
FOLLOWED = {"mouse": ("mouse", "cat", "screen"), "hostile": ()}
WORDS = [
    "rat",
    "cat",
    "animal",
    "rabbit",
    "dog",
    "button",
    "keyboard",
    "screen",
    "cursor",
    "bird",
    "mice",
    "snake",
    "he",
]
"""What a state may come close to; later words come in at later layers."""
TOP = 8


def journeys(study: str) -> dict[str, pd.DataFrame]:
    """Rows of ``journeys``, ``neighbours`` and ``projections``."""
    steps, near, paths = [], [], []
    for model, role, layers, checkpoints, more, with_positions in MODELS:
        vocabulary = _vocabulary(role)
        for step in checkpoints:
            checkpoint = "final" if step is None else f"step{step}"
            who = {"study": study, "model": model, "checkpoint": checkpoint, "step": step, "role": role}
            places = _places(layers, more)
            for journey, texts in JOURNEYS.items():
                paths += _paths(who, journey, texts, role, places)
                for text, words in enumerate(texts):
                    for position, (token, special) in enumerate(_tokens(words, role)):
                        bare = token.lstrip("␣")
                        followed = not FOLLOWED[journey] or bare in FOLLOWED[journey]
                        own = who | {"journey": journey, "text": text, "position": position, "token": token}
                        own |= {"token_id": vocabulary.index(token)}
                        for positions in ("without", "with")[: 1 + with_positions]:
                            here = own | {
                                "positions": positions,
                                "norm_before": "closing" if role == "decoder" else "none",
                            }
                            flags = {"followed": followed, "special": special}
                            for site, layer, depth in places:
                                place = {"site": site, "layer": layer, "depth": depth}
                                age = 0.3 if step == 50 else 1.0
                                numbers = _numbers(position, text, depth, site, age)
                                steps.append(here | flags | place | numbers)
                                if followed:
                                    near += _near(here | place, vocabulary, depth * age, text, numbers)
    return {"journeys": pd.DataFrame(steps), "neighbours": pd.DataFrame(near), "projections": pd.DataFrame(paths)}


def fill_journeys(path: Path, study: str) -> None:
    """Write journeys into a database that has the tables."""
    with duckdb.connect(str(path)) as connection:
        for table, frame in journeys(study).items():
            connection.append(table, frame, by_name=True)


def _tokens(words: list[str], role: str) -> list[tuple[str, bool]]:
    if role == "encoder":
        return [("[CLS]", True), *((word, False) for word in words), ("[SEP]", True)]
    return [("␣" + word if word and word.isalpha() and place else word, False) for place, word in enumerate(words)]


def _vocabulary(role: str) -> list[str]:
    words = [token for texts in JOURNEYS.values() for text in texts for token, _ in _tokens(text, role)]
    more = [word if role == "encoder" else f"␣{word}" for word in WORDS]
    return list(dict.fromkeys([*words, *more, *HOSTILE]))


def _places(layers: int, more: tuple[str, ...]) -> list[tuple[str, int, float]]:
    places = [("block" if layer else "embedding", layer, layer / layers) for layer in range(layers + 1)]
    if "final" in more:
        places.append(("final", layers, 1.0))
    if "attention" in more:
        places += [("attention", layer, layer / layers) for layer in range(1, layers + 1)]
    return places


def _numbers(position: int, text: int, depth: float, site: str, age: float) -> dict[str, Any]:
    drift = age * depth * (1 + math.sin(position * 2.1) * 0.6) + 0.05 * (site == "attention")
    rank = int(max(0.0, math.expm1(9 * drift - 2 - 0.4 * text)))
    first, last = depth == 0, site == "final"
    return {
        "cosine": round(math.exp(-1.6 * drift), 6),
        "distance": 0.4 + 9 * drift,
        "rank_cosine": min(rank, 30521),
        "rank_distance": min(rank // 3, 30521),
        "norm": 1.4 + 10 * depth,
        "step_length": None if last else 1 + 3 * abs(math.sin(position + 3 * depth)) * age,
        "step_cosine": None if last else 0.7 + 0.25 * math.cos(2 * depth + position),
        "turnover_cosine": None if first else min(1.0, 0.08 + 0.5 * abs(math.sin(position + 4 * depth)) * age),
        "turnover_distance": None if first else min(1.0, 0.05 + 0.4 * abs(math.sin(position + 5 * depth)) * age),
    }


def _near(
    here: dict[str, Any], vocabulary: list[str], depth: float, text: int, numbers: dict[str, Any]
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(here["token_id"])
    taste, shift = rng.normal(0, 1, len(vocabulary)), rng.normal(0, 1 + text, len(vocabulary))
    score = taste + 2.2 * depth * shift
    score[here["token_id"]] = -9
    rank = {"cosine": numbers["rank_cosine"], "distance": numbers["rank_distance"]}
    rows = []
    for measure in ("cosine", "distance"):
        order = list(np.argsort(-(score + (0.4 * taste if measure == "distance" else 0)), kind="stable"))
        order.remove(here["token_id"])
        order.insert(rank[measure], here["token_id"])
        for place, found in enumerate(order[:TOP], start=1):
            cosine = 0.95 - 0.5 * depth - 0.02 * place
            rows.append(
                here
                | {"measure": measure, "place": place, "neighbour_id": int(found), "neighbour": vocabulary[found]}
                | {"cosine": cosine, "distance": 9 - 8 * cosine}
            )
    return rows


def _paths(
    who: dict[str, Any], journey: str, texts: tuple[list[str], ...], role: str, places: list[tuple[str, int, float]]
) -> list[dict[str, Any]]:
    rows = []
    for projection in ("pca-joint", "pca-joint-without-last"):
        for text, words in enumerate(texts):
            for position, (token, _) in enumerate(_tokens(words, role)):
                angle = 2.4 * position
                for site, layer, depth in places:
                    if site == "attention" or (depth == 1 and projection != "pca-joint"):
                        continue
                    turn = angle + depth * (1.5 if text else -0.7)
                    reach = 1 + 4 * depth + (2 if depth == 1 else 0)
                    at = {"x": reach * math.cos(turn) + 3 * depth, "y": reach * math.sin(turn) * 0.7}
                    of_it = {"analysis": "journeys", "item": journey, "projection": projection, "part": str(text)}
                    of_it |= {"point": position, "label": token, "site": site, "layer": layer, "depth": depth}
                    rows.append(who | of_it | at)
    return rows
