"""A process that is killed without warning costs no more than the shard it was in."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import pandas as pd

NUMBERS = "SELECT * FROM layer_metrics ORDER BY ALL"
RUN = """
import os, signal, sys
from pathlib import Path
from reporter.forward import passes
from reporter.runs import runner
from reporter.runs.studies import offer
from reporter.spec import load_study
from reporter.texts import tokens

tokens.SHARD_TEXTS = 10
passes.MOST_SAVING, passes.SAVE_EVERY = float("inf"), 0
runner._report = lambda *_: ()  # as in the tests beside this one
real = passes.measure

def measure(*args, **kwargs):
    for number, shard in enumerate(real(*args, **kwargs)):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield shard

if sys.argv[3] == "kill":
    passes.measure = measure
file = load_study(Path(sys.argv[1]), offer())
runner.run_studies([file], Path(sys.argv[2]), only=["dec", "nested"])
"""


def test_after_sigkill_the_next_run_goes_on_and_counts_nothing_twice(study, run, store, out, tmp_path):
    file = study()

    def reporter(how: str, results: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "error", "-c", RUN, str(file.path), str(results), how]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    killed = reporter("kill", out)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    finished = reporter("finish", out)
    assert finished.returncode == 0, finished.stderr
    assert "going on after 20 texts" in finished.stderr
    resumed = store.frame(NUMBERS)
    cells = store.frame("SELECT max(tokens) AS tokens, sum(forward_tokens) AS forward, max(texts) AS texts FROM cells")
    assert 0 < cells["forward"][0] < cells["tokens"][0] and cells["texts"][0] == 40

    shutil.rmtree(out / "cache" / "observables")
    store.path.unlink()
    assert reporter("finish", out).returncode == 0
    pd.testing.assert_frame_equal(resumed, store.frame(NUMBERS), rtol=1e-9, atol=1e-12)
