"""What is known of a token of a journey at each layer, and of the vocabulary near it: three tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from reporter.table import TOKEN, TOKEN_ID, Comparable, OfModel, at_place, column, of_cell

if TYPE_CHECKING:
    from reporter.forward.places import Place

Measure = Literal["cosine", "distance"]
WithPositions = Literal["without", "with"]
Norm = Literal["closing", "none"]


class OfToken(OfModel, metric="journeys"):
    """What becomes of a token of a journey."""

    journey = of_cell("name of the journey in the study", part="corpus")
    text: int = column("which of the journey's texts, 0 for the first", key=True)
    position: int = column("place of the token in its text as the model sees it, 0 for the first", key=True)
    token_id: int = column(TOKEN_ID)
    token: str = column(TOKEN)


_NORM = (
    "what a state went through before it was compared with the vocabulary: 'closing' (the norm that closes the model, "
    "as in the logit lens; the default for decoders) or 'none' (the residual stream as it is)"
)
_WITH = (
    "'without': the vocabulary's own vectors; 'with': the position vector of the token's own position is added to each"
)


class JourneyStep(OfToken, table="journeys"):
    """A token of a text at one layer: how far it is from its own vocabulary vector, and how many others are closer."""

    compared = (
        Comparable(
            ("cosine", "distance", "rank_cosine", "rank_distance", "norm"),
            "journey || ', text ' || text || ', position ' || position || ', ' || positions || ' positions'",
        ),
    )

    followed: bool = column("whether the study names it under 'follow'; true for all where it names none")
    special: bool = column("whether the tokenizer added it")
    place: Place = at_place()
    positions: WithPositions = column(_WITH, key=True)
    norm_before: Norm = column(_NORM)
    cosine: float | None = column(
        "cosine of its state, after `norm_before`, and its own vocabulary vector; NULL, as distance and ranks are, "
        "where they have another number of dimensions, and where one is zero"
    )
    distance: float | None = column("Euclidean distance of the two")
    rank_cosine: int | None = column("vocabulary vectors with a larger cosine than its own; 0 = still itself")
    rank_distance: int | None = column("vocabulary vectors that are nearer than its own")
    norm: float = column("norm of its state as it is, before any closing norm")
    step_length: float | None = column(
        "distance to its state at the next place, stored where the step begins, as motion.step_length is: embedding "
        "and blocks are one path, attention 1..L another; after block L comes 'final', which motion leaves out"
    )
    step_cosine: float | None = column("cosine of the two, stored in the same row; as motion.step_cosine")
    turnover_cosine: float | None = column(
        "share of its nearest 100 vocabulary tokens, by cosine, that were not among the nearest 100 at the place "
        "before; NULL in a vocabulary of at most 100"
    )
    turnover_distance: float | None = column("the same, nearest by distance")


class TokenPair(OfModel, table="journey_pairs", metric="journeys"):
    """Two followed tokens of a journey at one layer: how alike their states are, beside any two tokens of its texts."""

    compared = (
        Comparable(
            ("cosine", "distance"),
            "journey || ', ' || token_a || ' (text ' || text_a || ', position ' || position_a || ') and ' || "
            "token_b || ' (text ' || text_b || ', position ' || position_b || ')'",
        ),
    )

    journey = of_cell("name of the journey in the study", part="corpus")
    text_a: int = column("which of the journey's texts the first token stands in, 0 for the first", key=True)
    position_a: int = column("its place there as the model sees it, 0 for the first", key=True)
    token_a: str = column("it, as it reads")
    text_b: int = column("text of the second token", key=True)
    position_b: int = column("its place there", key=True)
    token_b: str = column("it")
    place: Place = at_place()
    cosine: float | None = column("cosine of their states; NULL where one is zero")
    distance: float = column("Euclidean distance of their states")
    mean_cosine: float | None = column(
        "mean cosine of any two different tokens of the journey's texts there, those left out that the tokenizer "
        "added: what two tokens have in common that are not alike; NULL for fewer than two that are not zero"
    )


class Neighbour(OfToken, table="neighbours"):
    """One of the vocabulary tokens nearest to a followed token at one layer."""

    place: Place = at_place()
    positions: WithPositions = column(_WITH, key=True)
    norm_before: Norm = column(_NORM)
    measure: Measure = column("'cosine' or 'distance': nearest by what", key=True)
    rank: int = column("1 = nearest", key=True, name="place")
    neighbour_id: int = column("id of the vocabulary token")
    neighbour: str | None = column("the vocabulary token as it reads; NULL for a row that no token has")
    cosine: float | None = column("cosine of the state, after `norm_before`, and its vector")
    distance: float = column("Euclidean distance of the two")
