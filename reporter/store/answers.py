"""The tables of what the numbers of a study answer."""

from typing import Literal

from reporter.core.table import CORPUS, HIGH, LOW, METRIC, TOKEN, Comparable, OfStudy, Row, column


class OfLastCheckpoint(OfStudy):
    """An answer about the last checkpoint of a model."""

    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint, the last one measured", key=True)


class BlockAnswer(OfLastCheckpoint, table="block_answers"):
    """The blocks that a model loses least by leaving out, of so many: the best of the sets that were run."""

    compared = (Comparable(("change",), "item", of="'the best ' || many || ' to leave out'", interval=True),)

    item: str = column("name of the trial in the study", key=True)
    many: int = column("how many blocks are left out", key=True)
    blocks: str = column("which, from 1")
    by: str = column("why they were proposed: 'angle' or 'influence'")
    change: float = column("loss without them minus loss of the whole model, in nats")
    ci_low: float | None = column("lower end of its 95 % interval, paired over texts")
    ci_high: float | None = column("upper end")
    whole: float = column("loss of the whole model on the same texts")
    runner_up: str | None = column("the next best set; NULL where there is none")
    runner_up_change: float | None = column("its change of loss")
    least: str = column("all blocks in the order of their influence, the least first")
    tokens: int = column("tokens that were predicted", "BIGINT")


class ChangeAnswer(OfLastCheckpoint, table="change_answers"):
    """Changes of a model against its base, on a corpus."""

    compared = (
        Comparable(("changed", "small", "first_layer", "largest_step", "last_cosine", "last_linear"), "corpus"),
        Comparable(("last_distance",), "corpus", interval=("last_low", "last_high")),
        Comparable(("loss",), "corpus", interval=("loss_low", "loss_high")),
    )

    base: str = column("the model that it was made from")
    corpus: str = column("name of the corpus", key=True)
    view: str = column("which tokens were compared")
    changed: bool = column("whether any layer lies beyond noise")
    small: bool = column(
        "whether nothing changed that is worth a word: mean cosine of each layer, headline numbers and loss keep "
        "within their smallest difference"
    )
    noise: str = column(
        "what counts as noise: 'rounding' of the kept states, 'precision' of bf16 products, or 'seed': as far as the "
        "model lies from the same one from another seed"
    )
    layers: int = column("blocks of the model")
    base_layers: int = column("blocks of the base")
    first_layer: int | None = column("the first layer beyond noise, 0 = embedding; NULL where there is none")
    first_distance: float | None = column("mean of ‖h − h⁰‖ / ‖h⁰‖ there")
    largest_step: int | None = column("the layer at which that distance grows most; NULL where nothing changed")
    last_distance: float | None = column("the distance at the last layer")
    last_low: float | None = column("lower end of its 95 % interval")
    last_high: float | None = column("upper end")
    last_cosine: float | None = column("mean of cos(h, h⁰) at the last layer")
    last_linear: float | None = column("share of the last layer that a linear map of the base's makes, held out")
    loss: float | None = column("loss minus that of the base, in nats; NULL where it was not measured")
    loss_low: float | None = column("lower end of its 95 % interval, paired over texts")
    loss_high: float | None = column("upper end")
    tokens: str = column("the token types that lie farthest from the base at the last layer, farthest first, JSON")
    n: int = column("tokens, or texts where the tokenizers disagree, that were compared", "BIGINT")


