"""What is in the cache, whose it is, what of it a study keeps, and what leaves when there is no more room."""

import os
import time

import pytest
from oracles.fake_model import FakeModel, FakeTexts, made_up_texts
from runs.conftest import NUMBERS, select
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.errors import UsageError
from reporter.core.numbers import size_text
from reporter.forward.kept import Amount, PassFacts, PassFolder, bytes_kept
from reporter.forward.measure import Counts
from reporter.forward.observable import Setting
from reporter.forward.observed import KINDS
from reporter.forward.token_categories import VIEWS
from reporter.metrics.base import catalogue
from reporter.models.places import Layout
from reporter.runs import cache
from reporter.runs.cache import Entry, bytes_of, entries, lines, prunable, remove, seconds_of
from reporter.runs.cells import wanted_by
from reporter.runs.planner import plan_study

ANISOTROPY = "[{anisotropy: {sample: 64, batches: 2}}]"
OTHER = ("study: tiny", "study: other")
ONLY = ["dec", "inline"]
FORWARD = "SELECT sum(forward_passes) FROM cells"


def keeping(amount):
    return ("run: {precision: float32}", f"run: {{precision: float32, keep: {amount}}}")


def observables(out):
    """The files of kept observables, by pass."""
    folders = [path for path in (out / "cache" / "observables").iterdir() if path.is_dir()]
    return [sorted(path.stem for path in folder.glob("*.safetensors")) for folder in folders]


def test_all_metrics_take_one_pass_and_from_the_cache_they_agree_to_the_bit(study, run, store):
    """Metrics read what comes back out of the compact form, also right after the pass."""
    file = study(metrics="[all, loss, lens]", more="sites: [embedding, block, final, attention]")
    outcome, log = run(file, only=ONLY)
    assert outcome.failed == 0 and select(store, FORWARD) == [1], log
    fresh = select(store, NUMBERS)
    assert set(select(store, "SELECT DISTINCT site FROM layer_metrics WHERE site IS NOT NULL")) == {
        "embedding", "block", "final", "attention",
    }  # fmt: skip
    unexplained = (
        "SELECT l.metric, l.statistic FROM layer_metrics l JOIN cells c USING (study, model, checkpoint, corpus, "
        "metric) WHERE l.value IS NULL AND NOT contains(c.reasons, '\"' || l.statistic || '\"')"
    )
    assert not select(store, unexplained)
    run(file, only=ONLY, force=True)
    assert select(store, "SELECT sum(forward_tokens) FROM cells") == [0], "all of it was kept"
    assert fresh == select(store, NUMBERS)


@pytest.mark.parametrize(
    ("amount", "names"), [("all", ["gram", "moments", "tokens"]), ("sums", ["gram", "moments"]), ("nothing", [])]
)
def test_a_study_keeps_what_run_keep_names(study, run, store, out, amount, names):
    file = study(keeping(amount), metrics=ANISOTROPY)
    run(file, only=ONLY)
    assert observables(out) == [names]
    first = select(store, NUMBERS)
    smaller = study(keeping(amount), metrics=ANISOTROPY.replace("64", "32"))
    (why,) = [cell.why for cell in plan_study(smaller, out, only=[*ONLY, "anisotropy"]).cells]
    assert why.startswith("options changed") and ("(run.keep)" in why) == (amount != "all")
    assert ("moments" in why) == (amount == "nothing") and ("tokens" in why) == (amount != "all")
    outcome, _ = run(file, only=ONLY, force=True)
    assert outcome.failed == 0 and select(store, NUMBERS) == first
    assert select(store, FORWARD) == [amount != "all"]
    if amount == "all":  # what one study keeps, another one that keeps nothing leaves there
        run(study(keeping("nothing"), OTHER, name="other", metrics=ANISOTROPY), only=ONLY, force=True)
        assert observables(out) == [names]


def test_both_sides_of_a_comparison_are_kept_until_it_is_made(study, run, store, out):
    pairs = study(keeping("nothing"), metrics="[{layer_pairs: {texts: 20}}]")
    outcome, _ = run(pairs, only=["inline"])
    assert outcome.failed == 0 and all(names == [] for names in observables(out))
    done = "SELECT forward_passes FROM cells WHERE status = 'done' AND model {} '%|%'"
    assert select(store, done.format("LIKE")) == [0] and set(select(store, done.format("NOT LIKE"))) == {1}


