"""Several at once in one folder: three runs of one study, two of others, and readers in a loop.

    python tests/faults/together.py 20

After each round all have ended with 0, no reader met an error, and the database is that of runs one after the other.
"""

import os
import sys
import time
from pathlib import Path

from undisturbed import differences, ended, fork, numbers, preload, run, scratch, write_study

QUESTION = "SELECT count(*) - count(DISTINCT (study, model, checkpoint, corpus, metric)) AS twice FROM cells"


def read(home: Path, out: Path) -> int:
    """Ask and ask until the runs are over; return the id of the process that does."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        from reporter.store import Store

        while not (home / "over").exists():
            if (out / "results.duckdb").exists():
                assert Store(out / "results.duckdb").frame(QUESTION).iloc[0, 0] == 0
            time.sleep(0.05)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main(rounds: int) -> int:
    """Do so many rounds; return in how many something was wrong."""
    preload()
    bad = 0
    with scratch() as home:
        studies = [write_study(home), write_study(home, "other", 1), write_study(home, "third", 2)]
        for study in studies:
            code, said = run(study, home / "alone")
            assert code == 0, said
        expected = numbers(home / "alone")
        for number in range(rounds):
            out = home / f"out{number}"
            (home / "over").unlink(missing_ok=True)
            readers = [read(home, out) for _ in range(2)]
            given = [studies[0], *studies]  # the first one three times
            given.insert(0, studies[0])
            said = [home / f"said{place}" for place in range(len(given))]
            runs = [fork(["run", str(s), "--out", str(out)], to) for s, to in zip(given, said, strict=True)]
            codes = [ended(pid) for pid in runs]
            (home / "over").touch()
            readers = [ended(pid) for pid in readers]
            wrong = differences(expected, numbers(out))
            wrong += [to.read_text()[-1500:] for to, code in zip(said, codes, strict=True) if code]
            wrong += ["a reader met an error"] if any(readers) else []
            bad += bool(wrong)
            print(f"round {number + 1}: {codes} {readers} {'; '.join(wrong) or 'as one after the other'}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20) and 1)
