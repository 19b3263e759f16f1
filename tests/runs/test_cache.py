"""What is in the cache, whose it is, what of it a study keeps, and what may go."""

from __future__ import annotations

import os
import time

import pytest
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.errors import UsageError
from reporter.forward.kept import Amount, PassFolder, bytes_kept
from reporter.forward.observed import KINDS
from reporter.forward.token_categories import VIEWS
from reporter.runs.cache import Entry, bytes_of, entries, lines, prunable, remove, seconds_of, size_text
from reporter.runs.planner import plan_study

NUMBERS = "SELECT * EXCLUDE (study) FROM layer_metrics ORDER BY ALL"
SAMPLES = ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [all]")
ONE = ("[convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "[{anisotropy: {sample: 64, batches: 2}}]")


def keeping(what):
    return ("run: {precision: float32}", f"run: {{precision: float32, keep: {what}}}")


def observables(out):
    """The files of kept observables, by pass."""
    folders = [path for path in (out / "cache" / "observables").iterdir() if path.is_dir()]
    return [sorted(path.stem for path in folder.glob("*.safetensors")) for folder in folders]


def test_a_fresh_run_and_one_from_the_cache_agree_to_the_bit(study, run, store, out):
    """Metrics read what comes back out of the compact form, also right after the pass."""
    named = study(SAMPLES)
    outcome, _ = run(named, only=["dec", "inline"])
    assert outcome.failed == 0
    fresh = store.frame(NUMBERS)
    run(named, only=["dec", "inline"], force=True)
    assert store.frame("SELECT sum(forward_tokens) AS n FROM cells")["n"][0] == 0, "all of it was kept"
    assert fresh.equals(store.frame(NUMBERS))


@pytest.mark.parametrize("what", ["all", "sums", "nothing"])
def test_what_a_study_keeps(study, run, store, out, what):
    run(study(ONE, keeping(what)), only=["dec", "inline"])
    names = {"moments", "gram", "tokens"}
    expected = {"all": names, "sums": names - {"tokens"}, "nothing": set()}[what]
    assert observables(out) == [sorted(expected)]
    first = store.frame(NUMBERS)

    other = (
        "[convergence, {anisotropy: {sample: 64, batches: 2}}, motion]",
        "[{anisotropy: {sample: 32, batches: 2}}]",
    )
    more = study(other, keeping(what))
    lost = [cell.why for cell in plan_study(more, out, only=["dec", "inline", "anisotropy"]).cells]
    assert len(lost) == 1 and lost[0].startswith("options changed")
    assert ("not kept (run.keep)" in lost[0]) == (what != "all")
    assert ("moments" in lost[0]) == (what == "nothing") and ("tokens" in lost[0]) == (what != "all")
    outcome, _ = run(study(ONE, keeping(what)), only=["dec", "inline"], force=True)
    assert outcome.failed == 0 and store.frame(NUMBERS).equals(first)
    again = store.frame("SELECT sum(forward_passes) AS n FROM cells")["n"][0]
    assert again == (what != "all")


def test_what_another_study_keeps_stays(study, run, out):
    run(study(ONE), only=["dec", "inline"])
    before = observables(out)
    run(
        study(ONE, keeping("nothing"), ("study: tiny", "study: other"), name="other"),
        only=["dec", "inline"],
        force=True,
    )
    assert observables(out) == before != [[]]


def test_both_sides_of_a_comparison_are_there_until_it_is_made(study, run, store, out):
    pairs = study((ONE[0], "[{layer_pairs: {texts: 20}}]"), keeping("nothing"))
    outcome, _ = run(pairs, only=["inline"])
    assert outcome.failed == 0 and all(names == [] for names in observables(out))
    done = store.frame("SELECT model, forward_passes AS passes FROM cells WHERE status = 'done'")
    compared = done["model"].str.contains("enc") & done["model"].str.contains("dec")
    assert compared.sum() == 1 and (done["passes"][compared] == 0).all() and done["passes"].max() == 1


def test_the_list_says_whose_it_is(study, run, store, out):
    run(study(ONE), only=["dec", "inline"])
    run(study(ONE, ("study: tiny", "study: other"), name="other"), only=["dec"])
    found = entries(out, store)
    by = {(entry.kind, entry.of): entry.studies for entry in found}
    assert by["pass", "dec final × inline"] == ("other", "tiny")
    assert by["pass", "dec final × nested"] == ("other",)
    assert by["tokens", "inline"] == by["texts", "inline"] == ("other", "tiny")
    assert by["model", "dec"] == ("other", "tiny")
    assert [entry.studies for entry in found if entry.kind == "model" and entry.of != "dec"] == [()], "the encoder's"
    assert [entry.bytes for entry in found] == sorted((entry.bytes for entry in found), reverse=True)
    said = lines(out, found)
    assert len(said) == len(found) + 3 and "dec final × inline  other, tiny" in "\n".join(said)
    assert "20 GiB" in said[-1]

    gone, held = remove(prunable(found, study="other"))
    assert {(entry.kind, entry.of) for entry in gone} == {("pass", "dec final × nested"), ("tokens", "nested")} | {
        ("texts", "nested") for by_texts in [by] if by_texts["texts", "nested"] == ("other",)
    }
    assert held == [] and len(observables(out)) == 1
    assert not {entry.folder for entry in entries(out, store)} & {entry.folder for entry in gone}


def test_what_a_run_holds_stays(tmp_path):
    kept = PassFolder(tmp_path, {"seed": 0})
    with kept.locked("it", pytest.fail):
        entry = Entry("pass", kept.folder, "", (), 0, 0.0)
        assert remove([entry]) == ([], [entry]) and kept.folder.exists()
    assert remove([entry]) == ([entry], []) and not kept.folder.exists()


def test_what_may_go():
    now, day = 1_000_000.0, 86400.0
    a, b, c = (
        Entry("pass", None, name, studies, size, now - age * day)
        for name, studies, size, age in (("a", ("s",), 100, 1), ("b", (), 200, 40), ("c", ("s", "t"), 300, 60))
    )
    found = [a, b, c]
    assert prunable(found, older_than=30 * day, now=now) == [c, b]
    assert prunable(found, larger_than=600, now=now) == []
    assert prunable(found, larger_than=599, now=now) == [c]
    assert prunable(found, larger_than=250, now=now) == [c, b]
    assert prunable(found, larger_than=0, now=now) == [c, b, a]
    assert prunable(found, study="s", now=now) == [a], "what t uses, too, stays"
    assert prunable(found, older_than=30 * day, larger_than=599, now=now) == [c]
    assert prunable(found, older_than=30 * day, study="s", now=now) == []


def test_ages_and_sizes():
    assert [seconds_of(text) for text in ("12h", "30d", " 2 w ")] == [43200, 2592000, 1209600]
    assert [bytes_of(text) for text in ("0", "10GB", "500MiB", "1.5k", "7 B")] == [0, 10**10, 500 * 2**20, 1500, 7]
    for read, wrong in ((seconds_of, "30"), (seconds_of, "month"), (bytes_of, "ten"), (bytes_of, "1 XB")):
        with pytest.raises(UsageError, match="expected"):
            read(wrong)
    assert [size_text(size) for size in (0, 1023, 1024, 20 * 2**30)] == ["0 B", "1023 B", "1.0 KiB", "20 GiB"]


def test_an_empty_folder(tmp_path, store):
    assert entries(tmp_path / "nothing", store) == []
    assert "0 B" in lines(tmp_path, [])[0]


def test_the_size_of_a_pass_is_known_ahead(observe, tmp_path):
    """From tokens by stratum and the counts of types, within a tenth of what lies on disk."""
    from oracles.fake_model import FakeModel, FakeTexts, made_up_texts

    texts = FakeTexts(list(dict.fromkeys(made_up_texts(300, shortest=8, longest=30))))
    model = FakeModel(layers=3, width=64, sinks=False)
    found, counts = observe(model, texts, sample=512, sites=())
    types = found["type_moments"]
    wanted = {name: Amount(512 if KINDS[name].bounded != "no" else 0, tuple(VIEWS)) for name in found}
    tokens = [counts.ordinary, counts.special, counts.tokens - counts.ordinary - counts.special]
    occurs = dict(zip(types.types, types.occurrences().tolist(), strict=True))
    expected = bytes_kept(types.layout, wanted, tokens, len(texts), occurs)
    for name, observable in found.items():
        path = tmp_path / name
        observable.save(path, finished=True)
        size = path.stat().st_size
        if size > 50_000:  # the names in a small file take more than its numbers
            assert expected[name] == pytest.approx(size, rel=0.1), name
    assert sum(expected.values()) == pytest.approx(sum(path.stat().st_size for path in tmp_path.iterdir()), rel=0.1)


def test_a_pass_not_used_for_a_month(study, run, store, out):
    run(study(ONE), only=["dec", "inline"])
    for entry in entries(out, store):
        if entry.kind == "pass":
            os.utime(entry.folder, (time.time() - 40 * 86400,) * 2)
    (old,) = prunable(entries(out, store), older_than=seconds_of("30d"))
    assert old.kind == "pass"
    run(study(ONE), only=["dec", "inline"], force=True)  # it is used again
    assert prunable(entries(out, store), older_than=seconds_of("30d")) == []


def test_the_verb(study, run, out):
    run(study(ONE), only=["dec", "inline"])
    call = lambda *said: CliRunner().invoke(app, ["cache", "--out", str(out), *said])  # noqa: E731
    assert "dec final × inline  tiny" in call().output
    dry = call("--study", "tiny", "--dry-run").output
    assert "would remove" in dry and "dec final × inline" in dry and observables(out) != []
    assert call("--larger-than", "1TB").output.startswith("removed 0 B") and observables(out) != []
    assert "dec final × inline" in call("--study", "tiny").output and observables(out) == []
    assert call("--older-than", "soon").exit_code == 2
