"""The tables of what the numbers of a study answer."""

from typing import Literal

from reporter.core.table import CORPUS, HIGH, LOW, METRIC, TOKEN, Comparable, OfStudy, column

INDISTINGUISHABLE, SMALL = 0.001, 0.01
"""Nats of mean divergence below which a model counts as indistinguishable from its base, or as changed a little.

Measured on copies of an encoder and a decoder, as all limits of words: page ``thresholds.md`` of the documentation.
"""
SAME, NEAR = 0.01, 0.1
"""Distance from the base below which states count as indistinguishable, or as changed a little (``thresholds.md``)."""


class OfLastCheckpoint(OfStudy):
    """An answer about the last checkpoint of a model."""

    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)


class BlockAnswer(OfLastCheckpoint, table="block_answers"):
    """The set of blocks whose removal raises the loss least, for each number of blocks, of all sets that were tried."""

    compared = (Comparable(("change",), "item", of="'the best ' || many || ' to leave out'", interval=True),)

    item: str = column("name of the trial in the study", key=True)
    many: int = column("how many blocks are left out", key=True)
    blocks: str = column("the blocks of the set, from 1")
    by: str = column("the number that proposed the set: 'angle', 'influence' or 'loss'")
    change: float = column("loss without the blocks minus loss of the whole model, in nats")
    ci_low: float | None = column("lower end of the 95 % interval, paired over texts")
    ci_high: float | None = column("upper end of the interval")
    whole: float = column("loss of the whole model on the same texts")
    runner_up: str | None = column("the next best set; NULL if there is no other set")
    runner_up_change: float | None = column("change of loss of the next best set")
    tokens: int = column("tokens that were predicted", "BIGINT")
    weights: float | None = column(
        "share of the model's weights (models.parameters) that the blocks have", default=None
    )
    products: float | None = column("as skipped_blocks.products", default=None)
    unigram_entropy: float | None = column("as models.unigram_entropy", default=None)
    twice: str | None = column("the best repetition that the trial tried: blocks that run twice", default=None)
    twice_change: float | None = column("change of the loss by it", default=None)
    twice_low: float | None = column("lower end of its interval, corrected for the search", default=None)
    twice_high: float | None = column("upper end", default=None)


class BlockOrder(OfLastCheckpoint, table="block_orders"):
    """The block without which the loss changes least, the one without which it is lowest, and what influence costs."""

    compared = (
        Comparable(("change",), "item", of="'the block that changes the loss least'", interval=True),
        Comparable(("best_change",), "item", of="'the cheapest block'", interval=("best_low", "best_high")),
    )

    item: str = column("name of the trial in the study", key=True)
    block: int = column("the block whose removal changes the loss least, up or down, from 1")
    change: float = column("loss without this block minus loss of the whole model, in nats")
    ci_low: float | None = column("lower end of the 95 % interval, paired over texts")
    ci_high: float | None = column("upper end of the interval")
    best: int = column("the cheapest block: the loss without it is the lowest")
    best_change: float = column("loss without the cheapest block minus loss of the whole model, in nats")
    best_low: float | None = column("lower end of its 95 % interval, paired over texts")
    best_high: float | None = column("upper end of the interval")
    lowers: str = column(
        "blocks whose removal lowers the loss significantly, by 0.01 nats or more, as 3, 7–9; corrected for all blocks"
    )
    raises: str = column("blocks whose removal raises the loss significantly, by 0.01 nats or more, corrected likewise")
    ties: str | None = column(
        "other blocks that do not differ significantly from the cheapest one, as 3, 7–9; NULL for few texts"
    )
    proxy: int = column("the block with the least influence")
    proxy_excess: float = column("skip.excess of that block: what it costs more, in nats")
    proxy_low: float | None = column("lower end of its 95 % interval, for all blocks at once")
    proxy_high: float | None = column("upper end of the interval")
    rank: float | None = column("skip.rank_influence; NULL for fewer than three blocks")
    rank_low: float | None = column("lower end of its 95 % interval over blocks; NULL for fewer than ten blocks")
    rank_high: float | None = column("upper end of the interval")
    stability: float | None = column("skip.stability; NULL for fewer than three blocks")
    other: str | None = column(
        "the trial of this model whose order of blocks agrees least; NULL without a second trial"
    )
    tau: float | None = column("Kendall's τ of the two orders; 0 for random orders")


