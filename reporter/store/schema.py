"""The tables of ``results.duckdb``. Names are public; every table and column carries a comment."""

from __future__ import annotations

from dataclasses import dataclass

# Raise it whenever a table or a column is added: older files then get what they lack, and an older reporter
# refuses the newer file instead of misreading it.
SCHEMA_VERSION = 2


@dataclass(frozen=True)
class Column:
    """A column: its name, DuckDB type and the comment stored with it."""

    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class Table:
    """A table, what one of its rows is, and the columns that tell its rows apart."""

    name: str
    comment: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]


_STUDY = Column("study", "VARCHAR", "id of the study")
_MODEL = Column("model", "VARCHAR", "name of the model in the study")
_CHECKPOINT = Column("checkpoint", "VARCHAR", "name of the checkpoint; 'final' where the model has only one")
_STEP = Column("step", "BIGINT", "training step of the checkpoint; NULL where it is unknown")
_ROLE = Column("role", "VARCHAR", "'encoder' or 'decoder', measured: does a later token change an earlier state?")
_CORPUS = Column("corpus", "VARCHAR", "name of the corpus in the study")

_METRIC = Column("metric", "VARCHAR", "metric, the first part of a number's name")
_SITE = Column("site", "VARCHAR", "'embedding', 'block', 'final' or 'attention'")
_LAYER = Column("layer", "INTEGER", "0 = embedding, 1..L = blocks")
_DEPTH = Column("depth", "DOUBLE", "layer / L, so that models of different depth share an axis")
_VIEW = Column("view", "VARCHAR", "which tokens count: 'words', 'all' or 'no-sinks'")
_VALUE = Column("value", "DOUBLE", "the number; NULL where it could not be computed (reason in cells.reasons)")
_LOW = Column("ci_low", "DOUBLE", "lower end of its interval; NULL where it has none")
_HIGH = Column("ci_high", "DOUBLE", "upper end of its interval")
_N = Column("n", "BIGINT", "how many observations it rests on")
_HERE = (_STUDY, _MODEL, _CHECKPOINT, _STEP, _ROLE, _CORPUS, _VIEW, _METRIC, _SITE, _LAYER, _DEPTH)

