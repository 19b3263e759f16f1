"""The tables of ``results.duckdb`` that the runner itself writes. Names are public, and every column has a comment.

Tables of numbers are declared beside the code that computes them (:data:`reporter.core.table.NUMBER_ROWS`).
"""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from reporter.core.errors import ReporterError
from reporter.core.table import (
    CORPUS,
    HIGH,
    LOW,
    METRIC,
    NUMBER_ROWS,
    VIEW,
    Comparable,
    OfModel,
    OfStudy,
    Row,
    Table,
    aside,
    column,
    of_cell,
)
from reporter.store import answers
from reporter.store.rows import CellKey
from reporter.texts.excerpts import EXCERPT

# Raise it whenever a table or a column is added: a file of another version is refused instead of misread.
SCHEMA_VERSION = 29


Word = Literal["supported", "refuted", "inconclusive", "failed"]


class Correlation(OfStudy, table="correlations"):
    """Correlation over the models of a study: a number of their layers with a score of their quality."""

    corpus = CORPUS
    view = VIEW
    metric = METRIC
    feature: str = column("a statistic of the whole model, such as 'rate'", key=True)
    score: str = column("a score that the study gives, or 'loss.lm', the measured loss", key=True)
    method: str = column("'pearson' or 'spearman'", key=True)
    value: float | None = column("the correlation; NULL where it could not be computed")
    ci_low: float | None = column("lower end of the interval; NULL without an interval")
    ci_high: float | None = column("upper end of the interval")
    p: float | None = column("p-value of no correlation, two-sided; NULL below 3 models")
    n: int = column("number of models", "BIGINT")


class OverModels(OfStudy, table="over_models"):
    """Mean of a number over the models of a role that have it, with a 95 % interval.

    With three independent models or more, the interval is Student's over the models, with the error over texts added
    in full. With two, the interval is over texts and is about these two models only.

    Copies of a model and its relatives, such as a model and its base, count as one. Null baselines are left out.
    """

    role = of_cell("'encoder' or 'decoder', measured")
    step: int | None = column(
        "training step at which models with several checkpoints are compared; NULL = the last checkpoint of each model",
        "BIGINT",
        key=True,
    )
    corpus = CORPUS
    view = VIEW
    metric = METRIC
    statistic: str = column("the second part of a number's name", key=True)
    site: str | None = column(
        "'embedding', 'block', 'final' or 'attention'; NULL for a number of the whole model, and for the mean over "
        "embedding and blocks",
        key=True,
    )
    layer: int | None = column(
        "0 = embedding, 1..L = blocks, where all models have as many; else NULL, interpolated at ``depth``",
        key=True,
    )
    depth: float | None = column("layer / L; NULL where site is NULL", key=True)
    models: int = column("number of independent models in the mean, at least 2; copies and relatives count as one")
    value: float = column("mean over models")
    ci_low: float | None = column(
        "lower end of the interval: over models from three on, over texts for two; NULL where a model of two has no "
        "interval"
    )
    ci_high: float | None = column("upper end of the interval")


class Comparison(OfStudy, table="comparisons"):
    """A main statistic of one side of a study at the last checkpoint, or of one side minus another.

    A side is a model, or the mean over the models of a role. Compared are encoders with decoders, else two models (a
    tuned model minus its base), else the models with the highest and the lowest mean. A single model has its highest
    layer minus its lowest. Intervals are over models where both sides have three independent ones or more, else over
    texts, paired where both sides read the same ones. Values that a definition fixes and null baselines are left out.
    """

    corpus = CORPUS
    view = VIEW
    metric = METRIC
    statistic: str = column("the second part of a number's name", key=True)
    side: str = column("a model, or 'encoders' or 'decoders'", key=True)
    minus: str | None = column("the side that is subtracted; NULL for the number of one side", key=True)
    minus_view: str | None = column("its token set, where that is another one", key=True)
    minus_layer: int | None = column("its layer, where that is another one", key=True)
    span: Literal["mean", "layer", "region"] = column(
        "'mean' over all layers, one 'layer', or the mean over a 'region', the layers in which both sides differ most",
        key=True,
    )
    layer_first: int | None = column("the first layer, of the side that changes more over depth; NULL for a mean")
    layer_last: int | None = column("the last layer")
    depth_first: float | None = column("layer / L", key=True)
    depth_last: float | None = column("layer / L")
    models: int = column("number of independent models, of the side that has fewer; copies and relatives count as one")
    value: float = column("the number or the difference")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    p: float | None = column("p-value of no difference, two-sided, not corrected")
    p_adjusted: float | None = column("p, corrected for all comparisons on the corpus (Bonferroni)")
    effect: float | None = column("the difference as a share of the statistic's range, a mean over layers")
    common: bool = column("true if layers are left out that one side lacks")