class ChangeAnswer(OfLastCheckpoint, table="change_answers"):
    """Changes of a model against its base, on a corpus."""

    compared = (
        Comparable(("changed", "small", "first_layer", "largest_step", "last_cosine", "last_linear"), "corpus"),
        Comparable(("last_distance",), "corpus", interval=("last_low", "last_high")),
        Comparable(("loss",), "corpus", interval=("loss_low", "loss_high")),
        Comparable(("divergence",), "corpus", interval=("divergence_low", "divergence_high")),
        Comparable(("same_top",), "corpus", interval=("same_low", "same_high")),
    )

    base: str = column("the model that it was made from")
    corpus: str = column("name of the corpus", key=True)
    view: str = column("which tokens were compared")
    verdict: str = column(
        "'indistinguishable', 'small' or 'changed': upper end of the mean divergence below "
        f"{INDISTINGUISHABLE:g} nats, {SMALL:g} nats, or not (without it by `changed`, `largest_distance` below "
        f"{SAME:g} and {NEAR:g}, and the loss); 'seed': no more than another seed changes"
    )
    divergence: float | None = column("mean KL(p⁰ ‖ p) over tokens, in nats; NULL if not measured")
    divergence_low: float | None = column("lower end of its 95 % interval")
    divergence_high: float | None = column("upper end of its interval")
    median: float | None = column("median KL(p⁰ ‖ p) over tokens, in nats; NULL if not measured")
    median_low: float | None = column("lower end of its 95 % interval")
    median_high: float | None = column("upper end of its interval")
    largest_share: float | None = column("share of one token in the sum of divergences")
    same_top: float | None = column("share of tokens with the base's most likely next token")
    same_low: float | None = column("lower end of its 95 % interval")
    same_high: float | None = column("upper end of its interval")
    untouched: str | None = column(
        "blocks, 'embedding', 'head' with exactly the weights of the base, such as 1–11, 13, embedding; empty if none, "
        "NULL if unknown"
    )
    changed: bool = column("true if any layer differs from the base by more than noise")
    small: bool = column("true if it changed, and the verdict is 'indistinguishable' or 'small'")
    noise: str = column(
        "what changes are compared with: 'rounding' of kept states, 'precision' of bf16 products, or 'seed' (distance "
        "to a seed replicate)"
    )
    layers: int = column("blocks of the model")
    base_layers: int = column("blocks of the base")
    first_layer: int | None = column("the first layer that differs by more than noise, 0 = embedding; NULL if none")
    first_distance: float | None = column("mean of ‖h − h⁰‖ / ‖h⁰‖ at the first such layer")
    largest_step: int | None = column("the layer at which the distance grows most; NULL if nothing changed")
    largest_distance: float = column("upper end of the mean of ‖h − h⁰‖ / ‖h⁰‖ at the layer where it is largest")
    last_distance: float | None = column("mean of ‖h − h⁰‖ / ‖h⁰‖ at the last layer")
    last_low: float | None = column("lower end of its 95 % interval")
    last_high: float | None = column("upper end of its interval")
    last_cosine: float | None = column("mean of cos(h, h⁰) at the last layer")
    last_linear: float | None = column("held-out R² of a linear map from the base's states, at the last layer")
    loss: float | None = column("loss minus the loss of the base, in nats; NULL if not measured")
    loss_low: float | None = column("lower end of its 95 % interval, paired over texts")
    loss_high: float | None = column("upper end of its interval")
    tokens: str = column("JSON array: token types that moved most at the last layer, largest first")
    words: str = column("JSON array: tokens that the head reads from the mean change of states, most likely first")
    n: int = column("tokens that were compared, or texts if the tokenizers differ", "BIGINT")


class ChangedNumber(OfStudy, table="changed_numbers"):
    """A main statistic of a model minus its base, at the layer with the largest significant change.

    If no layer changed significantly, the row has the layer that comes nearest.
    """

    compared = (
        Comparable(("value",), "corpus", of="number", interval=True),
        Comparable(("beyond",), "corpus", of="number"),
    )

    model: str = column("name of the model in the study", key=True)
    corpus: str = column("name of the corpus", key=True)
    number: str = column("metric.statistic", key=True)
    layer: int = column("the layer; for a number of a step from layer to layer, the layer before the step")
    value: float = column("number of the model minus number of its base at this layer")
    ci_low: float | None = column("lower end of the 95 % interval, corrected for the number of layers")
    ci_high: float | None = column("upper end of the interval")
    paired: bool = column("true if the interval pairs texts; else both sides count as independent, which is too wide")
    beyond: int = column("number of layers whose corrected interval excludes 0")
    layers: int = column("number of layers that were compared")
    smallest: float = column("minimum meaningful difference: declared, or a hundredth of the mean size of the number")
    largest: float = column("the largest significant change, in units of `smallest`; 0 if no change is significant")
    before: float = column("number of the base at this layer")
    after: float = column("number of the model at this layer")


