"""The explorer of journeys: what becomes of a token on its way through the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reporter.charts import journeys as journey_charts
from reporter.charts.chart import Query, Read
from reporter.charts.columns import pack, tidy
from reporter.charts.styles import Styles
from reporter.report.explorer import Explorer, read_source, styled
from reporter.table import NTH_CHECKPOINT

if TYPE_CHECKING:
    import pandas as pd

STEPS = Query(
    "journeys",
    f"""
SELECT journey, role, model, step, checkpoint, text, position, token_id, token, followed, special, positions,
  norm_before, site, layer, depth, cosine, distance, rank_cosine, rank_distance, norm, step_length, step_cosine,
  turnover_cosine, turnover_distance
FROM journeys JOIN {NTH_CHECKPOINT} USING (study, model, checkpoint)
WHERE study = $study
ORDER BY journey, role DESC, model, nth_checkpoint, text, position, positions DESC,
  list_position(['embedding', 'block', 'final', 'attention'], site), layer
""",
)

NEIGHBOURS = Query(
    "neighbours",
    f"""
SELECT journey, role, model, step, checkpoint, text, position, token_id, token, positions, site, layer, depth,
  measure, place, neighbour_id, neighbour, cosine, distance
FROM neighbours JOIN {NTH_CHECKPOINT} USING (study, model, checkpoint)
WHERE study = $study
ORDER BY journey, role DESC, model, nth_checkpoint, text, position, positions DESC, measure,
  list_position(['embedding', 'block', 'final', 'attention'], site), layer, place
""",
)

PATHS = Query(
    "journey_paths",
    f"""
SELECT item, role, model, step, checkpoint, projection, part, point, label, site, layer, depth, x, y
FROM projections JOIN {NTH_CHECKPOINT} USING (study, model, checkpoint)
WHERE study = $study AND analysis = 'journeys'
ORDER BY item, role DESC, model, nth_checkpoint, projection, part, point,
  list_position(['embedding', 'block', 'final', 'attention'], site), layer
""",
)

ABOUT = (
    "A token enters a model as a row of its vocabulary. How long does its state stay nearest to itself, and what does "
    "it come close to on the way?"
)
_STATES = {
    "closing": "after the closing norm, as in the logit lens",
    "none": "as it is (the residual stream)",
}
SAME_IN_A_PART = ("journey", "item", "role", "model", "step", "checkpoint")


def read_journeys(read: Read, study: str, styles: Styles) -> Explorer | None:
    """Read the explorer of a study's journeys.

    Args:
        read: runs a query.
        study: id of the study.
        styles: how its models are drawn.

    Returns:
        The explorer, with one part for each journey of each checkpoint; None where the study has none.
    """
    steps = read_source(read, STEPS, study, "journeys", "Tokens by layer", "journeys")
    if steps.frame.empty:
        return None
    near = read_source(read, NEIGHBOURS, study, "neighbours", "Nearest vocabulary tokens", "neighbours")
    paths = read_source(read, PATHS, study, "journey-paths", "Paths in a plane", "projections")
    key = ["journey", "model", "checkpoint"]
    others = {"neighbours": _split(near.frame, key), "paths": _split(paths.frame, ["item", *key[1:]])}
    entries, parts = [], dict[str, dict[str, Any]]()
    for number, (name, own) in enumerate(_split(steps.frame, key).items()):
        part = f"journey-{number}"
        step = own["step"].iloc[0]
        entries.append(dict(zip(key, name, strict=True)) | {"step": tidy(step), "part": part})
        parts[part] = {"steps": _packed(own)}
        for what, found in others.items():
            parts[part][what] = _packed(found[name]) if name in found else None
    journeys = list(dict.fromkeys(entry["journey"] for entry in entries))
    models = list(dict.fromkeys(entry["model"] for entry in entries))
    return Explorer(
        name="journeys",
        title="Journeys",
        about=f"{ABOUT} {_compared(steps.frame)}",
        facts=(_count(len(journeys), "journey"), _count(len(models), "model")),
        data={
            "journeys": journeys,
            "entries": entries,
            "models": styled(styles),
            "specs": journey_charts.specs(styles),
            "dark": journey_charts.dark_twins(styles),
        },
        parts=parts,
        sources=(steps, near, paths),
        analyses=("journeys",),
    )


def _compared(steps: pd.DataFrame) -> str:
    """Say what is compared with the vocabulary in each model: states after its closing norm, or as they are."""
    own = steps[steps["positions"] == "without"]
    counts = own.groupby("model", sort=False)["norm_before"].nunique(dropna=False)
    several = {str(model) for model, count in counts.items() if count > 1}
    found: dict[str, list[str]] = {}
    for (model, norm), rows in own.groupby(["model", "norm_before"], sort=False, dropna=False):
        journeys = f" ({', '.join(dict.fromkeys(rows['journey']))})" if str(model) in several else ""
        found.setdefault(_STATES["closing" if norm == "closing" else "none"], []).append(f"{model}{journeys}")
    each = "; ".join(f"for {', '.join(models)} {what}" for what, models in found.items())
    nearest = " A decoder's last states are near the token that comes next." if "decoder" in set(steps["role"]) else ""
    return f"Each state is compared with the rows of the input embedding: {each}.{nearest}"


def _split(frame: pd.DataFrame, key: list[str]) -> dict[tuple[str, ...], pd.DataFrame]:
    groups = frame.groupby(key, sort=False, dropna=False)
    return {tuple(map(str, name)): group for name, group in groups}


def _packed(frame: pd.DataFrame) -> dict[str, Any]:
    return pack(frame.drop(columns=[name for name in SAME_IN_A_PART if name in frame]))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"
