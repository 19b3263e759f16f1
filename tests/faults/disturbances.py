"""What a machine does to a run besides killing it. After each, the next run ends with the undisturbed database.

    python tests/faults/disturbances.py [disk] [removed] [clock] [memory]      (all without a name)

``disk``: the disk is full (needs root, which mounts a small one). ``removed``: somebody removes the cache, or all results,
in the middle. ``clock``: the clock jumps by days, both ways. ``memory``: the system gives no more memory during a pass;
the batch is halved and the run goes on.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from undisturbed import differences, ended, fork, no_report, numbers, preload, run, scratch, write_study


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
            said = home / "small.said"
            code = ended(fork(["run", str(study), "--out", str(small / "out")], said, no_report))
            text = said.read_text()
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
        code, text = run(study, home / "out", no_report)
        wrong += [text] if code else differences(expected, numbers(home / "out"))
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

    code, text = run(study, home / "out", jumping)
    wrong = [text] if code else differences(expected, numbers(home / "out"))
    code, text = run(study, home / "out", no_report)  # what was dated the day after tomorrow is done all the same
    return wrong + ([] if code == 0 and "nothing to compute" in text else [text])


def memory(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Let the system refuse memory in the middle of a pass: each pass may take 300 MB beyond what it began with."""
    wide = home / "wide.yaml"
    text = study.read_text("utf-8").replace("width: 16", "width: 256").replace("study: tiny", "study: wide")
    text = text.replace("texts: 60, words: [5, 20]", "texts: 600, words: [60, 80]").replace(
        "context: 16", "context: 128"
    )
    wide.write_text(text.replace("float32}", "float32, batch_tokens: 131072}"), "utf-8")

    def short() -> None:
        no_report()
        from reporter.runs import passes

        real = passes.measure

        def limited(*given: object, **more: object) -> object:
            taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + 300 * 2**20, resource.RLIM_INFINITY))
            try:
                yield from real(*given, **more)  # type: ignore[arg-type]
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        passes.measure = limited  # type: ignore[assignment]

    code, text = run(wide, home / "out", short)
    if code or "memory is short; going on in smaller batches" not in text:
        return [f"exit code {code}: {text[-1500:]}"]
    code, text = run(wide, home / "much", no_report)
    return [text] if code else differences(numbers(home / "much"), numbers(home / "out"))


ALL = {one.__name__: one for one in (disk, removed, clock, memory)}


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