class ConceptAnswer(OfLastCheckpoint, table="concept_answers"):
    """A concept of a set of pairs at one layer of a model: is it a direction that its pairs share?"""

    compared = (
        Comparable(("consistency",), "pair_set || ': ' || concept", interval=True),
        Comparable(("strongest",), "pair_set || ': ' || concept"),
    )

    pair_set: str = column("name of the set of pairs in the study", key=True)
    concept: str = column("the concept", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    pooling: str = column("how a text became one vector")
    consistency: float | None = column(
        "mean cosine of each difference with the mean of the others; NULL where fewer than two pairs have texts with "
        "different vectors"
    )
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    chance: float | None = column("chance level: the consistency of texts of the set that are paired at random")
    p: float | None = column(
        "p-value of a consistency above the chance level, corrected for the layers (Holm) and the concepts of the set "
        "(Bonferroni); 1 where random turns of pairs disagree; NULL for fewer than three pairs"
    )
    p_untrained: float | None = column(
        "p-value of a consistency above the model with random weights, corrected in the same way; NULL without that "
        "baseline"
    )
    shared: bool = column("whether the concept is a shared direction here: p ≤ 0.05")
    strongest: bool = column("whether its consistency is highest at this layer")
    alike: bool | None = column(
        "whether its consistency does not differ significantly from the highest; NULL if unknown"
    )
    n: int = column("pairs", "BIGINT")
    same_token: str | None = column("the token that is read, if it is the same in every text of the concept")


class DepthAnswer(OfLastCheckpoint, table="depth_answers"):
    """How deep a language model works on a corpus: a number of the whole model."""

    compared = (Comparable(("value",), "corpus", of="number", interval=True),)

    corpus: str = column("name of the corpus", key=True)
    number: str = column("'lens.exit', 'lens.depth' or 'contributions.turn'", key=True)
    view: str = column("which tokens were read")
    blocks: int = column("blocks of the model")
    value: float = column("the number: a share of the depth, a layer or a block")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    n: int = column("tokens that were read", "BIGINT")


class AlikeAnswer(OfStudy, table="alike_answers"):
    """How alike two models are on a corpus: their most similar layers, against permuted texts (see `model_pairs`)."""

    compared = (Comparable(("calibrated",), "corpus", of="statistic", interval=True),)

    model_a: str = column("name of the first model", key=True)
    model_b: str = column("name of the second model", key=True)
    corpus: str = column("name of the corpus", key=True)
    statistic: str = column("'cka' or 'knn'", key=True)
    view: str = column("which tokens were read")
    layer_a: int = column("layer of the first model in the most similar pair, 0 = embedding")
    layer_b: int = column("layer of the second model in this pair")
    value: float = column("similarity of this pair")
    threshold: float = column("similarity that permuted texts reach in 5 % of cases")
    calibrated: float = column("max(0, (value − threshold)/(1 − threshold))")
    ci_low: float | None = column(LOW)
    ci_high: float | None = column(HIGH)
    p: float = column("p-value against permuted texts, corrected for all pairs of layers")
    pairs: int = column("pairs of layers that were searched")
    p_searched: float = column("p, also corrected for all comparisons of the study (Benjamini & Hochberg)")
    searched: int = column("comparisons of the study: pairs of models, corpora, statistics")
    n: int = column("texts that both models read", "BIGINT")


Kind = Literal["labels", "scores", "halves", "partners", "neighbours", "groups", "no labels"]
End = Literal["high", "low"]
_NORMED = (
    "whether the states come out of a norm: the final norm or projection, or the block's norm in a post-norm model; "
    "NULL for the embedding"
)


_NAMED = "criterion || coalesce(' with pooling ' || pooling, '') || coalesce(', ' || variant, '')"


class LayerAnswer(OfLastCheckpoint, table="layer_answers"):
    """A layer of a model, with a pooling, by one criterion: how good it is, and how much worse than the best layer."""

    compared = (
        Comparable(("loss",), "item", of=_NAMED, interval=("loss_low", "loss_high")),
        Comparable(("best",), "item", of=_NAMED),
    )

    kind: Kind = column(
        "how layers are ranked: by 'labels' (a probe), human 'scores' of pairs, 'halves' of texts or 'partners' that "
        "find each other, 'neighbours' of the "
        "same class, 'groups' of texts, or 'no labels' (a proxy)"
    )
    criterion: str = column("the number, as metric.statistic", key=True)
    end: End = column("whether the highest or the lowest number is best")
    item: str = column("name of the probe, of the table of pairs or of the corpus; '(groups)'", key=True)
    site: str = column("'embedding', 'block' or 'final'", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    entry: str | None = column(
        "name of these states in transformers: 'hidden_states[4]' or 'last_hidden_state'; NULL for a last block that "
        "only a hook can read"
    )
    normed: bool | None = column(_NORMED)
    usual: bool = column(
        "true for the usual choice: the last hidden state, with the pooling of the study or the default of the model's "
        "role"
    )
    view: str = column("the view that is read")
    pooling: str | None = column("how a text became one vector; NULL if tokens were measured", key=True)
    variant: str | None = column("treatment of the vectors of pairs: 'raw' or 'centred'; NULL for others", key=True)
    value: float = column("the number")
    ci_low: float | None = column("lower end of the interval of the number")
    ci_high: float | None = column("upper end of the interval")
    chance: float | None = column(
        "share of the majority class for a probe, chance level of pairs; NULL for other numbers"
    )
    n: int = column("number of texts, pairs or tokens behind the number", "BIGINT")
    best: bool = column("true for the best layer and pooling that was measured")
    loss: float = column("difference from the best layer and pooling, 0 for the best")
    loss_low: float | None = column(
        "lower end of the 95 % interval of the difference from the true best, paired over texts, for all layers and "
        "poolings at once; 0 = not significant; NULL if unknown"
    )
    loss_high: float | None = column("upper end of the interval")
    needed: int | None = column(
        "for a difference that is not significant: number of units (see `n`) that would make it significant with 80 % "
        "power",
        "BIGINT",
    )
    same_token: str | None = column("the token that is read, if it is the same in every text", default=None)
    balanced: float | None = column(
        "for labels: mean over classes of the share that is predicted correctly", default=None
    )
    macro_f1: float | None = column("for labels: mean over classes of the F1 score", default=None)
    probe: str | None = column(
        "for other criteria than labels: the probe that measures what the choice of this layer costs",
        default=None,
    )
    probe_loss: float | None = column("accuracy of this probe at its best layer minus at this layer", default=None)
    probe_loss_low: float | None = column("lower end of its interval, as for loss", default=None)
    probe_loss_high: float | None = column("upper end of its interval", default=None)


class ProbeDifference(OfStudy, table="probe_differences"):
    """The accuracy of a probe on one side minus the accuracy on another side, on the same held-out texts.

    The sides are a checkpoint of a tuned model and the last checkpoint of its base at the same layer, or two layers of
    a checkpoint. Both sides have the main pooling (``probe_poolings.main``). The share of neighbours of the same class
    (``probes.label_overlap``) has no rows here, since a text is neither right nor wrong by it.
    """

    compared = (
        Comparable(
            ("value",),
            "probe",
            of="statistic || ' accuracy at layer ' || layer || ' minus ' || other || ' at ' || layer_b",
            interval=True,
        ),
    )

    kind: Literal["base", "layers"] = column(
        "'base': a model minus its base; 'layers': two layers of a model", key=True
    )
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint", key=True)
    last: bool = column("whether it is the last checkpoint of the model")
    other: str = column("the model that is subtracted: its base (the last checkpoint), or itself", key=True)
    probe: str = column("name of the probe in the study", key=True)
    statistic: Literal["linear", "hidden"] = column(
        "kind of probe: 'linear', or 'hidden' for a probe with a hidden layer", key=True
    )
    layer: int = column("layer of the first side, 0 = embedding", key=True)
    layer_b: int = column("layer of the side that is subtracted", key=True)
    value: float = column("accuracy, first side minus second side, on the same texts")
    ci_low: float | None = column(
        "lower end of the 95 % interval, paired over texts, for shared training texts, corrected for all differences "
        "of this checkpoint, probe, kind and statistic; NULL for fewer than 5 texts"
    )
    ci_high: float | None = column("upper end of the interval")
    n: int = column("texts that both sides classified", "BIGINT")
    apart: bool = column("true if the interval excludes 0")


class SinkAnswer(OfLastCheckpoint, table="sink_answers"):
    """Sinks of a model on a corpus: a token, or any token at position 0 of a text."""

    compared = (
        Comparable(
            ("texts", "count", "layer_first", "layer_last", "norm_ratio"),
            "corpus",
            of="coalesce('token ' || token, 'whatever') || if(position_last = 0, ' at position 0', '')",
            by=("model", "checkpoint", "corpus", "token", "own", "position_first"),
        ),
    )

    corpus: str = column("name of the corpus", key=True)
    number: int = column("rank by the number of texts that have the sink, from 1", key=True)
    token: str | None = column(f"{TOKEN}; NULL for any token at position 0")
    types: int = column("number of different tokens: 1, or several at position 0")
    own: bool = column("true for a token of the text; false if the tokenizer added it")
    position_first: int = column("the first position of such a sink; 0 is the start of the input")
    position_last: int = column("the last position of such a sink")
    texts: int = column("texts that have such a sink", "BIGINT")
    measured: int = column("texts that were measured", "BIGINT")
    count: int = column("number of such sinks in all texts", "BIGINT")
    layer_first: int = column("the first block where it is a sink")
    layer_last: int = column("the last block where it is a sink")
    norm_ratio: float = column("the largest ratio of its norm to the median norm of its text, over all blocks")
    dimension: int | None = column("the coordinate that is most often extreme, from 0; NULL if none is")


class JourneyAnswer(OfLastCheckpoint, table="journey_answers"):
    """A token of a trajectory: where it leaves its own vocabulary vector, and what is nearest at the last layer."""

    compared = (Comparable(("left", "rank"), "journey", of="token", by=("model", "checkpoint", "text", "position")),)

    journey: str = column("name of the trajectory in the study", key=True)
    text: int = column("number of the text among the trajectory's texts, from 1", key=True)
    position: int = column("position of the token in its text as the model sees it, from 0", key=True)
    token: str = column(TOKEN)
    asked: bool = column(
        "whether the study asks for the token: under 'follow', or by the trajectory's name; true for all if neither"
    )
    layers: int = column("the last layer")
    left: int | None = column("the first layer at which another vocabulary vector has a larger cosine; NULL: none")
    rank: int = column("vocabulary vectors with a larger cosine than the token's own at the last layer")
    nearest: str = column("the three vocabulary entries with the largest cosines at the last layer, the largest first")


class JourneyPairAnswer(OfLastCheckpoint, table="journey_pair_answers"):
    """Two tokens of a trajectory: how alike their states are at the embedding and at the last layer."""

    compared = (
        Comparable(
            ("last",),
            "journey",
            of="token_a || ' and ' || token_b",
            by=("model", "checkpoint", "text_a", "position_a", "text_b", "position_b"),
        ),
    )

    journey: str = column("name of the trajectory in the study", key=True)
    text_a: int = column("number of the first token's text among the trajectory's texts, from 1", key=True)
    position_a: int = column("position of the first token in its text as the model sees it, from 0", key=True)
    token_a: str = column("the first token")
    text_b: int = column("number of the second token's text", key=True)
    position_b: int = column("position of the second token", key=True)
    token_b: str = column("the second token")
    layers: int = column("the last layer")
    first: float = column("cosine of both states at the embedding")
    last: float = column("cosine of both states at the last layer")
    any_two: float | None = column("mean cosine of two different tokens of the trajectory's texts at the last layer")


class TrainingAnswer(OfStudy, table="training_answers"):
    """Steps of training at which a main statistic of a model changes: its mean over layers, or the model's own."""

    compared = (
        Comparable(
            ("step",), "corpus", of="metric || '.' || statistic || ', ' || kind", interval=("step_low", "step_high")
        ),
        Comparable(
            ("size",), "corpus", of="metric || '.' || statistic || ', ' || kind", interval=("size_low", "size_high")
        ),
    )

    model: str = column("name of the model in the study", key=True)
    corpus: str = column(CORPUS.comment, key=True)
    view: str = column("the view that is read", key=True)
    metric: str = column(METRIC.comment, key=True)
    statistic: str = column("the second part of a number's name", key=True)
    kind: Literal["half-way", "turn", "rest"] = column(
        "'half-way': the number passes the middle of its first and last value; 'turn': its highest or lowest in "
        "between; 'rest': from here on no significant difference from its last value",
        key=True,
    )
    step: int = column(
        "the training step: the first after the middle, of the extreme, or the first of the rest", "BIGINT"
    )
    step_low: int | None = column("lower end of the 95 % interval of the step; NULL for a rest", "BIGINT")
    step_high: int | None = column("upper end of the interval of the step", "BIGINT")
    first: float = column("the number at the first checkpoint")
    value: float = column("the number at the step")
    last: float = column("the number at the last checkpoint with a known step")
    size: float | None = column("last minus first; for a turn, the extreme minus the nearer end; NULL for a rest")
    size_low: float | None = column("lower end of its 95 % interval, over texts")
    size_high: float | None = column("upper end of its interval")
    p_adjusted: float | None = column("p-value of the change over texts, Holm-corrected")
    checkpoints: int = column("number of checkpoints")