class ModelVerdict(OfStudy, table="claims_by_model"):
    """The verdict for each model alone, of a claim about several models, on all corpora of the claim together.

    The verdicts are corrected together for all models of all claims of the study (Holm, two tests each), separately
    from the table ``claims``. The chance of one or more wrong 'supported' or 'refuted' in this table is at most 5 %.
    Rows of readings after the first (other views, baselines) are not corrected: ``p_adjusted`` is NULL there.
    """

    claim: str = column("name of the claim in the study", key=True)
    reading: int = column("1 = the claim itself; others as in `claims`", key=True)
    view: str | None = column("which tokens counted")
    baseline: str | None = column("'random-init' or 'shuffled'; NULL = the model itself")
    model: str = column("name of the model in the study; a baseline has its kind in brackets", key=True)
    verdict: Word = column("'supported', 'refuted' or 'inconclusive'; corrected where reading is 1")
    alone: Word = column("the verdict without the correction")
    statistic: str | None = column("what `value` is, in a few words: the number that decides for this model")
    value: float | None = column("the number")
    ci_low: float | None = column("lower end of the 95 % interval, not corrected; NULL without an interval")
    ci_high: float | None = column("upper end of the interval")
    claimed: str | None = column("the range that the claim states for the number, as text")
    p: float | None = column("p-value of the whole claim for this model, two-sided, not corrected; NULL if not sampled")
    p_adjusted: float | None = column("p after the correction; NULL for readings after the first, and where p is NULL")


class Verdict(OfStudy, table="claims"):
    """The verdict of a claim for one token set, on the models of the study or on a null baseline.

    ``detail`` is stored as a JSON object with these keys; a key that has nothing to say is left out:

    ``statistic``
        what ``value`` is, in a few words: ``"middle third minus last third"``.
    ``definition``
        the rule in words, with its numbers filled in: when the claim is supported and when it is refuted.
    ``reason``
        the reason of the verdict, one sentence; for ``failed``, which numbers are missing.
    ``power``
        for ``inconclusive``: the smallest effect that such a study shows with 80 % power, and about how many times as
        many texts, or how many models, a verdict needs.
    ``views``
        what each other token set changes: a list of objects with ``view``, ``says`` (a sentence about the number, the
        profile and the verdict) and ``turned`` (whether the verdict, the sign or the profile differs).
    ``bound``
        what ``value`` is compared with, as text: ``"0.0826 ± 0.01"``, ``"> 0"``; ``holds_low`` and ``holds_high`` are
        the same as numbers.
    ``alone``
        the verdict that the claim would have without the correction for the number of claims; only where it differs.
    ``tested``
        how many claims of the study were tested (the size of the correction); not for readings after the first.
    ``metrics``, ``models``, ``corpora``
        what was tested: the statistics by full name, and which models and corpora, each as a list.
    ``evidence``
        a list with one object for each model on each corpus: ``model`` (or ``"mean of 6 models"``), ``corpus``,
        ``value``, ``ci_low``, ``ci_high`` (the number that decides for this model alone), ``statistic`` and ``claimed``
        (what this number is, and its claimed range) if they differ between rows, and ``verdict`` for this model alone;
        numbers may be null.
    ``parts``
        a list with one object for each inequality of the rule: ``name``, ``value``, ``ci_low``, ``ci_high``,
        ``claimed`` and a one-sided p-value, ``p_holds`` if the claim needs the inequality, ``p_fails`` if the
        inequality refutes the claim. The number, interval and p of the claim come from the inequality that decides.
        For a supported bell or rise-then-fall, they come from the least certain inequality about its height, and
        ``p_adjusted`` belongs to the whole claim.
    ``effect``
        for ``differ``: an object with ``a`` and ``b`` (names), ``mean_a``, ``mean_b``, ``n_a``, ``n_b`` and ``g``, the
        standardised difference (Hedges' g over models; null for fewer than two on a side).
    ``n``
        how many points, models or types a ``relation`` rests on.
    ``notes``
        a list of sentences that a reader must know: what the interval is over, what was left out, which row was used.
    ``sql``
        a query that shows the numbers behind the verdict, in ``reporter sql``.
    """

    claim: str = column("name of the claim in the study", key=True)
    number: int = column("place of the claim in the study, from 1")
    reading: int = column(
        "1 = the claim itself: its first view, on the models; 2, 3, … = under another view or on a baseline (not "
        "counted as tested)",
        key=True,
    )
    says: str = column("the claim in words")
    source: str | None = column("the work that states the claim; NULL where the study names none")
    kind: str = column("'value', 'shape', 'differ', 'relation', or a kind from a plug-in")
    view: str | None = column("which tokens counted; NULL for a claim by SQL, where the query decides")
    baseline: str | None = column("'random-init' or 'shuffled'; NULL = the models themselves")
    verdict: Word = column(
        "'supported', 'refuted' (the opposite is shown), 'inconclusive' (neither) or 'failed' (see detail); "
        "corrected for the number of claims"
    )
    value: float | None = column(
        "the number that decides the verdict (detail.statistic says what it is)",
        default=None,
    )
    ci_low: float | None = column(
        "lower end of the 95 % interval, not corrected; NULL without an interval", default=None
    )
    ci_high: float | None = column("upper end of the interval", default=None)
    holds_low: float | None = column(
        "the claim holds if the number lies above this value; NULL without a lower bound", default=None
    )
    holds_high: float | None = column(
        "the claim holds if the number lies below this value; NULL without an upper bound", default=None
    )
    holds_outside: bool | None = column(
        "true where the claim holds outside of the range instead: below holds_low or above holds_high ('they differ'); "
        "NULL where the range is not known",
        default=None,
    )
    paper: float | None = column("the number in the paper, where the study gives it", default=None)
    p: float | None = column(
        "p-value of the number: twice the smaller of two one-sided p-values (the claim holds, the claim fails), not "
        "corrected; NULL where the number has no interval",
        default=None,
    )
    p_adjusted: float | None = column(
        "p-value of the whole claim, the largest of its parts, Holm-corrected over the study's claims, two tests "
        "each; not corrected for readings after the first",
        default=None,
    )
    registration: str | None = column("whether it was registered before the first number, in words", default=None)
    detail: dict[str, Any] = column(
        "JSON object: statistic, definition, reason, evidence, sql and more", default_factory=dict
    )
    by_model: tuple[ModelVerdict, ...] = aside(default=())