class ChangedNumber(OfStudy, table="changed_numbers"):
    """A headline number of a model minus that of its base, at the layer beyond its interval where it moves most.

    Where no layer is beyond, at the one that comes nearest to it.
    """

    compared = (
        Comparable(("value",), "corpus", of="number", interval=True),
        Comparable(("beyond",), "corpus", of="number"),
    )

    model: str = column("name of the model in the study", key=True)
    corpus: str = column("name of the corpus", key=True)
    number: str = column("metric.statistic", key=True)
    layer: int = column("the layer; of a number of steps the one that the step leaves")
    value: float = column("of the model minus that of its base there")
    ci_low: float | None = column("lower end of its 95 % interval, widened for as many layers as were looked at")
    ci_high: float | None = column("upper end")
    paired: bool = column("whether the interval pairs texts; else both sides count as independent, which is too wide")
    beyond: int = column("layers whose interval, widened likewise, leaves out 0")
    layers: int = column("layers that were looked at")
    smallest: float = column("the smallest difference worth a word, its own or a hundredth of the number's mean size")
    largest: float = column("the largest change among the layers beyond, in units of `smallest`; 0 where there is none")


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
    chance: float | None = column("chance level: the same of texts of the set paired at random")
    p: float | None = column(
        "p-value of a consistency above the chance level, corrected for the layers (Holm); 1 where random turns of the "
        "pairs do not confirm it; NULL for fewer than three different pairs"
    )
    p_untrained: float | None = column(
        "p-value, corrected likewise, of a consistency above that of the same model with random weights; NULL without "
        "that baseline"
    )
    shared: bool = column("whether the concept is a shared direction here: p ≤ 0.05 over the number of concepts")
    strongest: bool = column("whether its consistency is highest at this layer")
    alike: bool | None = column(
        "whether its consistency does not differ significantly from the highest; NULL where that is not known"
    )
    n: int = column("pairs", "BIGINT")
    same_token: str | None = column("the token that is read in every text of the concept, where it is the same in all")


Kind = Literal["labels", "neighbours", "groups", "no labels"]
End = Literal["high", "low"]
_NORMED = (
    "whether they come out of a norm: the closing one (or a closing projection), or the block's own in a post-norm "
    "model; NULL for the embedding, of which it was not measured"
)


_NAMED = "criterion || coalesce(' with pooling ' || pooling, '')"


class LayerAnswer(OfLastCheckpoint, table="layer_answers"):
    """A layer of a model, with a pooling, by one criterion: how good it is, and what it loses against the best."""

    compared = (
        Comparable(("loss",), "item", of=_NAMED, interval=("loss_low", "loss_high")),
        Comparable(("best",), "item", of=_NAMED),
    )

    kind: Kind = column(
        "what tells good layers from bad ones: 'labels' (a probe), 'neighbours' (that are of the same class), 'groups' "
        "of texts, 'no labels' (a number that has been proposed for choosing)"
    )
    criterion: str = column("the number, as metric.statistic", key=True)
    end: End = column("whether the highest or the lowest is the best")
    item: str = column("name of the probe or of the corpus; '(groups)'", key=True)
    site: str = column("'embedding', 'block' or 'final'", key=True)
    layer: int = column("0 = embedding, 1..L = blocks", key=True)
    entry: str | None = column(
        "what the library calls these states: 'hidden_states[4]' or 'last_hidden_state'; NULL for a last block that "
        "only a hook reads"
    )
    normed: bool | None = column(_NORMED)
    usual: bool = column(
        "whether it is what is usually taken: the last hidden state, with the study's pooling or the default of the "
        "model's role"
    )
    view: str = column("the view that is read")
    pooling: str | None = column("how a text became one vector; NULL where tokens were measured", key=True)
    value: float = column("the number")
    ci_low: float | None = column("lower end of its own interval")
    ci_high: float | None = column("upper end")
    chance: float | None = column("what the number of a probe would be by chance; NULL for other numbers")
    n: int = column("texts or tokens that it rests on", "BIGINT")
    best: bool = column("whether it is the best one seen")
    loss: float = column("by how much it is worse than the best one seen")
    loss_low: float | None = column(
        "lower end of the 95 % interval of what it loses against the best layer and pooling that there is, compared "
        "text by text, and holding however many layers and poolings are tried; 0 = no significant difference; NULL "
        "where single texts are not known"
    )
    loss_high: float | None = column("upper end")
    needed: int | None = column(
        "of a loss that is not significant: texts with which a loss of this size would be significant with a "
        "probability of 80 %",
        "BIGINT",
    )
    same_token: str | None = column("the token that is read in every text, where it is the same in all", default=None)
    probe: str | None = column(
        "of other criteria than labels: the probe that says what the layer loses, with the pooling of the probe's best",
        default=None,
    )
    probe_loss: float | None = column("by how much that probe reads this layer worse than its best", default=None)
    probe_loss_low: float | None = column("lower end of its interval, as for loss", default=None)
    probe_loss_high: float | None = column("upper end", default=None)


