"""The split of the variance within and between token types (Yamagiwa & Shimodaira 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from reporter.charts import Chart, corpora, curves
from reporter.core.table import LAST_CHECKPOINT, TOKEN, TOKEN_ID, Comparable, UnderView, at_place, column
from reporter.geometry import noise
from reporter.geometry.arrays import Floats, Ints
from reporter.geometry.intervals import Error, error_over_texts
from reporter.geometry.statistics import correlation, fisher_interval
from reporter.metrics._intervals import MORE_TYPES, per_doubling, sampled
from reporter.metrics.base import INFLUENCES, Options, Share, Size, Statistic, Value, metric, undefined, valued

if TYPE_CHECKING:
    import torch

    from reporter.forward.observed import Observed, Place
    from reporter.forward.type_moments import TypeMoments, TypeView


_OVER = (
    "Means E are over the tokens of the kept types: types that occur at least five times in the corpus, the most "
    "frequent first, as many as fit `memory`. Tokens that the tokenizer added belong to no type, even in the token set "
    "`all`."
)
_BIAS = "A type's mean is estimated from its own n_t states: V_W loses and V_B gains 1/n_t of each type's variance."

_AT_THRESHOLD = "Types of about five occurrences, which other texts may add or remove, count with a weight of 0.61."

_variance = partial(Size, sources=("yamagiwa2025norm",), scale="log", interval=_AT_THRESHOLD)
_share = partial(Share, sources=("yamagiwa2025norm",), scale="logit", interval=_AT_THRESHOLD, floor=True)
_of_types = partial(Statistic, sources=("yamagiwa2025norm",))

STATISTICS = (
    _variance(
        "total",
        "variance",
        f"V = V_W + V_B = E‖x − μ‖². {_OVER} Checked to 0.1 % against sums that ignore types.",
        grows=per_doubling("Rises by 3 to 5 %", "1.1 to 3.7", MORE_TYPES),
    ),
    _variance(
        "within",
        "variance within token types",
        f"V_W = Σ p_t E‖x − μ_t‖², with p_t = n_t/n and μ_t the mean state of type t. {_OVER} {_BIAS}",
        trap="Slightly too low: the mean of a type is estimated from the same states.",
        grows=per_doubling("Rises by 1 to 2 %", "0.7 to 0.8", MORE_TYPES),
        fixed=(("first", 0.0),),
    ),
    _variance(
        "between",
        "variance between token types",
        f"V_B = Σ p_t ‖μ_t − μ‖², with p_t = n_t/n and μ_t the mean state of type t. {_OVER} {_BIAS}",
        trap="Slightly too high: rare types have noisy means, and noise separates them.",
        grows=per_doubling("Rises by 3 to 8 %", "1.0 to 3.0", MORE_TYPES),
    ),
    _share(
        "within_share",
        "share of variance within token types",
        f"V_W / V, with V_W = Σ p_t E‖x − μ_t‖², p_t = n_t/n and μ_t the mean state of type t. V = E‖x − μ‖². {_OVER} "
        f"{_BIAS}",
        short="share within token types",
        plainly="Share of the variance among occurrences of the same token, not between tokens.",
        trap="Biased low by about 1/n_t, with n_t occurrences per type; compare the chance level.",
        grows=per_doubling("Falls by 1 to 3 %", "0.4 to 1.3", MORE_TYPES),
        fixed=(("first", 0.0),),
    ),
    _share(
        "between_share",
        "share of variance between token types",
        f"V_B / V, with V_B = Σ p_t ‖μ_t − μ‖², p_t = n_t/n and μ_t the mean state of type t. V = E‖x − μ‖². {_OVER} "
        f"{_BIAS}",
        short="share between token types",
        trap="Biased high, most of all with few occurrences per type; compare the chance level.",
        grows=per_doubling("Rises by up to 3 %", "0.4 to 1.3", MORE_TYPES),
        fixed=(("first", 1.0),),
    ),
    _variance(
        "norm_of_mean",
        "norm of the mean",
        f"‖μ‖, with μ = E x the mean state. {_OVER}",
        grows=per_doubling("Falls by 3 to 7 %", "1.6 to 5.1", MORE_TYPES),
    ),
    _variance(
        "mean_square_norm",
        "mean square norm",
        f"E‖x‖² = ‖μ‖² + V. {_OVER} Checked to 0.1 % against sums that ignore types.",
        grows=per_doubling("Rises by 1 to 3 %", "0.8 to 2.0", MORE_TYPES),
    ),
    _of_types(
        "tradeoff",
        "trade-off of norm and variance",
        "Spearman correlation of ‖μ_t‖ and V(X_t) = E‖x − μ_t‖², over the kept types that occur at least twice in the "
        "token set. Values that agree to 1e-6 share their mean rank.",
        interval="95 % CI over types (Fisher's z). The variance is (1 + r²/2)/(T − 3), of Bonett & Wright 2000, with T "
        "types taken as independent. The interval is about other types in the same texts. It is 1.2 to 1.5 times as "
        "wide as other texts would need.",
        bounds=(-1, 1),
        smallest=0.03,
        trap="Rare types have too low a variance and too long a mean. This bias explains part of a negative "
        "correlation.",
        grows=per_doubling("Falls by 0.06 to 0.18", "0.7 to 1.8", MORE_TYPES),
    ),
    _of_types(
        "coverage",
        "tokens covered by types",
        "Share of the token set's tokens that belong to the kept types: types that occur at least five times in the "
        "corpus, as many as fit `memory`.",
        per="model",
        bounds=(0, 1),
        grows=per_doubling("Rises by 15 %", "6.4", MORE_TYPES),
    ),
)

_FEWEST_TYPES = 5


class VarianceOptions(Options):
    """The number of types to keep, and of types that the report draws."""

    memory: int = Field(default=512, ge=1, description="MiB for the means of token types, in each of two strata")
    scatter: int = Field(default=300, ge=0, description="most frequent types whose mean and variance are stored")

    def sample_size(self) -> int:
        """Return the memory in MiB, which is what ``TypeMoments`` goes by."""
        return self.memory

    def size_of(self, observable: str) -> int:
        """Return the memory in MiB, or the sampled tokens."""
        return INFLUENCES if observable == "tokens" else self.memory


class TokenType(UnderView, table="token_types"):
    """One token type at one layer: the norm of the mean of its states, and their variance."""

    # Of thousands of types the most frequent ones say what moved.
    compared = (
        Comparable(
            ("norm_of_mean", "variance"),
            "corpus",
            of="'token ' || token",
            among="""QUALIFY row_number() OVER (
                PARTITION BY model, checkpoint, corpus, view, site, layer ORDER BY count DESC, token_id) <= 20""",
        ),
    )

    place: Place = at_place()
    token_id: int = column(TOKEN_ID, key=True)
    token: str = column(TOKEN)
    count: int = column("occurrences in the token set", "BIGINT")
    norm_of_mean: float = column("norm of the mean of its states")
    variance: float = column("mean squared distance of its states from their mean")


SHARES = Chart(
    "variance.shares",
    "variance within and between token types",
    """
