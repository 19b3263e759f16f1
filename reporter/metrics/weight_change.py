"""How far each weight of a model is from the same weight of its base."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from reporter.charts import Chapter, Chart, parts
from reporter.charts.styles import Styles, alt
from reporter.core.errors import ReporterError
from reporter.core.numbers import counted, span
from reporter.core.sources import BIBLIOGRAPHY
from reporter.core.table import WEIGHTS, Comparable, OfModel, column
from reporter.metrics.analysis import Context, analysis
from reporter.metrics.vocabulary import VOCABULARY, Models
from reporter.study.offer import Reference, Section
from reporter.study.part import Part

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from reporter.charts.layout import Scene
    from reporter.models.load import LoadedModel

_WHERE = "kind || if(kind = 'block', ' ' || block, '')"
_BLOCK = re.compile(r"(?:^|\.)(\d+)\.")  # the first number is that of the block: experts come after it


class ChangedWeight(OfModel, table="changed_weights", corpus=WEIGHTS, metric="weight_change"):
    """A weight W against the same weight W⁰ of the base. Both are exact, so there is no interval.

    Adapters are merged and quantised weights unpacked. Weights that are fused, such as queries, keys and values in one
    matrix, are one weight. A tensor of more than two axes is the matrix of its last axis by the others. A head that is
    tied to the embedding counts once, as the embedding.
    """

    compared = (Comparable(("relative", "stable_rank"), "NULL", of=f"{_WHERE} || ', ' || weight"),)

    kind: str = column("'block', 'embedding' (with its norms), 'head' (with final norm and pooler)", key=True)
    block: int = column("block, from 1; 0 outside of blocks", key=True)
    weight: str = column("name of the weight in the model, or inside its block", key=True)
    relative: float | None = column("‖W − W⁰‖ / ‖W⁰‖ (Frobenius norms); NULL where W⁰ is zero and W is not")
    stable_rank: float | None = column(
        "‖W − W⁰‖² / σ₁², with σ₁ the largest singular value of W − W⁰; NULL for vectors and where nothing changed"
    )
    parameters: int = column("numbers in the weight", "BIGINT")


def heat(frame: pd.DataFrame, styles: Styles) -> Any:
    """Draw the relative change of each weight by block; what did not change at all stays grey."""
    kinds = alt.Y("weight:N", title=None, sort=None, axis=alt.Axis(grid=False, domain=False, labelLimit=260))
    axis = alt.Axis(
        grid=False, domain=False, labelAngle=0, labelOverlap=True, labelExpr="datum.value ? datum.value : 'none'"
    )
    blocks = alt.X("block:O", axis=axis)
    colour = alt.Color("relative:Q", scale=alt.Scale(type="log", scheme="viridis"), legend=None)
    tips = parts.tooltips("block", "weight", "relative", "stable_rank", "parameters")
    every = alt.Chart().mark_rect(color="#8884").encode(x=blocks, y=kinds, tooltip=tips)
    changed = alt.Chart().mark_rect().encode(x=blocks, y=kinds, tooltip=tips, color=colour)
    layers = alt.layer(every, changed.transform_filter("datum.relative > 0"), data=frame)
    return layers.properties(width="container", height=18 * int(frame["weight"].nunique()))


def of_changes(rows: pd.DataFrame, scene: Scene) -> str:
    """Say how large the changes are that the colours run over."""
    changed = rows.loc[rows["relative"] > 0, "relative"].tolist()
    return f"relative change of {len(changed)} of {counted(len(rows), 'weight')}: {span(changed)}" if changed else ""


CHART = Chart(
    "weight_change.blocks",
    "Change of the weights by block",
    """
SELECT model, checkpoint, block,
  if(kind = 'block', weight, kind || ' ' || regexp_replace(weight, '^embeddings[.]', '')) AS weight, relative,
  stable_rank, parameters
