"""Pictures of vectors in two or three dimensions, PCA, t-SNE and UMAP; and how much the components explain."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from torch import Tensor

from reporter.errors import ReporterError
from reporter.geometry.arrays import Floats, Ints, blocks
from reporter.geometry.components import Axes
from reporter.imports import check_installed
from reporter.weights.kinds import Kind

Method = Literal["pca", "tsne", "umap"]

_FEWEST = 5  # points of which a map of neighbours can be made
_COMPONENTS = 50  # principal components that a map of neighbours is made of, as its authors do


@dataclass(frozen=True)
class Projected:
    """Where one vector lies in a picture.

    Args:
        method: how the picture was made.
        kinds: whose vectors it was made of, together.
        kind: whose this one is.
        row: token id, position or token type.
        x: first coordinate.
        y: second.
        z: third; None in a picture of two dimensions.
    """

    method: Method
    kinds: tuple[Kind, ...]
    kind: Kind
    row: int
    x: float
    y: float
    z: float | None


def sample(count: int, size: int, seed: int) -> Ints:
    """Return ``size`` of ``count`` rows drawn evenly without replacement, in their order; all where they are fewer."""
    if count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, size, replace=False))


def of_components(
    kinds: tuple[Kind, ...], axes: Axes, tables: Mapping[Kind, Tensor], chosen: Mapping[Kind, Ints]
) -> list[Projected]:
    """Return the chosen vectors on the first three principal components.

    Args:
        kinds: whose components these are.
        axes: the components.
        tables: of these kinds.
        chosen: which rows of each.
    """
    return [
        Projected("pca", kinds, kind, int(row), *map(float, at))
        for kind in kinds
        for row, at in zip(chosen[kind], axes.coordinates(_chosen(tables[kind], chosen[kind])), strict=True)
    ]


def of_neighbours(
    method: Literal["tsne", "umap"],
    kinds: tuple[Kind, ...],
    tables: Mapping[Kind, Tensor],
    chosen: Mapping[Kind, Ints],
    seed: int,
) -> list[Projected]:
    """Return the chosen vectors of several kinds in one map of two dimensions that keeps neighbours together.

    Args:
        method: ``tsne`` (van der Maaten & Hinton 2008; perplexity 30, or a third of the points where these are
            few) or ``umap`` (McInnes 2018; 15 neighbours). Both see the first 50 principal components.
        kinds: whose vectors.
        tables: of these kinds, of one width.
        chosen: which rows of each.
        seed: the same seed gives the same map.

    Raises:
        ReporterError: if the library is not installed, or there are too few points.
    """
    x = np.concatenate([_rows(tables[kind], chosen[kind]) for kind in kinds])
    if len(x) < _FEWEST:
        raise ReporterError(f"{len(x)} vectors are too few for {method}")
    if method == "umap":
        check_installed("umap", "umap", "this picture")
    x = x - x.mean(axis=0)
    if min(x.shape) > _COMPONENTS:
        # Maps start from these coordinates, and the sign of an axis is enough for another map: the signs are the SVD's.
        u, s, _ = np.linalg.svd(x, full_matrices=False)
        x = u[:, :_COMPONENTS] * s[:_COMPONENTS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, about each other
        at = _tsne(x, seed) if method == "tsne" else _umap(x, seed)
    places = [(kind, int(row)) for kind in kinds for row in chosen[kind]]
    return [
        Projected(method, kinds, kind, row, float(a), float(b), None)
        for (kind, row), (a, b) in zip(places, at, strict=True)
    ]


def _tsne(x: Floats, seed: int) -> Any:
    from sklearn.manifold import TSNE

    # Started from the first two components, a map keeps the large picture, too (Kobak & Berens 2019).
    made = TSNE(perplexity=min(30.0, (len(x) - 1) / 3), init="pca", random_state=seed, n_jobs=1)
    return made.fit_transform(x)


def _umap(x: Floats, seed: int) -> Any:
    library: Any = import_module("umap")
    return library.UMAP(n_neighbors=min(15, len(x) - 1), random_state=seed, n_jobs=1).fit_transform(
        x.astype(np.float32)
    )


def _chosen(table: Tensor, rows: Ints) -> Tensor:
    import torch

    return table[torch.from_numpy(rows).to(table.device)]


def _rows(table: Tensor, rows: Ints) -> Floats:
    found = [block.cpu().numpy() for _, block in blocks(_chosen(table, rows))]
    return np.concatenate([np.zeros((0, table.shape[1])), *found])


@dataclass(frozen=True)
class Spectrum:
    """How much variance how many components explain.

    Args:
        kinds: whose vectors: one kind, or several together.
        n: how many vectors.
        d: their dimension.
        eigenvalues: of the covariance (1/n), largest first, (min(d, n − 1),).
        shares: λ / Σλ.
        explained: by the first 1, 2, … components, the sums of these shares.
    """

    kinds: tuple[Kind, ...]
    n: int
    d: int
    eigenvalues: Floats
    shares: Floats
    explained: Floats


def spectrum(kinds: tuple[Kind, ...], axes: Axes) -> Spectrum:
    """Return the curve of explained variance."""
    shares = axes.eigenvalues / axes.eigenvalues.sum()
    explained = np.minimum(1.0, np.cumsum(shares))
    return Spectrum(kinds, axes.n, len(axes.mean), axes.eigenvalues, shares, explained)
