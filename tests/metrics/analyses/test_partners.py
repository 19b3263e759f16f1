"""Pairs of texts in a table: numbers against the path of verify, intervals, wrong tables."""

from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import spearmanr

from reporter.app.verify import by_model
from reporter.core.errors import ReporterError
from reporter.metrics.analysis import Corpus, analyses
from reporter.metrics.partners import (
    PartnersFile,
    TextHalves,
    WrittenPartners,
    _wrong,
    graded,
    halves_of,
    searched,
    treated,
)
from reporter.models.places import Place

SEARCHED = {"recall", "mrr", "mexa"}
WORDS = ["cat", "dogs", "mouse", "red", "blue", "old", "town", "birds", "days", "sing", "runs", "of", "the", "in"]


def pairs(n=24, seed=0):
    """Texts, each with a partner that lost some of its words, and how many it kept."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        words, kept = rng.choice(WORDS, 8), int(rng.integers(2, 7))
        yield " ".join(words), " ".join(rng.permutation(words)[:kept]), float(kept)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("scored", [True, False])
def test_numbers_agree_with_an_independent_path(of_family, computed, family, scored):
    item = WrittenPartners(pairs=tuple((a, b, score if scored else None) for a, b, score in pairs()))
    context = replace(of_family(family), auto=family == "bert")  # a decoder's first tokens are equal up to rounding
    values, tables = computed("partners", item, context)
    anatomy, poolings = context.model.anatomy, ("mean", "last", "first") if context.auto else ("last",)
    plain = by_model.PlainModel(context.model.checkpoint, anatomy.layers, anatomy.last_hidden_state, offline=True)
    again = {
        (*found.view.split(", pooling "), found.statistic, found.place.site, found.place.layer): found.value
        for found in by_model.partners(plain, item.pairs, poolings, limit=64)
    }
    for row in tables["partner_numbers"]:
        key = row.variant, row.pooling, row.statistic, row.place.site, row.place.layer
        assert row.value == pytest.approx(again.pop(key), abs=1e-9), row
        assert row.chance == pytest.approx(again.pop((*key[:2], f"{row.statistic}_floor", *key[3:])))
        assert row.ci_low <= row.value <= row.ci_high and row.n == len(item.pairs)
        if row.main and row.variant == "raw":
            assert np.mean(row.parts) == pytest.approx(row.value) and len(row.parts) == row.n
            assert values[row.statistic, row.place].value == row.value
            assert values[f"{row.statistic}_floor", row.place].value == row.chance
    assert not again  # also no number of [CLS] alone
    assert "either scores or partners" in values["recall" if scored else "spearman", context.layout.places[1]].reason


def test_ties_are_misses_and_chance_is_the_mean_over_pairings():
    rng = np.random.default_rng(0)
    x = treated(rng.standard_normal((60, 5)), "raw")
    a, b = x[:30], x[30:].copy()
    b[:10] = a[:10]
    b[1] = b[0]
    found = {name: (chance, parts) for name, _, _, chance, parts in searched(a, b)}
    assert found["recall"][1][:3].tolist() == [0, 0, 1] and found["mrr"][1][[0, 2]].tolist() == [0.5, 1]
    drawn = [{name: value for name, value, *_ in searched(a, b[rng.permutation(30)])} for _ in range(3000)]
    assert found["recall"][0] == 1 / 30 and found["mrr"][0] == pytest.approx(np.mean(1 / np.arange(1, 31)))
    for name in ("mrr", "mexa"):
        assert np.mean([one[name] for one in drawn]) == pytest.approx(found[name][0], abs=0.003)


def test_misses_name_what_is_nearer_and_scores_what_is_too_alike():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((30, 8))
    b = a + 0.01 * rng.standard_normal((30, 8))
    b[4], b[9] = a[9], -a[9]  # text 9 finds the partner of text 4, and text 4 nothing
    texts, partners = [f"text {i}" for i in range(30)], [f"partner {i}" for i in range(30)]
    rows = list(_wrong(Place("block", 1), "mean", np.vstack([a, b]), None, texts, partners))
    assert {row.pair for row in rows} == {5, 10} and all(row.rank > 1 and row.off is None for row in rows)
    (ninth,) = (row for row in rows if row.pair == 10)
    assert (ninth.begins, ninth.partner, ninth.nearest, ninth.rank) == ("text 9", "partner 9", "partner 4", 30)
    scores = -np.linalg.norm(a / np.linalg.norm(a, axis=1)[:, None] - b / np.linalg.norm(b, axis=1)[:, None], axis=1)
    scores[2] = -5.0  # people call the pair unlike, the vectors do not
    worst = next(iter(_wrong(Place("block", 1), "mean", np.vstack([a, b]), scores, texts, partners)))
    assert worst.pair == 3 and worst.off > 0 and worst.rank is None
    assert not list(_wrong(Place("block", 1), "mean", np.ones((60, 8)), None, texts, partners))


def test_an_influence_is_what_the_correlation_loses_without_the_pair():
    rng = np.random.default_rng(0)
    x = treated(rng.standard_normal((50, 4)), "raw")
    a, b, scores = x[:25], x[25:], rng.integers(0, 5, 25).astype(float)
    ((_, r, (low, high), chance, parts),) = graded(a, b, scores)
    cosines = -np.linalg.norm(a - b, axis=1).round(6)
    without = np.array([spearmanr(np.delete(cosines, i), np.delete(scores, i))[0] for i in range(25)])
    assert parts == pytest.approx(r - 24 * (without - without.mean()), abs=1e-9)
    error = np.sqrt(24 / 25 * np.square(without - without.mean()).sum())  # the jackknife
    assert chance == 0 and (high - low) / 2 == pytest.approx(2.06 * error, rel=0.15)
    assert not list(graded(a, a, scores))


GOOD = [f"{text}\t{partner}\t{score}" for text, partner, score in pairs(25, seed=1)]


def resolved(folder, lines, **keys):
    (folder / "pairs.tsv").write_text("\n".join(["text\tpartner\tscore", *lines]))
    usual = {"file": Path("pairs.tsv"), "column": "text", "partner": "partner", "score": "score"}
    return analyses()["partners"].resolve(PartnersFile(**usual | keys), folder).pairs


@pytest.mark.parametrize(
    ("lines", "keys", "message"),
    [
        (GOOD, {"partner": "parner"}, r"no column 'parner' for `partner`; did you mean 'partner'\?"),
        (GOOD, {"score": "grade"}, r"no column 'grade' for `score`"),
        (GOOD, {"column": "txt"}, r"no column 'txt' for `column`"),
        (GOOD[:19], {}, "pairs.tsv has 19 pairs; at least 20 are needed"),
        ([*GOOD, "a cat\tdogs\thigh"], {}, "pair 26 has the score 'high', which is no number"),
        ([*GOOD, f"a cat\tdogs\t{'1' * 400}"], {}, "pair 26 has the score '1{40}', which is no number"),
        ([*GOOD, "a cat\t\t2"], {}, "pair 26 lacks a text"),
        ([*GOOD, GOOD[3]], {}, "pair 26 repeats a text of pair 4"),
        ([*GOOD, GOOD[3].replace("\t", " too\t", 1)], {"score": None}, "pair 26 repeats a text of pair 4"),
        ([line.rpartition("\t")[0] + "\t3" for line in GOOD], {}, "all scores in 'score' are equal"),
    ],
)
def test_a_table_that_is_wrong(tmp_path, lines, keys, message):
    with pytest.raises(ReporterError, match=message):
        resolved(tmp_path, lines, **keys)


def test_a_table_of_a_database_is_named(tmp_path):
    keys = {"file": Path("pairs.duckdb"), "column": "text", "partner": "partner", "score": "score"}
    (tmp_path / "pairs.tsv").write_text("\n".join(["text\tpartner\tscore", *GOOD]))
    with duckdb.connect(str(tmp_path / "pairs.duckdb")) as database:
        database.execute(f"CREATE TABLE a AS FROM read_csv('{tmp_path}/pairs.tsv', all_varchar = true)")
        database.execute("CREATE TABLE b AS SELECT 'x' AS text")
    resolve = analyses()["partners"].resolve
    assert resolve(PartnersFile(**keys, table="a"), tmp_path).pairs == resolved(tmp_path, GOOD)
    with pytest.raises(ReporterError, match="has 2 tables; name one with `table: NAME`: a, b"):
        resolve(PartnersFile(**keys), tmp_path)


def test_a_text_is_no_partner_of_its_own():
    with pytest.raises(ValidationError, match="is the column of the texts"):
        PartnersFile(file=Path("pairs.tsv"), column="text", partner="text")


def test_a_table_is_cut_to_a_sample(tmp_path):
    found = resolved(tmp_path, GOOD, sample=20)
    assert len(found) == 20 and found[0] == next(pairs(25, seed=1))


def test_cosines_in_a_narrow_cone_are_ranked_as_they_are():
    """Of vectors that share a large mean, cosines differ by less than 1e-6; float32 still holds their distances."""
    rng = np.random.default_rng(0)
    cone = (1000 * np.eye(8)[0] + rng.standard_normal((80, 8))).astype(np.float32).astype(np.float64)
    a, b = (treated(cone, "raw")[half] for half in (slice(40), slice(40, 80)))
    scores = -np.linalg.norm(a - b, axis=1)
    ((_, r, *_),) = graded(a, b, scores)
    assert len(set((a * b).sum(axis=1).round(6))) < 20 and r > 0.999
    assert np.mean([value for name, value, *_ in searched(a, a + 1e-9) if name == "recall"]) == 1.0


@pytest.mark.parametrize(
    ("text", "halves"),
    [
        ("one two three four five six seven eight nine", ("one two three four five", "six seven eight nine")),
        ("  one two three four five six seven eight nine\n", ("one two three four five", "six seven eight nine")),
        ("x" * 30 + " " + "y" * 15, ("x" * 30, "y" * 15)),
        ("x" * 60 + " y", ("x" * 31, "x" * 29 + " y")),
        ("天" * 40, ("天" * 20, "天" * 20)),
        ("too short to be halved", None),
        ("x" * 39, None),
    ],
)
def test_a_text_is_cut_at_the_gap_nearest_to_its_middle(text, halves):
    assert halves_of(text) == halves


def corpus_of(texts, clusters=None):
    return Corpus(Listed(texts, clusters), 64)


class Listed(list):
    """Texts with their clusters, as a corpus has them."""

    def __init__(self, texts, clusters):
        super().__init__(texts)
        self.clusters = None if clusters is None else np.array(clusters)


def long_texts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, 16)) + f" {number} end" for number in range(n)]


def test_halves_are_found_in_every_model_with_as_many_pairs_as_texts_allow(of_family, computed):
    texts = [*long_texts(30), "short", "short, too", long_texts(30)[0]]
    context = of_family("bert", {"c": corpus_of(texts)})
    _, tables = computed("partners", TextHalves(halves="c"), context)
    rows = tables["partner_numbers"]
    assert {(row.n, row.halves) for row in rows} == {(30, True)} and {row.statistic for row in rows} == SEARCHED
    assert context.warnings == ["2 of 32 texts have fewer than 40 characters and were not halved"]
    assert all((row.parts is None) == row.variant.startswith("without") for row in rows)
    pairs = [halves_of(text) for text in texts[:30]]
    _, again = computed("partners", WrittenPartners(pairs=tuple((a, b, None) for a, b in pairs)), context)
    values = [
        {(row.statistic, row.variant, row.pooling, row.place): row.value for row in found}
        for found in (rows, again["partner_numbers"])
    ]
    assert values[0] == pytest.approx(values[1])


def test_of_a_cluster_one_text_is_halved_and_too_few_texts_are_a_reason(of_family, computed):
    texts = long_texts(60)
    context = of_family(
        "bert", {"c": corpus_of(texts, np.arange(60) // 2), "few": corpus_of([*texts[:19], *["x"] * 9])}
    )
    _, tables = computed("partners", TextHalves(halves="c"), context)
    assert {row.n for row in tables["partner_numbers"]} == {30}
    _, tables = computed("partners", TextHalves(halves="c", sample=20), context)
    assert {row.n for row in tables["partner_numbers"]} == {20}
    values, tables = computed("partners", TextHalves(halves="few"), context)
    (reason,) = {value.reason for value in values.values()}
    assert reason.startswith("only 19 different texts of corpus 'few' can be halved, and 20 are needed") and not tables
    context.corpora["few"] = corpus_of(texts, np.arange(60) // 6)
    (reason,) = {value.reason for value in computed("partners", TextHalves(halves="few"), context)[0].values()}
    assert reason.startswith("only 10 clusters of corpus 'few' have a text that can be halved")
