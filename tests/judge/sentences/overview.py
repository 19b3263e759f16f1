"""The overview of a study, whose numbers have intervals of ± ``half``. Not a test."""

from itertools import product
from types import SimpleNamespace

import numpy as np
from pandas import DataFrame

from reporter.charts.styles import ModelStyle
from reporter.judge.comparison import Comparing
from reporter.judge.facts import main_statistics
from reporter.judge.kinship import Origins
from reporter.judge.profiles import PROFILE, read_profiles
from reporter.judge.sides import Sides
from reporter.report.findings import picture
from reporter.report.overview import read_overview
from reporter.report.tables import rows_of
from reporter.store.rows import as_frame
from reporter.store.schema import Comparison

FILES = ("report/sentences.py", "report/overview.py", "report/findings.py", "report/compared.py")
LAYERS = 6
COSINE, STEP, VARIANCE, LOSS = (
    "anisotropy.mean_cosine",
    "motion.step_cosine",
    "anisotropy.top_variance_share",
    "loss.lm",
)


def of_texts(names, corpora, values, half):
    """Return parts of a hundred texts that move all models and layers alike."""
    numbers = frame(names, corpora, values, half).dropna(subset="layer")
    one = np.random.default_rng(0).standard_normal(100)
    return numbers[[*PROFILE, "layer"]].assign(
        scale=half / 2 / np.linalg.norm(one), parts=[one.tolist()] * len(numbers)
    )


def frame(names, corpora, values, half):
    """Return rows of profiles: values by model and token set, one for all layers or one for each."""
    rows = []
    for name in names:
        per = main_statistics()[name].per
        layers = [None] if per == "model" else range(LAYERS + (per == "layer"))
        for corpus in corpora:
            for (model, view), profile in values.items():
                profile = np.broadcast_to(profile, LAYERS + 1)
                for layer in layers:
                    value, depth = profile[layer or 0], None if layer is None else layer / LAYERS
                    of = (model, "final", corpus, view, *name.split("."), None if layer is None else "block")
                    rows.append((*of, layer, depth, value, value - half, value + half, False))
    columns = [*PROFILE, "site", "layer", "depth", "value", "ci_low", "ci_high", "fixed"]
    return DataFrame(rows, columns=columns)


def comparison(corpora, views, roles, models, units, numbers, parts):
    """Return the rows of the table ``comparisons`` that a run would store."""

    def read(sql):
        sizes = [{"corpus": corpus, "texts": count} for corpus, count in units.items()]
        return rows_of(parts) if "text_parts" in sql else sizes if "words" in sql else []

    statistics = main_statistics()
    profiles = {
        (f"{row['metric']}.{row['statistic']}", row["corpus"], row["view"], row["model"]): profile
        for _, (row, *_), profile in read_profiles(read, rows_of(numbers), statistics)
    }
    sides = Sides.of(roles, {model["model"]: model["base"] for model in models})
    comparing = Comparing(sides, Origins(models, {}), statistics, views, profiles)
    rows = as_frame(Comparison.table, [row for corpus in corpora for row in comparing.rows(corpus)])
    return rows.reindex(columns=list(Comparison.table.types))


