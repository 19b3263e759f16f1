"""The overview against means taken by SQL, and what it says of one model, of two and of forty."""

import re
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from report.made_up import SMALL, STUDY, fill, fill_whole
from report.reading import part_of, read, rows_of

from reporter.geometry.intervals import text_errors
from reporter.judge.comparison import _row, differs
from reporter.judge.estimates import Estimates
from reporter.judge.sides import Side
from reporter.metrics.base import catalogue
from reporter.report import render
from reporter.report.compared import path_of
from reporter.report.contents import read_contents
from reporter.report.overview import _uncorrected, read_overview
from reporter.report.sentences import MOST_WORDS
from reporter.report.tables import ModelRow, unlearned, warnings
from reporter.runs.whole import write_comparison, write_over_models
from reporter.store import Store

FEW = ("anisotropy", "motion")
PAIR = (("gpt2", "decoder", 6, 96, (None,)), ("bert", "encoder", 4, 64, (0, 600)))
MANY = tuple((f"{role[0]}{i}", role, 4 + i % 3, 64, (None,)) for role in ("encoder", "decoder") for i in range(20))
# models, corpora, metrics
STUDIED = {"pair": (PAIR, ("nested", "simple"), ("anisotropy", "convergence", "entropy", "loss", "motion"))}
STUDIED |= {"many": (MANY, ("nested",), FEW), "empty": ((), (), FEW)}
STUDIED |= {"encoders": (MANY[:4], ("nested",), ("loss", "motion"))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("overview")
    for name, (models, corpora, metrics) in STUDIED.items():
        store = fill(folder / "results.duckdb", name, models=models, corpora=corpora, metrics=metrics)
        write_over_models(store, name)
        write_comparison(store, name)
    return folder


@pytest.fixture(scope="module")
def overviews(folder):
    with Store(folder / "results.duckdb").reading() as reading:
        return {name: read_contents(reading, STUDY | {"study": name}, catalogue()).overview for name in STUDIED}


@pytest.fixture
def altered(tmp_path):
    """Returns a function that reads a study's overview after SQL statements, and the one beside an answer."""

    def of(models, metrics, *statements):
        store = fill(tmp_path / "results.duckdb", "s", models=models, corpora=("nested",), metrics=metrics)
        with duckdb.connect(str(tmp_path / "results.duckdb")) as connection:
            connection.execute("; ".join(statements))
        write_comparison(store, "s")
        with store.reading() as reading:
            contents = read_contents(reading, STUDY | {"study": "s"}, catalogue())
            return contents.overview, read_overview(reading, replace(contents, answers=({"name": "changed"},)))

    return of


TOKENS = "with special tokens"
MORE = """UPDATE layer_metrics SET value = value + 0.2, ci_low = ci_low + 0.2, ci_high = ci_high + 0.2
WHERE statistic = '{}' AND model = 'gpt2'"""


def row(overview, name):
    return next(line for line in overview.rows if line.id == name)


def reach(number):
    return list(number.measured)


@pytest.mark.parametrize("view", ["text tokens", "without sinks"])
def test_a_number_is_the_mean_over_layers_that_no_definition_fixes_at_the_last_checkpoint(folder, overviews, view):
    overview = overviews["pair"]
    assert [side.model for side in overview.columns] == ["bert", "gpt2"]
    cells = row(overview, "anisotropy.mean_cosine").cells[view]
    means = Store(folder / "results.duckdb").frame(
        "SELECT avg(value), avg(ci_low), avg(ci_high) FROM layer_metrics WHERE study = 'pair' AND corpus = 'nested' "
        "AND site IN ('embedding', 'block') AND by_definition IS NOT TRUE AND metric = 'anisotropy' AND statistic = "
        f"'mean_cosine' AND view = '{view}' AND (step = 600 OR step IS NULL) GROUP BY model ORDER BY model"
    )
    a, b = cells.numbers
    for number, (value, low, high) in zip((a, b), means.to_numpy(), strict=True):
        half = 1.96473 * max(text_errors(value, low, high, 500, (-1, 1)))  # as a claim has it: widened for skewed texts
        assert reach(number) == pytest.approx([value, value - half, value + half], rel=1e-4)
    (of_a, low, _), (of_b, _, high) = a.measured, b.measured
    half = ((of_a - low) ** 2 + (high - of_b) ** 2) ** 0.5
    assert cells.difference.measured[:2] == pytest.approx((of_a - of_b, of_a - of_b - half))


def test_the_mean_of_a_role_is_the_stored_one_with_its_interval_over_models(folder, overviews):
    overview = overviews["many"]
    assert [side.model for side in overview.columns] == ["20 encoders", "20 decoders"] and len(overview.models) == 40
    stored = Store(folder / "results.duckdb").frame(
        "SELECT value, ci_low, ci_high FROM over_models WHERE study = 'many' AND layer IS NULL AND site IS NULL "
        "AND view = 'text tokens' AND metric = 'anisotropy' AND statistic = 'mean_cosine' ORDER BY role DESC"
    )
    numbers = row(overview, "anisotropy.mean_cosine").cells["text tokens"].numbers
    np.testing.assert_allclose(list(map(reach, numbers)), stored, rtol=1e-6)


def test_the_difference_of_roles_of_unequal_depth_is_that_of_the_means_beside_it(overviews):
    for line in overviews["many"].rows:
        for cells in line.cells.values():
            (a, *_), (b, *_) = map(reach, cells.numbers)
            assert reach(cells.difference)[0] == pytest.approx(a - b, rel=1e-9)


def test_models_of_common_origin_are_one_model_in_every_comparison(altered):
    models = [(f"m{i}", ("encoder", "decoder")[i > 2], 4, 64, (None,)) for i in range(6)]
    based = "UPDATE models SET base = 'm0' WHERE model IN ('m1', 'm2')"
    for statements, says in (((), "intervals of differences are over models"), ((based,), "describe these models")):
        overview, _ = altered(models, FEW, *statements)
        assert any(says in note for note in overview.quote) and overview.stored.over_models is not bool(statements)


def test_a_difference_is_one_if_its_corrected_interval_has_no_0():
    side = Side("a", ("a",), "encoder")

    def made(number, tests=1):
        return _row(number, side, side, tests)

    def is_one(value, error, tests):
        return differs(made(Estimates(np.array([value]), np.array([error]), np.inf), tests))

    assert is_one(0.1, 0.045, 1) and not is_one(0.1, 0.055, 1)
    assert not is_one(0.1, 0.045, 100) and not is_one(0.1, np.inf, 1)
    for (value, error, tests), marked in {
        (0.1, 0.045, 1): False,
        (0.1, 0.045, 100): True,
        (0.1, 0.055, 1): False,
    }.items():
        number = made(Estimates(np.array([value]), np.array([error]), np.inf), tests)
        assert _uncorrected(number) == marked, "an interval without 0 that is significant only without correction"
    parts = np.array([[0.3, -0.1, -0.2, 0.0]])
    same, more = (Estimates.of_parts(np.array([2.0]), parts + by, 61) for by in (0.0, 0.01))
    none, gap, alone = map(made, (same.minus(same, paired=True), same.minus(more, paired=True), same))
    assert [none[name] for name in ("value", "ci_low", "ci_high")] == [0, 0, 0], "what a text does to both falls out"
    assert gap["ci_high"] - gap["ci_low"] < (alone["ci_high"] - alone["ci_low"]) / 10


def test_fixed_texts_leave_an_interval_over_models_alone(altered):
    several = [(f"m{i}", ("encoder", "decoder")[i > 2], 4, 64, (None,)) for i in range(6)]
    for models in (PAIR, several):
        overview, _ = altered(models, FEW, "UPDATE studies SET spec = 'texts: fixed'")
        gaps = overview.stored.frame[overview.stored.frame["minus"].notna()]
        assert gaps["ci_low"].isna().all() if models is PAIR else gaps["ci_low"].notna().any()
        assert gaps["p"].notna().all()


def test_sentences_are_short_and_lead_to_their_figures_and_who_is_compared_is_said(overviews, altered):
    for overview in (overviews["pair"], overviews["many"]):
        assert 1 <= len(overview.sentences) <= 3
        for sentence in overview.sentences:
            assert len(sentence.text.split()) <= MOST_WORDS and sentence.text.endswith(".")
            assert sentence.link.startswith(f"layers.html?figure={sentence.figure}&view=")
            assert sentence.figure in {line.id for line in overview.rows}
        about = {(sentence.figure, sentence.views) for sentence in overview.sentences}
        assert len(about) == len(overview.sentences), "each is of something else"
    assert overviews["pair"].line.startswith("bert (encoder, 4 blocks) against gpt2 (decoder, 6 blocks) on 500 texts")
    assert overviews["many"].line.startswith("20 encoders and 20 decoders (4 to 6 blocks)")
    few, _ = altered(PAIR, FEW, "UPDATE corpora SET clusters = 3")
    assert "500 texts in 3 clusters of nested" in few.line and not few.sentences, "too few for a verdict"
    first = overviews["pair"].sentences[0].text
    assert "bert" in first and "gpt2" in first and overviews["encoders"].difference == ""
    assert not overviews["empty"].rows and not overviews["empty"].sentences and not overviews["empty"].charts
    loss = row(overviews["pair"], "loss.lm")
    assert loss.note and loss is overviews["pair"].rows[-1]
    assert all(cells.difference is None for cells in loss.cells.values())
    assert not row(overviews["encoders"], "loss.lm").note


@pytest.mark.parametrize(("left", "word"), [(0.2, "Sinks explain most"), (0.9, "The difference remains")])
def test_whether_sinks_explain_the_difference_is_said(altered, left, word):
    models = (("gpt2", "decoder", 6, 96, (None,)), ("bert", "encoder", 6, 64, (None,)))
    number = f"if(model = 'gpt2' AND layer IN (3, 4), if(view = 'text tokens', 0.95, {left}), 0.2 + layer / 1000)"
    numbers = f"UPDATE layer_metrics SET value = {number}, ci_low = {number} - 0.01, ci_high = {number} + 0.01 "
    numbers += "WHERE statistic = 'mean_cosine' AND view IN ('text tokens', 'without sinks')"
    overview, _ = altered(
        models, FEW, numbers, MORE.format("step_cosine"), "UPDATE cells SET sinks = if(model = 'gpt2', 379, 0)"
    )
    first, sinks, later = overview.sentences
    assert later.views == ("without sinks",), "which the first one would not be about if sinks did not matter"
    assert "in layers 3–4" in first.text and "0.95, against" in first.text and "bert" in first.text
    assert word in sinks.text and "379" in sinks.text and sinks.link.endswith("&view=both")
    assert any("379 in gpt2, none in bert" in note for note in overview.quote)


def test_the_cell_of_a_comparison_of_corpora_counts_no_sink_again(altered):
    both = "INSERT INTO cells BY NAME SELECT * REPLACE ('nested | other' AS corpus) FROM cells WHERE corpus = 'nested'"
    overview, _ = altered(PAIR, FEW, "UPDATE cells SET sinks = if(model = 'gpt2', 175, 0)", both)
    assert any("175 in gpt2, none in bert" in note for note in overview.quote)


def test_without_sinks_all_sentences_are_about_all_tokens(altered):
    overview, _ = altered(PAIR, FEW, *map(MORE.format, ("mean_cosine", "step_cosine")), "UPDATE cells SET sinks = 0")
    assert [sentence.views for sentence in overview.sentences] == [("text tokens",)] * 2


def test_the_page_has_all_parts_for_both_token_sets(folder):
    render(folder / "results.duckdb", folder, ["pair", "many", "empty"])
    html = read(folder / "pair" / "index.html")
    section = part_of(html, 'id="compared"', "</section>")
    first = section[: section.index("</table>")]
    assert first.count('<span data-view="text tokens">') == first.count('<span data-view="without sinks" hidden>') > 0
    assert first.index(">bert<") < first.index(">gpt2<") and "not comparable between roles" in first
    assert "On simple" in section and "The same for each of" not in section
    assert html.count('<p class="says">') <= 3
    assert "The same for each of 40 models" in read(folder / "many" / "index.html")
    assert 'id="compared"' not in read(folder / "empty" / "index.html")


def test_two_models_are_compared_on_the_same_texts(altered):
    models = (("gpt2", "decoder", 4, 64, (None,)), ("tuned", "decoder", 4, 64, (None,)))
    parts = """INSERT INTO text_parts BY NAME SELECT study, model, checkpoint, corpus, view, metric, statistic, layer,
        0.001 AS scale, list_transform(range(100), lambda i: (i % 7 - 3 + if(model = 'tuned', i % 2, 0))::SMALLINT)
        AS parts FROM layer_metrics WHERE metric = 'motion' AND site IN ('embedding', 'block')"""
    based = "UPDATE models SET base = 'gpt2' WHERE model = 'tuned'"
    overview, _ = altered(models, ("entropy", "motion"), based, parts)
    assert [side.model for side in overview.columns] == ["tuned", "gpt2"] and overview.difference == "tuned − gpt2"
    cells = row(overview, "motion.step_cosine").cells["text tokens"]
    (a, b), gap = map(reach, cells.numbers), reach(cells.difference)
    apart = np.linalg.norm([0.001 * (i % 2) for i in range(100)])
    assert gap[0] == pytest.approx(a[0] - b[0]) and 4 * apart < gap[2] - gap[1] < 5 * apart
    assert gap[2] - gap[1] < min(number[2] - number[1] for number in (a, b))
    cells = row(overview, "entropy.prompt_normalised").cells["text tokens"]
    (of_a, low, _), (of_b, _, high) = map(reach, cells.numbers)
    half = ((of_a - low) ** 2 + (high - of_b) ** 2) ** 0.5
    gap = reach(cells.difference)
    assert gap[0] - gap[1] == pytest.approx(half), "nothing is known of its texts"


def test_a_layer_that_one_side_lacks_is_left_out_on_both(altered):
    models = (("gpt2", "decoder", 4, 64, (None,)), ("bert", "encoder", 4, 64, (None,)))
    lacks = "DELETE FROM layer_metrics WHERE model = 'gpt2' AND layer = 0 AND statistic = 'mean_cosine'"
    odd = "UPDATE layer_metrics SET value = value + 9 WHERE model = 'bert' AND layer = 0 AND statistic = 'mean_cosine'"
    overviews = [altered(models, ("anisotropy", "motion"), *statements)[0] for statements in ((lacks,), (lacks, odd))]
    gaps = [
        row(overview, "anisotropy.mean_cosine").cells["text tokens"].difference.measured[0] for overview in overviews
    ]
    assert gaps[0] == pytest.approx(gaps[1])


def test_a_study_of_pairs_of_layers_alone_has_models_corpora_and_token_sets(tmp_path):
    with fill_whole(tmp_path / "results.duckdb", metrics=()).reading() as reading:
        scene = read_contents(reading, STUDY | {"study": "whole"}, catalogue()).scene
    assert {"bert", "gpt2"} <= set(scene.styles.names) and scene.corpora and scene.views


def test_roles_of_two_models_have_an_interval_over_texts(written, tmp_path):
    models = [(f"model-{i}", ("encoder", "decoder")[i % 2], 3, 16, (0, 50) if i == 3 else (None,)) for i in range(4)]
    store = fill(tmp_path / "results.duckdb", **SMALL | {"models": models, "corpora": ("a", "b")})
    write_over_models(store, "made-up")
    write_comparison(store, "made-up")
    written()
    columns, wanted = ("statistic", "corpus", "view", "span", "minus"), ("step_cosine", "a", TOKENS, "mean", "")
    table = rows_of(read(tmp_path / "made-up" / "data" / "compared.csv"))
    rows = {row["side"]: row for row in table if tuple(row[name] for name in columns) == wanted}
    own, role = [rows[model] for model in ("model-1", "model-3")], rows["decoders"]
    assert role["models"] == "2" == str(len(own))
    frame = store.frame(
        f"SELECT * FROM layer_metrics WHERE statistic = 'step_cosine' AND view = '{TOKENS}' AND corpus = 'a' "
        "AND step IS NOT DISTINCT FROM if(model = 'model-3', 50, NULL)"
    )
    for row in own:
        mean = frame[frame["model"] == row["side"]]["value"].mean()
        assert float(row["value"]) == pytest.approx(mean, rel=1e-12)
    for column in ("value", "ci_low", "ci_high"):
        assert float(role[column]) == pytest.approx(sum(float(row[column]) for row in own) / 2)


def test_a_small_profile_is_drawn_to_scale():
    numbers = [float(n) for n in re.findall(r"-?\d+", path_of([(0.0, 1.0), (0.5, 3.0), (1.0, 2.0)], 1.0, 3.0))]
    (x, y), (dx, dy), (ex, ey) = zip(numbers[::2], numbers[1::2], strict=True)
    assert dx == ex > 0 and y + dy < y + dy + ey < y, "up, and half of the way down again"
    assert ey == pytest.approx(-dy / 2, abs=1) and 0 <= x < x + dx + ex <= 336


def test_the_same_warning_is_told_once():
    loss = "its loss is {} and 4.8 is the entropy of gpt2"
    said = {"a": loss.format(5.57), "b": loss.format(4.61), "c": "has 3 layers", "d": None}
    found = warnings([ModelRow(name, {"warning": warning}, []) for name, warning in said.items()])
    assert found == [("its loss is 4.61 to 5.57 and 4.8 is the entropy of gpt2", ["a", "b"]), ("has 3 layers", ["c"])]
    cells = [{"model": "a", "warning": "unknown tokens\nread in windows"}]
    found = warnings([ModelRow("a", {"warning": "unknown tokens"}, [])], cells)
    assert found == [("unknown tokens", ["a"]), ("read in windows", ["a"])]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ((), ""),
        (("a",), "a did not learn more than token frequencies."),
        (("a", "b"), "a and b did not learn more than token frequencies."),
        (("a", "b", "c"), "None of the 3 models learned more than token frequencies."),
    ],
)
def test_models_that_learned_nothing_are_said_before_everything(names, says):
    warning = "training did not get past token frequencies: the loss is 4.40, and token frequencies alone give 4.48"
    rows = [{"model": name, "is_last": True, "warning": warning if name in names else ""} for name in "abc"]
    rows += [
        {"model": "c", "is_last": False, "warning": warning},
        {"model": "n", "is_last": True, "baseline": "shuffle"},
    ]
    assert unlearned(rows).startswith(says) and bool(unlearned(rows)) == bool(says)
