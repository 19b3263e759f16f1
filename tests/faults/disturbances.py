"""What a machine does to a run besides killing it. After each, the next run ends with the undisturbed database.

    python tests/faults/disturbances.py [disk] [removed] [clock] [memory] [limits] [stopped]      (all without a name)

``disk``: the disk is full (needs root, which mounts a small one). ``removed``: somebody removes the cache, or all
results, in the middle. ``clock``: the clock jumps by days, both ways. ``memory``: in
its passes a run of a wider model gets 250 MiB of address space more, where batches as large as allowed need a lot.
``limits``: all of a run has little address space, or loading, metrics, judging or the report alone have next to none.
``stopped``: a worker is stopped in the middle, with a patience of seconds.
"""

import importlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from undisturbed import differences, ended, fork, no_report, numbers, preload, run, scratch, write_study

MANY = "texts: 1000, words: [20, 40]"


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


@contextmanager
def at_most(more: int) -> Iterator[None]:
    """Have so many MiB of address space more than there is now."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more * 2**20, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def memory(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Limit the address space; the batch must be halved, and the numbers those of a run without a limit."""
    wide = home / "wide.yaml"
    text = study.read_text("utf-8").replace("width: 16", "width: 256").replace("texts: 60, words: [5, 20]", MANY)
    text = text.replace("context: 16", "context: 64")  # or texts are cut, and a batch of all of them is small
    wide.write_text(text.replace("float32}", "float32, batch_tokens: 40000, threads: 1}"), "utf-8")
    code, text = run(wide, home / "free", no_report)
    assert code == 0, text
    shutil.copytree(home / "free" / "cache" / "models", home / "out" / "cache" / "models")

    def short() -> None:
        no_report()
        from reporter.forward import passes

        real = passes.measure

        def measure(*given: Any) -> Iterator[Any]:
            with at_most(250):
                yield from real(*given)

        passes.measure = measure

    code, text = run(wide, home / "out", short)
    wrong = [text[-800:]] if code else differences(numbers(home / "free"), numbers(home / "out"))
    return wrong + ([] if "little memory is left" in text else ["memory sufficed: " + text])


def limits(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Limit the address space, of all of a run or of a part of it; what is said must be lines that tell of memory."""
    wrong = []
    whole = [(f"all of it, {most} MiB", (most, "", "")) for most in (200, 500, 800, 1100, 1400, 1700)]
    parts = {"loading": ("work", "load"), "metrics": ("work", "compute"), "report": ("runner", "_report")}
    parts |= {"claims": ("whole", "judge_claims"), "findings": ("whole", "write_findings")}
    each = [(f"{name}, {more} MiB more", (more, *where)) for name, where in parts.items() for more in (1, 12)]
    for name, (size, room, function) in whole + each:
        out, said = home / "out", home / "said"
        shutil.rmtree(out, ignore_errors=True)
        if not function:
            command = f"ulimit -v {size * 1024}; exec {sys.executable} -m reporter run {study} --out {out} >{said} 2>&1"
            code = subprocess.run(["bash", "-c", command], check=False).returncode
        else:
            code = ended(fork(["run", str(study), "--out", str(out)], said, partial(_short, size, room, function)))
        text = said.read_text()
        if code not in (0, 1) or "Traceback" in text or (code and "memory" not in text):
            wrong.append(f"{name}: exit code {code}, {text[-800:]}")
        again, text = run(study, out, (lambda: None) if room == "runner" else no_report)
        wrong += [text] if again else [f"{name}: {found}" for found in differences(expected, numbers(out))]
        if function == "_report" and "out of memory" in (out / "tiny" / "index.html").read_text("utf-8"):
            wrong.append(f"{name}: what did not suffice then is still on the page")
        last = (said.read_text().strip().split("\n") or [""])[-1]
        print(f"  {name}: exit code {code}, {last[:200]}", flush=True)
    return wrong


def _short(more: int, room: str, function: str) -> None:
    """Let a function of a module of ``reporter.runs`` have so many MiB of address space more than there is."""
    if room != "runner":
        no_report()
    module = importlib.import_module(f"reporter.runs.{room}")
    real = getattr(module, function)

    def short(*given: Any, **named: Any) -> Any:
        with at_most(more):
            return real(*given, **named)

    setattr(module, function, short)


def stopped(home: Path, study: Path, expected: dict[str, list[str]]) -> list[str]:
    """Stop a run in its pass; another one must take over what it holds, after its patience."""

    def impatient() -> None:
        no_report()
        from reporter.core import files as locks

        locks.REFRESH_SECONDS, locks.STALE_SECONDS = 0.5, 5.0

    pid = fork(["run", str(study), "--out", str(home / "out")], home / "said", impatient)
    try:
        while not [*(home / "out" / "cache").glob("observables/*.lock")] and _lives(pid):
            time.sleep(0.005)
        os.kill(pid, signal.SIGSTOP)
        code, text = run(study, home / "out", impatient)
        wrong = [text] if code else differences(expected, numbers(home / "out"))
    finally:
        os.kill(pid, signal.SIGCONT)
        late = ended(pid)  # it goes on, and finds all done or does it once more
    wrong += [(home / "said").read_text()[-800:]] if late else differences(expected, numbers(home / "out"))
    return wrong


ALL = {disturbance.__name__: disturbance for disturbance in (disk, removed, clock, memory, limits, stopped)}


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