SELECT model, role, checkpoint, step, corpus, view, statistic, layer, depth, value, n
FROM layer_metrics
WHERE study = $study AND metric = $metric AND statistic IN ('within_share', 'between_share')
  AND site IN ('embedding', 'block')
ORDER BY corpus, view, role, model, step, checkpoint, statistic, layer
""",
    curves.type_shares,
    kind="shares",
    say=curves.of_shares,
    facet="model",
    picks=corpora,
    legend="shares",
    statistics=("within_share", "between_share"),
)

# Five depths and the most frequent types of each, at the last checkpoint: all of them would be millions of marks.
TYPES = Chart(
    "variance.types",
    "norm of the mean against variance, by token type",
    f"""
WITH newest AS (
  SELECT model, checkpoint, max(layer) AS layers
  FROM token_types WHERE study = $study AND metric = $metric AND {LAST_CHECKPOINT} GROUP BY model, checkpoint
), chosen AS (
  SELECT types.*, part
  FROM token_types AS types
  JOIN newest USING (model, checkpoint)
  CROSS JOIN (VALUES (0e0), (0.25), (0.5), (0.75), (1.0)) AS parts(part)
  WHERE study = $study AND metric = $metric AND site IN ('embedding', 'block') AND layer = round(part * layers)
  QUALIFY row_number() OVER (
    PARTITION BY model, corpus, view, part ORDER BY "count" DESC, token_id
  ) <= 300
)
SELECT model, chosen.role, checkpoint, corpus, view, part, layer, chosen.depth,
  token, "count", norm_of_mean, variance, numbers.value AS rho
