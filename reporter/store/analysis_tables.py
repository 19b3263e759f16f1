"""The tables of the analyses: tokens, sentences and vocabularies."""

from __future__ import annotations

from reporter.metrics.base import ALL_GROUPS, WEIGHTS
from reporter.store.cell_columns import CellColumns, Fixed, Own
from reporter.store.table import CHECKPOINT, DEPTH, HIGH, LAYER, LOW, MODEL, ROLE, SITE, STEP, STUDY, Column, Table

WHO = (STUDY, MODEL, CHECKPOINT, STEP, ROLE)
HERE = (SITE, LAYER, DEPTH)

ANALYSIS = Column("analysis", "VARCHAR", "'journeys', 'groups', 'pairs', 'clouds', 'probes' or 'vocabulary'")
ITEM = Column("item", "VARCHAR", f"its name in the study; '{ALL_GROUPS}' and '{WEIGHTS}' where all are one")
TOKEN_ID = Column("token_id", "INTEGER", "id in the model's vocabulary")
TOKEN = Column("token", "VARCHAR", "the token as the tokenizer writes it; NULL for a row that no token has")
POOLING = Column("pooling", "VARCHAR", "how a text became one vector: 'first', 'mean' or 'last' token")
JOURNEY = Column("journey", "VARCHAR", "name of the journey in the study")
TEXT = Column("text", "INTEGER", "which of the journey's texts, 0 for the first")
POSITION = Column("position", "INTEGER", "place of the token in its text as the model sees it, 0 for the first")
WITH_POSITIONS = Column(
    "positions",
    "VARCHAR",
    "'without': the vocabulary's own vectors; 'with': the position vector of the token's own position is added to each",
)
_PLACE = ("site", "layer")
_WHO = ("study", "model", "checkpoint")
_STEP = (*_WHO, "journey", "text", "position", "positions", *_PLACE)

