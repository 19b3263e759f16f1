"""A study that runs in seconds, processes that run it and may be disturbed, and its numbers, to be held side by side.

The processes are forks of one that has imported everything and computed nothing, so that fifty take minutes.
"""

import atexit
import os
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

import duckdb

ROOT = Path(__file__).resolve().parents[2]
STUDY = """
study: {name}
models:
  enc: {{recipe: {{architecture: bert, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, checkpoints: [0, 2],
                 batch: 4, context: 16}}}}
  dec: {{recipe: {{architecture: gpt2, layers: 2, width: 16, heads: 2, train_on: nested, steps: 2, batch: 4,
                 context: 16}}}}
corpora:
  nested: {{generate: grammar, texts: 60, words: [5, 20], seed: {seed}}}
  inline: {{texts: ["one two three", "the cat sleeps here", "a dog"]}}
metrics: [convergence, {{anisotropy: {{sample: 64, batches: 2}}}}, motion]
views: [text tokens, with special tokens]
run: {{precision: float32}}
claims:
  turns: {{says: "It turns.", value: {{metric: motion.norm, model: enc, corpus: nested, layer: 1}}, above: 0}}
"""
# What a run imports, if only on its way: half of what such a small one computes would be imports.
BROUGHT = (
    "reporter.app.cli", "reporter.runs.runner", "reporter.runs.work", "reporter.judge.questions", "reporter.report",
    "altair", "pandas", "scipy.optimize", "scipy.spatial", "torch._dynamo", "transformers.models.bert.modeling_bert",
    "transformers.models.gpt2.modeling_gpt2",
)  # fmt: skip
# What a run that goes on says otherwise: when, how long, and how much was left to do.
OF_THE_MOMENT = {
    "started", "finished", "seconds", "timings", "cells_run", "cells_cached", "why", "looked_at", "first_number",
    "forward_tokens", "forward_passes", "forward_seconds", "loaded", "trained_seconds",
}  # fmt: skip


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a folder that is removed in the end; not by ``TemporaryDirectory``, which forks would remove, too."""
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_study(folder: Path, name: str = "tiny", seed: int = 0) -> Path:
    """Write the study into a folder."""
    path = folder / f"{name}.yaml"
    path.write_text(STUDY.format(name=name, seed=seed), "utf-8")
    return path


def preload() -> None:
    """Import what a run needs, and compute nothing: a fork of a process that has threads of its own would hang."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in BROUGHT:
        import_module(name)


def no_report() -> None:
    """Leave the report out, which takes half of such a small run."""
    from reporter.runs import runner

    runner._report = lambda *_: ()  # type: ignore[assignment]


def fork(arguments: list[str], said: Path, disturb: Callable[[], None] = lambda: None) -> int:
    """Run the command line in a process of its own, disturbed; return its id at once.

    Args:
        arguments: what comes after ``reporter``.
        said: the file to which its output goes.
        disturb: called in it before anything else.
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.argv = ["reporter", *arguments]
        disturb()
        from reporter.app.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 99
    atexit._run_exitfuncs()  # as at the end of a process that was not forked
    sys.stderr.flush()
    os._exit(code)


def ended(pid: int) -> int:
    """Wait for a process; return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run(study: Path, out: Path, disturb: Callable[[], None] = lambda: None) -> tuple[int, str]:
    """Run a study to its end; return the exit code and what was said."""
    said = out.parent / f"{out.name}.said"
    code = ended(fork(["run", str(study), "--out", str(out)], said, disturb))
    return code, said.read_text("utf-8", "replace")


def numbers(out: Path) -> dict[str, list[str]]:
    """Return the rows of a results folder's database by table, as text, without what belongs to the moment."""
    with duckdb.connect(str(out / "results.duckdb"), read_only=True) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        frames = {table: connection.execute(f"FROM {table}").df() for (table,) in tables}
    kept = {table: frame.drop(columns=OF_THE_MOMENT & set(frame.columns)) for table, frame in frames.items()}
    # going on sums in another order, so floats have five digits
    return {table: sorted(frame.to_csv(float_format="%.5g", index=False).splitlines()) for table, frame in kept.items()}


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> list[str]:
    """Say in which tables two databases differ."""
    result = []
    for table in sorted(one.keys() | other.keys()):
        a, b = Counter(one.get(table, [])), Counter(other.get(table, []))
        if a != b:
            only = [*(a - b), *(b - a)]
            result.append(f"{table}: {a.total()} rows and {b.total()}, such as {min(only)[:300]}")
    return result
