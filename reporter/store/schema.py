"""The tables of ``results.duckdb``. Names are public; every table and column carries a comment."""

from __future__ import annotations

from reporter.store.analysis_tables import ANALYSES
from reporter.store.claim_table import CLAIMS
from reporter.store.number_tables import NUMBER_TABLES, NUMBERS
from reporter.store.table import CHECKPOINT, CORPUS, MODEL, ROLE, STEP, STUDY, Column, Table

__all__ = ["NUMBER_TABLES", "SCHEMA_VERSION", "TABLES", "Column", "Table", "find_table"]

# Raise it whenever a table or a column is added: older files then get what they lack, and an older reporter
# refuses the newer file instead of misreading it.
SCHEMA_VERSION = 4


TABLES: tuple[Table, ...] = (
    *NUMBERS,
    *ANALYSES,
    CLAIMS,
    Table(
        "models",
        "One checkpoint of one model: where it came from and what the self-test at load measured.",
        ("study", "model", "checkpoint"),
        (
            STUDY,
            MODEL,
            CHECKPOINT,
            STEP,
            ROLE,
            Column("source", "VARCHAR", "'hub', 'path', 'recipe' or 'states' (computed elsewhere)"),
            Column("location", "VARCHAR", "hub id, path as written in the study, or the recipe's architecture"),
            Column("revision", "VARCHAR", "commit of the hub repository, or hash of the files"),
            Column("fingerprint", "VARCHAR", "identity of the weights and tokenizer; cells are keyed by it"),
            Column("family", "VARCHAR", "transformers' model_type; 'states' where only the states are there"),
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
                "bos",
                "VARCHAR",
                "what the study asks for: 'add' a BOS before each text, 'none', or 'as-is', the tokenizer's own way",
            ),
            Column(
                "first_token",
                "VARCHAR",
                "what stands at position 0 of its input: 'word', the text's own first token, or the token that is put "
                "there, such as '[CLS]'; in a decoder that token is the sink",
            ),
            Column(
                "sink_rule",
                "VARCHAR",
                "which tokens are sinks, in words",
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
            STUDY,
            CORPUS,
            Column("source", "VARCHAR", "'inline', 'file', 'dataset' or 'generated'"),
            Column("location", "VARCHAR", "file name as written in the study, dataset id or generator"),
            Column("content_hash", "VARCHAR", "SHA-256 of the texts that were kept, in order"),
            Column("texts", "BIGINT", "texts kept"),
            Column("words", "BIGINT", "words separated by white space"),
            Column("characters", "BIGINT", "characters kept"),
            Column("dropped", "BIGINT", "texts that the filters dropped"),
            Column(
                "thinned",
                "BIGINT",
                "texts that passed and were left out to have as many words as another corpus (size_of)",
            ),
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
            STUDY,
            MODEL,
            CHECKPOINT,
            CORPUS,
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
            Column("ordinary", "BIGINT", "tokens that are neither special nor set aside, which is the view 'no-sinks'"),
            Column("special", "BIGINT", "tokens that the tokenizer added, and special strings inside texts"),
            Column(
                "sinks",
                "BIGINT",
                "own tokens of a text that are sinks (models.sink_rule); set aside with each text's first own token",
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
            STUDY,
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