def overview(
    encoders=(), decoders=(), by=(), without=(), names=(COSINE,), half=0.01, texts=500, clusters=None,
    corpora=("wiki",), sinks=(), base=None, paired=False, judged=False, blocks=(), failed=0, warned=(), cut=0,
    read=True, views=("text tokens", "without sinks"), lacks=(), fixed=False,
):  # fmt: skip
    """Return the first page of a study: its line, sentences, scope and cautions."""
    roles = dict.fromkeys(encoders, "encoder") | dict.fromkeys(decoders, "decoder")
    profiles = {(model, view): dict(by).get(model, 0.5) for model in roles for view in views}
    bare = {(model, "without sinks"): profile for model, profile in dict(without).items() if model in roles}
    profiles |= bare if "without sinks" in views else {}
    styles = [ModelStyle(model, role, "", "", "", ()) for model, role in roles.items()]
    models = [
        {"model": model, "checkpoint": "final", "is_last": True, "layers": dict(blocks).get(model, LAYERS)}
        | {"status": "done", "base": base if model != base else None, "warning": "odd" if model in warned else ""}
        | {"max_tokens": None} for model in roles
    ]  # fmt: skip
    cell = {"checkpoint": "final", "status": "done", "tokens": 9000, "texts": texts, "cut_texts": cut, "inputs": "{}"}
    cells = [
        cell | {"model": model, "corpus": corpus, "sinks": dict(sinks).get(model), "warning": ""}
        for model, corpus in product(roles if read else (), corpora)
    ]
    cells += [{"model": "x", "checkpoint": "", "corpus": "", "status": "failed"}] * failed
    known = [] if not roles else names
    charts = [
        SimpleNamespace(id=name, chart=SimpleNamespace(kind="profile", main=True, lead=""), empty=False)
        for name in known
    ]
    contents = SimpleNamespace(
        scene=SimpleNamespace(study="s", views=views, corpora=corpora, styles=SimpleNamespace(own=styles)),
        corpora=[{"corpus": corpus, "texts": texts, "clusters": clusters, "status": "done"} for corpus in corpora],
        study={"spec": "texts: fixed" * fixed}, cells=cells, models=models, charts=charts,
        answers=[{"name": "changed"}] * judged,
    )  # fmt: skip
    parts = (
        of_texts(names, corpora, profiles, half) if paired else DataFrame(columns=[*PROFILE, "layer", "scale", "parts"])
    )
    whole = frame(known, corpora, profiles, half)
    whole = whole[~(whole["model"].isin(lacks) & (whole["layer"] == 0))]
    units = dict.fromkeys(corpora, clusters or texts)
    page = read_overview(lambda sql: comparison(corpora, views, roles, models, units, whole, parts), contents)
    said = [part for sentence in page.sentences for part in (sentence.text, sentence.strength)]
    return "\n".join([page.line, *said, page.scope, *page.quote, *(line.note or line.over for line in page.rows)])


def pictured(points=3):
    """Return the words of the picture of a finding about a model with one curve."""
    curves = [{"label": "enc", "x": [0, 0.5, 1][:points], "y": [0.3, 0.4, 0.35][:points], "own": True}]
    shown = picture({"chart": COSINE, "model": "enc"}, {"curves": curves}, SimpleNamespace(models=()))
    return "" if shown is None else shown["sentence"]


def only(*layers, high=0.9, rest=0.2):
    """Return a profile that is high at some layers."""
    return [high if layer in layers else rest for layer in range(LAYERS + 1)]


PAIR = {"encoders": ("enc",), "decoders": ("dec",)}
APART = PAIR | {"by": {"enc": 0.3, "dec": 0.8}}
MANY = {"encoders": ("a", "b", "c"), "decoders": ("d", "e", "f"), "half": 0.001}
MANY |= {"by": {"a": 0.3, "b": 0.31, "c": 0.29, "d": 0.8, "e": 0.81, "f": 0.79}}
INSIDE = PAIR | {"by": {"enc": 0.2, "dec": only(3, 4)}}
NARROW = {"encoders": (), "decoders": ("dec", "old"), "by": {"old": 0.2, "dec": only(3, 4)}}
ONE = {"decoders": ("dec",), "by": {"dec": np.linspace(0.2, 0.8, LAYERS + 1)}}
ROLE = {"encoders": ("a", "b", "c"), "by": {"a": 0.2, "b": 0.5, "c": 0.45}}
SINKS = INSIDE | {"sinks": {"dec": 379, "enc": 0}, "without": {"dec": 0.25, "enc": 0.2}}
TUNED = {"decoders": ("dec", "old"), "base": "old", "by": {"old": 0.5, "dec": 0.5}}
CROSSED = {"by": {"enc": only(0), "dec": [0.5, *only(3, 4)[1:]]}}
MORE = {
    VARIANCE: "vary more along one direction",
    COSINE: "are more alike in direction",
    "contextuality.self_similarity_adjusted": "of a token depend less on context",
    "contributions.attention_ratio": "are changed more by attention",
    "contributions.feed_forward_ratio": "are changed more by the feed-forward",
    "convergence.similarity": "are closer to their final direction",
    "entropy.prompt_normalised": "spread more evenly within a text",
    "intrinsic_dimension.twonn": "have a higher local dimension",
    "linearity.linearity": "follow more linearly from block to block",
    "local_dimension.mean": "have a higher local dimension",
    STEP: "turn less from block to block",
    "spectrum.effective_rank": "spread over more directions",
    "subspaces.speed": "change their leading directions faster",
    "token_path.curvature": "turn more from token to token",
    "variance.within_share": "vary more with context",
}
NOTHING = "No main statistic differs significantly and by much between enc and dec."

