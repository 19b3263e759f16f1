"""Kill a run at moments spread over all that it does to its folder; the next run must end as if nothing had been.

    python tests/faults/kill.py 50      (about ten minutes)

A moment is just before a file is opened for writing, renamed or removed, a folder made, or a transaction begun or
committed. Each belongs to a phase of the run: what it does to its folder when it writes texts, trains, begins a pass,
saves one that is unfinished, writes a range, merges ranges, commits, judges claims, or writes the report. Their names:
beginning, texts, training, pass, save, range, merge, commit, claims, report. All phases get as many kills.
"""

import atexit
import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

from undisturbed import differences, no_report, numbers, preload, run, scratch, write_study

# By the function that is at it, inside out; the names that are not here are of helpers.
PHASES = {
    ("texts.build", "_write"): "texts",
    ("models.toy.training", "prepare"): "training",
    ("forward.kept", "save_unfinished"): "save",
    ("forward.kept", "write"): "range",
    ("forward.passes", "_finish"): "merge",
    ("forward.passes", "measured"): "pass",
    ("runs.whole", "judge_claims"): "claims",
    ("runs.runner", "_report"): "report",
}
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "reporter.transaction"}


def phase(event: str) -> str:
    """Tell in which phase of a run this process is, which is about to change its folder."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        room = str(frame.f_globals.get("__name__")).removeprefix("reporter.")
        if result := PHASES.get((room, frame.f_code.co_name)):
            return result
        frame = frame.f_back
    return "commit" if event == "reporter.transaction" else "beginning"


def small_ranges() -> None:
    """Have the sixty texts be three ranges, which are merged, and save after each shard."""
    from reporter.forward import passes
    from reporter.texts import tokens

    tokens.SHARD_TEXTS, tokens.RANGE_SHARDS = 5, 4
    passes.SAVE_EVERY, passes.MOST_SAVING = 0.0, float("inf")


def watch(folder: Path, stop: int | None, log: Path | None) -> None:
    """Count what happens to a folder in this process; kill it before the ``stop``-th, or list all in ``log``."""
    seen: list[str] = []
    own = os.getpid()

    def heard(event: str, given: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if not (writes or event in CHANGES) or not str(given[0]).startswith(str(folder)) or os.getpid() != own:
            return
        seen.append(f"{phase(event):9} {event} {str(given[0]).removeprefix(str(folder))}")
        if len(seen) == stop:
            os.kill(own, signal.SIGKILL)

    from reporter.store import database_file as file

    real = file.transaction

    @contextmanager
    def transaction(connection: Any) -> Iterator[None]:
        with real(connection):
            sys.audit("reporter.transaction", f"{folder}/begun")
            yield
            sys.audit("reporter.transaction", f"{folder}/written")

    file.transaction = transaction
    sys.addaudithook(heard)
    if log is not None:
        atexit.register(lambda: log.write_text(json.dumps(seen)))


def spread(known: list[str], how_many: int) -> list[int]:
    """Choose moments, numbered from 1: of each phase as many, evenly over it; of all phases one before a second."""
    by_phase: dict[str, list[int]] = {}
    for place, moment in enumerate(known, 1):
        by_phase.setdefault(moment.split()[0], []).append(place)
    result = []
    for number in range(how_many):
        turn, at = divmod(number, len(by_phase))
        places, share = [*by_phase.values()][at], len(range(at, how_many, len(by_phase)))
        result.append(places[int(len(places) * (turn + 0.5) / share)])
    return result


def one(
    home: Path, study: Path, known: list[str], expected: dict[str, list[str]], chosen: tuple[int, int]
) -> tuple[bool, str]:
    """Kill a run at one moment and run it again; return whether it ended with the undisturbed numbers, and a line.

    Args:
        home: where the folder of the undisturbed run is.
        study: what is run.
        known: the phase and the change at each moment.
        expected: the undisturbed numbers.
        chosen: which of the chosen moments it is, and its place among all.
    """
    number, place = chosen
    out = home / f"out{number}"
    killed, _ = run(study, out, lambda: watch(out, place, None))
    # the report is written where it was what was killed, and now and then
    whole = number == 0 or known[place - 1].startswith("report ")
    code, said = run(study, out, (lambda: None) if whole else no_report)
    wrong = differences(expected, numbers(out)) if code == 0 else [said]
    left = [str(path.relative_to(out)) for path in out.rglob("unfinished-*") if "observables" not in path.parts]
    shutil.rmtree(out)
    line = f"{place:5} {known[place - 1][:80]:80} {killed} {'; '.join(wrong) or 'mended'} {' '.join(left)}"
    return not wrong and killed == -signal.SIGKILL, line


def main(how_many: int) -> int:
    """Kill at so many moments, as many at once as there are cores; return how many were not mended."""
    preload()
    small_ranges()
    bad = 0
    with scratch() as home:
        study = write_study(home)
        code, said = run(study, home / "first", lambda: watch(home / "first", None, home / "moments.json"))
        assert code == 0, said
        known = json.loads((home / "moments.json").read_text())
        expected = numbers(home / "first")
        print(f"{len(known)} moments: {dict(Counter(moment.split()[0] for moment in known))}", flush=True)
        chosen = list(enumerate(spread(known, how_many)))
        # forks of this process, too, and none that ends them: what a run starts must be able to start more
        with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as pool:
            for mended, line in pool.map(partial(one, home, study, known, expected), chosen):
                bad += not mended
                print(line, flush=True)
    print(f"{how_many - bad} of {how_many} mended")
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50) and 1)
