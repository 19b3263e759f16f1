"""Kill a run at moments spread over all that it does to its folder; the next run must end as if nothing had been.

    python tests/faults/kill.py 50      (about ten minutes)

A moment is just before a file is opened for writing, renamed or removed, a folder made, or a transaction begun or
committed: training, texts, passes, saving, merging, commits and the report consist of these.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from undisturbed import differences, no_report, numbers, preload, run, scratch, write_study

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "reporter.transaction"}


def watch(folder: Path, stop: int | None, log: Path | None) -> None:
    """Count what happens to a folder in this process; kill it before the ``stop``-th, or list all in ``log``."""
    seen: list[str] = []
    own = os.getpid()

    def heard(event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            if not isinstance(given[2], int) or not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                return
        elif event not in CHANGES:
            return
        path = str(given[0])
        if not path.startswith(str(folder)) or os.getpid() != own:
            return
        seen.append(f"{event} {path.removeprefix(str(folder))}")
        if len(seen) == stop:
            os.kill(own, signal.SIGKILL)
        if log is not None and event == "reporter.transaction":
            log.with_suffix(".part").write_text(json.dumps(seen))  # the last one is after all others

    from reporter.store import file

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
        import atexit

        atexit.register(lambda: log.write_text(json.dumps(seen)))


def moments(study: Path, folder: Path) -> list[str]:
    """Run the study undisturbed into ``folder`` and return all moments."""
    log = folder.parent / "moments.json"
    code, said = run(study, folder, lambda: watch(folder, None, log))
    assert code == 0, said
    found: list[str] = json.loads(log.read_text())
    return found


def main(how_many: int) -> int:
    """Kill at so many moments; return how many were not mended."""
    preload()
    bad, tell = 0, partial(print, flush=True)
    with scratch() as home:
        study, first = write_study(home), home / "first"
        # The pages' script is the same for all and takes seconds to join: kills in it are one of many.
        known = moments(study, first)
        expected = numbers(first)
        tell(f"{len(known)} moments")
        for number in range(how_many):
            place = 1 + round((len(known) - 1) * (number + 0.5) / how_many)
            out = home / "out"
            shutil.rmtree(out, ignore_errors=True)
            if number:
                shutil.copytree(first / "assets", out / "assets")
            killed, _ = run(study, out, lambda out=out, place=place: watch(out, place, None))  # type: ignore[misc]
            # the report is written where it was what was killed, and now and then
            whole = number % 8 == 0 or "/tiny/" in known[place - 1]
            code, said = run(study, out, (lambda: None) if whole else no_report)
            wrong = differences(expected, numbers(out)) if code == 0 else [said]
            left = [str(path.relative_to(out)) for path in out.rglob("unfinished-*") if "observables" not in path.parts]
            bad += bool(wrong or killed != -signal.SIGKILL)
            tell(f"{place:5} {known[place - 1][:70]:70} {killed} {'; '.join(wrong) or 'mended'} {' '.join(left)}")
    tell(f"{how_many - bad} of {how_many} mended")
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50) and 1)
