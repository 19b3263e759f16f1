"""Numbers of all states of a view as one cloud of points: anisotropy, spectrum, variance by token type, outliers."""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from reporter.app.verify.by_token import NONE, cosines, mean, mean_cosine, means
from reporter.app.verify.reading import CorpusReading, Floats, Mask, NoPath, Remeasured, StatePlace, over_views


def spectrum_of(reading: CorpusReading, place: StatePlace, mask: Mask) -> Floats:
    """Return the eigenvalues of the covariance (1/n) that are not zero, largest first; none for equal states."""
    spectrum: Floats = reading.once(("spectrum", place, mask.tobytes()), lambda: eigenvalues(reading.at(place)[mask]))
    return spectrum


def eigenvalues(x: Floats, centre: bool = True) -> Floats:
    """Return those of XᵀX/n that are not zero, largest first, X the rows of x minus their mean or as they are.

    None for fewer than two rows, and for equal rows about their mean.
    """
    n, square = len(x), float((x * x).sum())
    if centre and n > 1:
        x = x - x.mean(axis=0)
    products = x @ x.T if n <= x.shape[1] else x.T @ x
    spectrum = np.linalg.eigvalsh(products)[::-1][: n - centre].clip(min=0) / max(n, 1)
    if n < 2 or spectrum.sum() <= 1e-12 * square / n:
        return np.zeros(0)
    kept: Floats = spectrum[spectrum > 1e-12 * spectrum.sum()]
    return kept