class Finding(OfStudy, table="findings"):
    """Exploratory findings: numbers of a study that stand out although no claim named them.

    Every main statistic is asked the same few questions; p is corrected for all of them, not only for what is
    shown. ``detail`` is stored as a JSON object with these keys:

    ``what``
        what ``value`` is, in a few words.
    ``test``
        how it was tested, in a sentence.
    ``curves``
        for a small picture: a list of objects with ``label``, ``x`` (depths or training steps, from 0 to 1), ``y``,
        ``own`` (false for what it is compared with), and ``number`` where the sentence gives a number for it.
    ``per``
        what the number is a number of: ``layer``, ``step`` (a block) or ``model``.
    ``mark``
        from where to where on x it is found; null where it is about all of it.
    ``notes``
        a list of sentences that a reader must know.
    ``sql``
        a query that shows the numbers behind it, in ``reporter sql``.
    """

    compared = (
        Comparable(
            ("value",),
            "corpus",
            of="metric || '.' || statistic || ', ' || kind",
            interval=True,
            by=("kind", "metric", "statistic", "model", "corpus"),
        ),
    )

    rank: int = column("place among the findings of the study, from 1", key=True)
    kind: str = column("what is compared: 'roles', 'models', 'sinks', 'corpora', 'extremes', 'references' or 'chance'")
    says: str = column("the finding in a sentence")
    metric = of_cell("metric", key=False)
    statistic: str = column("the second part of the number's name")
    model: str | None = column("the model that the finding is about; NULL for several models")
    corpus: str | None = column("the corpus, or the set of pairs and the concept; NULL for all corpora")
    view: str = column("which tokens counted")
    layer_first: int | None = column("first layer that the finding is about; NULL for all layers")
    layer_last: int | None = column("last layer that the finding is about")
    value: float = column("the number behind the finding (detail.what says what it is)")
    ci_low: float | None = column("lower end of the 95 % interval, not corrected; NULL with fixed texts")
    ci_high: float | None = column("upper end of the interval")
    p: float = column("p-value, two-sided, not corrected")
    p_adjusted: float = column("p-value after Bonferroni's correction for all tests; at most 0.05")
    looked_at: int = column("number of tests on the numbers of the study, significant or not")
    effect: float = column("effect size from 0 to 1: a share of the range of the statistic, or of the larger number")
    chart: str = column("the figure of the report that shows it")
    detail: dict[str, Any] = column("JSON object: what, test, curves, notes, sql and more", default_factory=dict)