FROM changed_weights WHERE study = $study ORDER BY model, checkpoint, kind = 'head', block > 0, weight, block
""",
    heat,
    say=of_changes,
    legend="change",
    lead="Grey: exactly the weights of the base.",
    mind="A small change of a weight may change the output much, and a large one little.",
    columns=("relative", "stable_rank"),
    sources=(BIBLIOGRAPHY["he2025understanding"],),
    chapter=Chapter(VOCABULARY, "changed", "Change against the base", "Which weights differ from the base's.", 10),
)


@analysis(
    title="Change of the weights",
    summary="How far each weight is from the same weight of the base, and the stable rank of the change: blocks, "
    "embedding and head.",
    statistics=(),
    cost="loads the weights of the base; no forward pass",
    tables=(ChangedWeight,),
    charts=(CHART,),
    section=Section(
        Models,
        "Models whose weights are compared with those of their `base`: a list, or 'all'.",
        references=(Reference("models", "models", several=True),),
        together=WEIGHTS,
        by_name=False,
        example="all",
    ),
    resolve=lambda spec, folder: Part(),
    last_only=True,
    against_base=True,
    version=3,
)
def weight_change(item: Part, context: Context) -> Iterator[ChangedWeight]:
    """Yield the change of each weight of a model against its base."""
    assert context.base is not None  # the planner asks for no other model
    mine, base = (_weights(model) for model in (context.model, context.base()))
    tied = {name for name, (kind, _) in mine.items() if kind == "tied"}
    tied &= {name for name, (kind, _) in base.items() if kind == "tied"}
    names = [name for name in {**mine, **base} if name not in tied]
    if packed := [name for name in names if name in mine and not mine[name][1].is_floating_point()]:
        raise ReporterError(f"weights are packed ({packed[0]}), so that their change has no size; unpack them first")
    shared = [name for name in names if name in mine and name in base and mine[name][1].shape == base[name][1].shape]
    if not shared:
        raise ReporterError("no weight of the model has the name and the shape of a weight of its base")
    if lacking := [name for name in names if name not in shared]:
        how_many = f"{len(lacking)} weights of model and base have no counterpart of the same shape"
        context.warnings.append(f"{how_many}, such as {lacking[0]}; they are left out")
    for name in shared:
        (kind, weight), (_, before) = mine[name], base[name]
        block = _BLOCK.search(name) if kind == "block" else None
        place = (0, name) if block is None else (int(block[1]) + 1, name[block.end() :])
        change, kind = _change(weight, before), "head" if kind == "tied" else kind
        yield ChangedWeight(kind, place[0], place[1].removesuffix(".weight"), *change, before.numel())


def _weights(model: LoadedModel) -> dict[str, tuple[str, Tensor]]:
    """Return the weights of a model by name, each with its kind; ``tied`` is a head that has an embedding's weight."""
    from torch import nn

    from reporter.models.head import load_head
    from reporter.models.weights import numbers_of

    weights: dict[str, tuple[str, Tensor]] = {}
    embeddings = tuple(f"{name}." for name, part in model.module.named_modules() if isinstance(part, nn.Embedding))
    for name, weight in numbers_of(model.module):
        embeds = "emb" in name or name.startswith(embeddings)
        if name not in model.drawn:
            weights[name] = "block" if _BLOCK.search(name) else "embedding" if embeds else "head", weight
    places = {weight.data_ptr() for _, weight in weights.values()}
    with suppress(ReporterError):  # without a head there is nothing more to compare
        for name, of_head in load_head(model.checkpoint, model, offline=True).weights.items():
            weights[name] = "tied" if of_head.data_ptr() in places else "head", of_head
            places.add(of_head.data_ptr())
    return weights


def _change(weight: Tensor, base: Tensor) -> tuple[float | None, float | None]:
    """Return the relative change and the stable rank of the change."""
    import torch
    from scipy.sparse.linalg import svds

    before = base.detach().cpu().float()
    delta = weight.detach().cpu().float() - before
    size, of_base = (float(torch.linalg.vector_norm(x, dtype=torch.float64)) for x in (delta, before))
    relative = size / of_base if of_base else None if size else 0.0
    matrix = delta.reshape(-1, delta.shape[-1]).numpy()
    if not size or delta.dim() < 2:
        return relative, None
    if min(matrix.shape) < 2:
        return relative, 1.0
    start = np.random.default_rng(0).standard_normal(min(matrix.shape)).astype(matrix.dtype)
    matrix /= size
    return relative, max(1.0, float(svds(matrix, k=1, v0=start, return_singular_vectors=False)[0]) ** -2)