def spectrum(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``spectrum`` measures, and the curve of the table ``spectra`` by rank."""

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[Any, ...]]:
        mask = reading.masks[view]
        values = spectrum_of(reading, place, mask)
        if not len(values):
            return
        p = values / values.sum()
        name = ("uncentred", place, mask.tobytes())
        as_they_are = reading.once(name, partial(eigenvalues, x[mask], centre=False))
        most = min(reading.widths[place], int(mask.sum()) - 1)
        for ending, part in {"": values, "_without_first": values[1:]}.items():
            if len(part):
                effective, room = effective_rank(part), most - len(values) + len(part)
                yield f"effective_rank{ending}", effective
                if room > 1:
                    yield f"entropy{ending}", float(np.log(effective) / np.log(room))
        yield "effective_rank_singular", effective_rank(np.sqrt(values))
        yield "rankme", effective_rank(np.sqrt(as_they_are))
        yield "participation_ratio", float(1 / (p * p).sum())
        yield "stable_rank", float(1 / p[0])
        rooted = int((values > 1e-8 * values.sum()).sum())
        for slope, fitted in {
            "decay": slice(0, min(most // 2, rooted)),
            "alpha_req": slice(11, min(100, rooted)),
        }.items():
            rank = np.arange(1, len(values) + 1)[fitted]
            if len(rank) >= 3:
                # polyfit weighs residuals, not their squares.
                fit = np.polyfit(np.log(rank), np.log(values[fitted]), 1, w=1 / np.sqrt(rank))
                yield slope, max(0.0, -float(fit[0]))
        # An eigenvalue at the threshold may be zero here and not in the run: the curve has the zeros as well.
        for before, share in enumerate(np.pad(p, (0, max(0, reading.widths[place] - len(p)))).tolist()):
            yield "curve", share, 0.0, before + 1

    return over_views(reading, numbers)


def effective_rank(values: Floats) -> float:
    """Return the exponential of the entropy of positive numbers, as shares of their sum."""
    p = values / values.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def subspaces(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``subspaces`` measures, from the singular vectors of the states themselves."""
    from scipy.linalg import subspace_angles

    if options.get("explained") is not None:
        raise NoPath(f"no independent path for the option explained: {options['explained']}")
    path = reading.path
    k = min(options["axes"], reading.widths[path[0]] // 2)
    for view, mask in reading.masks.items():
        axes = []
        for place in path:
            x = reading.at(place)[mask]
            x = x - x.mean(axis=0) if len(x) else x
            values, vectors = np.linalg.eigh(x.T @ x)
            separable = 0 < k < len(x) and values[-k] > 1e-8 * values.sum()
            axes.append(vectors[:, -k:] if separable else None)

        def distance(layer: int, other: int, axes: list[Floats | None] = axes) -> float:
            a, b = axes[layer], axes[other]
            if a is None or b is None:
                return NONE
            return float(np.linalg.norm(subspace_angles(a, b))) if layer != other else 0.0

        for layer, place in enumerate(path):
            yield Remeasured("displacement", view, place, distance(0, layer))
            if layer + 1 < len(path):
                yield Remeasured("speed", view, place, distance(layer, layer + 1))
            if layer + 2 < len(path):
                a, b, c = distance(layer, layer + 1), distance(layer + 1, layer + 2), distance(layer, layer + 2)
                # By Heron's formula in Kahan's order, which keeps the digits of flat triangles.
                z, y, x_ = sorted((a, b, c))
                product = (x_ + (y + z)) * (z - (x_ - y)) * (z + (x_ - y)) * (x_ + (y - z))
                if min(a, b, c) > 0:
                    yield Remeasured("curvature", view, place, float(np.sqrt(max(product, 0.0)) / (a * b * c)))


def anisotropy(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``anisotropy`` measures; its samples are the tokens with the smallest hashes."""

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[str, float]]:
        mask = reading.masks[view]
        values, d = spectrum_of(reading, place, mask), reading.widths[place]
        if len(values):
            yield "top_variance_share", float(values[0] / values.sum())
            yield "isoscore", isoscore(values, d)
        if mask.any():
            yield "mean_cosine", mean_cosine(x[mask])
            sample = x[reading.drawn(mask, options["sample"] * options["batches"])]
            yield from _centred(x[mask], sample)

    return over_views(reading, numbers)


def isoscore(values: Floats, d: int) -> float:
    """Return IsoScore by the steps of its algorithm (Rudman et al. 2022), from the variances on the principal axes."""
    if d < 2:
        return NONE
    axes = np.zeros(d)
    axes[: len(values)] = values
    normalised = np.sqrt(d) * axes / np.linalg.norm(axes)
    defect = np.linalg.norm(normalised - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    used = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return float(np.clip((d * used - 1) / (d - 1), 0, 1))


def batches(drawn: int, options: Mapping[str, Any]) -> list[slice]:
    """Cut drawn tokens into full batches; too few for one are one batch."""
    size = options["sample"]
    full = min(options["batches"], drawn // size)
    return [slice(i * size, (i + 1) * size) for i in range(full)] or [slice(0, drawn)]


def _centred(x: Floats, sample: Floats) -> Iterator[tuple[str, float]]:
    centre, spread = x.mean(axis=0), x.std(axis=0)
    moved = sample - centre
    # What rounding leaves of a state that equals the mean has no direction.
    length = np.linalg.norm(moved, axis=1).max(initial=0.0)
    yield "mean_cosine_centred", mean_cosine(moved, 1e-6 * max(float(np.sqrt((x * x).sum() / len(x))), length))
    varies = spread > 1e-6 * np.maximum(np.abs(centre), np.sqrt((spread * spread).mean()))
    scaled = moved[:, varies] / spread[varies]
    yield "mean_cosine_standardised", mean_cosine(scaled, 1e-6 * np.linalg.norm(scaled, axis=1).max(initial=0.0))


def variance(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``variance`` measures (Yamagiwa & Shimodaira 2025), type by type."""
    fits = options["memory"] * 2**20 // (8 * sum(width + 2 for width in reading.widths.values()))
    often = sorted((-count, token) for token, count in reading.type_counts.items() if count >= 5)
    kept = [token for _, token in often[:fits]]
    of_type = np.isin(reading.ids, kept) & ~reading.kinds.special
    for view, mask in reading.masks.items():
        if mask.any():
            yield Remeasured("coverage", view, None, float((of_type & mask).sum() / mask.sum()))

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[str, float]]:
        rows = np.flatnonzero(reading.masks[view] & of_type)
        return _of_types(x[rows], reading.ids[rows]) if len(rows) else iter(())

    yield from over_views(reading, numbers)


def _of_types(x: Floats, ids: Any) -> Iterator[tuple[str, float]]:
    centre = x.mean(axis=0)
    total = float(((x - centre) ** 2).sum(axis=1).mean())
    square = float((x * x).sum(axis=1).mean())
    counts, norms, variances, within, between = [], [], [], 0.0, 0.0
    for token in np.unique(ids):
        of_type = x[ids == token]
        middle = of_type.mean(axis=0)
        scatter = float(((of_type - middle) ** 2).sum())
        counts.append(len(of_type))
        norms.append(float(np.linalg.norm(middle)))
        variances.append(scatter / len(of_type))
        within += scatter / len(x)
        between += len(of_type) / len(x) * float(((middle - centre) ** 2).sum())
    yield "norm_of_mean", float(np.linalg.norm(centre))
    yield "mean_square_norm", square
    if total > 1e-12 * square:
        yield from {"total": total, "within": within, "between": between}.items()
        yield from {"within_share": within / total, "between_share": between / total}.items()
    twice = np.array(counts) >= 2
    spreads = np.array(variances)
    spreads[spreads <= 1e-12 * square] = 0
    if twice.sum() >= 5 and spreads[twice].any():
        a, b = _ranks(np.array(norms)[twice]), _ranks(spreads[twice])
        if a.std() and b.std():
            yield "tradeoff", float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Floats) -> Floats:
    order, ranks, start = np.argsort(values), np.empty(len(values)), 0
    for stop in range(1, len(values) + 1):
        here, before = values[order[min(stop, len(values) - 1)]], values[order[stop - 1]]
        if stop == len(values) or here - before > 1e-6 * abs(here):
            ranks[order[start:stop]] = (start + 1 + stop) / 2
            start = stop
    return ranks


def outliers(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``outliers`` measures: massive activations, outlier dimensions, sinks."""
    for view, mask in reading.masks.items():
        counted = mask & ~reading.kinds.special
        if counted.any():
            yield Remeasured("sink_share", view, None, float((counted & reading.kinds.sink).sum() / counted.sum()))
    yield from _norm_ratios(reading)
    rows, by_cut = _without_first(reading, options)
    sinks = [sink for cut, sink in by_cut.items() if cut.startswith("dominance")]
    limits = {place: _limit(reading, reading.at(place)) for place in reading.places}

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[Any, ...]]:
        shares = [_top_share(reading, place, rows[~sink]) for sink in sinks]
        yield "sink_sensitivity", max(shares) - min(shares)
        mask, limit, largest = reading.masks[view], limits[place], np.abs(x).max(axis=1)
        if not mask.any():
            return
        close = float((np.abs(largest - limit) <= 1e-5 * limit)[mask].mean())
        yield "massive", float((largest > limit)[mask].mean()), close
        yield "largest", float(largest[mask].max())
        root = float(np.sqrt((x[mask] ** 2).mean()))
        yield "largest_ratio", max(1.0, float(largest[mask].max()) / root) if root else NONE
        middle = x[mask].mean(axis=0)
        away, limit_here = np.abs(middle - middle.mean()), 3 * middle.std()
        slack = float((np.abs(away - limit_here) <= 1e-5 * limit_here).sum())
        yield "dimensions", float((away > limit_here).sum()), slack
        yield "top3_cosine_share", _top3(x[mask])

    yield from over_views(reading, numbers)


def _limit(reading: CorpusReading, x: Floats) -> Floats:
    """Return what a coordinate of each token must exceed to be a massive activation."""
    limit = np.full(len(x), 100.0)
    for _, span in reading.spans:
        if np.abs(x[span]).max() > 50:
            limit[span] = max(100.0, 1000 * float(np.median(np.abs(x[span]))))
    return limit


def _norm_ratios(reading: CorpusReading) -> Iterator[Remeasured]:
    start = reading.position == 0
    for place in reading.path:
        norms = np.linalg.norm(reading.at(place), axis=1)
        ratios = np.full(len(norms), np.nan)
        for _, span in reading.spans:
            ordinary = norms[span][~(reading.kinds.sink | start)[span]]
            if len(ordinary) and np.median(ordinary) > 0:
                ratios[span] = norms[span] / np.median(ordinary)
        for name, which in {"sink": reading.kinds.sink, "first": start}.items():
            yield from means(reading, place, {f"{name}_norm_ratio": np.where(which, ratios, np.nan)})


def _top3(x: Floats) -> float:
    norms = np.linalg.norm(x, axis=1)
    u = x[norms > 0] / norms[norms > 0, None]
    if len(u) < 2:
        return NONE
    parts = (u * (u.sum(axis=0) - u)).mean(axis=0) / (len(u) - 1)
    return float(np.sort(parts)[-3:].sum() / parts.sum()) if parts.sum() else NONE


DOMINANCES, FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0), (2.0, 3.0, 4.0, 6.0, 8.0, 12.0)


def sink_cuts(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield the table ``sink_cuts``: numbers of the tokens that no cut takes for sinks; the view names the cut."""
    rows, sinks = _without_first(reading, options)
    if not len(rows):
        return
    last = reading.at(reading.path[-1])[rows]
    for place in reading.places:
        x = reading.at(place)[rows]
        to_last = cosines(x, last) if place in reading.path else None
        for cut, sink in sinks.items():
            yield Remeasured("left_out", cut, place, float(sink.mean()))
            yield Remeasured("anisotropy.top_variance_share", cut, place, _top_share(reading, place, rows[~sink]))
            yield Remeasured("anisotropy.mean_cosine", cut, place, mean_cosine(x[~sink]))
            if to_last is not None:
                yield Remeasured("convergence.similarity", cut, place, mean(to_last, ~sink))


def _without_first(reading: CorpusReading, options: Mapping[str, Any]) -> tuple[Any, dict[str, Mask]]:
    kinds = reading.kinds
    rows = reading.drawn(~kinds.special, options["sample"])
    rows = rows[~kinds.first[rows]]
    sinks = {f"dominance {cut:g}": kinds.weight[rows] > cut for cut in DOMINANCES}
    return rows, sinks | {f"factor {cut:g}": kinds.ratio[rows] > cut for cut in FACTORS}


def _top_share(reading: CorpusReading, place: StatePlace, rows: Any) -> float:
    mask = np.zeros(len(reading.ids), dtype=bool)
    mask[rows] = True
    values = spectrum_of(reading, place, mask)
    return float(values[0] / values.sum()) if len(values) else NONE


def sinks(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield the table ``sinks``: of each type its sinks at position 0 and those further on; the view names them."""
    kinds, start = reading.kinds, reading.position == 0
    named = np.stack([reading.ids, start, kinds.special], axis=1)
    types = np.unique(named[kinds.sink], axis=0)
    yield Remeasured("types", "", None, len(types))
    for token, at_start, special in types.tolist():
        rows = np.flatnonzero(kinds.sink & (named == (token, at_start, special)).all(axis=1))
        heaviest = rows[np.argmax(kinds.weight[rows])]
        facts = {
            "texts": len(np.unique(reading.text[rows])),
            "count": len(rows),
            "position_first": reading.position[rows].min(),
            "position_last": reading.position[rows].max(),
            "layer_first": kinds.layer_first[rows].min(),
            "layer_last": kinds.layer_last[rows].max(),
            "norm_ratio": kinds.ratio[rows].max(),
            "dominance": kinds.weight[heaviest],
            "dimension": kinds.dimension[heaviest],
        }
        name = f"token {token} {'at position 0' if at_start else 'further on'}{', not own' if special else ''}"
        yield from (Remeasured(statistic, name, None, float(value)) for statistic, value in facts.items() if value >= 0)


def ranges(reading: CorpusReading, options: Mapping[str, Any]) -> Iterator[Remeasured]:
    """Yield what ``ranges`` measures: the largest activation over the median, and the energy that rounding loses."""

    def numbers(place: StatePlace, x: Floats, view: str) -> Iterator[tuple[str, float]]:
        mask = reading.masks[view]
        size, drawn = np.abs(x[mask]), np.abs(x[reading.drawn(mask, 1024)])
        if not size.any():
            return
        if median := float(np.median(drawn)):
            yield "over_median", float(size.max()) / median
        peaks = {"token": drawn.max(axis=1, keepdims=True), "channel": drawn.max(axis=0), "tensor": size.max()}
        for (form, most), (scale, peak) in product({"int8": 127, "fp8": 448}.items(), peaks.items()):
            step = np.where(peak > 0, peak, 1.0) / most
            y = drawn / step
            grid = 1.0 if form == "int8" else 2.0 ** (np.floor(np.log2(np.maximum(y, 2.0**-6))) - 3)
            lost, energy = (((y - grid * np.rint(y / grid)) * step) ** 2).sum(axis=1), (drawn**2).sum(axis=1)
            yield f"{form}_{scale}", float((lost / np.where(energy > 0, energy, 1.0)).mean())

    return over_views(reading, numbers)