def test_the_list_names_studies_and_what_leaves_is_of_one_study_or_old(study, run, store, out):
    def call(*arguments):
        return CliRunner().invoke(app, ["cache", "--out", str(out), *arguments])

    run(study(metrics=ANISOTROPY), only=ONLY)
    run(study(OTHER, metrics=ANISOTROPY, name="other"), only=["dec"])
    found = entries(out, store)
    users = {(entry.kind, entry.of): entry.studies for entry in found}
    assert users["pass", "dec final × inline"] == ("other", "tiny")
    assert users["pass", "dec final × nested"] == users["tokens", "nested"] == ("other",)
    assert users["tokens", "inline"] == users["texts", "inline"] == users["model", "dec"] == ("other", "tiny")
    assert [entry.studies for entry in found if entry.kind == "model" and entry.of != "dec"] == [()], "the encoder's"
    assert [entry.bytes for entry in found] == sorted((entry.bytes for entry in found), reverse=True)
    listed = call().output.splitlines()
    assert len(listed) == len(lines(out, found)) == len(found) + 3 and "20 GiB" in listed[-1]
    assert any("dec final × inline  other, tiny" in line for line in listed) and not any(
        " d ago" in line for line in listed
    )
    for arguments, answer in (
        (("--study", "other", "--dry-run"), "would remove"),
        (("--larger-than", "1TB"), "nothing to remove"),
        (("--older-than", "soon"), "expected"),
    ):
        assert answer in call(*arguments).output and len(observables(out)) == 2
    assert "dec final × nested" in call("--study", "other").output and len(observables(out)) == 1
    left = entries(out, store)
    gone = {(entry.kind, entry.of) for entry in found} - {(entry.kind, entry.of) for entry in left}
    assert gone == {("pass", "dec final × nested"), ("tokens", "nested")}

    (used,) = [entry for entry in left if entry.kind == "pass"]
    os.utime(used.folder, (time.time() - 40 * 86400,) * 2)
    assert [entry.folder for entry in prunable(entries(out, store), older_than=30 * 86400)] == [used.folder]
    run(study(metrics=ANISOTROPY), only=ONLY, force=True)  # it is used again
    assert prunable(entries(out, store), older_than=30 * 86400) == []


def test_which_entries_may_be_removed():
    now, day = 1_000_000.0, 86400.0
    a, b, c = (
        Entry("pass", None, name, studies, size, now - age * day)
        for name, studies, size, age in (("a", ("s",), 100, 1), ("b", (), 200, 40), ("c", ("s", "t"), 300, 60))
    )
    for expected, options in (
        ([c, b], {"older_than": 30 * day}),
        ([], {"larger_than": 600}),
        ([c], {"larger_than": 599}),
        ([c, b], {"larger_than": 250}),
        ([c, b, a], {"larger_than": 0}),
        ([a], {"study": "s"}),  # what t uses, too, stays
        ([c], {"older_than": 30 * day, "larger_than": 599}),
        ([], {"older_than": 30 * day, "study": "s"}),
    ):
        assert prunable([a, b, c], now=now, **options) == expected, options
    assert [seconds_of(text) for text in ("12h", "30d", " 2 w ")] == [43200, 2592000, 1209600]
    assert [bytes_of(text) for text in ("0", "10GB", "500MiB", "1.5k", "7 B")] == [0, 10**10, 500 * 2**20, 1500, 7]
    assert [size_text(size) for size in (1023, 1024, 1000 * 2**30)] == ["1023 B", "1.0 KiB", "1000 GiB"]
    assert [cache._ago(age) for age in (59, 60, 7200)] == ["now", "1 min ago", "2 h ago"]
    for read, wrong in ((seconds_of, "30"), (bytes_of, "1 XB")):
        with pytest.raises(UsageError, match="expected"):
            read(wrong)


def test_an_empty_folder_has_no_entries(tmp_path, store):
    assert entries(tmp_path / "nothing", store) == []