TABLES: tuple[Table, ...] = (
    Table(
        "layer_metrics",
        "One number: a statistic of one model checkpoint on one corpus under one view, at one layer.",
        ("study", "model", "checkpoint", "corpus", "metric", "view", "statistic", "site", "layer"),
        (
            _STUDY,
            _MODEL,
            _CHECKPOINT,
            _STEP,
            _ROLE,
            _CORPUS,
            Column(
                "view",
                "VARCHAR",
                "which tokens count: 'words' (ordinary and sink tokens), 'all' (special tokens too), "
                "'no-sinks' (ordinary tokens alone)",
            ),
            _METRIC,
            Column("statistic", "VARCHAR", "statistic, the second part of a number's name"),
            Column(
                "site",
                "VARCHAR",
                "'embedding' (what enters the first block), 'block' (what a block returns), 'final' (after the closing "
                "norm) or 'attention' (after a block's attention, before its feed-forward)",
            ),
            Column("layer", "INTEGER", "0 = embedding, 1..L = blocks; NULL for a number of the whole model"),
            _DEPTH,
            _VALUE,
            _LOW,
            _HIGH,
            _N,
        ),
    ),
    Table(
        "spectra",
        "One point of an eigenvalue curve: how much of the variance of the token states lies on one axis.",
        ("study", "model", "checkpoint", "corpus", "metric", "view", "site", "layer", "rank"),
        (
            *_HERE,
            Column("rank", "INTEGER", "1 for the largest eigenvalue"),
            Column("value", "DOUBLE", "the eigenvalue over the sum of all"),
            _N,
        ),
    ),
    Table(
        "token_types",
        "One token type at one layer: how far the mean of its occurrences is from zero, and how much they vary.",
        ("study", "model", "checkpoint", "corpus", "metric", "view", "site", "layer", "token_id"),
        (
            *_HERE,
            Column("token_id", "INTEGER", "id in the model's vocabulary"),
            Column("token", "VARCHAR", "the token as the tokenizer writes it"),
            Column("count", "BIGINT", "its occurrences in the view"),
            Column("norm_of_mean", "DOUBLE", "norm of the mean of its states"),
            Column("variance", "DOUBLE", "mean squared distance of its states from their mean"),
        ),
    ),
    Table(
        "layer_pairs",
        "A number for two layers, of one model or of two, on the same texts.",
        (
            "study",
            "corpus",
            "metric",
            "view",
            "statistic",
            "model_a",
            "checkpoint_a",
            "layer_a",
            "model_b",
            "checkpoint_b",
            "layer_b",
        ),
        (
            _STUDY,
            _CORPUS,
            _VIEW,
            _METRIC,
            Column("statistic", "VARCHAR", "statistic, such as 'cka' or 'knn'"),
            Column("model_a", "VARCHAR", "name of the first model"),
            Column("checkpoint_a", "VARCHAR", "its checkpoint"),
            Column("layer_a", "INTEGER", "layer of the first model, 0 = embedding"),
            Column("model_b", "VARCHAR", "name of the second model; the first again inside one model"),
            Column("checkpoint_b", "VARCHAR", "its checkpoint"),
            Column("layer_b", "INTEGER", "layer of the second model"),
            _VALUE,
            _LOW,
            _HIGH,
            _N,
        ),
    ),
    Table(
        "differences",
        "A statistic on one side of a comparison minus the same on the other: two corpora, or a model and its base.",
        (
            "study",
            "kind",
            "metric",
            "view",
            "statistic",
            "site",
            "layer",
            "model_a",
            "checkpoint_a",
            "corpus_a",
            "model_b",
            "checkpoint_b",
            "corpus_b",
        ),
        (
            _STUDY,
            Column("kind", "VARCHAR", "'corpora' (one model on two corpora) or 'base' (a model minus its base)"),
            _VIEW,
            _METRIC,
            Column("statistic", "VARCHAR", "the statistic that is compared"),
            Column("model_a", "VARCHAR", "model of the first side"),
            Column("checkpoint_a", "VARCHAR", "its checkpoint"),
            Column("corpus_a", "VARCHAR", "its corpus"),
            Column("model_b", "VARCHAR", "model of the second side, which is subtracted"),
            Column("checkpoint_b", "VARCHAR", "its checkpoint"),
            Column("corpus_b", "VARCHAR", "its corpus"),
            _SITE,
            _LAYER,
            _DEPTH,
            Column("value", "DOUBLE", "first minus second; NULL where it could not be computed"),
            _LOW,
            _HIGH,
            _N,
        ),
    ),
    Table(
        "correlations",
        "Over the models of a study, how a feature of their layers goes with how well they do.",
        ("study", "corpus", "view", "metric", "feature", "score", "method"),
        (
            _STUDY,
            _CORPUS,
            _VIEW,
            _METRIC,
            Column("feature", "VARCHAR", "a statistic of the whole model, such as 'rate'"),
            Column("score", "VARCHAR", "a score that the study gives, or 'loss.lm', the measured loss"),
            Column("method", "VARCHAR", "'pearson' or 'spearman'"),
            Column("value", "DOUBLE", "the correlation; NULL where it could not be computed"),
            _LOW,
            _HIGH,
            Column("p", "DOUBLE", "probability of one at least as strong if they are unrelated; NULL below 3 models"),
            Column("n", "BIGINT", "models it rests on"),
        ),
    ),
    Table(
        "models",
        "One checkpoint of one model: where it came from and what the self-test at load measured.",
        ("study", "model", "checkpoint"),
        (
            _STUDY,
            _MODEL,
            _CHECKPOINT,
            _STEP,
            _ROLE,
            Column("source", "VARCHAR", "'hub', 'path' or 'recipe'"),
            Column("location", "VARCHAR", "hub id, path as written in the study, or the recipe's architecture"),
            Column("revision", "VARCHAR", "commit of the hub repository, or hash of the files"),
            Column("fingerprint", "VARCHAR", "identity of the weights and tokenizer; cells are keyed by it"),
            Column("family", "VARCHAR", "transformers' model_type"),
            Column("layers", "INTEGER", "number of blocks L, counted while they ran"),
            Column("width", "INTEGER", "dimension d of the block states"),
            Column("parameters", "BIGINT", "number of weights of the loaded module"),
            Column("vocabulary_size", "INTEGER", "rows of the input embedding"),
            Column("max_tokens", "INTEGER", "longest input the model takes; NULL where it has no limit"),
            Column("positions", "VARCHAR", "'added' where layer 0 depends on the position, else 'not-added'"),
            Column(
                "norm_placement",
                "VARCHAR",
                "'pre', 'post', 'sandwich', 'inner' (on the sub-layers' outputs alone) or 'none', measured",
            ),
            Column(
                "last_hidden_state",
                "VARCHAR",
                "what the model's own last hidden state is: 'block' (the last block's output) or 'final' "
                "(after a closing norm or projection), measured",
            ),
            Column("final_width", "INTEGER", "dimension after the closing norm or projection; NULL without one"),
            Column(
                "attention",
                "VARCHAR",
                "'sequential' (a block's feed-forward reads what its attention added), 'parallel' or 'none' (not "
                "found), measured",
            ),
            Column(
                "self_test",
                "DOUBLE",
                "largest relative deviation between hooks and the model's own hidden_states",
            ),
            Column("device", "VARCHAR", "where it ran"),
            Column("precision", "VARCHAR", "'float32' or 'mixed' (bf16 autocast over float32 weights)"),
            Column(
                "precision_deviation",
                "DOUBLE",
                "largest relative deviation of mixed from float32 states; NULL if not tried",
            ),
            Column("base", "VARCHAR", "the model it was tuned from, or whose baseline it is; NULL if neither"),
            Column("baseline", "VARCHAR", "'random-init' or 'shuffled': a null baseline of the model 'base'"),
            Column("scores", "VARCHAR", "JSON object: outside scores that the study gives; NULL without any"),
            Column("loss", "DOUBLE", "recipe models: held-out loss at this checkpoint, in nats"),
            Column(
                "unigram_entropy",
                "DOUBLE",
                "recipe models: entropy of the token frequencies, in nats; a loss near it means that "
                "nothing was learned from context",
            ),
            Column(
                "warning",
                "VARCHAR",
                "what a reader should know, e.g. that the model stayed on the unigram plateau",
            ),
            Column("status", "VARCHAR", "'done' or 'failed'"),
            Column("error", "VARCHAR", "why it failed"),
        ),
    ),
    Table(
        "corpora",
        "One corpus: where its texts came from and what was kept.",
        ("study", "corpus"),
        (
            _STUDY,
            _CORPUS,
            Column("source", "VARCHAR", "'inline', 'file', 'dataset' or 'generated'"),
            Column("location", "VARCHAR", "file name as written in the study, dataset id or generator"),
            Column("content_hash", "VARCHAR", "SHA-256 of the texts that were kept, in order"),
            Column("texts", "BIGINT", "texts kept"),
            Column("words", "BIGINT", "words separated by white space"),
            Column("characters", "BIGINT", "characters kept"),
            Column("dropped", "BIGINT", "texts that the filters dropped"),
            Column("labels", "VARCHAR", "JSON object: how many texts carry each label; NULL without labels"),
            Column("status", "VARCHAR", "'done' or 'failed'"),
            Column("error", "VARCHAR", "why it failed"),
        ),
    ),
    Table(
        "cells",
        "One unit of work: a metric of a model checkpoint on a corpus; one that compares two sides names both, as in "
        "'bert | gpt2'.",
        ("study", "model", "checkpoint", "corpus", "metric"),
        (
            _STUDY,
            _MODEL,
            _CHECKPOINT,
            _CORPUS,
            Column("metric", "VARCHAR", "metric"),
            Column("options", "VARCHAR", "JSON object: the metric's options, defaults filled in"),
            Column("fingerprint", "VARCHAR", "hash of everything its numbers depend on"),
            Column("inputs", "VARCHAR", "JSON object: what the fingerprint is a hash of, part by part"),
            Column("status", "VARCHAR", "'done' or 'failed'"),
            Column("error", "VARCHAR", "why it failed"),
            Column("why", "VARCHAR", "why it ran: new, spec changed, model changed, …"),
            Column(
                "reasons",
                "VARCHAR",
                "JSON array: why single values are NULL (statistic, view, layers, reason)",
            ),
            Column("texts", "BIGINT", "texts measured"),
            Column("tokens", "BIGINT", "tokens measured, padding never counted"),
            Column("ordinary", "BIGINT", "tokens that are neither special nor sinks"),
            Column("special", "BIGINT", "tokens that the tokenizer added"),
            Column(
                "sinks",
                "BIGINT",
                "ordinary tokens at position 0 of a decoder, or with a giant norm in their text",
            ),
            Column("cut_texts", "BIGINT", "texts longer than the limit, cut"),
            Column("short_texts", "BIGINT", "texts of one ordinary token"),
            Column(
                "forward_tokens",
                "BIGINT",
                "tokens sent through the model for this cell in this run; 0 when observables were at hand",
            ),
            Column(
                "forward_passes",
                "BIGINT",
                "passes over the corpus that this cell caused; cells that share a pass show it once",
            ),
            Column("seconds", "DOUBLE", "wall time of the metric itself"),
            Column(
                "forward_seconds",
                "DOUBLE",
                "wall time of the pass and its observables, on the cell that caused it",
            ),
            Column("device", "VARCHAR", "device of the pass"),
            Column("precision", "VARCHAR", "'float32' or 'mixed'"),
            Column("versions", "VARCHAR", "JSON object: versions of reporter, torch, transformers, numpy, Python"),
            Column("finished", "TIMESTAMP", "when it was committed, UTC"),
        ),
    ),
    Table(
        "studies",
        "One study: its text and its last run.",
        ("study",),
        (
            _STUDY,
            Column("title", "VARCHAR", "title"),
            Column("question", "VARCHAR", "the question it asks"),
            Column(
                "spec",
                "VARCHAR",
                "the study file as it was read, or the study as JSON when it came from the API",
            ),
            Column("spec_hash", "VARCHAR", "SHA-256 of the spec"),
            Column("views", "VARCHAR", "JSON array: views, the first one is shown first"),
            Column("started", "TIMESTAMP", "start of the last run, UTC"),
            Column("finished", "TIMESTAMP", "end of the last run, UTC; NULL while it runs or when it was killed"),
            Column("seconds", "DOUBLE", "wall time of the last run"),
            Column("cells_run", "INTEGER", "cells computed in the last run"),
            Column("cells_cached", "INTEGER", "cells found done"),
            Column("cells_failed", "INTEGER", "cells that failed"),
            Column("versions", "VARCHAR", "JSON object: versions of the libraries"),
        ),
    ),
    Table(
        "schema_version",
        "Which shape these tables have, so that another version of reporter knows whether it can use them.",
        ("version",),
        (
            Column("version", "INTEGER", "version of the tables; an older reporter refuses a newer one"),
            Column("reporter", "VARCHAR", "version of reporter that shaped them"),
        ),
    ),
)


_PAIRED = "CASE WHEN {0}_a = {0}_b THEN {0}_a ELSE {0}_a || ' | ' || {0}_b END"

# Tables of numbers, and the four parts of the name of the cell that a row belongs to, as SQL.
NUMBER_TABLES: dict[str, tuple[str, str, str, str]] = {
    "layer_metrics": ("model", "checkpoint", "corpus", "metric"),
    "spectra": ("model", "checkpoint", "corpus", "metric"),
    "token_types": ("model", "checkpoint", "corpus", "metric"),
    "layer_pairs": (_PAIRED.format("model"), _PAIRED.format("checkpoint"), "corpus", "metric"),
    "differences": (_PAIRED.format("model"), _PAIRED.format("checkpoint"), _PAIRED.format("corpus"), "metric"),
}


def find_table(name: str) -> Table:
    """Finds a table by name.

    Args:
        name: Its name.

    Returns:
        The table.

    Raises:
        ValueError: There is no such table.
    """
    for candidate in TABLES:
        if candidate.name == name:
            return candidate
    known = ", ".join(t.name for t in TABLES)
    raise ValueError(f"there is no table {name!r}; the tables are {known}")