class ProbeDifference(OfStudy, table="probe_differences"):
    """The accuracy of a probe on one side minus that on another, on the same held-out texts.

    The sides are a checkpoint of a tuned model and the last one of its base at the same layer, or two layers of one
    checkpoint. Both sides have the main pooling (``probe_poolings.main``). Of the share of neighbours of the same class
    (``probes.label_overlap``) there is none: it has no right or wrong of a text, and its own jackknife over texts.
    """

    compared = (
        Comparable(
            ("value",),
            "probe",
            of="statistic || ' accuracy at layer ' || layer || ' minus ' || other || ' at ' || layer_b",
            interval=True,
        ),
    )

    kind: Literal["base", "layers"] = column("'base': a model minus its base; 'layers': two layers of one", key=True)
    model: str = column("name of the model in the study", key=True)
    checkpoint: str = column("its checkpoint", key=True)
    last: bool = column("whether that is the model's last one")
    other: str = column("the model that is subtracted: its base (the last checkpoint), or itself", key=True)
    probe: str = column("name of the probe in the study", key=True)
    statistic: Literal["linear", "hidden"] = column(
        "kind of probe: 'linear', or 'hidden', the one with a hidden layer", key=True
    )
    layer: int = column("layer of the first side, 0 = embedding", key=True)
    layer_b: int = column("layer of the side that is subtracted", key=True)
    value: float = column("share of texts told rightly, first side minus second, on the same texts")
    ci_low: float | None = column(
        "lower end of its 95 % interval, paired over texts, for classifiers that share training texts, and widened for "
        "as many differences as this checkpoint and probe have of the kind and statistic; NULL for fewer than 5 texts"
    )
    ci_high: float | None = column("upper end")
    n: int = column("texts that both sides told, rightly or not", "BIGINT")
    apart: bool = column("whether the interval leaves out 0")


class SinkAnswer(OfLastCheckpoint, table="sink_answers"):
    """Sinks of a model on a corpus: a token, or whatever stands at position 0 of a text."""

    compared = (
        Comparable(
            ("texts", "count", "layer_first", "layer_last", "norm_ratio"),
            "corpus",
            of="coalesce('token ' || token, 'whatever') || if(position_last = 0, ' at position 0', '')",
            by=("model", "checkpoint", "corpus", "token", "own", "position_first"),
        ),
    )

    corpus: str = column("name of the corpus", key=True)
    number: int = column("1 = the one that is in most texts, and so on", key=True)
    token: str | None = column(f"{TOKEN}; NULL for whatever stands at position 0")
    types: int = column("different tokens that are meant: 1, or several at position 0")
    own: bool = column("whether it is one of the text's own tokens; else the tokenizer added it")
    position_first: int = column("the first position at which one stands; 0 is the start of the input")
    position_last: int = column("the last such position")
    texts: int = column("texts that have one", "BIGINT")
    measured: int = column("texts that were measured", "BIGINT")
    count: int = column("how many there are", "BIGINT")
    layer_first: int = column("the first block at which one is a sink")
    layer_last: int = column("the last such block")
    norm_ratio: float = column("the largest norm over the median norm of its text, over all blocks")
    dimension: int | None = column("the coordinate on which most of them stand out, from 0; NULL where none does")


class TrainingAnswer(OfStudy, table="training_answers"):
    """Steps of training at which a headline number of a model changes: its mean over layers, or the model's own."""

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
        "'half-way': where it passes the middle between its first and last value; 'turn': where it is highest or "
        "lowest in between; 'rest': from when on it is not told apart from its last value",
        key=True,
    )
    step: int = column(
        "the training step: the first past the middle, that of the extreme, the first of the rest", "BIGINT"
    )
    step_low: int | None = column("with 95 % confidence it is not before this step; NULL for a rest", "BIGINT")
    step_high: int | None = column("nor after this one", "BIGINT")
    first: float = column("the number at the first checkpoint")
    value: float = column("the number at the step")
    last: float = column("the number at the last checkpoint with a known step")
    size: float | None = column("last minus first; of a turn the extreme minus the nearer end; NULL for a rest")
    size_low: float | None = column("lower end of its 95 % interval, over texts")
    size_high: float | None = column("upper end")
    p_adjusted: float | None = column(
        "probability of a change as large by the chance of texts, after Holm's correction over all that were looked at"
    )
    checkpoints: int = column("how many checkpoints there are")


ANSWERS: tuple[type[Row], ...] = (
    LayerAnswer,
    ConceptAnswer,
    ChangeAnswer,
    ChangedNumber,
    BlockAnswer,
    TrainingAnswer,
    SinkAnswer,
    ProbeDifference,
)
