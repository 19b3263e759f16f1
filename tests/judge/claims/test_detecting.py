"""The smallest detectable difference, predicted from stored errors, against simulated studies."""

import numpy as np
import pytest
from scipy import stats

from reporter.geometry.intervals import VERDICT_TEXTS, tails_of
from reporter.judge.claims import detectable_ratio
from reporter.judge.detecting import Detectable, detectable, lines
from reporter.judge.estimates import Estimates
from reporter.texts.sources.stored import FileCorpus

ERROR, STORED = 0.01, 40
ABOVE = "above: value: {metric: anisotropy.mean_cosine, model: bert, layer: 1}, above: 0.25"


@pytest.fixture
def rows(world):
    """Return a function that gives what a study can detect, by name, with so many planned texts."""
    world.put("bert", "anisotropy.mean_cosine", [0.2, 0.3, 0.4], ERROR)
    world.put_corpus("wiki", words=1000, texts=STORED)
    study = world.study(
        f"{ABOVE}\n{ABOVE.replace('mean_cosine', 'isoscore').replace('above:', 'lost:', 1)}", models="bert"
    )

    def run(planned, difference=None):
        world.says = lines(world.store, study, {"wiki": planned}, difference)
        return {row.name: row for row in detectable(world.store, study, {"wiki": planned}) if not isinstance(row, str)}

    return run


def test_what_is_detected_is_of_the_texts_that_are_asked_for(rows, world):
    now, more, name = rows(STORED), rows(4 * STORED, 0.02), "anisotropy.mean_cosine"
    assert now.keys() == more.keys() == {"claim above", name}
    t = stats.t.ppf(0.975, STORED - 1)
    of_two = 2**0.5 * ERROR * stats.norm.ppf(0.975) / t
    critical = t * (1 + 1.5 / STORED**0.5)  # nothing is known of how skewed the texts are
    assert stats.nct.sf(critical, STORED - 1, now[name].least / of_two) == pytest.approx(0.8)
    fewer = now[name].least / more[name].least
    assert fewer == pytest.approx(2 * (1 + 1.5 / STORED**0.5) / (1 + 0.75 / STORED**0.5), rel=0.05)
    assert more[name].texts_for(now[name].least) == STORED and more[name].texts_for(9.0) == VERDICT_TEXTS
    says = "\n".join(world.says)
    assert "claim lost: " in says and f"0.02 takes about {more[name].texts_for(0.02):.0f} texts" in says


def test_an_error_that_is_not_from_texts_stays():
    one = Detectable("x", "two models", 0.025, 0.03, 0.04, 50, 50, skew=0.0)
    ratio = detectable_ratio(0.025, 49)
    assert one.least == pytest.approx(ratio * 0.05) and one.texts_for(ratio * 0.05) == 50
    assert one.texts_for(2.8 * 0.04) == float("inf")


@pytest.mark.parametrize("spread", [0.3, 0.5])
@pytest.mark.parametrize("named", [14, 40, 150, 700])
def test_the_programs_own_test_has_80_percent_power_at_the_number_that_is_named(named, spread):
    """Two models on the same texts, whose differences are those of two log-normal effects."""
    rng = np.random.default_rng(named)

    def tested(repetitions, texts, gap=0.0):
        x = np.exp(spread * rng.standard_normal((2, repetitions, texts)))
        x = x[0] - x[1]
        parts = (x - x.mean(axis=1, keepdims=True)) / (texts * (texts - 1)) ** 0.5
        return Estimates.of_parts(x.mean(axis=1, keepdims=True) + gap, parts[:, None], texts)

    pilots = tested(20, 400)
    skew = float(np.max(tails_of(pilots.parts), axis=0).mean())
    of = Detectable("x", "the gap", 0.025, float(pilots.error.mean()), 0.0, 400, named, skew=skew)
    assert of.texts_for(of.least) == named
    power = (tested(2000, named, of.least).above(0.0) <= 0.025).mean()
    assert 0.75 <= power <= 0.9


def test_the_units_of_power_are_clusters(rows, world):
    plain = rows(STORED)
    world.put_corpus("wiki", words=1000, texts=300, clusters=STORED)
    rows(STORED, 0.02)
    assert world.says == [], "the errors are over other units than those of the study"
    study = world.study(ABOVE, models="bert")
    study = study.model_copy(update={"corpora": {"wiki": FileCorpus(file="w.csv", column="text", cluster="author")}})
    found = [row for row in detectable(world.store, study, {"wiki": 4 * STORED}) if row.name in plain]
    assert found[-1].least == pytest.approx(found[-1].least_of(4 * STORED))
    assert found[-1].least_of(STORED) == pytest.approx(plain["anisotropy.mean_cosine"].least)
    says = "\n".join(lines(world.store, study, {"wiki": 4 * STORED}, 0.02))
    assert "the errors on 40 clusters of wiki" in says and " clusters" in says.rpartition("takes about")[2]
