"""What every registered metric keeps: a new one is covered by being registered.

Its numbers and their counts agree with independent paths, it needs what it says, yields what it declares within bounds,
adds up from parts, and is explained. See test_degenerate.py for input that means nothing, test_against_a_base.py for
differences.
"""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from metrics.reading import VIEWS, Sides, Turned, assert_same, assert_within_bounds, computed, nudged, numbers
from oracles.again import FakeWords
from oracles.fake_model import SMALL, FakeModel, FakeTexts, made_up_texts

import reporter
from reporter.app.verify import by_cloud, by_map, by_model, by_token
from reporter.app.verify.reading import StatePlace
from reporter.app.verify.reading import key as hashed
from reporter.forward.observed import KINDS
from reporter.metrics._coverage import texts_needed
from reporter.metrics.analysis import analyses
from reporter.metrics.base import PairValue, TextParts, Value, catalogue

TEXTS, LAYERS = 70, 4
VARIANTS = {"encoder": {"special": False, "positions": False, "sinks": False}, "decoder": {}}
OPTIONS = SMALL | {"anisotropy": {"sample": 100, "batches": 3}, "intrinsic_dimension": {"sample": 130, "batches": 3}}
OPTIONS |= {"entropy": {"texts": TEXTS}}
WITHOUT_PATH = {
    "contextuality": {"explained_by_first_baseline", "explained_by_first_adjusted"},  # drawn at random
    "contributions": {"attention_ratio", "attention_cosine", "feed_forward_ratio", "feed_forward_cosine"},
}
"""Numbers that no path measures again here; the tests of these metrics have oracles for them."""
THREE_LAYERS = {"motion.curvature", "subspaces.curvature"}
"""Numbers of two steps in a row, of which there is one fewer than steps."""
NEVER_HERE = {"contributions": {"turn"}}
"""Numbers that no made-up model has; the tests of these metrics have cases with them."""
NO_NARROWER = {"change.moved", "convergence.similarity_rare", "convergence.decay", "lens.depth"}
NO_NARROWER |= {"local_dimension.spread"}
"""Intervals that the split into types, a constant, whole layers or few centres decide, whatever the number of texts."""
FLOORS = {"spectrum.decay": (0.0, 0.05), "entropy.": (0.01, 0.0), "contextuality.intra_text": (0.05, 0.0)}
FLOORS |= {"variance.": (0.35, 0.0)}
"""How near a number of noise comes to its floor, relative and absolute, where that is not the usual."""
OWN_FLOOR = ("contributions.", "linearity.update", "information_imbalance.", "local_dimension.", "spectrum.alpha_req")
"""Numbers that noise in all layers moves: a step to it leads back to the mean, a layer is compared with itself, or few
states decide."""


KEPT = {}


@pytest.fixture
def measured(observe):
    """Return a made-up model of each variant, its base and its twin, and the rows of each metric under every view."""
    of_others = ("moments", "outputs", *catalogue()["change"].needs)
    for variant, arguments in VARIANTS.items() if not KEPT else ():
        models = [nudged(factor, role=variant, layers=LAYERS, **arguments) for factor in (1, 1.1, 1.2)]
        sides = Sides.of(observe, models, made_up_texts(TEXTS), (tuple(KINDS), of_others, of_others))
        sides.seen[0] = replace(sides.seen[0], memo={}, views=VIEWS)  # views share what they read, as in a run
        KEPT[variant] = SimpleNamespace(sides=sides, rows={}, reading=sides.readings[0])
        for name, metric in catalogue().items():
            of_views = {view: sides.compute(metric, view, **OPTIONS.get(name, {})) for view in VIEWS}
            KEPT[variant].rows[name] = of_views
    return KEPT


@pytest.mark.parametrize("name", catalogue())
def test_numbers_agree_with_an_independent_path(name, measured, monkeypatch):
    """The path reads each text alone in float64."""
    monkeypatch.setattr(by_model, "_Words", FakeWords)
    for of in measured.values():
        of.sides.agree(catalogue()[name], of.rows[name], OPTIONS.get(name, {}), WITHOUT_PATH.get(name, ()))


