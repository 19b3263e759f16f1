"""The smallest detectable difference, predicted from stored errors, against simulated studies."""

import numpy as np
import pytest
from scipy import stats

from reporter.judge.claims import detectable_ratio
from reporter.judge.detecting import Detectable, detectable, lines
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


def test_a_difference_falls_with_the_root_of_the_texts(rows, world):
    now, more, name = rows(STORED), rows(4 * STORED, 0.02), "anisotropy.mean_cosine"
    assert now.keys() == more.keys() == {"claim above", name}
    t = stats.t.ppf(0.975, STORED - 1)
    of_two = 2**0.5 * ERROR * stats.norm.ppf(0.975) / t
    (power,) = stats.nct.sf(t, STORED - 1, [now[name].least / of_two])
    assert power == pytest.approx(0.8) and now[name].least / of_two == pytest.approx(1.96 + 0.84, rel=0.05)
    assert more[name].least == pytest.approx(now[name].least / 2)
    assert more[name].texts_for(now[name].least) == pytest.approx(STORED)
    assert now["claim above"].least / more["claim above"].least == pytest.approx(2.2, rel=0.05)
    says = "\n".join(world.says)
    assert "claim lost: " in says and f"0.02 takes about {np.ceil(more[name].texts_for(0.02)):.0f} texts" in says


def test_an_error_that_is_not_from_texts_stays():
    one = Detectable("x", "two models", 2.8, 0.03, 0.04, 50, 50)
    assert one.least == pytest.approx(2.8 * 0.05)
    assert one.texts_for(2.8 * 0.05) == pytest.approx(50)
    assert one.texts_for(2.8 * 0.04) == float("inf")


@pytest.mark.parametrize("planned", [20, 200])
def test_four_of_five_studies_detect_it(planned):
    """A pilot of 20 texts predicts the difference that studies of ``planned`` texts detect, two corpora of each."""
    rng, detected = np.random.default_rng(0), []
    for _ in range(3000):
        pilot = rng.gamma(4.0, size=20)
        error = 2**0.5 * pilot.std(ddof=1) / 20**0.5
        least = Detectable("x", "two corpora", detectable_ratio(0.025, 19), error, 0.0, 20, planned).least
        a, b = rng.gamma(4.0, size=(2, planned))
        gap = a.mean() + least - b.mean()
        detected.append(abs(gap) > 1.96 * np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / planned))
    assert np.mean(detected) == pytest.approx(0.8, abs=0.05)


def test_the_units_of_power_are_clusters(rows, world):
    plain = rows(STORED)
    world.put_corpus("wiki", words=1000, texts=300, clusters=STORED)
    rows(STORED, 0.02)
    assert world.says == [], "the errors are over other units than those of the study"
    study = world.study(ABOVE, models="bert")
    study = study.model_copy(update={"corpora": {"wiki": FileCorpus(file="w.csv", column="text", cluster="author")}})
    found = [row for row in detectable(world.store, study, {"wiki": 4 * STORED}) if row.name in plain]
    assert [row.least for row in found][-1] == pytest.approx(plain["anisotropy.mean_cosine"].least / 2)
    says = "\n".join(lines(world.store, study, {"wiki": 4 * STORED}, 0.02))
    assert "the errors on 40 clusters of wiki" in says and " clusters" in says.rpartition("takes about")[2]
