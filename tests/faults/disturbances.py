"""What happens to a run besides being killed. After each, the next run ends with the undisturbed database.

    python tests/faults/disturbances.py [disk] [removed] [clock] [stopped] [together]      (all without a name)

``disk``: the disk is full (needs root, which mounts a small one). ``removed``: somebody removes the cache, or all
results, in the middle. ``clock``: the clock jumps by days, both ways. ``stopped``: a worker is stopped in the middle,
with a patience of seconds. ``together``: three runs of one study and one of each of two others are in one folder at
once, beside readers in a loop; name it several times for several rounds. Too little memory has tests in
``tests/runs/test_resume.py``.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from undisturbed import differences, ended, fork, no_report, numbers, preload, run, scratch, write_study

QUESTION = "SELECT count(*) - count(DISTINCT (study, model, checkpoint, corpus, metric)) AS twice FROM cells"


def again(study: Path, out: Path, expected: dict[str, list[str]], disturb: Callable[[], None] = no_report) -> list[str]:
    """Run a study to its end; return what it said where it failed, or what differs from the undisturbed numbers."""
    code, text = run(study, out, disturb)
    return [text] if code else differences(expected, numbers(out))


def disk(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Fill the disk; then make it larger."""
    small = home / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(small)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        print("disk: cannot mount a small one, and was not tried")
        return []
    wrong = []
    try:
        for size in ("600k", "1500k", "100m"):
            subprocess.run(["mount", "-o", f"remount,size={size}", str(small)], check=True)
            code = ended(fork(["run", str(study), "--out", str(small / "out")], home / "small.said", no_report))
            text = (home / "small.said").read_text()
            if size != "100m" and (code != 1 or "No space left" not in text or "Traceback" in text):
                wrong.append(f"full disk: exit code {code}, {text[-500:]}")
        wrong += [text] if code else differences(expected, numbers(small / "out"))
    finally:
        subprocess.run(["umount", str(small)], check=True)
    return wrong


def removed(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Remove the cache, and then everything, when the run is in the middle of it."""
    wrong = []
    for what in ("out/cache", "out"):
        shutil.rmtree(home / "out", ignore_errors=True)
        pid = fork(["run", str(study), "--out", str(home / "out")], home / "said", no_report)
        while not any((home / "out" / "cache").glob("observables/*/facts.json")) and _lives(pid):
            time.sleep(0.005)
        (home / what).rename(home / "gone")
        shutil.rmtree(home / "gone")
        code, text = ended(pid), (home / "said").read_text()
        if code not in (0, 1) or "Traceback" in text:
            wrong.append(f"{what} removed: exit code {code}, {text[-800:]}")
        wrong += again(study, home / "out", expected)
    return wrong


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def clock(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Let the clock jump by up to two days whenever somebody looks at it."""

    def jumping() -> None:
        no_report()
        draw, real = random.Random(0), time.time
        time.time = lambda: real() + draw.uniform(-172_800, 172_800)
        time.time_ns = lambda: int(time.time() * 1e9)

    wrong = again(study, home / "out", expected, jumping)
    code, text = run(study, home / "out", no_report)  # what was dated the day after tomorrow is done all the same
    return wrong + ([] if code == 0 and "nothing to compute" in text else [text])


def stopped(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Stop a run in its pass; another one must take over what it holds, after its patience."""

    def impatient() -> None:
        no_report()
        from reporter.core import locks

        locks.REFRESH_SECONDS, locks.STALE_SECONDS = 0.5, 5.0

    pid = fork(["run", str(study), "--out", str(home / "out")], home / "said", impatient)
    try:
        while not [*(home / "out" / "cache").glob("observables/*.lock")] and _lives(pid):
            time.sleep(0.005)
        os.kill(pid, signal.SIGSTOP)
        wrong = again(study, home / "out", expected, impatient)
    finally:
        os.kill(pid, signal.SIGCONT)
        late = ended(pid)  # it goes on, and finds all done or does it once more
    wrong += [(home / "said").read_text()[-800:]] if late else differences(expected, numbers(home / "out"))
    return wrong


def read(home: Path, out: Path) -> None:
    """Ask and ask until the runs are over, and end the process."""
    from reporter.store import Store

    while not (home / "over").exists():
        if (out / "results.duckdb").exists():
            assert Store(out / "results.duckdb").frame(QUESTION).iloc[0, 0] == 0
        time.sleep(0.05)
    sys.exit(0)


def together(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Run the study three times at once, beside two others and readers; all end with 0, and no number is another."""
    studies, out = [study, write_study(home, "other", 1), write_study(home, "third", 2)], home / "out"
    (home / "over").unlink(missing_ok=True)
    wrong = [said for path in studies for code, said in [run(path, home / "alone")] if code]
    said = [home / f"said{place}" for place in range(7)]
    readers = [fork([], to, partial(read, home, out)) for to in said[:2]]
    given = zip([study, study, *studies], said[2:], strict=True)
    runs = [fork(["run", str(path), "--out", str(out)], to) for path, to in given]
    codes = [ended(pid) for pid in runs]
    (home / "over").touch()
    codes = [*map(ended, readers), *codes]
    wrong += [to.read_text()[-1500:] for to, code in zip(said, codes, strict=True) if code]
    return wrong + differences(numbers(home / "alone"), numbers(out))


ALL = {disturbance.__name__: disturbance for disturbance in (disk, removed, clock, stopped, together)}


def main(names: list[str]) -> int:
    """Disturb runs in these ways; return how many did not mend."""
    preload()
    bad = 0
    with scratch() as home:
        study = write_study(home)
        code, said = run(study, home / "first", no_report)
        assert code == 0, said
        expected = numbers(home / "first")
        for name in names or ALL:
            shutil.rmtree(home / "out", ignore_errors=True)
            wrong = ALL[name](home, study, expected)
            bad += bool(wrong)
            print(f"{name}: {'; '.join(wrong) or 'mended'}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) and 1)
