"""After a kill, a damaged cache or too little memory, a run gives the numbers of an undisturbed one."""

import json
import shutil
import signal
import subprocess
import sys
from functools import partialmethod

import pandas as pd
import pytest

from reporter.forward import passes
from reporter.forward.moments import Moments
from reporter.forward.paths import TextSums
from reporter.texts import tokens

NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"
KILLED = """
import os, signal, sys
from pathlib import Path
from reporter.forward import passes
from reporter.runs import runner
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.texts import tokens

tokens.SHARD_TEXTS = 10
passes.MOST_SAVING, passes.SAVE_EVERY = float("inf"), 0
real = passes.measure

def measure(*args, **kwargs):
    for number, shard in enumerate(real(*args, **kwargs)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield shard

passes.measure = measure
runner.run_studies([load_study(Path(sys.argv[1]), offer())], Path(sys.argv[2]), only=["dec", "nested"])
"""


@pytest.fixture
def small_shards(monkeypatch):
    """Forty texts are four shards, and each is saved."""
    monkeypatch.setattr(tokens, "SHARD_TEXTS", 10)
    monkeypatch.setattr(passes, "MOST_SAVING", float("inf"))
    monkeypatch.setattr(passes, "SAVE_EVERY", 0)


def test_a_run_after_sigkill_resumes_at_the_last_whole_shard(small_shards, study, run, store, out, tmp_path, caplog):
    file, kept = study(), tmp_path / "kept"
    command = [sys.executable, "-c", KILLED, str(file.path), str(out)]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    shutil.copytree(out, kept)
    numbers = {}
    for case in ("whole", "torn", "never killed"):
        shutil.rmtree(out)
        shutil.copytree(kept, out)
        saved = next((out / "cache").glob("observables/*/unfinished-*/shard-*/moments.safetensors"))
        if case == "torn":
            saved.write_bytes(saved.read_bytes()[:-7])
        elif case == "never killed":
            shutil.rmtree(out / "cache" / "observables")
        outcome, log = run(file, only=["dec", "nested"])
        assert outcome.failed == 0 and ("resuming after 20 texts" in log) == (case == "whole")
        assert (f"{saved.parent} is damaged" in caplog.text) == (case == "torn")
        caplog.clear()
        counts = store.frame(
            "SELECT max(tokens) AS all, sum(forward_tokens) AS forward, max(texts) AS texts FROM cells"
        )
        assert counts["texts"][0] == 40 and 0 < counts["forward"][0] <= counts["all"][0]
        assert (counts["forward"][0] < counts["all"][0]) == (case == "whole")
        numbers[case] = store.frame(NUMBERS)
    for case in ("whole", "torn"):
        pd.testing.assert_frame_equal(numbers[case], numbers["never killed"], rtol=1e-9, atol=1e-12)


HARMS = (
    lambda whole: whole[: len(whole) // 2],
    lambda whole: b"",
    lambda whole: (
        whole[: len(whole) * 3 // 4] + bytes([whole[len(whole) * 3 // 4] ^ 4]) + whole[len(whole) * 3 // 4 + 1 :]
    ),
)
"""A file that is cut in two, is empty, has a flipped bit."""
FILES = (
    "observables/*/text_sums.safetensors", "observables/*/moments.json", "observables/*/facts.json",
    "texts/*/texts.bin", "texts/*/offsets.npy", "texts/*/meta.json", "tokens/*/ids.bin",
    "models/*/step-*/model.safetensors", "models/*/step-*/config.json", "models/*/training.json",
    "models/*/tokenizer/tokenizer.json",
)  # fmt: skip


@pytest.mark.parametrize("first", range(len(HARMS)))
def test_damaged_files_of_the_cache_are_set_aside_and_made_again(
    first, study, run, store, finished_store, out, copied, caplog
):
    harmed = []
    for pattern in FILES:
        paths = sorted((out / "cache").glob(pattern))
        assert paths, pattern
        for number, path in enumerate(paths):
            path.write_bytes(HARMS[(first + number) % len(HARMS)](path.read_bytes()))
            harmed.append(path)
    store.path.unlink()
    outcome, _ = run(study())
    assert outcome.failed == 0
    pd.testing.assert_frame_equal(finished_store.frame(NUMBERS), store.frame(NUMBERS), rtol=1e-9, atol=1e-12)
    for path in harmed:
        names = [path, path.parent]  # some folders are set aside as a whole
        assert any(f"{name} is damaged and was renamed" in caplog.text for name in names), path
    if first == 0:
        caplog.clear()
        store.path.unlink()
        outcome, _ = run(study())
        assert outcome.failed == 0 and "damaged" not in caplog.text


ROUNDED = "SELECT model, corpus, view, statistic, layer, round(value, 5) AS value, n FROM layer_metrics ORDER BY ALL"
FEW = (
    ("metrics: [convergence, {anisotropy: {sample: 64, batches: 2}}, motion]", "metrics: [motion]"),
    ("views: [words, all]", "views: [words]"),
)


def test_short_memory_gives_smaller_batches_and_the_same_numbers(study, run, store, out, monkeypatch):
    most = 100

    def short(self, layer, of):
        if layer.index == 1 and len(layer.batch) > most:  # when layer 0 has been seen
            raise MemoryError
        of(self, layer)

    with monkeypatch.context() as patch:
        patch.setattr(TextSums, "observe", partialmethod(short, of=TextSums.observe))
        outcome, log = run(study(*FEW), only=["dec"])
        assert outcome.failed == 0
        assert log.count("little memory is left") == 1
        # What sufficed is remembered: the next pass over these texts need not run out of memory to find it.
        patch.setattr(Moments, "observe", partialmethod(short, of=Moments.observe))
        more, log = run(study(FEW[1], (FEW[0][0], "metrics: [motion, spectrum]")), only=["dec"])
        assert (more.failed, "little memory is left" in log) == (0, False) and more.computed > 0
    store.path.unlink()
    assert run(study(*FEW), only=["dec"])[0].failed == 0
    facts = [json.loads(path.read_text())["facts"] for path in (out / "cache" / "observables").glob("*/facts.json")]
    assert facts and all(row["batch_tokens"] and row["batch_tokens"] <= 2 * most for row in facts)
    numbers = store.frame(ROUNDED)
    store.path.unlink()
    for path in (out / "cache" / "observables").glob("*/*.json"):
        path.unlink()
    assert run(study(*FEW), only=["dec"])[0].computed == outcome.computed
    assert len(numbers) and store.frame(ROUNDED).equals(numbers)


def test_cells_fail_alone_where_no_batch_is_small_enough(study, run, monkeypatch):
    before = TextSums.observe

    def short(self, layer):
        if layer.index == 2:  # the last of them: the bodies of both models are as deep
            raise MemoryError
        before(self, layer)

    monkeypatch.setattr(TextSums, "observe", short)
    outcome, log = run(study((FEW[0][0], "metrics: [motion, anisotropy]")), only=["dec"])
    assert outcome.failed > 0 and "out of memory" in log and "Traceback" not in log