class Model(OfModel, table="models"):
    """One checkpoint of one model: where it came from and what the self-test at load measured."""

    position: int = column("position of the checkpoint in the study's list for the model, from 1")
    is_last: bool = column("true for the last checkpoint, which represents the model in comparisons")
    source: str = column("'hub', 'path', 'recipe' or 'states' (computed elsewhere)")
    location: str = column("hub id, path as written in the study, or the recipe's architecture")
    revision: str = column("commit of the hub repository, or hash of the files")
    fingerprint: str = column("identity of the weights and tokenizer; cells are keyed by it")
    family: str = column("transformers' model_type; 'states' for a model of saved states")
    layers: int = column("number of blocks L, counted while they ran")
    width: int = column("dimension d of the block states")
    parameters: int = column("number of weights of the loaded module", "BIGINT")
    vocabulary_size: int = column("rows of the input embedding")
    max_tokens: int | None = column("longest input the model takes; NULL where it has no limit")
    positions: str = column("'added' if layer 0 depends on the position, else 'not-added'")
    norm_placement: str = column(
        "'pre', 'post', 'sandwich', 'inner' (on the sub-layers' outputs alone) or 'none', measured"
    )
    last_hidden_state: str = column(
        "what the model returns as its last hidden state: 'block' (the output of the last block) or 'final' (after a "
        "final norm or projection), measured"
    )
    final_width: int | None = column("dimension after the final norm or projection; NULL without one")
    attention: str = column(
        "'sequential' (the feed-forward of a block reads the output of its attention), 'parallel' or 'none' (not "
        "found), measured"
    )
    bos: str = column("the study's choice: 'add' a BOS before each text, 'none', or 'as-is', as the tokenizer does")
    first_token: str = column(
        "the token at position 0 of the input: 'word' for the first token of the text, else the added token, such as "
        "'[CLS]'; in a decoder this token is the sink"
    )
    sink_rule: str = column("which tokens are sinks, in words")
    self_test: float = column("largest relative deviation between hooks and the hidden_states that the model returns")
    part: str | None = column(
        "the part that was measured: 'encoder' or 'decoder' of an encoder–decoder, 'text' of a model for texts and "
        "images; NULL for a whole model"
    )
    own_states: str | None = column(
        "'same' if the model's hidden_states begin with the input of the first block, 'shifted' if with its output; "
        "NULL if unknown"
    )
    initialised: bool | None = column(
        "true if the weights are untrained (the gains of each norm are all equal), so that no finding is about the "
        "model; NULL if unknown"
    )
    device: str = column("device that it ran on")
    precision: str = column("'float32' or 'mixed' (bf16 autocast over float32 weights)")
    precision_deviation: float | None = column(
        "largest relative deviation of mixed from float32 states; NULL if not tried"
    )
    base: str | None = column("the model that it was tuned from, or that it is a baseline of; NULL if neither")
    baseline: str | None = column("'random-init' or 'shuffled': a null baseline of the model 'base'")
    scores: dict[str, float] | None = column("JSON object: outside scores that the study gives; NULL without any")
    loss: float | None = column("recipe models: held-out loss at this checkpoint, in nats")
    unigram_entropy: float | None = column(
        "recipe models: entropy of the token frequencies, in nats; a loss near this value means that the model learned "
        "nothing from context"
    )
    warning: str | None = column("a caution for readers, such as a training that learned token frequencies only")
    weights: dict[str, str] | None = column(
        "JSON object: hash of each group of weights as loaded: 'embeddings', '1'…'L' (blocks), 'other', 'head' "
        "(further weights in the files, such as an untied head); NULL if unknown"
    )
    same_weights: str | None = column(
        "a sentence that says which weights equal the weights of an earlier checkpoint although training should have "
        "changed them; NULL if none"
    )
    status: Literal["done", "failed"] = column("'done' or 'failed'")
    error: str | None = column("why it failed")


