"""After a kill, a damaged cache or too little memory, a run gives the numbers of an undisturbed one."""

import json
import shutil
import signal
import subprocess
import sys
from functools import partialmethod

import pandas as pd
from runs.conftest import NUMBERS, ONE_THREAD, ONLY, select

from reporter.forward.moments import Moments
from reporter.forward.paths import TextSums

KILLED = """
import os, signal, sys
from pathlib import Path
from reporter.forward import kept, passes
from reporter.runs import runner
from reporter.runs.studies import offer
from reporter.study import load_study
from reporter.texts import tokens

tokens.SHARD_TEXTS, tokens.RANGE_SHARDS = 5, 2
passes.MOST_SAVING, passes.SAVE_EVERY = float("inf"), 0
real = kept.Parts.write

def write(self, of, *rest):
    if of.index == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    real(self, of, *rest)

kept.Parts.write = write
runner.run_studies([load_study(Path(sys.argv[1]), offer())], Path(sys.argv[2]), only=["dec", "nested"])
"""


def test_a_run_after_sigkill_resumes_at_the_last_whole_shard(
    of_one_process, small, study, run, store, out, tmp_path, caplog
):
    file, kept = study(ONE_THREAD, metrics="[all]"), tmp_path / "kept"
    command = [sys.executable, "-c", KILLED, str(file.path), str(out)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    shutil.copytree(out, kept)
    expected, models = of_one_process.frame(NUMBERS), of_one_process.records("FROM models")
    assert models[0]["weights"]
    for harmed in ([], ["range-000000000-*", "shard-*"]):
        shutil.rmtree(out)
        shutil.copytree(kept, out)
        for name in harmed:
            (torn,) = (out / "cache").glob(f"observables/*/unfinished-*/{name}/moments.safetensors")
            torn.write_bytes(torn.read_bytes()[:-7])
        outcome, log = run(file, only=ONLY)
        assert outcome.failed == 0 and caplog.text.count("is damaged") == len(harmed)
        assert ("resuming after 25 texts" in log) == (not harmed)
        counts = "SELECT max(tokens), sum(forward_tokens)::INTEGER, max(texts) FROM cells"
        ((tokens, forward, texts),) = select(store, counts)
        assert texts == 40 and 0.3 * tokens < forward < tokens * (0.9 if harmed else 0.7)
        pd.testing.assert_frame_equal(store.frame(NUMBERS), expected, rtol=1e-9, atol=1e-12)
        assert store.records("FROM models") == models
        assert not [*(out / "cache").glob("observables/*/unfinished-*"), *(out / "cache").glob("observables/*.lock")]


HARMS = (
    lambda whole: whole[: len(whole) // 2],
    lambda whole: b"",
    lambda whole: whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:],
)
"""A file that is cut in two, is empty, has a flipped bit."""
FILES = (
    "observables/*/text_sums.safetensors", "observables/*/moments.json", "observables/*/facts.json",
    "texts/*/texts.bin", "texts/*/offsets.npy", "texts/*/meta.json", "tokens/*/ids.bin",
    "models/*/step-*/model.safetensors", "models/*/step-*/config.json", "models/*/training.json",
    "models/*/tokenizer/tokenizer.json",
)  # fmt: skip


def test_damaged_files_of_the_cache_are_set_aside_and_made_again(
    study, run, store, finished_store, out, copied, caplog
):
    found = {pattern: sorted((out / "cache").glob(pattern)) for pattern in FILES}
    assert all(found.values())
    harmed = [path for paths in found.values() for path in paths]
    for number, path in enumerate(harmed):
        path.write_bytes(HARMS[number % len(HARMS)](path.read_bytes()))
    store.path.unlink()
    assert run(study())[0].failed == 0
    pd.testing.assert_frame_equal(finished_store.frame(NUMBERS), store.frame(NUMBERS), rtol=1e-9, atol=1e-12)
    for path in harmed:
        names = [path, path.parent]  # some folders are set aside as a whole
        assert any(f"{name} is damaged and was renamed" in caplog.text for name in names), path
    caplog.clear()
    store.path.unlink()
    assert run(study(), only=ONLY)[0].failed == 0 and "damaged" not in caplog.text


ROUNDED = "SELECT model, corpus, view, statistic, layer, round(value, 5) AS value, n FROM layer_metrics ORDER BY ALL"


def test_short_memory_gives_smaller_batches_and_the_same_numbers(study, run, store, out, monkeypatch):
    most, file = 100, study(metrics="[motion]", views="[text tokens]")

    def short(self, layer, of):
        if layer.index == 1 and len(layer.batch) > most:  # when layer 0 has been seen
            raise MemoryError
        of(self, layer)

    with monkeypatch.context() as patch:
        patch.setattr(TextSums, "observe", partialmethod(short, of=TextSums.observe))
        outcome, log = run(file, only=["dec"])
        assert outcome.failed == 0 and log.count("little memory is left") == 1
        # The size that sufficed is remembered: the next pass over these texts starts with it.
        patch.setattr(Moments, "observe", partialmethod(short, of=Moments.observe))
        more, log = run(study(metrics="[motion, spectrum]", views="[text tokens]"), only=["dec"])
        assert (more.failed, "little memory is left" in log) == (0, False) and more.computed > 0
    store.path.unlink()
    assert run(file, only=["dec"])[0].failed == 0
    facts = [json.loads(path.read_text())["facts"] for path in (out / "cache" / "observables").glob("*/facts.json")]
    assert facts and all(row["batch_tokens"] and row["batch_tokens"] <= 2 * most for row in facts)
    numbers = select(store, ROUNDED)
    store.path.unlink()
    for path in (out / "cache" / "observables").glob("*/*.json"):
        path.unlink()
    assert run(file, only=["dec"])[0].computed == outcome.computed
    assert numbers and select(store, ROUNDED) == numbers


def test_cells_fail_alone_where_no_batch_is_small_enough(study, run, monkeypatch):
    before = TextSums.observe

    def short(self, layer):
        if layer.index == 2:
            raise MemoryError
        before(self, layer)

    monkeypatch.setattr(TextSums, "observe", short)
    outcome, log = run(study(metrics="[motion, anisotropy]"), only=["dec"])
    assert outcome.failed > 0 and "out of memory" in log and "Traceback" not in log
