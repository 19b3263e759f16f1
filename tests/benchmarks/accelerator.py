"""Whether an accelerator gives the numbers of the CPU, and how fast it gives them, as Markdown tables.

Set up a bare machine with the first command, then run the check:

    python3 -m venv .venv && .venv/bin/pip install -r requirements.txt -e .
    .venv/bin/python tests/benchmarks/accelerator.py        # at most 8 minutes on a machine with one GPU
    .venv/bin/python tests/benchmarks/accelerator.py --only numbers,search --minutes 3

It needs no model hub: it trains a small encoder and decoder, and draws larger models. Without an accelerator it does
the same in small on the CPU, where one thread takes the place of the CPU and two threads take the place of the device.
``tolerances.py`` derives the tolerances. The exit code is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import gc
import io
import platform
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from processes import print_table, run_python, write
from tolerances import SAFETY, STATISTICS, UNIT32, UNITS, compare, read_numbers, relative_error

import reporter.geometry as geometry
from reporter.core.progress import Progress
from reporter.core.threads import given
from reporter.metrics.base import catalogue
from reporter.models.load import LoadedModel
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.runs.work import pick_device
from reporter.store import Store
from reporter.study import load_study

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles``
from oracles.drawn_models import large_model, nudged, small_models, write_texts

WIDTHS = (384, 768, 1536, 2304, 3072, 4096)
AGAINST_BASE = """
weight_change: all
tuning_words: {w: {corpus: texts}}
"""
ANALYSES = """
  random: {generate: random-words, texts: 24, words: [5, 12]}
clouds: {c: [texts, random]}
metrics: [convergence]
journeys: {j: {texts: [the old cat sleeps., the old house falls.], top: 5, positions: true}}
groups: {one: "the {old|red|small} cat {sleeps|runs}.", two: "the {old|quiet} house {falls|opens}."}
pairs: {p: {place: [[the cat, the house], [the dog, the garden], [the bird, the train]],
            age: [[the old cat, the young cat], [the old dog, the young dog], [the old bird, the young bird]]}}