class CorpusRow(OfStudy, table="corpora"):
    """One corpus: where its texts came from and what was kept."""

    corpus = CORPUS
    source: str = column("'inline', 'file', 'dataset' or 'generated'")
    location: str = column("file name as written in the study, dataset id or generator")
    content_hash: str = column("SHA-256 of the texts that were kept, in order")
    texts: int = column("texts kept", "BIGINT")
    available: int | None = column(
        "texts of the source that pass the filters, of which `limit` may leave some out; 100,000 beyond the limit are "
        "counted; NULL if unknown",
        "BIGINT",
    )
    words: int = column("words separated by white space", "BIGINT")
    characters: int = column("characters kept", "BIGINT")
    dropped: int = column("texts that the filters dropped", "BIGINT")
    thinned: int = column(
        "texts that passed the filters and were left out, to match the words of another corpus (size_of)", "BIGINT"
    )
    labels: dict[str, int] | None = column("JSON object: how many texts carry each label; NULL without labels")
    clusters: int | None = column(
        "clusters of texts (`cluster` in the study), the units of intervals and tests; NULL where texts are", "BIGINT"
    )
    status: Literal["done", "failed"] = column("'done' or 'failed'")
    error: str | None = column("why it failed")


class CorpusText(OfStudy, table="corpus_texts"):
    """The beginning of a text of a corpus: of the first few texts, and of a few more that a seed draws."""

    corpus = CORPUS
    number: int = column("position of the text in the corpus, from 1", "BIGINT", key=True)
    drawn: bool = column("true if run.seed drew the text; false for the first texts")
    text: str = column(f"its first {EXCERPT} characters; compare whole corpora with corpora.content_hash")
    characters: int = column("characters of the whole text", "BIGINT")
    label: str | None = column("label of the text; NULL without a label")


class CellRow(OfStudy, table="cells"):
    """One unit of work: a metric of a checkpoint on a corpus. A comparison names both sides: 'bert | gpt2'."""

    model = OfModel.model
    checkpoint = OfModel.checkpoint
    corpus = CORPUS
    metric = of_cell("metric")
    options: dict[str, Any] = column("JSON object: the metric's options, defaults filled in")
    fingerprint: str = column("hash of everything that its numbers depend on")
    inputs: dict[str, Any] = column("JSON object: the parts that the fingerprint is a hash of")
    status: Literal["done", "failed"] = column("'done' or 'failed'")
    error: str | None = column("why it failed")
    why: str = column("why it ran: 'new', 'options changed', 'weights changed', …")
    reasons: list[dict[str, Any]] = column("JSON array: why single values are NULL (statistic, view, layers, reason)")
    texts: int = column("texts measured", "BIGINT")
    distinct_texts: int = column(
        "units of intervals: texts of which the model reads different tokens, or clusters of texts", "BIGINT"
    )
    tokens: int = column("tokens measured, padding never counted", "BIGINT")
    ordinary: int = column(
        "tokens that are neither special nor set aside, which is the token set 'without sinks'", "BIGINT"
    )
    special: int = column("tokens that the tokenizer added, and special strings inside texts", "BIGINT")
    sinks: int = column(
        "tokens of texts that are sinks (models.sink_rule); the token set 'without sinks' leaves out these tokens and "
        "the first token of each text",
        "BIGINT",
    )
    cut_texts: int = column("texts longer than the limit, cut", "BIGINT")
    short_texts: int = column("texts of one ordinary token", "BIGINT")
    warning: str | None = column(
        "cautions about the pass, one a line: more than 5% unknown tokens, states near the largest float16 number, "
        "texts that were read in windows"
    )
    forward_tokens: int = column(
        "tokens sent through the model for this cell in this run; 0 if the cache had the observables", "BIGINT"
    )
    forward_passes: int = column(
        "passes over the corpus for this cell; cells that share a pass count it once", "BIGINT"
    )
    seconds: float = column("wall time of the metric, in seconds")
    forward_seconds: float = column("wall time of the pass and its observables; cells that share a pass count it once")
    device: str = column("device of the pass")
    precision: str = column("'float32' or 'mixed'")
    alone_deviation: float | None = column(
        "self-check: largest mean relative deviation of a few texts' states (the shortest, the median, the longest, a "
        "cut one) from their states alone and without padding; NULL for stored states"
    )
    versions: dict[str, str] = column("JSON object: versions of reporter, torch, transformers, numpy, Python")
    finished: datetime = column("time when it was stored, UTC")
    folder: str | None = column("results folder that it was merged from; NULL if it was measured in this folder")