ANALYSES: tuple[Table, ...] = (
    Table(
        "journeys",
        "A token of a text at one layer: how far it is from its own vocabulary vector, and how many others are closer.",
        _STEP,
        (
            *WHO,
            JOURNEY,
            TEXT,
            POSITION,
            TOKEN_ID,
            TOKEN,
            Column(
                "followed", "BOOLEAN", "whether the study names it under 'follow'; true for all where it names none"
            ),
            Column("special", "BOOLEAN", "whether the tokenizer added it"),
            *HERE,
            WITH_POSITIONS,
            Column(
                "cosine",
                "DOUBLE",
                "cosine of its state and its own vocabulary vector; NULL, as distance and ranks are, where they have "
                "another number of dimensions, and where one is zero",
            ),
            Column("distance", "DOUBLE", "Euclidean distance of the two"),
            Column("rank_cosine", "INTEGER", "vocabulary vectors with a larger cosine than its own; 0 = still itself"),
            Column("rank_distance", "INTEGER", "vocabulary vectors that are nearer than its own"),
            Column("norm", "DOUBLE", "norm of its state"),
            Column(
                "step_length",
                "DOUBLE",
                "distance to its state at the place before: embedding and blocks are one path, attention 1..L another; "
                "before 'final' is block L",
            ),
            Column("step_cosine", "DOUBLE", "cosine of the two"),
            Column(
                "turnover_cosine",
                "DOUBLE",
                "share of its nearest 100 vocabulary tokens, by cosine, that were not among the nearest 100 at the "
                "place before; NULL in a vocabulary of at most 100",
            ),
            Column("turnover_distance", "DOUBLE", "the same, nearest by distance"),
        ),
    ),
    Table(
        "neighbours",
        "One of the vocabulary tokens nearest to a followed token at one layer.",
        (*_STEP, "measure", "place"),
        (
            *WHO,
            JOURNEY,
            TEXT,
            POSITION,
            TOKEN_ID,
            TOKEN,
            *HERE,
            WITH_POSITIONS,
            Column("measure", "VARCHAR", "'cosine' or 'distance': nearest by what"),
            Column("place", "INTEGER", "1 = nearest"),
            Column("neighbour_id", "INTEGER", "id of the vocabulary token"),
            Column("neighbour", "VARCHAR", "the vocabulary token"),
            Column("cosine", "DOUBLE", "cosine of the state and its vector"),
            Column("distance", "DOUBLE", "Euclidean distance of the two"),
        ),
    ),
    Table(
        "groups",
        "A group of texts that mean the same, or a control made to match, at one layer.",
        (*_WHO, "text_group", "control", *_PLACE),
        (
            *WHO,
            Column("text_group", "VARCHAR", "name of the group in the study"),
            Column("control", "VARCHAR", "'none', 'random-characters' or 'random-words'"),
            POOLING,
            *HERE,
            Column("silhouette", "DOUBLE", "mean silhouette of its texts among all groups of the same control"),
            Column("within", "DOUBLE", "mean distance of two of its texts"),
            Column("between", "DOUBLE", "mean distance of one of its texts and one of another group"),
            Column("ratio", "DOUBLE", "within / between"),
            Column("n", "BIGINT", "texts"),
        ),
    ),
    Table(
        "pair_directions",
        "A concept at one layer: do the differences of its pairs of texts point the same way?",
        (*_WHO, "pairs", "concept", *_PLACE),
        (
            *WHO,
            Column("pairs", "VARCHAR", "name of the set of concepts in the study"),
            Column("concept", "VARCHAR", "the concept: second minus first"),
            POOLING,
            *HERE,
            Column("consistency", "DOUBLE", "mean cosine of each difference with the mean of the others"),
            LOW,
            HIGH,
            Column(
                "p",
                "DOUBLE",
                "probability of such a consistency, or a larger one, if each pair were turned round at random",
            ),
            Column("norm", "DOUBLE", "norm of the mean difference"),
            Column("relative_norm", "DOUBLE", "that norm over the mean norm of the texts' vectors"),
            Column("n", "BIGINT", "pairs"),
            Column(
                "same",
                "BIGINT",
                "of them, those whose two texts have the same vector here; they have no part in the consistency",
            ),
        ),
    ),
    Table(
        "direction_cosines",
        "Two concepts at one layer: the cosine of their mean differences.",
        (*_WHO, "pairs", "concept_a", "concept_b", *_PLACE),
        (
            *WHO,
            Column("pairs", "VARCHAR", "name of the set of concepts in the study"),
            Column("concept_a", "VARCHAR", "the first concept"),
            Column("concept_b", "VARCHAR", "the second"),
            POOLING,
            *HERE,
            Column("cosine", "DOUBLE", "cosine of the two mean differences"),
            Column(
                "p",
                "DOUBLE",
                "probability of a mean projection of one concept's differences on the other's direction at least as "
                "far from 0 if its pairs were turned round at random; the larger of the two, once for either concept",
            ),
            Column("n_a", "BIGINT", "pairs of the first"),
            Column("n_b", "BIGINT", "pairs of the second"),
        ),
    ),
    Table(
        "projections",
        "A point of a picture: vectors of a layer, of a path through the layers or of the weights in 2 or 3 dims.",
        (*_WHO, "analysis", "item", "projection", *_PLACE, "part", "point"),
        (
            *WHO,
            ANALYSIS,
            ITEM,
            Column(
                "projection",
                "VARCHAR",
                "how it was made: 'pca' (each layer by itself), 'pca-joint' (all layers and texts in one plane), "
                "'pca-joint-without-last', 'tsne' or 'umap'; '… of token' where only one kind of vector took part",
            ),
            *HERE,
            Column(
                "part",
                "VARCHAR",
                "what the point belongs to: a group, concept, class, corpus, text or kind of vector; 'mean …' is the "
                "mean difference of a concept",
            ),
            Column("point", "INTEGER", "which one it is: text, pair, position, token id or position vector"),
            Column("label", "VARCHAR", "what a reader calls it: the token, or the text's first words"),
            Column("x", "DOUBLE", "first coordinate"),
            Column("y", "DOUBLE", "second coordinate"),
            Column("z", "DOUBLE", "third coordinate; NULL in a picture of two dimensions"),
        ),
    ),
    Table(
        "histograms",
        "One bin of a distribution.",
        (*_WHO, "analysis", "item", "measure", "part", *_PLACE, "low"),
        (
            *WHO,
            ANALYSIS,
            ITEM,
            Column("measure", "VARCHAR", "'norm', 'distance', 'dot' or 'cosine'"),
            Column("part", "VARCHAR", "of what: 'token', 'token–position', a corpus, or two corpora"),
            *HERE,
            Column("low", "DOUBLE", "lower end of the bin"),
            Column("high", "DOUBLE", "upper end"),
            Column("count", "BIGINT", "how many are in it"),
        ),
    ),
    Table(
        "explained_variance",
        "How much of the variance the first principal components hold.",
        (*_WHO, "analysis", "item", "part", *_PLACE, "components"),
        (
            *WHO,
            ANALYSIS,
            ITEM,
            Column("part", "VARCHAR", "of what: 'token', 'token and position', a corpus"),
            *HERE,
            Column("components", "INTEGER", "how many"),
            Column("share", "DOUBLE", "share of the variance that they hold together"),
            Column("n", "BIGINT", "vectors"),
        ),
    ),
    Table(
        "vocabulary",
        "A token's static embedding: a row of the input embedding.",
        (*_WHO, "token_id"),
        (
            *WHO,
            TOKEN_ID,
            TOKEN,
            Column("class", "VARCHAR", "what it is: a word, a number, punctuation, bytes, special, …"),
            Column("subword", "BOOLEAN", "whether it is written as a part of a word; NULL where that is not marked"),
            Column("script", "VARCHAR", "script of its letters; NULL without letters"),
            Column("length", "INTEGER", "its characters"),
            Column("norm", "DOUBLE", "norm of its vector"),
            Column("mean_cosine", "DOUBLE", "cosine to the mean of all vectors; NULL for a zero vector"),
            Column("mean_distance", "DOUBLE", "distance to that mean"),
            Column("repeated", "BOOLEAN", "whether another row is exactly equal"),
            Column("pc1", "DOUBLE", "coordinate on the first principal component"),
            Column("pc2", "DOUBLE", "on the second"),
            Column("pc3", "DOUBLE", "on the third"),
        ),
    ),
    Table(
        "vocabulary_shares",
        "How much of the vocabulary is of one sort.",
        (*_WHO, "sorted_by", "sort"),
        (
            *WHO,
            Column("sorted_by", "VARCHAR", "'class', 'subword' or 'script'"),
            Column("sort", "VARCHAR", "the sort"),
            Column("count", "BIGINT", "tokens"),
            Column("share", "DOUBLE", "share of all tokens that are sorted"),
        ),
    ),
    Table(
        "vocabulary_extremes",
        "One of the tokens, or pairs of vectors, at the ends of a measure over the whole vocabulary.",
        (*_WHO, "among", "what", "measure", "end_of_scale", "rank"),
        (
            *WHO,
            Column("among", "VARCHAR", "'all' tokens, or 'text': without special tokens, bytes and unused rows"),
            Column("what", "VARCHAR", "'token', 'token–token' or 'token–position'"),
            Column("measure", "VARCHAR", "'norm', 'mean_cosine', 'mean_distance', 'cosine', 'distance' or 'dot'"),
            Column("end_of_scale", "VARCHAR", "'smallest', 'largest', 'most' similar, 'least' similar, or 'outlier'"),
            Column("rank", "INTEGER", "1 for the first"),
            Column("token_id", "INTEGER", "the token, or the first of the pair"),
            Column("token", "VARCHAR", "the same, as the tokenizer writes it"),
            Column("other_id", "INTEGER", "the second token or the position; NULL for a token alone"),
            Column("other", "VARCHAR", "the same, as the tokenizer writes it; the position as text"),
            Column("value", "DOUBLE", "the measure"),
            Column("certain", "BOOLEAN", "whether rounding in float32 can have left out no other that belongs here"),
        ),
    ),
    Table(
        "vocabulary_facts",
        "A fact about a model's static vectors: how it knows positions, the period of their path, …",
        (*_WHO, "fact"),
        (
            *WHO,
            Column("fact", "VARCHAR", "what it is"),
            Column("value", "DOUBLE", "as a number; NULL where it is none"),
            Column("said", "VARCHAR", "in words; NULL where the number says all"),
        ),
    ),
    Table(
        "positions",
        "A position's static vector, where a model adds one to each token.",
        (*_WHO, "position"),
        (
            *WHO,
            Column("position", "INTEGER", "0 for the first token"),
            Column("norm", "DOUBLE", "norm of its vector"),
            Column("step_length", "DOUBLE", "distance to the vector of the position before; NULL for the first"),
            Column("mean_cosine", "DOUBLE", "cosine to the mean position vector; NULL for a zero vector"),
            Column("mean_distance", "DOUBLE", "distance to it"),
            Column("pc1", "DOUBLE", "coordinate on the first principal component"),
            Column("pc2", "DOUBLE", "on the second"),
            Column("pc3", "DOUBLE", "on the third"),
            Column("change_p", "DOUBLE", "where the vectors change character from here on: p of that jump; else NULL"),
        ),
    ),
    Table(
        "position_cosines",
        "The cosine of two positions' static vectors: all, or at most 128 spread evenly.",
        (*_WHO, "position_a", "position_b"),
        (
            *WHO,
            Column("position_a", "INTEGER", "the one"),
            Column("position_b", "INTEGER", "the other"),
            Column("cosine", "DOUBLE", "cosine of their vectors; NULL for a zero vector"),
        ),
    ),
    Table(
        "position_offsets",
        "The mean cosine of the static vectors of two positions that are so far apart.",
        (*_WHO, "distance"),
        (
            *WHO,
            Column("distance", "INTEGER", "positions apart"),
            Column("cosine", "DOUBLE", "mean cosine"),
            Column("sd", "DOUBLE", "standard deviation of these cosines"),
            Column("n", "BIGINT", "pairs of positions"),
        ),
    ),
)

