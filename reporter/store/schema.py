"""The tables of ``results.duckdb`` that the runner itself writes. Names are public, and every column has a comment.

Tables of numbers are declared beside the code that computes them (:class:`reporter.metrics.base.Definition`).
"""

from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from reporter.core.errors import ReporterError
from reporter.core.table import (
    CORPUS,
    HIGH,
    LOW,
    METRIC,
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
from reporter.store.rows import CellKey

# Raise it whenever a table or a column is added: a file of another version is refused instead of misread.
SCHEMA_VERSION = 15


Word = Literal["supported", "refuted", "inconclusive", "failed"]


class Correlation(OfStudy, table="correlations"):
    """Over the models of a study, how a feature of their layers goes with how well they do."""

    corpus = CORPUS
    view = VIEW
    metric = METRIC
    feature: str = column("a statistic of the whole model, such as 'rate'", key=True)
    score: str = column("a score that the study gives, or 'loss.lm', the measured loss", key=True)
    method: str = column("'pearson' or 'spearman'", key=True)
    value: float | None = column("the correlation; NULL where it could not be computed")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    p: float | None = column("probability of one at least as strong if they are unrelated; NULL below 3 models")
    n: int = column("models it rests on", "BIGINT")


class OverModels(OfStudy, table="over_models"):
    """A number's mean over the models of a role that have it, with a 95 % interval.

    Of three models or more it is Student's over these models. Two say nothing of others like them: their interval is
    over texts, and speaks of these two alone.

    Each model counts as one, relatives and copies, too; null baselines are left out.
    """

    role = of_cell("'encoder' or 'decoder', measured")
    step: int | None = column(
        "training step at which the models are compared, of those with several; NULL = the last checkpoint of each",
        "BIGINT",
        key=True,
    )
    corpus = CORPUS
    view = VIEW
    metric = METRIC
    statistic: str = column("the second part of a number's name", key=True)
    site: str | None = column(
        "'embedding', 'block', 'final' or 'attention'; NULL for a number of the whole model, and for the mean of one "
        "of a layer over embedding and blocks",
        key=True,
    )
    layer: int | None = column("0 = embedding, 1..L = blocks, of the models that have so many; NULL likewise", key=True)
    models: int = column("models that it is the mean of, at least 2")
    value: float = column("mean over models")
    ci_low: float | None = column(
        "lower end of its interval: over models from three on, over texts for two; NULL where one of two has none"
    )
    ci_high: float | None = column("upper end")


class ModelVerdict(OfStudy, table="claims_by_model"):
    """The verdict of each single model on a claim about several, on all corpora of the claim together.

    The verdicts are corrected together for all models of all claims of the study (Holm, two tests each), apart from
    those of the claims: the chance of even one wrong 'supported' or 'refuted' in this table is at most 5 %, and so it
    is in ``claims``. Rows of readings after the first (other views, baselines) are not corrected: ``p_adjusted`` is
    NULL there.
    """

    claim: str = column("name of the claim in the study", key=True)
    reading: int = column("1 = the claim itself; others as in `claims`", key=True)
    view: str | None = column("which tokens counted")
    baseline: str | None = column("'random-init' or 'shuffled'; NULL = the model itself")
    model: str = column("name of the model in the study, of a baseline with its kind in brackets", key=True)
    verdict: Word = column("'supported', 'refuted' or 'inconclusive'; of the claim itself after the correction")
    alone: Word = column("the same without the correction")
    statistic: str | None = column("what `value` is, in a few words: the number that decides for this model")
    value: float | None = column("the number")
    ci_low: float | None = column("lower end of its 95 % interval, not corrected; NULL where it has none")
    ci_high: float | None = column("upper end")
    claimed: str | None = column("where the claim wants the number, as text")
    p: float | None = column("of the model's whole claim, two-sided, not corrected; NULL where nothing is sampled")
    p_adjusted: float | None = column("after the correction; NULL for readings after the first, and where p is")


class Verdict(OfStudy, table="claims"):
    """A claim of a study under one view, on its models or on a null baseline of them, and the verdict.

    ``detail`` is stored as a JSON object with these keys; a key that has nothing to say is left out:

    ``statistic``
        what ``value`` is, in a few words: ``"middle third minus last third"``.
    ``definition``
        the rule in words, with its numbers filled in: when the claim is supported and when it is refuted.
    ``reason``
        why the verdict is what it is, one sentence; for ``failed``, which numbers are missing.
    ``power``
        of an inconclusive claim: the smallest effect that would have been shown with 80 % power, and about how many
        times as many texts, or how many models, would decide.
    ``views``
        what each other view changes: a list of objects with ``view``, ``says`` (a sentence with the number, the
        profile's peak and its largest change, and the verdict) and ``turned`` (whether any of these is another one).
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
        ``value``, ``ci_low``, ``ci_high`` (the number that decides for it alone), ``statistic`` and ``claimed`` (which
        number that is, and where the claim wants it) where it is not the same for all, and ``verdict``, what it would
        be by itself; numbers may be null.
    ``parts``
        a list with one object for each inequality that the rule joins: ``name``, ``value``, ``ci_low``, ``ci_high``,
        ``claimed``, and ``p_holds`` of one that the claim needs, ``p_fails`` of one that breaks it (one-sided). The
        claim's own number, interval and p are those of the one that decides; where a bell or a rise and fall is
        supported, of the least sure one that says how high it is, and ``p_adjusted`` is that of the whole claim.
    ``effect``
        for ``differ``: an object with ``a`` and ``b`` (names), ``mean_a``, ``mean_b``, ``n_a``, ``n_b`` and ``g``, the
        standardised difference (Hedges' g over models; null for fewer than two on a side).
    ``n``
        how many points, models or types a ``relation`` rests on.
    ``notes``
        a list of sentences that a reader must know: how uncertainty was had, what was left out, which row was taken.
    ``sql``
        a query that shows the numbers behind the verdict, in ``reporter sql``.
    """

    claim: str = column("name of the claim in the study", key=True)
    number: int = column("place of the claim in the study, from 1")
    reading: int = column(
        "1 = the claim itself: its first view, on the models; 2, 3, … = the same under another view or on a "
        "baseline, to show what the verdict hangs on; these are not counted among the claims tested",
        key=True,
    )
    says: str = column("the claim in words")
    source: str | None = column("who says it, and where; NULL where the study does not tell")
    kind: str = column("'value', 'shape', 'differ', 'relation', or a kind that a plug-in brings")
    view: str | None = column("which tokens counted; NULL for a claim by SQL, which says so itself")
    baseline: str | None = column("'random-init' or 'shuffled'; NULL = the models themselves")
    verdict: Word = column(
        "'supported', 'refuted' (the opposite is shown), 'inconclusive' (neither is) or 'failed' (numbers "
        "are missing; detail says which); after the correction for the number of claims"
    )
    value: float | None = column(
        "the number that the verdict rests on (detail.statistic says what it is; of several the one that decides)",
        default=None,
    )
    ci_low: float | None = column("lower end of its 95 % interval, not corrected; NULL where it has none", default=None)
    ci_high: float | None = column("upper end", default=None)
    holds_low: float | None = column(
        "the claim holds if the number lies above this; NULL where nothing bounds it below", default=None
    )
    holds_high: float | None = column(
        "and below this; NULL where nothing bounds it above, both NULL where the range is not known", default=None
    )
    holds_outside: bool | None = column(
        "true where it holds, on the contrary, if the number lies below holds_low or above holds_high ('they differ'); "
        "NULL where the range is not known",
        default=None,
    )
    paper: float | None = column("the work's own number, where the study gives it", default=None)
    p: float | None = column(
        "of the number: twice the smaller of two one-sided p-values, that the claim holds and that it fails, with "
        "no correction; NULL where a number without an interval was compared as it stands",
        default=None,
    )
    p_adjusted: float | None = column(
        "of the whole claim, which is as sure as its least sure part, after Holm's correction over the study's "
        "claims, two tests each; at most 0.05 in a verdict of 'supported' or 'refuted'; readings after the first "
        "are not corrected",
        default=None,
    )
    detail: dict[str, Any] = column(
        "JSON object: statistic, definition, reason, evidence, sql and more", default_factory=dict
    )
    by_model: tuple[ModelVerdict, ...] = aside(default=())


class Found(OfStudy, table="findings"):
    """Exploratory findings: numbers of a study that stand out although no claim named them.

    Every headline statistic is asked the same few questions; p is corrected for all of them, not only for what is
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
    kind: str = column("what is compared: 'base', 'roles', 'models', 'training', 'concepts', 'sinks' and others")
    says: str = column("the finding in a sentence")
    metric = of_cell("metric", key=False)
    statistic: str = column("the second part of the number's name")
    model: str | None = column("the model that it is about; NULL where it is about several")
    corpus: str | None = column("the corpus, or the set of pairs and the concept; NULL where it is about all of them")
    view: str = column("which tokens counted")
    layer_first: int | None = column("from which layer; NULL where it is about all of them")
    layer_last: int | None = column("to which layer")
    value: float = column("the number that it rests on (detail.what says what it is)")
    ci_low: float = column("lower end of its 95 % interval, not corrected")
    ci_high: float = column("upper end")
    p: float = column("two-sided, not corrected for what else was looked at")
    p_adjusted: float = column("after Bonferroni's correction for all that was looked at; at most 0.05")
    looked_at: int = column("how many questions were asked of the study's numbers, answered or not")
    effect: float = column("how large it is, from 0 to 1: of the range of the statistic, or of the larger number")
    chart: str = column("the figure of the report that shows it")
    detail: dict[str, Any] = column("JSON object: what, test, curves, notes, sql and more", default_factory=dict)


class Model(OfModel, table="models"):
    """One checkpoint of one model: where it came from and what the self-test at load measured."""

    position: int = column("place of the checkpoint among those that the study lists for the model, from 1")
    is_last: bool = column(
        "whether it is the last of them, which stands for the model wherever only one checkpoint is compared"
    )
    source: str = column("'hub', 'path', 'recipe' or 'states' (computed elsewhere)")
    location: str = column("hub id, path as written in the study, or the recipe's architecture")
    revision: str = column("commit of the hub repository, or hash of the files")
    fingerprint: str = column("identity of the weights and tokenizer; cells are keyed by it")
    family: str = column("transformers' model_type; 'states' where only the states are there")
    layers: int = column("number of blocks L, counted while they ran")
    width: int = column("dimension d of the block states")
    parameters: int = column("number of weights of the loaded module", "BIGINT")
    vocabulary_size: int = column("rows of the input embedding")
    max_tokens: int | None = column("longest input the model takes; NULL where it has no limit")
    positions: str = column("'added' where layer 0 depends on the position, else 'not-added'")
    norm_placement: str = column(
        "'pre', 'post', 'sandwich', 'inner' (on the sub-layers' outputs alone) or 'none', measured"
    )
    last_hidden_state: str = column(
        "what the model's own last hidden state is: 'block' (the last block's output) or 'final' "
        "(after a closing norm or projection), measured"
    )
    final_width: int | None = column("dimension after the closing norm or projection; NULL without one")
    attention: str = column(
        "'sequential' (a block's feed-forward reads what its attention added), 'parallel' or 'none' (not "
        "found), measured"
    )
    bos: str = column(
        "what the study asks for: 'add' a BOS before each text, 'none', or 'as-is', the tokenizer's own way"
    )
    first_token: str = column(
        "what stands at position 0 of its input: 'word', the text's own first token, or the token that is put "
        "there, such as '[CLS]'; in a decoder that token is the sink"
    )
    sink_rule: str = column("which tokens are sinks, in words")
    self_test: float = column("largest relative deviation between hooks and the model's own hidden_states")
    part: str | None = column(
        "which part of the model was measured: 'encoder' or 'decoder' (beside its encoder, which reads the same text) "
        "of an encoder–decoder, 'text' of a model for texts and images; NULL where it is the whole"
    )
    own_states: str | None = column(
        "'same' where the model's own hidden_states begin with what enters its first block, 'shifted' where they begin "
        "with what that block returned, as those of state-space models do; NULL where that is not known"
    )
    initialised: bool | None = column(
        "true where its weights are those of an initialisation (the gains of each norm are all alike), so that no "
        "finding is about it; NULL where that cannot be told"
    )
    device: str = column("where it ran")
    precision: str = column("'float32' or 'mixed' (bf16 autocast over float32 weights)")
    precision_deviation: float | None = column(
        "largest relative deviation of mixed from float32 states; NULL if not tried"
    )
    base: str | None = column("the model it was tuned from, or whose baseline it is; NULL if neither")
    baseline: str | None = column("'random-init' or 'shuffled': a null baseline of the model 'base'")
    scores: dict[str, float] | None = column("JSON object: outside scores that the study gives; NULL without any")
    loss: float | None = column("recipe models: held-out loss at this checkpoint, in nats")
    unigram_entropy: float | None = column(
        "recipe models: entropy of the token frequencies, in nats; a loss near it means that "
        "nothing was learned from context"
    )
    warning: str | None = column("what a reader should know, e.g. that the model stayed on the unigram plateau")
    weights: dict[str, str] | None = column(
        "JSON object: the hash of each group of weights as loaded: 'embeddings', '1'…'L' for the blocks, 'other' "
        "outside of them, 'head' for what the files hold beside these, such as an untied head; NULL where none were "
        "read, or before this was kept"
    )
    same_weights: str | None = column(
        "which of its weights are, byte for byte, those of an earlier checkpoint of its series, in words; NULL where "
        "none are that should differ"
    )
    status: Literal["done", "failed"] = column("'done' or 'failed'")
    error: str | None = column("why it failed")


class Corpus(OfStudy, table="corpora"):
    """One corpus: where its texts came from and what was kept."""

    corpus = CORPUS
    source: str = column("'inline', 'file', 'dataset' or 'generated'")
    location: str = column("file name as written in the study, dataset id or generator")
    content_hash: str = column("SHA-256 of the texts that were kept, in order")
    texts: int = column("texts kept", "BIGINT")
    words: int = column("words separated by white space", "BIGINT")
    characters: int = column("characters kept", "BIGINT")
    dropped: int = column("texts that the filters dropped", "BIGINT")
    thinned: int = column(
        "texts that passed and were left out to have as many words as another corpus (size_of)", "BIGINT"
    )
    labels: dict[str, int] | None = column("JSON object: how many texts carry each label; NULL without labels")
    status: Literal["done", "failed"] = column("'done' or 'failed'")
    error: str | None = column("why it failed")


class CorpusText(OfStudy, table="corpus_texts"):
    """A text of a corpus, as far as its beginning: the first few, and a few that a seed draws from the others."""

    corpus = CORPUS
    number: int = column("place of the text in the corpus, from 1", "BIGINT", key=True)
    drawn: bool = column("true where run.seed drew it; false for the first ones")
    text: str = column("its first 200 characters, as they are; corpora.content_hash tells whether all are the same")
    characters: int = column("characters of the whole text", "BIGINT")
    label: str | None = column("its label; NULL without one")


class Cell(OfStudy, table="cells"):
    """One unit of work: a metric of a model checkpoint on a corpus; one that compares two sides names both, as in
    'bert | gpt2'.
    """  # noqa: D205

    model = OfModel.model
    checkpoint = OfModel.checkpoint
    corpus = CORPUS
    metric = of_cell("metric")
    options: dict[str, Any] = column("JSON object: the metric's options, defaults filled in")
    fingerprint: str = column("hash of everything its numbers depend on")
    inputs: dict[str, Any] = column("JSON object: what the fingerprint is a hash of, part by part")
    status: Literal["done", "failed"] = column("'done' or 'failed'")
    error: str | None = column("why it failed")
    why: str = column("why it ran: new, spec changed, model changed, …")
    reasons: list[dict[str, Any]] = column("JSON array: why single values are NULL (statistic, view, layers, reason)")
    texts: int = column("texts measured", "BIGINT")
    tokens: int = column("tokens measured, padding never counted", "BIGINT")
    ordinary: int = column("tokens that are neither special nor set aside, which is the view 'no-sinks'", "BIGINT")
    special: int = column("tokens that the tokenizer added, and special strings inside texts", "BIGINT")
    sinks: int = column(
        "own tokens of a text that are sinks (models.sink_rule); set aside with each text's first own token", "BIGINT"
    )
    cut_texts: int = column("texts longer than the limit, cut", "BIGINT")
    short_texts: int = column("texts of one ordinary token", "BIGINT")
    warning: str | None = column(
        "what a reader should know of the pass, a line each: more than 5% unknown tokens, states at the end of "
        "float16's range, numbers of whole texts that were read in windows"
    )
    forward_tokens: int = column(
        "tokens sent through the model for this cell in this run; 0 when observables were at hand", "BIGINT"
    )
    forward_passes: int = column(
        "passes over the corpus that this cell caused; cells that share a pass show it once", "BIGINT"
    )
    seconds: float = column("wall time of the metric itself")
    forward_seconds: float = column("wall time of the pass and its observables, on the cell that caused it")
    device: str = column("device of the pass")
    precision: str = column("'float32' or 'mixed'")
    versions: dict[str, str] = column("JSON object: versions of reporter, torch, transformers, numpy, Python")
    finished: datetime = column("when it was committed, UTC")
    folder: str | None = column("results folder that it was merged from; NULL where it was measured in this one")


class Study(OfStudy, table="studies"):
    """One study: its text and its last run."""

    title: str = column("title")
    question: str = column("the question it asks")
    spec: str = column("the study file as it was read, or the study as JSON when it came from the API")
    spec_hash: str = column("SHA-256 of the spec")
    views: list[str] = column("JSON array: views, the first one is shown first")
    started: datetime = column("start of the last run, UTC")
    finished: datetime | None = column("end of the last run, UTC; NULL while it runs or when it was killed")
    seconds: float = column("wall time of the last run")
    timings: dict[str, float] | None = column(
        "JSON object: where it went, in seconds (forward, observables, metrics, analyses, training, loading, "
        "tokenising, store, other); claims, findings and the report come after it"
    )
    looked_at: int | None = column(
        "questions that its findings answer, those that nothing can be said to included; NULL where numbers changed "
        "since"
    )
    cells_run: int = column("cells computed in the last run")
    cells_cached: int = column("cells found done")
    cells_failed: int = column("cells that failed")
    versions: dict[str, str] = column("JSON object: versions of the libraries")


class SchemaVersion(Row, table="schema_version"):
    """The version of these tables, so that another version of reporter knows whether it can use them."""

    version: int = column("version of the tables; an older reporter refuses a newer one", key=True)
    reporter: str = column("version of reporter that shaped them")


KEPT: tuple[type[Row], ...] = (
    Correlation,
    OverModels,
    Verdict,
    ModelVerdict,
    Found,
    Model,
    Corpus,
    CorpusText,
    Cell,
    Study,
    SchemaVersion,
)


def number_tables() -> dict[str, Table]:
    """Return the tables of metrics and analyses by name, with those of installed packages.

    Raises:
        ReporterError: two row classes have a table of one name, or one does not say which cell its rows belong to.
    """
    from reporter.metrics.analysis import analyses
    from reporter.metrics.base import LayerErrors, Value, catalogue

    definitions = (*catalogue().values(), *analyses().values())
    return _by_name((Value, LayerErrors, *(row for definition in definitions for row in definition.tables)))


@lru_cache(maxsize=4)
def _by_name(rows: tuple[type[Row], ...]) -> dict[str, Table]:
    classes: dict[str, type[Row]] = {}
    of_runner = {row.table.name: row for row in _kept()}
    for row in rows:
        other = of_runner.get(row.table.name) or classes.setdefault(row.table.name, row)
        if other is not row:
            raise ReporterError(
                f"table {row.table.name!r} is declared twice: by {_full_name(other)} and by {_full_name(row)}"
            )
        for part in CellKey._fields:
            if not row.table.holding(part) and part not in row.table.fixed:
                raise ReporterError(f"the rows of {_full_name(row)} do not say which {part} they belong to")
    return {name: row.table for name, row in classes.items()}


def tables() -> dict[str, Table]:
    """Return all tables by name."""
    return number_tables() | {row.table.name: row.table for row in _kept()}


def find_table(name: str) -> Table:
    """Return a table by name. Raises ``ValueError`` where there is none."""
    by_name = tables()
    if name not in by_name:
        raise ValueError(f"there is no table {name!r}; the tables are {', '.join(by_name)}")
    return by_name[name]


def _kept() -> tuple[type[Row], ...]:
    from reporter.store.answers import ANSWERS

    return (*KEPT, *ANSWERS)


def _full_name(row: type[Row]) -> str:
    return f"{row.__module__}.{row.__qualname__}"