CASES = {
    "overview": [
        # a larger number says the same of the states in whichever model it is larger
        *((f"In dec, states {words}", APART | {"names": (name,)}, NOTHING, {"by": {"enc": 0.3, "dec": 0.31}})
          for name, words in MORE.items()),
        ("In dec, states are more alike", APART, "In enc, states are more alike", {"by": {"enc": 0.8, "dec": 0.3}}),
        # two sides: a difference within the interval, below the minimum effect, or of one of several models
        ("In dec, states are more alike in direction than in enc (mean", APART, "corrected for all comparisons",
         {"half": 0.5}),
        ("on average over layers).", APART, "Mean cosine of two tokens does not differ significantly: "
         "0.50 in enc, 0.50 in dec, on average over layers.", {"by": {}}),
        ("significant only without correction", PAIR | {"by": {"enc": 0.3, "dec": 0.33}, "half": 0.018}, "",
         {"half": 0.05}),
        ("In the 3 decoders, states are", MANY, "No main statistic differs significantly",
         {"by": MANY["by"] | {"d": 0.0}}),
        ("In dec, states are", PAIR | {"encoders": ("enc", "e2"), "by": {"enc": 0.3, "e2": 0.3, "dec": 0.8}},
         "No main statistic differs", {"by": {"enc": 0.3, "e2": 0.85, "dec": 0.8}}),
        ("against 0.30 on average over layers", APART, "against 0.30 on average over blocks", {"names": (STEP,)}),
        ("Information imbalance towards the last layer averages", APART | {"names": ("information_imbalance.to_last",)},
         "In dec, states are", {"names": (COSINE,)}),
        ("embedding included", APART, "on average over blocks", {"names": (STEP,)}),
        ("In a-model-whose-name-is-long, states are", {"encoders": ("enc of the first of many series of models of one "
         "study",), "decoders": ("a-model-whose-name-is-long",), "by": {"enc of the first of many series of models of "
         "one study": 0.3, "a-model-whose-name-is-long": 0.8}},
         "In dec, states are more alike in direction than in enc (", APART),
        ("in layers 3–4 (mean cosine of two tokens", INSIDE,
         "0.90 at these depths, against 0.20 in layers 3–4 of enc).", CROSSED),
        ("at these depths", PAIR | CROSSED, "throughout in enc", INSIDE),
        ("in layers 3–4 (", INSIDE, "on average over layers", {"by": {"enc": 0.2, "dec": only(*range(7))}}),
        ("difference 70 [68, 72] percentage points", INSIDE | {"names": (VARIANCE,)}, "difference 0.70",
         {"names": (COSINE,)}),
        ("at depths 0.5 to 0.67", MANY | {"by": dict.fromkeys("abc", 0.2) | dict.fromkeys("def", only(3, 4))},
         "at depth 0.5 ", {"by": dict.fromkeys("abc", 0.2) | dict.fromkeys("def", only(3, high=1.0))}),
        # sinks
        ("Sinks explain most of it: without 379 sink tokens of dec, the", SINKS,
         "The difference remains without 379 sink", {"without": {"dec": 0.6, "enc": 0.2}}),
        ("each text's first token is left out as well", SINKS, "", {"sinks": {"dec": 0, "enc": 0}}),
        ("The difference remains", SINKS | {"without": {"dec": 0.6, "enc": 0.2}},
         "Without 379 sink tokens of dec the difference", {"without": {"dec": 0.1, "enc": 0.8}}),
        ("the difference reverses", SINKS | {"without": {"dec": 0.1, "enc": 0.8}}, "",
         {"without": {"dec": 0.2, "enc": 0.205}}),
        ("The difference remains", SINKS | {"without": {"dec": 0.6, "enc": 0.2}}, "",
         {"half": 0.25, "without": {"dec": 0.6, "enc": 0.2}}),
        ("the same layers have 0.25 in dec", SINKS, "the same depths have 0.25 in the 2 decoders against", {"decoders":
         ("d", "e"), "by": {"enc": 0.2, "d": only(3, 4), "e": only(3, 4)}, "sinks": {"d": 300, "e": 79}, "without": {
         "enc": 0.2, "d": 0.25, "e": 0.25}}),
        ("the mean over layers is 0.20 in enc against 0.30 in dec.",
         SINKS | {"by": {"enc": 0.2, "dec": 0.8}, "without": {"enc": 0.2, "dec": 0.3}}, "the same layers have", INSIDE),
        # one model, several of one role
        ("Mean cosine of two tokens rises from", ONE, "Mean cosine of two tokens falls from",
         {"by": {"dec": ONE["by"]["dec"][::-1]}}),
        ("rises from 0.20", ONE, "is highest, 0.90 at layer 3, and lowest,", {"by": {"dec": only(3)}}),
        ("is highest, 0.90 at layer 3", ONE | {"by": {"dec": only(3)}}, "", {"by": {"dec": only(3, high=0.25)}}),
        ("Mean cosine of two tokens ranges from 0.20 in a to 0.50 in b,", ROLE,
         "No main statistic differs significantly and by much between the", {"by": {"a": 0.45, "b": 0.5, "c": 0.45}}),
        (", on average over layers.", ROLE, "in a to 0.50 in b.", {"names": (LOSS,)}),
        # what the sentences hold for
        ("1 encoder and 1 decoder: differences", PAIR, "95 % intervals over texts; significant after correction for "
         "all comparisons. One model:", {"encoders": ()}),
        ("The texts are no sample of others, so there are no intervals.", PAIR | {"fixed": True},
         "95 % intervals over texts; significant after correction for all comparisons.", {"fixed": False}),
        ("One model of each role:", PAIR, "Few models of a role: descriptive", {"encoders": ("enc", "e2")}),
        ("Few models of a role: descriptive, says nothing", MANY | {"encoders": ("a", "b")},
         ("95 % intervals over models; significant after", "intervals of differences are over models."),
         {"encoders": ("a", "b", "c")}),
        ("One model: descriptive, says nothing about others.", ONE,
         "Models of one role: descriptive, says nothing about others.", {"decoders": ("dec", "d2")}),
        ("significant after correction for all comparisons", PAIR, "No model has numbers yet.",
         {"encoders": (), "decoders": ()}),
        # the line, and what to know before quoting
        ("enc (encoder, 6 blocks) against dec (decoder, ", PAIR, "2 encoders and 1 decoder", {"encoders": ("a", "b")}),
        ("on 4 corpora.", PAIR | {"corpora": "abcd"}, "of b and 500 texts of c.", {"corpora": "abc"}),
        ("on 500 texts in 3 clusters of wiki.", PAIR | {"clusters": 3}, "on 500 texts of wiki.", {"clusters": None}),
        ("(4 to 6 blocks)", MANY | {"blocks": {"a": 4}}, "(6 blocks)", {"blocks": {}}),
        ("over the layers that both have", APART | {"lacks": ("enc",)}, "embedding included", {"lacks": ()}),
        ("not comparable between roles", PAIR | {"names": (LOSS,)}, "", {"encoders": ("enc", "dec"), "decoders": ()}),
        ("No token of a text is a sink in any", PAIR | {"sinks": {"enc": 0, "dec": 0}},
         "Sinks among the tokens of texts: 1 in dec, none in enc. Also", {"sinks": {"enc": 0, "dec": 1}}),
        ("is a sink in any model", PAIR | {"sinks": {"enc": 0, "dec": 0}}, "is a sink in enc;", {"sinks": {"enc": 0}}),
        ("is a sink in", PAIR | {"sinks": {"enc": 0}}, "", {"sinks": {}}),
        (", none in enc", PAIR | {"sinks": {"enc": 0, "dec": 1}}, "", {"sinks": {"dec": 1}}),
        ("10 in 4 models", MANY | {"sinks": {"a": 1, "b": 2, "c": 3, "d": 4}}, "1 in a, 2 in b and 3 in c",
         {"sinks": {"a": 1, "b": 2, "c": 3}}),
        (", none in 4 models", MANY | {"sinks": dict.fromkeys("abcd", 0) | {"e": 1}}, ", none in a, b and c",
         {"sinks": dict.fromkeys("abc", 0) | {"e": 1}}),
        (" Also compare without sinks.", PAIR | {"sinks": {"dec": 1}}, "", {"views": ("text tokens",)}),
        ("500 texts, 9,000 tokens per model; none cut short.", PAIR,
         "500 texts, 9,000 tokens per model; 3 texts cut short.", {"cut": 3}),
        (("tokens per model", "cut short"), PAIR, "", {"read": False}),
        ("1 measurement failed: see Method.", PAIR | {"failed": 1}, "1 warning about enc: see Method.",
         {"failed": 0, "warned": ("enc",)}),
        (": see Method.", PAIR | {"failed": 1}, "", {"failed": 0}),
        # a model and its base: paired intervals, and nothing beside an answer that has the verdict
        ("No main statistic differs significantly", TUNED, "", {"judged": True}),
    ],
    "pictured": [("enc over depth, from 0.3 to 0.4", {}, "", {"points": 1})],
}  # fmt: skip
