"""Several at once in one folder: three runs of one study, two of others, and readers in a loop.

    python tests/faults/together.py 20

After each round all have ended with 0, no reader met an error, and the database is that of runs one after the other.
"""

import sys
import time
from functools import partial
from pathlib import Path

from undisturbed import differences, ended, fork, numbers, preload, run, scratch, write_study

QUESTION = "SELECT count(*) - count(DISTINCT (study, model, checkpoint, corpus, metric)) AS twice FROM cells"


def read(home: Path, out: Path) -> None:
    """Ask and ask until the runs are over, and end the process."""
    from reporter.store import Store

    while not (home / "over").exists():
        if (out / "results.duckdb").exists():
            assert Store(out / "results.duckdb").frame(QUESTION).iloc[0, 0] == 0
        time.sleep(0.05)
    sys.exit(0)


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
            asking = [fork([], home / f"asked{place}", partial(read, home, out)) for place in range(2)]
            given = [studies[0], studies[0], *studies]  # the first one three times
            said = [home / f"said{place}" for place in range(len(given))]
            runs = [fork(["run", str(s), "--out", str(out)], to) for s, to in zip(given, said, strict=True)]
            codes = [ended(pid) for pid in runs]
            (home / "over").touch()
            readers = [ended(pid) for pid in asking]
            wrong = differences(expected, numbers(out))
            wrong += [to.read_text()[-1500:] for to, code in zip(said, codes, strict=True) if code]
            wrong += [(home / f"asked{place}").read_text()[-1500:] for place, code in enumerate(readers) if code]
            bad += bool(wrong)
            print(f"round {number + 1}: {codes} {readers} {'; '.join(wrong) or 'as one after the other'}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20) and 1)