probes: {kind: {corpus: texts, models: [enc, dec], folds: 2}}
partners: {halves: {halves: texts}, scored: {file: scored.tsv, column: first, partner: second, score: score}}
skip: {s: {corpus: texts, blocks: [1], texts: 20}}
attention: {a: {corpus: texts, tokens: 8}}
vocabulary: [enc, dec]
"""
SAMPLES = {
    "intrinsic_dimension": "sample: 256",
    "information_imbalance": "sample: 256",
    "layer_pairs": "permutations: 20",
    "local_dimension": "sample: 400, centres: 24, neighbours: 48",
}
"""Samples of metrics that take longest on a CPU."""
EVERY = [f"{{{name}: {{{SAMPLES[name]}}}}}" if name in SAMPLES else name for name in catalogue()]
OF_ONE = [name for name in EVERY if name not in ("change", "divergence")]
"""Metrics of models without a base."""
SHRUNK = "little memory is left"
Models = Mapping[str, Path]


@dataclass(frozen=True)
class Ran:
    """A finished run: its numbers, log, seconds by stage and in all, and the most memory of the device in MiB."""

    numbers: pd.DataFrame
    log: str
    seconds: float
    stages: Mapping[str, float] = field(default_factory=dict)
    memory: float = 0.0
    tokens: int = 0


@dataclass
class Bench:
    """The device, the folder, the end of the time, and the outcomes."""

    device: str
    here: Path
    until: float
    models: Models = field(default_factory=dict)
    width: int = 0
    checks: list[bool] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    slowest: float = 0.0
    moved: dict[str, list[Ran]] = field(default_factory=dict)

    @property
    def small(self) -> bool:
        """Whether there is no accelerator."""
        return self.device == "cpu"

    def has_time(self, what: str, seconds: float | None = None) -> bool:
        """Return whether there is time for a part, by default as long as the slowest run; note what is left out."""
        if time.monotonic() + (self.slowest if seconds is None else seconds) < self.until:
            return True
        self.left_out.append(what)
        return False

    def check(self, passed: bool) -> str:
        """Count a check and return its outcome."""
        self.checks.append(bool(passed))
        return "passed" if passed else "**failed**"

    def run(
        self, name: str, models: Models, *, device: str = "", analysed: bool = False, metrics: str = "",
        precision: str = "float32", batch: int = 8192, texts: str = "texts.csv", dtype: str = "float32",
        report: bool = False, force: bool = False,
    ) -> Ran:  # fmt: skip
        """Run a study in this process. Cells that fail are one failed check."""
        out, began, log = self.here / "out" / name, time.monotonic(), io.StringIO()
        threads, device = (1 if device or not self.small else 2), device or self.device
        bases = {"tuned": ", base: dec", "twin": ", base: dec, twin: tuned"}
        entries = [
            f"  {model}: {{path: {path}, dtype: {dtype}{bases.get(model, '')}}}" for model, path in models.items()
        ]
        views = "[text tokens]" if self.small else "[text tokens, without sinks]"
        lines = [f"run: {{device: {device}, precision: {precision}, batch_tokens: {batch}, threads: {threads}}}"]
        lines += ["sinks: {factor: 1.1}", f"views: {views}", "corpora:"]
        lines += [f"  texts: {{file: {texts}, column: text, label: kind, max_tokens: 256}}"]
        metrics = metrics or ", ".join(EVERY if "tuned" in models else OF_ONE)
        main = ["study: check", *lines, f"metrics: [{metrics}]", "models:", *entries, AGAINST_BASE * analysed]
        files = [write(self.here / f"{name}.yaml", main)]
        if analysed:  # what needs two corpora or no base in a study of its own, so that nothing is measured twice
            main = ["study: analyses", *lines, ANALYSES, "models:", *entries[:2]]
            files.append(write(self.here / f"{name}-analyses.yaml", main))
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        with ExitStack() as stack:
            for step in () if report else ("runner._report", "whole.write_answers", "whole.write_findings"):
                stack.enter_context(patch(f"reporter.runs.{step}", lambda *_: ()))
            progress, studies = Progress(log), [load_study(file, offer()) for file in files]
            outcome = run_studies(studies, out, progress=progress, offline=True, force=force)
        seconds, store = time.monotonic() - began, Store(out / "results.duckdb")
        self.slowest = max(self.slowest, seconds)
        if outcome.failed:
            failed = [line.strip() for line in log.getvalue().splitlines() if "failed: " in line]
            print(f"{outcome.failed} cells {self.check(False)} in `{name}`:", *failed[:8], sep="\n- ", end="\n\n")
        tokens = store.frame("SELECT sum(forward_tokens) FROM cells").iloc[0, 0]
        return Ran(read_numbers(store), log.getvalue(), seconds, progress.clock.spent(), peak(device), int(tokens))

    def references(self, products: str) -> list[Ran]:
        """Return the CPU's run of the models, and those of models whose weights are off by γ; each is made once."""
        if "exact" not in self.moved:
            self.moved["exact"] = [self.run("cpu", self.models, device="cpu", analysed=True)]
        if products not in self.moved:
            self.moved[products] = []
            for seed in range(1 if self.small else 2):
                off = relative_error(products, self.width)
                near = {m: nudged(p, self.here / f"{m}-{products}-{seed}", off, seed) for m, p in self.models.items()}
                self.moved[products].append(self.run(f"cpu-{products}-{seed}", near, device="cpu", analysed=True))
        return self.moved["exact"] + self.moved[products]

    def row(self, what: str, ran: Ran, against: Ran, moved: Sequence[Ran], good: bool = True) -> tuple[object, ...]:
        """Compare two runs, count the check, and return a row of a table."""
        found = compare(ran.numbers, against.numbers, [each.numbers for each in moved])
        for line in found.failed[:5]:
            print(f"- beyond its tolerance, {what}: {line}")
        passed = self.check(good and bool(found.numbers) and not found.failed)
        share, worst = f"{found.equal / max(found.numbers, 1):.0%}", f"{found.worst:.2f} ({found.of})"
        counts = found.statistics, f"{found.numbers:,}", share, worst, found.by_one, len(found.failed)
        return what, *counts, f"{ran.seconds:.0f}", passed