def test_the_size_of_a_pass_is_estimated_within_a_tenth(observe, tmp_path):
    """From tokens by stratum and the counts of types; of what lies on disk."""
    texts = FakeTexts(list(dict.fromkeys(made_up_texts(300, shortest=8, longest=30))))
    found, counts = observe(FakeModel(layers=3, width=64, sinks=False), texts, sample=512, sites=())
    types = found["type_moments"]
    wanted = {name: Amount(512 if KINDS[name].bounded != "no" else 0, tuple(VIEWS)) for name in found}
    tokens = [counts.ordinary, counts.special, counts.tokens - counts.ordinary - counts.special]
    occurs = dict(zip(types.types, types.occurrences().tolist(), strict=True))
    expected, sizes = bytes_kept(types.layout, wanted, tokens, len(texts), occurs), {}
    for name, observable in found.items():
        observable.save(tmp_path / name, finished=True)
        sizes[name] = (tmp_path / name).stat().st_size
        if sizes[name] > 50_000:  # the names in a small file take more than its numbers
            assert expected[name] == pytest.approx(sizes[name], rel=0.1), name
    assert sum(expected.values()) == pytest.approx(sum(sizes.values()), rel=0.1)


def test_a_pass_that_a_run_holds_or_that_workers_feed_today_stays(tmp_path):
    kept = PassFolder(tmp_path, {"seed": 0})
    entry, ranges = Entry("pass", kept.folder, "", (), 0, 0.0), kept.folder / "unfinished-1"
    with kept.locked("it", pytest.fail):
        assert remove([entry]) == ([], [entry])
        ranges.mkdir()
        (ranges / "wanted.json").touch()
    assert remove([entry]) == ([], [entry])
    os.utime(ranges, (time.time() - 2 * 86400,) * 2)
    assert remove([entry]) == ([entry], []) and not kept.folder.exists()
    with kept.locked("it", pytest.fail):
        assert kept.folder.is_dir()


def finish(kept, amounts, **options):
    """Keep observables that have seen nothing, as a pass for these amounts would."""
    layout = Layout(2, 4)
    empty = [
        (name, KINDS[name].empty(Setting(layout, 0, 9, amount.size or None, views=amount.views)))
        for name, amount in amounts.items()
    ]
    kept.finish(empty, amounts, PassFacts({}, layout, Counts(), "cpu", "float32", None), **options)


@pytest.mark.parametrize(
    ("kept_amount", "amount", "missing"),
    [
        (Amount(8, ("text tokens", "with special tokens")), Amount(4, ("with special tokens",)), None),
        (Amount(8, ("text tokens",)), Amount(8, ("without sinks",)), Amount(8, ("text tokens", "without sinks"))),
        (
            Amount(8, ("text tokens",)),
            Amount(4, ("with special tokens",)),
            Amount(8, ("text tokens", "with special tokens")),
        ),
        (Amount(8, ("text tokens",)), Amount(16, ("text tokens",)), Amount(16, ("text tokens",))),
    ],
)
def test_kept_observables_suffice_for_fewer_views_and_smaller_samples(tmp_path, kept_amount, amount, missing):
    kept = PassFolder(tmp_path, {"seed": 0})
    finish(kept, {"text_entropy": kept_amount})
    assert kept.missing({"text_entropy": amount}) == ({} if missing is None else {"text_entropy": missing})
    assert kept.missing({"moments": Amount()}) == {"moments": Amount()}


def test_only_observables_that_tell_views_apart_are_wanted_by_view():
    metric, other = catalogue()["entropy"], catalogue()["spectrum"]
    chosen = [
        (metric, metric.options(texts=texts), views)
        for texts, views in ((7, ["with special tokens"]), (9, ["text tokens"]))
    ]
    assert wanted_by(chosen) == {"text_entropy": Amount(9, ("text tokens", "with special tokens"))}
    assert {amount.views for amount in wanted_by([(other, other.options(), ["with special tokens"])]).values()} == {()}


def test_an_observable_that_a_later_study_keeps_stays(tmp_path):
    kept = PassFolder(tmp_path, {"seed": 0})
    amounts = {name: Amount() for name in ("moments", "gram")}
    finish(kept, amounts, keep="nothing")
    kept.load({"gram": Amount()}, keep="all")
    kept.drop()
    assert kept.missing(amounts) == {"moments": Amount()}