_OF_WEIGHTS = CellColumns(corpus=Fixed(WEIGHTS), metric=Fixed("vocabulary"))
_OF_ITEM = CellColumns(corpus=Own("item"), metric=Own("analysis"))

ANALYSIS_TABLES: dict[str, CellColumns] = {
    "journeys": CellColumns(corpus=Own("journey"), metric=Fixed("journeys")),
    "neighbours": CellColumns(corpus=Own("journey"), metric=Fixed("journeys")),
    "groups": CellColumns(corpus=Fixed(ALL_GROUPS), metric=Fixed("groups")),
    "pair_directions": CellColumns(corpus=Own("pairs"), metric=Fixed("pairs")),
    "direction_cosines": CellColumns(corpus=Own("pairs"), metric=Fixed("pairs")),
    "projections": _OF_ITEM,
    "histograms": _OF_ITEM,
    "explained_variance": _OF_ITEM,
    "vocabulary": _OF_WEIGHTS,
    "vocabulary_shares": _OF_WEIGHTS,
    "vocabulary_extremes": _OF_WEIGHTS,
    "vocabulary_facts": _OF_WEIGHTS,
    "positions": _OF_WEIGHTS,
    "position_cosines": _OF_WEIGHTS,
    "position_offsets": _OF_WEIGHTS,
}
