"""What stands on the page of static embeddings, and in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reporter.report.exhibits import static_charts as charts
from reporter.report.exhibits import static_queries as queries
from reporter.report.exhibits.exhibit import WHO, Exhibit, Who, choices, variants
from reporter.report.numbers import is_null, short, whole
from reporter.report.scene import Pick

if TYPE_CHECKING:
    import pandas as pd

PLAIN = {
    "learned": "It adds a learned vector for each position to the tokens' vectors.",
    "sinusoidal": "It adds fixed sines and cosines to the tokens' vectors.",
    "rotary": "It has no position vectors: positions are rotary, queries and keys are turned inside attention.",
    "relative": "It has no position vectors: attention knows how far apart two tokens are.",
    "alibi": "It has no position vectors: attention falls with distance (ALiBi).",
    "none": "It has no positions at all: the order of earlier tokens changes nothing in block 1.",
    "unrecognised": "Order matters to it, but how it knows positions was not found out.",
}
"""What kinds of positions are, said plainly; other kinds say themselves."""


def exhibits() -> dict[str, tuple[Exhibit, ...]]:
    """Return the exhibits of each section."""
    return {
        "shares": (SHARES,),
        "distributions": (HISTOGRAMS, EXPLAINED),
        "picture": (POINTS,),
        "ends": (EXTREMES, OUTLIERS),
        "positions": (PATH, HEAT, OFFSETS, BY_POSITION),
    }


HEADINGS = {
    "shares": ("What the vocabularies are made of", "Every token, sorted by its own characters."),
    "distributions": ("Norms and pairs", "How long the vectors are, and how alike."),
    "picture": ("The picture", "Vectors in two or three dimensions."),
    "ends": ("Ends of the scale", "The most and the least alike, nearest to and farthest from the mean."),
    "positions": ("Positions", "The vectors that are added for places."),
}
"""Heading and lead of each section."""


def _components(frame: pd.DataFrame) -> dict[Who, str]:
    """How many components hold half and 90 % of the variance."""
    found: dict[Who, list[str]] = {}
    for (model, checkpoint, part), own in frame.groupby([*WHO, "part"], sort=False):
        reached = [own.loc[own["share"] >= share, "components"].min() for share in (0.5, 0.9)]
        half, most = (whole(count) if count == count else f"more than {len(own)}" for count in reached)
        found.setdefault((str(model), str(checkpoint)), []).append(f"{part}: half in {half}, 90 % in {most}")
    return {who: " · ".join(parts) for who, parts in found.items()}


def _changes(frame: pd.DataFrame) -> dict[Who, str]:
    found: dict[Who, str] = {}
    for (model, checkpoint), own in frame.groupby(WHO, sort=False):
        at = own[own["change_p"].notna()]
        told = [f"at {row.position} (p = {short(row.change_p, 2)})" for row in at.itertuples()]
        found[str(model), str(checkpoint)] = (
            f"Changes character {', '.join(told)}" if told else "No change of character was found"
        )
    return found


def _extremes(frame: pd.DataFrame) -> list[Pick]:
    names = {
        "token|mean_cosine": "cosine to the mean",
        "token|mean_distance": "distance from the mean",
        "token|norm": "norm",
        "token–token|cosine": "pairs by cosine",
        "token–token|distance": "pairs by distance",
        "token–token|dot": "pairs by dot product",
    }
    found = dict.fromkeys(f"{what}|{measure}" for what, measure in zip(frame["what"], frame["measure"], strict=True))
    order = [name for name in ("token–token|cosine", *names) if name in found]
    measure = Pick("what|measure", "Measure", {name: names.get(name, name) for name in dict.fromkeys([*order, *found])})
    among = choices(frame, "among", "Among", ("text", "all"))
    said = {"text": "text: no special tokens, bytes, unused rows", "all": "all rows"}
    return [measure, Pick("among", "Among", {name: said.get(name, name) for name in among.choices})]


def _pictures(frame: pd.DataFrame) -> list[Pick]:
    names = {"pca": "PCA", "tsne": "t-SNE", "umap": "UMAP"}
    found = list(dict.fromkeys(frame["projection"]))
    said = {}
    for name in sorted(found, key=lambda name: (" of " in name, list(names).index(name.split()[0]))):
        method, _, kind = name.partition(" of ")
        said[name] = f"{names.get(method, method)} of {kind + ' vectors' if kind else 'all kinds together'}"
    return [Pick("projection", "Picture", said)]


HISTOGRAMS = Exhibit(
    "static.histograms",
    "Distributions",
    "Norms of each kind of vector, and cosine, distance and dot product of pairs within a kind and between two.",
    "histograms",
    ("measure", "part", "count"),
    queries.HISTOGRAMS,
    charts={"height": charts.heights, "count": charts.counts},
    picks=lambda frame: [
        choices(frame, "measure", "Measure", ("norm", "cosine", "distance", "dot")),
        variants(height="shape (peak = 1)", count="count (logarithmic)"),
    ],
    options={"legend": "part"},
    half=True,
)

EXPLAINED = Exhibit(
    "static.explained",
    "Explained variance",
    "How many directions the vectors really use. The dashed lines are half and 90 % of the variance.",
    "explained_variance",
    ("part", "components", "share", "n"),
    queries.EXPLAINED,
    charts={"share": charts.explained},
    read_off=_components,
    options={"legend": "part"},
    half=True,
)

POINTS = Exhibit(
    "static.points",
    "Tokens, positions and token types",
    "A point is a vector. Point at it, or move with the arrow keys, to read it; search to mark tokens.",
    "projections",
    ("projection", "part", "label", "x", "y", "z"),
    queries.POINTS,
    drawing="points",
    picks=_pictures,
    options={
        "colour": ["class", "kind", "script", "subword", "norm", "length"],
        "ramps": ["norm", "length"],
        "of": "kind",
        "tell": ["kind", "point", "class", "script", "subword", "norm"],
        "search": True,
        "height": 520,
        "instead": {
            "column": "projection",
            "values": {name: f"{name} of token" for name in ("pca", "tsne", "umap")},
        },
    },
    mind="at most 2,000 vectors of a kind are drawn, at random. t-SNE and UMAP keep neighbours together; distances "
    "across their pictures, and the sizes of clumps, mean nothing.",
)

EXTREMES = Exhibit(
    "static.extremes",
    "Tokens and pairs at the ends",
    "Exact over the whole vocabulary: every token, every pair.",
    "vocabulary_extremes",
    ("among", "measure", "end_of_scale", "value", "certain"),
    queries.EXTREMES,
    drawing="table",
    picks=_extremes,
    options={
        "split": "end_of_scale",
        "columns": [
            ["rank", "", "whole"],
            ["token", "Token", "token"],
            ["other", "and", "token"],
            ["value", "", "number"],
        ],
        "ids": {"token": "token_id", "other": "other_id"},
        "valueName": "measure",
        "names": {"most": "most alike", "least": "least alike", "smallest": "smallest", "largest": "largest"},
    },
)

OUTLIERS = Exhibit(
    "static.outliers",
    "Tokens that point where a position points",
    "Token and position vectors are added before the first block. A token in the direction of a position is hard to "
    "tell from that place.",
    "vocabulary_extremes",
    ("what", "value"),
    queries.OUTLIERS,
    drawing="table",
    options={
        "columns": [
            ["rank", "", "whole"],
            ["token", "Token", "token"],
            ["position", "Position", "whole"],
            ["cosine", "Cosine", "number"],
        ],
        "ids": {"token": "token_id"},
    },
)

PATH = Exhibit(
    "static.path",
    "The path of the positions",
    "Position vectors on their principal components, joined in order. Drag the 3-D view, or turn it with arrow keys.",
    "positions",
    ("pc1", "pc2", "pc3"),
    queries.POSITIONS,
    drawing="points",
    picks=lambda frame: [
        Pick("axes", "View", {"xyz": "3-D", "xy": "PC1 and PC2", "xz": "PC1 and PC3", "yz": "PC2 and PC3"})
    ],
    options={
        "x": "pc1", "y": "pc2", "z": "pc3", "colour": ["position", "norm"], "ramps": ["position", "norm"],
        "tell": ["norm", "step_length"], "joined": True, "height": 420, "axisNames": ["PC1", "PC2", "PC3"],
    },
)  # fmt: skip

HEAT = Exhibit(
    "static.position-cosines",
    "Cosine of each two positions",
    "Stripes beside the diagonal are a period.",
    "position_cosines",
    ("cosine",),
    queries.HEAT,
    charts={"cosine": charts.heat},
    options={"scale": "cosine", "square": True},
    mind="at most 64 positions each way, spread evenly, are drawn: what repeats within their spacing looks longer than "
    "it is.",
    half=True,
)

OFFSETS = Exhibit(
    "static.position-offsets",
    "Cosine by distance",
    "How alike two positions are that are so far apart, and one standard deviation around it.",
    "position_offsets",
    ("cosine", "sd", "n"),
    queries.OFFSETS,
    charts={"cosine": charts.offsets},
    half=True,
)

BY_POSITION = Exhibit(
    "static.position-norms",
    "Along the positions",
    "Dashed lines: where the vectors change character, as trained and hardly trained positions do.",
    "positions",
    ("norm", "step_length", "mean_cosine", "change_p"),
    queries.POSITIONS,
    charts={name: charts.by_position(name) for name in ("norm", "step_length", "mean_cosine")},
    picks=lambda frame: [variants(norm="norm", step_length="step length", mean_cosine="cosine to the mean")],
    read_off=_changes,
)

SHARES = Exhibit(
    "static.shares",
    "Sorts of tokens",
    "All models together. A sort is found by the tokenizer's own marks.",
    "vocabulary_shares",
    ("sorted_by", "sort", "share"),
    queries.SHARES,
    charts={"share": charts.shares},
    picks=lambda frame: [choices(frame, "sorted_by", "By", ("class", "subword", "script"))],
    together=True,
    options={"legend": "sort"},
)


_SPREAD = re.compile(r"(.+) of (.+): (mean|standard deviation)")
_HIDDEN = ("positions", "outlier", "note ", "missing: ", "change ", "period")


def known(frame: pd.DataFrame, who: Sequence[Who]) -> list[dict[str, Any]]:
    """Return what is known of each model's vectors: how it knows positions, notes, facts.

    Args:
        frame: rows of the query ``vocabulary_facts``.
        who: the models and checkpoints of the page.
    """
    found = []
    for model, checkpoint in who:
        own = frame[(frame["model"] == model) & (frame["checkpoint"] == checkpoint)]
        columns = (own[name].tolist() for name in ("fact", "value", "said"))
        rows: dict[str, tuple[Any, Any]] = {
            str(fact): (value, said) for fact, value, said in zip(*columns, strict=True)
        }
        kind = str(rows.get("positions", (None, "unrecognised"))[1])
        plain = [(fact, value, said) for fact, (value, said) in rows.items() if _is_plain(fact)]
        found.append(
            {
                "model": model,
                "plain": PLAIN.get(kind, kind),
                "notes": [said for fact, (_, said) in rows.items() if fact.startswith("note ")],
                "lacks": [(fact[9:], said) for fact, (_, said) in rows.items() if fact.startswith("missing: ")],
                "rows": [(fact, whole(value), "" if is_null(said) else said) for fact, value, said in plain],
                "outliers": _outliers(rows),
                "period": _period(rows),
                **_spreads(rows),
            }
        )
    return found


def _is_plain(fact: str) -> bool:
    return not _SPREAD.fullmatch(fact) and not fact.startswith(_HIDDEN)


def _outliers(rows: Mapping[str, tuple[Any, Any]]) -> str:
    if "outliers" not in rows:
        return ""
    (count, said), chance = rows["outliers"], rows.get("outliers by chance", (None, None))[0]
    threshold = short(rows.get("outlier threshold", (None, None))[0], 2)
    return (
        f"{whole(count)} {said} of a token and a position have |cosine| > {threshold}; by chance, if one side's "
        f"directions were random, {short(chance)} would."
    )


def _period(rows: Mapping[str, tuple[Any, Any]]) -> str:
    if "period" not in rows:
        return ""
    (positions, said), p = rows["period"], rows.get("period p", (None, None))[0]
    if is_null(positions):
        return f"No period: {said}."
    turns, share = (rows.get(f"period {name}", (None, None))[0] for name in ("turns", "share"))
    return (
        f"One turn of the path takes {short(positions)} positions: {short(turns)} turns in all, which hold "
        f"{short(100 * share)} % of its variance (p = {short(p, 2)})."
    )


def _spreads(rows: Mapping[str, tuple[Any, Any]]) -> dict[str, Any]:
    """Means and standard deviations as a table: kinds and pairs of kinds down, measures across."""
    found: dict[str, dict[str, Any]] = {}
    for fact, (value, said) in rows.items():
        if match := _SPREAD.fullmatch(fact):
            measure, part, what = match.groups()
            row = found.setdefault(part, {"n": str(said).removeprefix("n = ")})
            row.setdefault(measure, {})["mean" if what == "mean" else "sd"] = value
    measures = [name for name in ("norm", "cosine", "distance", "dot") if any(name in row for row in found.values())]
    return {"spreads": found, "measures": measures}