HEAD = (
    "",
    "statistics",
    "numbers",
    "equal",
    "largest difference / tolerance",
    "by one observation",
    "beyond",
    "seconds",
)
HEAD = (*HEAD, "check")


def numbers(bench: Bench) -> None:
    """Compare every statistic with the CPU: an encoder, a decoder and two decoders tuned from it."""
    table, compared = [], set[str]()
    for products in UNITS:
        if products == "TF32" and not bench.device.startswith("cuda"):
            table.append((products, *[""] * 7, "not on this device"))
        elif bench.has_time(f"numbers in {products}", 3 * bench.slowest):
            cpu, *moved = bench.references(products)
            precision = "mixed" if products == "bfloat16" else "float32"
            with tf32(products == "TF32"):
                ran = bench.run(f"device-{products}", bench.models, analysed=True, precision=precision)
            table.append(bench.row(products, ran, cpu, [cpu, *moved]))
            compared |= set.intersection(*(set(x.numbers["name"][x.numbers["value"].notna()]) for x in (cpu, ran)))
    print_table(HEAD, table)
    missing = sorted(STATISTICS.keys() - compared)
    print(f"Statistics that were not compared: {', '.join(missing) or 'none'} ({bench.check(not missing)}).")


@contextmanager
def tf32(on: bool) -> Iterator[None]:
    """Let models round the factors of float32 products to TF32 inside the block."""
    torch.set_float32_matmul_precision("high" if on else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


def invariance(bench: Bench) -> None:
    """Compare runs with other batches, in another order, by two workers, from kept passes, and short of memory."""
    moved = bench.references("float32")
    pair = {name: bench.models[name] for name in ("enc", "dec")}
    base, table = bench.run("plain", pair), []
    for size in (64,) if bench.small else (1024, 64):
        if bench.has_time(f"batches of {size:,} tokens", base.seconds):
            table.append(
                bench.row(f"batches of {size:,} tokens", bench.run(f"by{size}", pair, batch=size), base, moved)
            )
    if bench.has_time("reverse order of texts", 2 * base.seconds):  # another order draws other samples, on the CPU too
        cpu, ran = (bench.run(f"reversed{d}", pair, device=d, texts="reversed.csv") for d in ("cpu", ""))
        table.append(bench.row("reverse order of texts, against the CPU", ran, cpu, moved))
    if bench.has_time("kept passes", base.seconds):
        again = bench.run("plain", pair, force=True)
        table.append(bench.row("kept passes, read again", again, base, moved, good=not again.stages.get("forward")))
    if bench.has_time("two workers", 2 * base.seconds):
        table.append(bench.row("two workers on one device", two_workers(bench), base, moved))
    if bench.has_time("memory that runs out", 2 * base.seconds):
        table.append(short_of_memory(bench))
    print_table(HEAD, table)


def two_workers(bench: Bench) -> Ran:
    """Run the plain study as a command with two workers."""
    out, log = bench.here / "out" / "workers", bench.here / "workers.log"
    command = ["-m", "reporter", "run", bench.here / "plain.yaml", "--out", out, "--workers", 2]
    cost = run_python(command, log)
    return Ran(read_numbers(Store(out / "results.duckdb")), log.read_text("utf-8"), cost.seconds)


def short_of_memory(bench: Bench) -> tuple[object, ...]:
    """Compare a run that finds too little memory for its batches: a cap on CUDA, elsewhere an error of the model.

    Only the pass is heavy: long texts of one length, and a metric that leaves the device alone.
    """
    width, options = (64 if bench.small else 1024), {"metrics": "motion", "texts": "long.csv"}
    models, _ = large_model(bench.here / "heavy", width, 4, bench.models["dec"], torch.float32)
    off = relative_error("float32", width)
    near = {name: nudged(path, bench.here / "heavy-near", off, 0) for name, path in models.items()}
    release()
    whole, moved = (bench.run(f"heavy{number}", each, **options) for number, each in enumerate((models, near)))
    usual, most = LoadedModel.run, 1024

    def limited(model: LoadedModel, ids: torch.Tensor, *more: Any) -> Any:
        if ids.numel() > most:
            raise torch.OutOfMemoryError(f"{ids.numel()} tokens")
        return usual(model, ids, *more)

    if bench.device.startswith("cuda"):
        weights = sum(path.stat().st_size for path in models["random"].glob("*.safetensors")) / 2**20
        ran, device = whole, torch.device(bench.device)
        for share in (0.6, 0.45, 0.3):  # of what the pass took beside the weights
            if SHRUNK not in ran.log:
                release()
                cap = weights + share * (whole.memory - weights)
                total = torch.cuda.get_device_properties(device).total_memory / 2**20
                torch.cuda.set_per_process_memory_fraction(cap / total, device)
                try:
                    ran = bench.run(f"capped{share}", models, **options)
                finally:
                    torch.cuda.set_per_process_memory_fraction(1.0, device)
    else:
        with patch.object(LoadedModel, "run", limited):
            ran = bench.run("limited", models, **options)
    return bench.row("memory that runs out", ran, whole, [whole, moved], good=SHRUNK in ran.log)


def search(bench: Bench) -> None:
    """Call each function of ``reporter.geometry`` on the device: neighbours, eigenvalues and all numbers from them.

    The response is to states that are rounded to float32 once more.
    """
    n, d = (400, 32) if bench.small else (4096, 768)
    draws = torch.Generator().manual_seed(0)
    x = torch.randn(n, d, generator=draws) * torch.arange(1, d + 1) ** -0.5 + 0.5
    both = [x, x @ torch.randn(d, d, generator=draws) / d**0.5]
    near = [v * (1 + UNIT32 * (2 * torch.rand(v.shape, generator=draws) - 1)) for v in both]
    there, table = [v.to(bench.device) for v in both], []
    geometry.eigenvalues(there[0])  # which loads libraries
    for name in geometry.__all__:
        if bench.has_time(f"`{name}`", 5):
            call = partial(_called, name, 64 if name == "matrix_entropy" else n)
            with given(1 if bench.small else None):
                (a, cpu), (c, _) = call(both), call(near)
            b, device = call(there)
            off, tolerance = np.abs(a - b).max(), SAFETY * (np.abs(a - c).max() + UNIT32 * np.abs(a).max())
            sizes = f"{off:.1e}", f"{tolerance:.1e}", f"{cpu:.2f}", f"{device:.2f}"
            table.append((f"`{name}`", *sizes, bench.check(off <= tolerance)))
    print(f"{n:,} states of {d} dimensions\n")
    print_table(("", "largest difference", "tolerance", "seconds on the CPU", "seconds on the device", "check"), table)


def _called(name: str, rows: int, states: Sequence[torch.Tensor]) -> tuple[Any, float]:
    """Return the numbers of a function and its seconds; the signs of components mean nothing."""
    began = time.perf_counter()
    result = getattr(geometry, name)(*(x[:rows] for x in states[: 2 if name in ("cka", "mutual_knn") else 1]))
    numbers = np.asarray(result[0] if isinstance(result, tuple) else result, dtype=float)
    return np.abs(numbers) if name == "principal_components" else numbers, time.perf_counter() - began


STAGES = ("loading", "tokenising", "forward", "observables", "metrics", "store", "report")


def stages(bench: Bench) -> None:
    """Time the stages of whole runs with their report: small models with all analyses, and a billion random weights."""
    table = []
    if bench.has_time("stages of trained models", 2 * bench.slowest):
        models = {name: bench.models[name] for name in ("enc", "dec")} if bench.small else bench.models
        ran = bench.run("stages", models, analysed=not bench.small, report=True, precision="auto")
        table.append(_staged(bench, f"{len(models)} trained models", ran, True))
    if bench.has_time("a billion weights", 20 if bench.small else 75):
        like = bench.models["dec"]
        models, weights = large_model(bench.here / "large", *((64, 2) if bench.small else (2048, 22)), like)
        ran = bench.run("large", models, metrics="all, loss", dtype="auto", precision="auto", report=True)
        what = f"{weights / 1e6:,.1f} million random weights in bfloat16"
        table.append(_staged(bench, what, ran, bench.small or weights >= 10**9))
    print_table(("seconds", *STAGES, "analyses", "whole", "device, MiB", "host, MiB", "check"), table)


def _staged(bench: Bench, what: str, ran: Ran, good: bool) -> tuple[object, ...]:
    seconds = (f"{ran.stages.get(stage, 0.0):.1f}" for stage in (*STAGES, "analyses"))
    return what, *seconds, f"{ran.seconds:.1f}", *memory(ran), bench.check(good and len(ran.numbers) > 0)


def speed(bench: Bench) -> None:
    """Count tokens a second at several widths: random decoders of two blocks, the metrics that every study has."""
    table, last = [], 5.0
    for width in (32, 64, 128) if bench.small else WIDTHS:
        if not bench.has_time(f"width {width:,}", 2.5 * last):
            continue
        began = time.monotonic()
        models, _ = large_model(bench.here / "wide", width, 2, bench.models["dec"])
        release()
        ran = bench.run(f"width{width}", models, metrics="all", dtype="auto", precision="auto", texts="long.csv")
        forward, observed, metrics = (ran.stages.get(stage, 0.0) for stage in ("forward", "observables", "metrics"))
        rates = (f"{ran.tokens / max(seconds, 1e-9):,.0f}" for seconds in (forward, forward + observed))
        row = f"{width:,}", f"{ran.tokens:,}", *rates, f"{metrics:.1f}", f"{ran.seconds:.1f}", *memory(ran)
        table.append((*row, bench.check(ran.tokens > 0 and len(ran.numbers) > 0)))
        last = time.monotonic() - began
    head = ("width", "tokens", "tokens a second, forward", "with observables", "seconds of metrics", "whole")
    print_table((*head, "device, MiB", "host, MiB", "check"), table)


def memory(ran: Ran) -> tuple[str, str]:
    """Return the peak memory of the device in a run, and of the host up to now, in MiB."""
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return (f"{ran.memory:,.0f}" if ran.memory else ""), f"{host:,.0f}"


def peak(device: str) -> float:
    """Return the peak memory of a device in MiB; Apple's measures no peak, so what its driver holds."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device) / 2**20
    return torch.mps.driver_allocated_memory() / 2**20 if device == "mps" else 0.0


def release() -> None:
    """Give memory that is not used any more back to the device."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


PARTS: dict[str, Callable[[Bench], None]] = {
    part.__name__: part for part in (numbers, invariance, search, stages, speed)
}


def main() -> int:
    """Print the tables; return 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--minutes", type=float, default=8.0, help="parts for which no time is left are left out")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 or mps")
    arguments, began = parser.parse_args(), time.monotonic()
    wanted = arguments.only.split(",")
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(PARTS)}")
    device = pick_device(arguments.device)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        bench = Bench(device, Path(folder).resolve(), began + 60 * arguments.minutes)
        print(f"{described(device)}; torch {torch.__version__}, Python {platform.python_version()}", flush=True)
        bench.width = 32 if bench.small else 128
        write_texts(bench.here, 60 if bench.small else 400)
        bench.models = small_models(bench.here, bench.width, 3 if bench.small else 6, 60)
        for name in wanted:
            if bench.has_time(name):
                print(f"\n### {name}\n", flush=True)
                try:
                    PARTS[name](bench)
                except (Exception, SystemExit):  # a part that breaks must not take the others down
                    print(f"The part {bench.check(False)}:\n\n```\n{traceback.format_exc()}```", flush=True)
                release()
    if bench.left_out:
        print(f"\nLeft out, since the {arguments.minutes:g} minutes were over: {'; '.join(bench.left_out)}.")
    print(f"\n{sum(bench.checks)} of {len(bench.checks)} checks passed in {time.monotonic() - began:.0f} s")
    return 0 if all(bench.checks) else 1


def described(device: str) -> str:
    """Name a device; say so where it is no accelerator."""
    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name(torch.device(device))}, CUDA {torch.version.cuda}"
    if device == "cpu":
        return "No accelerator: the CPU is compared with itself, one thread with two, in small"
    return f"{device} of {platform.machine()}"


if __name__ == "__main__":
    sys.exit(main())
