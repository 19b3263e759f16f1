"""Registered claims: what counts as a change, what is never overwritten, and which came before the first number."""

from datetime import UTC, datetime, timedelta

import pytest
from runs.conftest import DEC, INLINE, select
from typer.testing import CliRunner

from reporter.app.cli import app
from reporter.core.checksums import read_note, write_note
from reporter.core.errors import UsageError
from reporter.judge.judging import NOT_REGISTERED
from reporter.runs.registered import _EDITED, beside, content, register, sentences
from reporter.runs.studies import read_study

CLAIMS = """claims:
  turns: {says: It turns., value: {metric: convergence.rate, model: enc, corpus: nested}, above: 0}
  rises: {says: It rises., shape: {metric: convergence.similarity, models: enc, corpus: nested, is: increasing}}
run:"""
CLAIMED = ("run:", CLAIMS)
OTHER = ("above: 0", "above: 0.9")


def changed(file, store):
    """Return by claim the keys that its sentence names."""
    head = "changed since it was registered: "
    texts = sentences(file.study, store, file)
    return {name: set(text[len(head) :].partition(" (")[0].split(", ")) for name, text in texts.items() if head in text}


@pytest.mark.parametrize(
    ("change", "turns", "rises"),
    [
        (("above: 0", "above: 0.0"), None, None),
        (("says: It turns., value", "'says': 'It  turns.', 'value'"), None, None),
        (("device: cpu, precision", "precision"), None, None),
        (("above: 0", "below: 0"), {"above", "below"}, None),
        (("is: increasing", "is: increasing, at_least: 0.5"), None, {"shape.at_least"}),
        (("steps: 2, checkpoints", "steps: 3, checkpoints"), *[{"models.enc.recipe.steps"}] * 2),
        (("cat sleeps", "dog sleeps"), *[{"corpora.inline.texts"}] * 2),
        (("precision: float32", "precision: float32, seed: 1"), *[{"settings.seed"}] * 2),
        (("convergence, {", "{convergence: {target: final}}, {"), *[{"metrics.convergence.options.target"}] * 2),
        (("{anisotropy: {sample: 64", "{anisotropy: {sample: 65"), None, None),
        (("  turns: {", "  spins: {"), None, {"claim turns was removed"}),
    ],
)
def test_what_counts_as_a_change(study, store, change, turns, rises):
    base = (CLAIMED, ("run: {precision", "run: {device: cpu, precision"))
    register(study(*base))
    file = study(*base, change)
    assert changed(file, store) == {name: keys for name, keys in (("turns", turns), ("rises", rises)) if keys}
    assert sentences(file.study, store, file).get("spins", NOT_REGISTERED).startswith(NOT_REGISTERED)


def test_a_registration_is_never_overwritten(study, store):
    file = study(CLAIMED)
    path, call = beside(file.path), ["validate", str(file.path), "--register"]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0 and "SHA-256" in done.output and path.name == "tiny.registered.json"
    before, note = path.read_bytes(), read_note(path)
    registered = datetime.fromisoformat(note["registered_utc"] + "+00:00")
    assert timedelta() <= datetime.now(UTC) - registered < timedelta(minutes=10) and "." in note["registered_utc"]
    assert "already" in register(file)
    more = "  more: {says: More., value: {metric: convergence.rate, model: dec, corpus: nested}, above: 0}\n  rises:"
    for changes, named in (
        ((CLAIMED, ("study: tiny", "study: b")), "id"),
        ((CLAIMED, ("  rises:", more)), "more added later"),
        ((), "no claims"),
        ((CLAIMED, OTHER), "turns above"),
    ):
        with pytest.raises(UsageError, match=named):
            register(study(*changes))
    refused = CliRunner().invoke(app, call)
    assert refused.exit_code == 2 and "turns above" in refused.output and path.read_bytes() == before
    for harm in ({"claims": ["turns"]}, {"claims": {"turns": 5}}, {"metrics": "motion"}, {"registered_utc": 2026}):
        write_note(path, note | harm)
        with pytest.raises(UsageError, match="edited or is damaged"):
            register(file)
        assert set(sentences(file.study, store, file).values()) == {f"{NOT_REGISTERED}: {_EDITED}"}