FROM chosen
LEFT JOIN (
  FROM layer_metrics WHERE study = $study AND metric = $metric AND statistic = 'tradeoff'
) AS numbers USING (model, checkpoint, corpus, view, site, layer)
ORDER BY corpus, view, role, model, part, "count" DESC, token_id
""",
    curves.types,
    options={"last": True},
    kind="types",
    say=curves.of_types,
    facet="model",
    picks=curves.depths,
    value="variance",
    definition="A mark is a token type t. x: ‖μ_t‖, the norm of the mean of its states. y: V(X_t) = E‖x − μ_t‖² over "
    "its occurrences. Area: number of occurrences. ρ is Spearman's correlation over all kept types. The table "
    "token_types has all types.",
    statistics=("tradeoff",),
    mind="Shows the 300 most frequent types at five depths, always of the last checkpoint. Axes differ between models.",
)


@metric(
    title="Variance within and between token types",
    summary="Do states differ because their tokens differ, or because the same token occurs in different contexts?",
    statistics=STATISTICS,
    question="similarity",
    needs=("type_moments", "moments", "tokens"),
    options=VarianceOptions,
    version=7,
    cost="8·(d + 2) bytes per kept type and layer, up to `memory`. Means by type are kept in 16 bits, which changes "
    "numbers by up to 2e-5 of their size, and the trade-off by 4e-4 (2,000 tokens, 6 and 30 blocks).",
    against_base=("within_share",),
    tables=(TokenType,),
    charts=(SHARES, TYPES),
)
def variance(seen: Observed, options: VarianceOptions) -> Iterator[Value | TokenType]:
    """Yield the variances and their shares at every place, the coverage, and the most frequent types.

    Raises:
        ReporterError: if the parts of the variance do not add up.
    """
    from reporter.forward.type_moments import TypeMoments, type_view, typed_strata

    kept, strata = seen.get(TypeMoments), typed_strata(seen)
    tokens = int(kept.seen[list(seen.strata)].sum())
    sampled(seen, strata)  # before threads ask for it, each for itself

    def at(place: Place) -> tuple[TypeView, dict[str, Error | None]]:
        types = type_view(seen, place, options.memory)
        return types, _errors(types, seen, place, kept)

    types: TypeView | None = None
    for place, (types, errors) in seen.everywhere(("variance", strata, options.memory), at).items():
        yield from _of_place(types, place, tokens, seen, errors)
        for i in np.flatnonzero(types.ranks < options.scatter):
            rank = int(types.ranks[i])
            numbers = int(types.count[i]), float(types.norms[i]), float(types.variances[i])
            yield TokenType(place, kept.types[rank], kept.tokens[rank], *numbers)
    yield valued("coverage", None, types.n / tokens if types and tokens else None, tokens, "no token")


# Of the jumps of types at the edge, in the error. A text more or less moves a type over the threshold with all its
# occurrences, which no influence of a token knows. Deleting each text by turns finds these jumps, and overstates them
# (Efron & Stein 1981): with Poisson counts c and types of rate λ in a density λ^−a, the sum of c over the types with
# c ≥ 5 has the variance Σc + s·(jumps) with s = 0.36, 0.35, 0.33 for a = 1.5, 2, 2.5 (Zipf: 2). A type of five
# occurrences, each weighed with this part of all five, adds just that: 5·(0.61·5)² ≈ 5 + 0.35·(5·5² − 5).
_AT_EDGE = 0.61


def _errors(type_view: TypeView, seen: Observed, place: Place, kept: TypeMoments) -> dict[str, Error | None]:
    """Return the error of each number from the influences of sampled tokens that the types cover.

    ``paired`` is the error of the share within types over all sampled tokens, as a difference from a base takes it.
    """
    from reporter.forward.token_sample import TOKEN
    from reporter.forward.type_moments import FEWEST_OCCURRENCES, typed_strata

    sample = sampled(seen, typed_strata(seen))  # a token that the tokenizer added has no type, whatever its id
    slot = np.full(max(kept.types, default=-1) + 2, -1)  # the last stands for types that are not kept
    slot[np.asarray(kept.types, dtype=np.int64)[type_view.ranks]] = np.arange(len(type_view.ranks))
    of_token = slot[np.minimum(sample.facts[:, TOKEN], len(slot) - 1)]
    covered = of_token >= 0
    types, texts = of_token[covered], sample.texts[covered]
    apart = type_view.means - type_view.centre
    tokens = _of_tokens(sample.states(place), np.flatnonzero(covered), types, type_view.centre, apart)
    of_types = {  # the means of the same over the occurrences of each type
        "whole": type_view.variances + np.square(apart).sum(axis=1),
        "within": type_view.variances,
        "along": apart @ type_view.centre,
        "square": type_view.variances + np.square(type_view.means).sum(axis=1),
    }
    _, pair, sizes = np.unique(np.stack([types, texts]), axis=1, return_inverse=True, return_counts=True)
    together = sizes[pair.reshape(-1)]  # occurrences of the type in the same text
    edge = kept.occurrences()[type_view.ranks][types] - together < FEWEST_OCCURRENCES
    jump = _AT_EDGE * type_view.count[types] / together
    token_influences, of_type = _influences(tokens, type_view), _influences(of_types, type_view)
    influences = {
        name: np.where(edge, jump * of_type[name][types], token_influences[name]) for name in token_influences
    }
    # φ is of covered tokens: over all of them it is the same mean, with each weighed by so much more.
    of_all, n = np.zeros(len(sample)), int(kept.seen[list(typed_strata(seen))].sum())
    if type_view.varies and type_view.varies_within:
        of_all[covered] = n / type_view.n * influences["within_share"]
    errors = {
        name: error_over_texts(influence, texts, type_view.n, seen.texts) for name, influence in influences.items()
    }
    return errors | {"paired": error_over_texts(of_all, sample.texts, n, seen.texts, sample.keys)}


def _of_tokens(states: torch.Tensor, rows: Ints, types: Ints, centre: Floats, apart: Floats) -> dict[str, Floats]:
    """Return the input of ``_influences`` in the precision of the states: errors need a few digits."""
    import torch

    mean, from_mean = (torch.from_numpy(array).to(states) for array in (centre, apart))
    x = states[torch.from_numpy(rows).to(states.device)]
    lengths = [torch.linalg.vector_norm(x, dim=1, dtype=torch.float64)]
    x -= mean
    along = (x @ mean).double()
    lengths.append(torch.linalg.vector_norm(x, dim=1, dtype=torch.float64))
    x -= from_mean[torch.from_numpy(types).to(states.device)]
    lengths.append(torch.linalg.vector_norm(x, dim=1, dtype=torch.float64))
    square, whole, within, product = torch.stack([*(length.square() for length in lengths), along]).cpu().numpy()
    return {"whole": whole, "within": within, "along": product, "square": square}


def _influences(values: dict[str, Floats], types: TypeView) -> dict[str, Floats]:
    """Return the influence on each number of tokens, or the mean influence of types, from their squared distances."""
    norm = types.norm_of_mean
    influences = {
        "total": values["whole"] - types.total,
        "within": values["within"] - types.within,
        "between": values["whole"] - values["within"] - types.between,
        "norm_of_mean": values["along"] / norm if norm > 0 else np.zeros_like(values["along"]),
        "mean_square_norm": values["square"] - types.mean_square,
    }
    if types.varies:
        share = types.within / types.total
        influences["within_share"] = (values["within"] - share * values["whole"]) / types.total
    return influences


def _of_place(
    types: TypeView, place: Place, tokens: int, seen: Observed, errors: dict[str, Error | None]
) -> Iterator[Value]:
    n = types.n
    if n == 0:
        reason = "no token" if tokens == 0 else "no token type occurs five times in the corpus"
        yield from undefined(STATISTICS[:-1], place, 0, reason)
        return
    within = types.within if types.varies_within else 0.0  # what rounding leaves of equal states is no variance
    numbers = {"total": types.total, "within": within, "between": types.between}
    if not types.varies:
        yield from undefined((*numbers, "within_share", "between_share"), place, n, "all states are equal")
    elif len(types.count) == 1:
        yield Value("total", place, types.total, n, spread=errors["total"])
        yield Value("within", place, within, n, spread=errors["within"])
        reason = "one token type alone: there is nothing between types"
        yield from undefined(("between", "within_share", "between_share"), place, n, reason)
    else:
        for name, value in numbers.items():
            yield Value(name, place, value, n, spread=errors[name])
        share = types.between / types.total if types.varies_within else 1.0
        floor = noise.between_share(n, len(types.count), seen.width(place), seen.seed)
        error = errors["within_share"]
        yield Value("within_share", place, 1 - share, n, spread=error, paired=errors["paired"], floor=1 - floor)
        yield Value("between_share", place, share, n, spread=error, floor=floor)
    for name, value in {"norm_of_mean": types.norm_of_mean, "mean_square_norm": types.mean_square}.items():
        yield Value(name, place, value, n, spread=errors[name])
    yield _tradeoff(types, place)


def _tradeoff(types: TypeView, place: Place) -> Value:
    twice = types.count >= 2
    norms, variances, n = types.norms[twice], types.variances[twice], int(twice.sum())
    if n < _FEWEST_TYPES:
        return Value("tradeoff", place, None, n, reason=f"fewer than {_FEWEST_TYPES} token types")
    # What rounding leaves of a type whose states are all equal is no variance: they share the lowest rank.
    variances = np.where(variances > 1e-12 * types.mean_square, variances, 0.0)
    if not variances.any():
        return Value("tradeoff", place, None, n, reason="every occurrence of a type has the same state")
    r = correlation(norms, variances, "spearman", ROUNDING)
    if r is None:
        return Value("tradeoff", place, None, n, reason="all types have means of the same norm, or the same variance")
    return Value("tradeoff", place, r, n, *fisher_interval(r, n, "spearman"))


ROUNDING = 1e-6  # relative; float32 states give variances to about 1e-7