OTHER_OPTIONS = [("convergence", {"target": target, "mean": "text"}) for target in ("block", "final")]
OTHER_OPTIONS += [("convergence", {"target": "final"}), ("layer_pairs", {"texts": 40, "k": 5}), ("ranges", {})]
OTHER_OPTIONS += [("contextuality", {"types": 9, "occurrences": 6}), ("subspaces", {"axes": 3})]
OTHER_OPTIONS += [("intrinsic_dimension", {"sample": 64, "discard": 0.3}), ("information_imbalance", {"sample": 60})]


@pytest.mark.parametrize(("name", "options"), OTHER_OPTIONS, ids=str)
def test_numbers_under_other_options_agree_with_an_independent_path(name, options, observe):
    metric = catalogue()[name]
    sides = Sides.of(
        observe, [Turned(role="decoder", final_width=16)], made_up_texts(TEXTS), [("moments", *metric.needs)]
    )
    rows = {view: sides.compute(metric, view, **options) for view in VIEWS}
    sides.agree(metric, rows, options, WITHOUT_PATH.get(name, ()))


def observations(name, view, of):
    """Return the number of observations behind each statistic, or a function from a place to it; "" for all others."""
    reading, options = of.reading, catalogue()[name].options(**OPTIONS.get(name, {}))
    mask, own, spans = reading.masks[view], ~reading.kinds.special, [span for _, span in reading.spans]

    def texts_of(fewest):
        return [np.flatnonzero(mask[span]) + span.start for span in spans if mask[span].sum() >= fewest]

    def varying(groups):
        return lambda place: sum(np.ptp(reading.at(place)[rows], axis=0).max() > 1e-5 for rows in groups)

    def distinct(size):
        rows, _ = by_map._sampled_rows(reading, mask, size)
        return lambda place: len(by_map._different(reading, rows, place))

    match name:
        case "angular_distance":
            return {"last_token": len(texts_of(1))}
        case "anisotropy":
            return dict.fromkeys(("mean_cosine_centred", "mean_cosine_standardised"), options.sample_size())
        case "contextuality":
            types = by_token._occurrences(reading, mask, options.model_dump())
            return {"": len(types)} | dict.fromkeys(("intra_text", "intra_text_adjusted"), len(texts_of(2)))
        case "convergence":
            often, rare = mask & reading.frequent, mask & ~reading.frequent
            sizes = {"similarity_frequent": int(often.sum()), "similarity_rare": int(rare.sum())}
            both = sum(often[span].any() and rare[span].any() for span in spans)
            return sizes | {"frequency_gap": min(sizes.values()), "frequency_gap_p": both}
        case "entropy":
            return {"": varying(texts_of(3)), "skipped": len(texts_of(1))}
        case "information_imbalance":
            return {"": distinct(options.sample)(reading.path[1])}
        case "intrinsic_dimension":
            whole, size = options.sample_size(), options.sample
            states = distinct(whole)
            return {"": lambda place: states(place) // size * size or states(place), "duplicates": whole}
        case "journey":
            kinds = np.array([kind for text in reading.texts for kind in FakeWords(None, 0).kinds(text.ids)])
            words = {kind: int((mask & (kinds == kind)).sum()) for kind in ("function", "content")}
            return {f"{what}_{kind}": n for kind, n in words.items() for what in ("rank", "cosine")}
        case "layer_pairs":
            return {"": len(by_token.text_rows(reading, view, options.texts))}
        case "divergence" | "lens":
            before_own = np.append((np.diff(reading.text) == 0) & own[1:], False)
            return dict.fromkeys(("next", "next_rms", "loss"), int((mask & before_own).sum()) if reading.causal else 0)
        case "local_dimension":
            return {"": distinct(options.sample)}
        case "loss":
            tokens = zip(reading.text.tolist(), reading.position.tolist(), strict=True)
            hidden = np.array([hashed(0, text, position) < 0.15 * 2**64 for text, position in tokens])
            return {"lm": int((mask & own & (reading.position > 0 if reading.causal else hidden)).sum())}
        case "outliers":
            sinks, starts = reading.kinds.sink, reading.position == 0
            compared = np.concatenate([np.full(s.stop - s.start, (~sinks & ~starts)[s].any()) for s in spans]) & mask
            ratios = {"sink_norm_ratio": int(sinks[compared].sum()), "first_norm_ratio": int(starts[compared].sum())}
            inside = own & ~reading.kinds.first & (reading.kinds.weight <= min(by_cloud.DOMINANCES))
            return ratios | {"sink_share": int((mask & own).sum()), "sink_sensitivity": int(inside.sum())}
        case "token_path":

            def turning(place):
                return sum(np.isfinite(by_token._turn(reading.at(place)[span], mask[span])) for span in spans)

            return {"curvature": turning, "straightening": turning(reading.path[0])}
        case "variance":
            sizes = [int((mask & own & (reading.ids == i)).sum()) for i, n in reading.type_counts.items() if n >= 5]
            return {"": sum(sizes), "tradeoff": sum(size > 1 for size in sizes), "coverage": int(mask.sum())}
    return {}


@pytest.mark.parametrize("name", catalogue())
def test_a_number_says_how_many_observations_it_rests_on(name, measured):
    for variant, of in measured.items():
        for view, rows in of.rows[name].items():
            expected, tokens = observations(name, view, of), int(of.reading.masks[view].sum())
            for (statistic, site, layer, _), row in numbers(rows).items():
                n = expected.get(statistic, expected.get("", tokens))
                n = n(StatePlace(site, layer)) if callable(n) else n
                assert statistic.endswith("_floor") or row.n == n, (variant, view, row)


@pytest.mark.parametrize("name", catalogue())
def test_what_is_yielded_is_what_is_declared(name, measured):
    """Each statistic at its layers and within bounds, with intervals where it says how, and floors beside numbers."""
    metric, with_interval = catalogue()[name], set()
    layers = {"layer": range(LAYERS + 1), "step": range(LAYERS), "model": [None]}
    for of in measured.values():
        for rows in of.rows[name].values():
            assert {type(row) for row in rows} <= {Value, PairValue, TextParts, *metric.tables}
            values = numbers(rows)
            floors = {f"{s.name}_floor" for s in metric.statistics if s.floor}
            of_one_model = {s.name for s in metric.statistics if not s.name.endswith("_calibrated")}
            assert {name for name, *_ in values} == floors | of_one_model
            for (full, *where), row in values.items():
                statistic = metric.statistic(full.removesuffix("_floor"))
                assert_within_bounds(statistic, row)
                if full.endswith("_floor"):
                    assert row.value is not None and row.ci_low is None, row
                    assert values[statistic.name, *where].value is not None, row
                elif row.ci_low is not None:
                    with_interval.add(full)
            for statistic in metric.statistics:
                if statistic.per != "pair":
                    expected = list(layers[statistic.per])[: -1 if f"{name}.{statistic.name}" in THREE_LAYERS else None]
                    assert [layer for full, _, layer, _ in values if full == statistic.name] == expected
    assert with_interval == {s.name for s in metric.statistics if s.interval} - NEVER_HERE.get(name, set())


@pytest.mark.parametrize("name", catalogue())
def test_a_metric_reads_what_it_needs_and_shares_without_harm(name, measured):
    """Alone with its observables and its own memo it yields what it yields beside all others, as in a run."""
    metric, of, view = catalogue()[name], measured["decoder"], "without sinks"
    seen, *others = (replace(side, view=view, memo={}, views=()) for side in of.sides.seen)
    seen = replace(seen, observables={kind: seen.observables[kind] for kind in metric.needs})
    alone = numbers(computed(metric, seen, others, **OPTIONS.get(name, {})))
    # Where arrays lie in memory decides the last bits of a product.
    assert_same(alone, numbers(of.rows[name][view]), 1e-7, 1e-10, ["value"])


def test_parts_of_a_corpus_merge_in_any_order(observe, values):
    model, texts, merged = FakeModel(role="decoder", layers=2), made_up_texts(60), []
    how = {"batch_tokens": 100, "shard_characters": 400}
    for order in ((0, 2, 4), (4, 0, 2)):
        first, *rest = (observe(model, texts, first_shard=at, shards=2 if at < 4 else None, **how)[0] for at in order)
        for part in rest:
            for kind, observable in first.items():
                observable.merge(part[kind])
        merged.append(values(model, first, 60))
    assert_same(*merged, 1e-9, 1e-9)


def test_the_seed_changes_samples_and_intervals_but_no_exact_number(observe, values):
    metrics, of = ["intrinsic_dimension", "motion"], {"intrinsic_dimension": {"sample": 100}}
    names = ("moments", "gram", *(need for name in metrics for need in catalogue()[name].needs))

    def drawn(seed):
        observables, _ = observe(FakeModel(), made_up_texts(80), seed=seed, sample=100, names=names)
        return values(FakeModel(), observables, 80, metrics=metrics, seed=seed, **of)

    first, other = drawn(0), drawn(1)
    assert first == drawn(0)
    assert first["motion.norm", 1].value == other["motion.norm", 1].value
    assert first["motion.norm", 1].ci_low != other["motion.norm", 1].ci_low
    assert first["intrinsic_dimension.twonn", 2].value != other["intrinsic_dimension.twonn", 2].value


def test_intervals_shrink_with_the_number_of_texts(see):
    widths, texts = {}, list(dict.fromkeys(made_up_texts(300, shortest=4)))
    for count in (40, 160):
        sides = [see(FakeModel(sinks=False, seed=seed), FakeTexts(texts[:count])) for seed in (0, 1)]
        for name, metric in catalogue().items():
            for row in numbers(computed(metric, sides[0], sides[1:], **SMALL.get(name, {}))).values():
                if row.ci_low is not None:
                    widths.setdefault((f"{name}.{row.statistic}", count), []).append(row.ci_high - row.ci_low)
    shown = {count: {full for full, of in widths if of == count} for count in (40, 160)}
    wider = {full for full in shown[40] if np.mean(widths[full, 160]) >= np.mean(widths[full, 40])}
    assert len(shown[160]) > 90 and wider <= NO_NARROWER


def test_no_interval_is_shown_of_fewer_texts_than_its_coverage_needs():
    rng = np.random.default_rng(0)
    names = [name for name, metric in catalogue().items() if not metric.compares_only]
    for count in (8, 24):
        texts = np.repeat(np.arange(count), 16)
        states = rng.normal(size=(3, len(texts), 8)) + rng.normal(size=(3, count, 8))[:, texts]
        output = reporter.measure(states.astype(np.float32), names, texts=texts, tokens=rng.integers(0, 20, len(texts)))
        rows = pd.concat([output.layer_metrics, output.layer_pairs.assign(reason="it has no column")])
        few = (rows["metric"] + "." + rows["statistic"]).map(texts_needed) > count
        assert few.sum() > 25 and rows.loc[few, "ci_low"].isna().all() and rows.loc[few, "reason"].str.len().all()
        assert count == 8 or rows.loc[~few, "ci_low"].notna().sum() > 50


def test_every_statistic_is_explained():
    metrics = catalogue().values()
    assert all(field.description for metric in metrics for field in metric.options.model_fields.values())
    for of in (*metrics, *analyses().values()):
        assert of.title and of.summary and of.cost
        for statistic in of.statistics:
            assert statistic.title and len(statistic.definition) > 10 and statistic.works, statistic.name
            says = re.search("(Chance level|Majority class): ", statistic.definition)
            assert of in metrics or says or not statistic.floor, statistic.name
    for statistic in (statistic for metric in metrics for statistic in metric.statistics):
        assert "," not in statistic.title, "a title stands in lists"
        assert all(source.key and len(source.citation) > len(source.key) for source in statistic.works)
        sentence = statistic.plainly
        assert bool(sentence) is statistic.main, "a main statistic says in plain words what it is"
        assert not sentence or (sentence.endswith(".") and len(sentence) < 110 and not set(sentence) & set("‖Σ√λ∑^_{}"))


def test_isotropic_states_read_their_floors(observe, values):
    draw, checked = partial(torch.randn, generator=torch.Generator().manual_seed(0)), 0
    observables, _ = observe(FakeModel(change=lambda states: [draw(x.shape) for x in states]), made_up_texts(150))
    result = values(FakeModel(), observables, 150)
    for (name, layer), floor in result.items():
        number = name.removesuffix("_floor")
        if name != number and not number.startswith(OWN_FLOOR):
            rel, least = next((within for start, within in FLOORS.items() if name.startswith(start)), (0.15, 0.02))
            assert result[number, layer].value == pytest.approx(floor.value, rel=rel, abs=least), (number, layer)
            checked += 1
    assert checked > 150
    assert result["variance.total", 1].value == pytest.approx(16, rel=0.05)
    assert "chance level" in result["outliers.top3_cosine_share", 1].reason and result["outliers.massive", 1].value == 0
    expected = np.sqrt(2 * np.log(result["outliers.largest", 1].n * 16))
    assert result["outliers.largest_ratio", 1].value == pytest.approx(expected, rel=0.15)