def test_files_of_corpora_the_study_that_is_extended_and_metrics_that_a_query_may_read_count(study, store, tmp_path):
    texts, path = tmp_path / "own.txt", tmp_path / "above.yaml"
    texts.write_text("one two\nthree four\n")
    base = study(CLAIMED, ("corpora:\n", "corpora:\n  own: {file: own.txt}\n"))
    path.write_text("study: above\nextends: tiny.yaml\n")
    register(read_study(path))
    assert changed(read_study(path), store) == {}
    texts.write_text("one two\nthree five\n")
    contents = {"corpora.own.contents"}
    assert changed(read_study(path), store) == {"turns": contents, "rises": contents}
    texts.write_text("one two\nthree four\n")
    base.path.write_text(base.text.replace(*OTHER))
    assert changed(read_study(path), store) == {"turns": {"above"}}
    texts.unlink()
    assert changed(read_study(path), store)["rises"] == contents

    query = ("value: {metric: convergence.rate, model: enc, corpus: nested}", "value: {sql: SELECT 1}")
    versions = [set(content(study(*changes))["metrics"]) for changes in ((CLAIMED,), (CLAIMED, query))]
    assert "convergence.version" in versions[0] and "motion.version" not in versions[0]
    assert {"convergence.version", "motion.version", "anisotropy.options.sample"} <= versions[1]


@pytest.fixture
def light(study):
    """Return a function that writes the claims with what they need alone."""
    few = (CLAIMED, (INLINE, ""), (DEC, ""))
    return lambda *changes, **more: study(*few, *changes, metrics="[convergence]", views="[text tokens]", **more)


def stored(store, study="tiny"):
    rows = "SELECT registration FROM claims WHERE reading = 1 AND study = '{}' ORDER BY claim DESC"
    return select(store, rows.format(study))  # of turns and rises


def test_registered_before_the_first_number(light, run, store):
    file = light()
    path = beside(file.path)
    register(file)
    _, log = run(file)
    before = f"registered {datetime.now(UTC):%Y-%m-%d}, before the first number"
    assert stored(store) == [before, before] and f"  claims: {before}\n" in log
    written, first = store.path.stat().st_mtime_ns, select(store, "SELECT first_number FROM studies")
    run(file)
    assert store.path.stat().st_mtime_ns == written
    run(file, force=True)
    assert select(store, "SELECT first_number FROM studies") == first and stored(store) == [before, before]
    # Other claims on the same numbers, and then the file made to fit them.
    honest = path.read_bytes()
    edited = light(OTHER)
    run(edited)
    assert stored(store) == [f"changed since it was registered: above ({before})", before]
    path.write_bytes(honest.replace(b'"above": 0.0', b'"above": 0.9'))
    run(edited)
    assert stored(store)[1] == f"changed since it was registered: {_EDITED} ({before})"
    path.unlink()  # the stored one still counts
    run(edited)
    assert stored(store) == [f"changed since it was registered: above ({before})", before]
    register(edited)
    run(edited)
    assert all("after the first number" in text for text in stored(store))
    # The database remembers only the registration of the last run: what was replaced once does not come back in time.
    path.write_bytes(honest)
    run(file)
    assert all(text.startswith("dated ") and "not there" in text for text in stored(store))


def test_registered_after_the_first_number(light, run, store):
    file = light()
    path = beside(file.path)
    run(file)
    assert stored(store) == ["not registered"] * 2
    register(file)
    run(file, only=["enc", "nested"], force=True)
    assert all("after the first number" in text for text in stored(store))
    # A clock that was set back does not help, nor does another id for the same numbers.
    write_note(path, read_note(path) | {"registered_utc": "2020-01-01 00:00:00"})
    run(file)
    assert all(text.startswith("dated 2020-01-01") for text in stored(store))
    other = light(("study: tiny", "study: other"), name="other")
    register(other)
    run(other)
    assert all("after the first number" in text for text in stored(store, "other")) and stored(store, "other")