class StatisticRow(OfStudy, table="statistics"):
    """One statistic that the study measures: what the number means."""

    metric = METRIC
    statistic: str = column("the second part of the number's name", key=True)
    title: str = column("title of the statistic, as in the report")
    definition: str = column("formula or rule")
    unit: str = column("unit; empty without one")
    per: str = column("what it is a number of: 'layer', 'step' (a block), 'pair' (of layers) or 'model'")
    main: bool = column("true for the statistics that the report shows first")


class StudyRow(OfStudy, table="studies"):
    """One study: its text and its last run."""

    title: str = column("title")
    question: str = column("the question that it asks")
    spec: str = column("the study file as it was read, or the study as JSON when it came from the API")
    spec_hash: str = column("SHA-256 of the spec")
    views: list[str] = column("JSON array: views, the first one is shown first")
    started: datetime = column("start of the last run, UTC")
    finished: datetime | None = column("end of the last run, UTC; NULL while it runs or when it was killed")
    seconds: float = column("wall time of the last run")
    timings: dict[str, float] | None = column(
        "JSON object: seconds of each part (forward, observables, metrics, analyses, training, loading, tokenising, "
        "store, other), without claims, findings and the report"
    )
    looked_at: int | None = column(
        "number of tests for the findings, significant or not; NULL if numbers changed since the last search"
    )
    first_number: datetime | None = column("time when its first number was stored, UTC; also of one since replaced")
    registration: dict[str, Any] | None = column(
        "JSON object: note (the registered claims), in_time (found before there were numbers), changed (keys that "
        "differ, by claim; '' for all); NULL without a registration"
    )
    cells_run: int = column("cells computed in the last run")
    cells_cached: int = column("cells that were done before")
    cells_failed: int = column("cells that failed")
    versions: dict[str, str] = column("JSON object: versions of the libraries")


class SchemaVersion(Row, table="schema_version"):
    """The version of these tables, by which another version of reporter knows whether it can read them."""

    version: int = column("version of the tables; an older reporter cannot read newer tables", key=True)
    reporter: str = column("version of reporter that created the tables")


def _declared(module: Mapping[str, Any]) -> tuple[type[Row], ...]:
    """Return the row classes of a module that name a table."""
    classes = [value for value in module.values() if isinstance(value, type) and issubclass(value, Row)]
    return tuple(row for row in classes if row.table.name and row.__module__ == module["__name__"])


KEPT = (*_declared(globals()), *_declared(vars(answers)))


def number_rows() -> dict[str, tuple[type[Row], ...]]:
    """Return the row classes that each metric or analysis yields; under '' those of all."""
    if not NUMBER_ROWS:
        raise RuntimeError("no room has declared tables of numbers; import reporter.metrics before the store is used")
    return {name: rows for declare in NUMBER_ROWS for name, rows in declare().items()}


def number_tables() -> dict[str, Table]:
    """Return the tables of metrics and analyses by name, with those of installed packages.

    Raises:
        ReporterError: two row classes have a table of one name, or one does not say which cell its rows belong to.
    """
    return _by_name(tuple(row for rows in number_rows().values() for row in rows))


@lru_cache(maxsize=4)
def _by_name(rows: tuple[type[Row], ...]) -> dict[str, Table]:
    classes: dict[str, type[Row]] = {}
    of_runner = {row.table.name: row for row in KEPT}
    for row in rows:
        other = of_runner.get(row.table.name) or classes.setdefault(row.table.name, row)
        if other is not row:
            raise ReporterError(
                f"table {row.table.name!r} is declared twice, by {_full_name(other)} and {_full_name(row)}; rename one"
            )
        for part in CellKey._fields:
            if not row.table.holding(part) and part not in row.table.fixed:
                raise ReporterError(f"the rows of {_full_name(row)} have no column for their {part}; declare one")
    return {name: row.table for name, row in classes.items()}


def tables() -> dict[str, Table]:
    """Return all tables by name."""
    return number_tables() | {row.table.name: row.table for row in KEPT}


def find_table(name: str) -> Table:
    """Return a table by name. Raises ``ValueError`` where there is none."""
    by_name = tables()
    if name not in by_name:
        raise ValueError(f"no table {name!r}; there are: {', '.join(by_name)}")
    return by_name[name]


def _full_name(row: type[Row]) -> str:
    return f"{row.__module__}.{row.__qualname__}"
