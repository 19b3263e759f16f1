"""What a study costs over the bare forward pass, where its time goes, and how both grow, as Markdown tables.

    python tests/benchmarks/speed.py                             # all of it, on models with random weights
    python tests/benchmarks/speed.py --only ratios,profile       # parts of it (they are listed by --help)
    python tests/benchmarks/speed.py --model PATH --text FILE    # a model and texts (one a line) of your own

Everything is measured side by side in one run, since only ratios mean something on a shared machine: the rounds of all
contestants are interleaved, a figure is the least of them, and its spread is how far the largest lies above it.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from processes import Cost, print_table, run_python, write

import reporter.metrics  # noqa: F401 (declares the tables of numbers)
from reporter.store import Store

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles``

MAX_TOKENS = 256
WORDS = [f"w{i}" for i in range(2000)]


@dataclass(frozen=True)
class Bench:
    """What is measured.

    Args:
        model: a folder in the transformers format.
        texts: a file, one text a line.
        many: the same, ten times as many texts where there are that many.
        short: the same, of short texts.
        here: where everything is written.
        rounds: how often.
    """

    model: Path
    texts: Path
    many: Path
    short: Path
    here: Path
    rounds: int

    def study(
        self,
        name: str,
        precision: str = "auto",
        views: str = "[text tokens, without sinks]",
        metrics: str = "all",
    ) -> float:
        """Run the whole command: start of Python, imports, texts, pass, metrics, database and report."""
        lines = [
            f"study: bench\nmodels: {{model: {{path: {self.model}}}}}\nmetrics: {metrics}\nviews: {views}",
            f"corpora: {{texts: {{file: {self.texts}, unit: line, max_tokens: {MAX_TOKENS}}}}}",
            f"run: {{precision: {precision}}}",
        ]
        return self.run(write(self.here / f"{name}.yaml", lines), name)

    def run(self, study: Path, name: str) -> Cost:
        """Run a study into a folder of that name."""
        return run_python(["-m", "reporter", "run", study, "--out", self.here / name], self.here / f"{name}.log")

    def looked(self, name: str) -> Cost:
        """Look at the model, into a folder of that name."""
        command = ["-m", "reporter", "look", self.model, "--out", self.here / name]
        return run_python(command, self.here / f"{name}.log", self.here)

    def timings(self, name: str) -> dict[str, float]:
        """Return the seconds of each part of a run."""
        results = Store(self.here / name / "results.duckdb")
        parts: dict[str, float] = json.loads(results.frame("SELECT timings FROM studies").iloc[0, 0])
        return parts

    def interleaved(self, contestants: dict[str, Callable[[int], float]]) -> dict[str, list[float]]:
        """Return the seconds of each contestant in each round."""
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(self.rounds):
            for name, run in contestants.items():
                times[name].append(run(number))
        return times


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--model", type=Path, help="a BERT of 6 × 384 with random weights if left out")
    parser.add_argument("--text", type=Path, help="lines of at least 8 words; generated if left out")
    parser.add_argument("--short", type=Path, help="lines of any length, such as tweets; generated if left out")
    parser.add_argument("--limit", type=int, default=400, help="texts")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write into this folder and leave it there")
    parser.add_argument("--loop", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.loop or given.plain:
        (one_by_one if given.loop else read_once)(given.model, given.text)
        return
    wanted = given.only.split(",")
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        here = Path(given.keep or folder).resolve()
        here.mkdir(parents=True, exist_ok=True)
        model = given.model.resolve() if given.model else random_bert(here / "bert", 6, 384)
        texts = write(here / "texts.txt", lines(given.text, given.limit, 8, (20, 120)))
        short = write(here / "short.txt", lines(given.short, 600, 1, (5, 25)))
        many = write(here / "many.txt", lines(given.text, 10 * given.limit, 8, (20, 120)))
        bench = Bench(model, texts, many, short, here, given.rounds)
        print(f"{machine()}; least of {given.rounds} rounds, in brackets how far the largest lies above it")
        for name in wanted:
            print(f"\n### {name}\n", flush=True)
            PARTS[name](bench)


def ratios(bench: Bench) -> None:
    """A whole command against the bare forward pass over the same tokens; a second view; the cache; nothing to do."""
    batches, tokens = batches_of(bench)
    bare, two, one = "bare forward pass, float32", "whole command, `auto`, two views", "whole command, `auto`, one view"
    contestants: dict[str, tuple[Callable[[int], float], str]] = {
        bare: (lambda n: forward_pass(bench.model, batches, mixed=False), ""),
        "bare forward pass, mixed": (lambda n: forward_pass(bench.model, batches, mixed=True), ""),
        two: (lambda n: bench.study(f"auto{n}").seconds, "≤ 1.1 to 1.2"),
        "whole command, `float32`, two views": (
            lambda n: bench.study(f"float{n}", precision="float32").seconds,
            "≤ 1.4",
        ),
        one: (lambda n: bench.study(f"one{n}", views="[text tokens]").seconds, ""),
        "the same again: nothing to compute": (lambda n: bench.study(f"auto{n}").seconds, "≤ 1.5 s"),
    }
    result = bench.interleaved({name: run for name, (run, _) in contestants.items()})
    least = {name: min(times) for name, times in result.items()}
    table = [
        (name, spread(result[name]), f"{tokens / least[name]:,.0f}", f"{least[name] / least[bare]:.2f}", target)
        for name, (_, target) in contestants.items()
    ]
    table.append(("the second view", "", "", f"{least[two] / least[one] - 1:+.1%} of the command with one", "≤ +5 %"))
    size = sum(path.stat().st_blocks * 512 for path in (bench.here / "auto0" / "cache").rglob("*") if path.is_file())
    table.append(("what it leaves in the cache", "", "", f"{size / 2**20:,.0f} MiB", "≤ 60 or 250 MiB"))
    print(f"{tokens:,} tokens; every metric that a plain pass feeds\n")
    print_table(("", "seconds", "tokens a second", "over bare float32", "target"), table)


def neighbour(bench: Bench) -> None:
    """The quickstart, a whole command and a look, alone and beside one process that keeps a core busy."""
    quickstart = Path(__file__).resolve().parents[2] / "studies" / "quickstart.yaml"

    def beside(run: Callable[[], float]) -> float:
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            try:
                return run()
            finally:
                busy.kill()

    commands: dict[str, Callable[[str], float]] = {
        "quickstart": lambda name: bench.run(quickstart, f"quick{name}").seconds,
        "whole command, two views": lambda name: bench.study(f"busy{name}").seconds,
        "`reporter look`": lambda name: bench.looked(f"looked{name}").seconds,
    }
    rows = []
    for what, run in commands.items():
        times = bench.interleaved({
            "alone": lambda n, run=run: run(f"alone{n}"),
            "beside": lambda n, run=run: beside(lambda: run(f"beside{n}")),
        })  # fmt: skip
        alone, other = min(times["alone"]), min(times["beside"])
        rows.append((what, spread(times["alone"]), spread(times["beside"]), f"{other / alone:.2f}", "≤ 1.6"))
    print_table(("", "seconds alone", "beside a busy process", "ratio", "target"), rows)


def profile(bench: Bench) -> None:
    """Where the time of a whole command goes."""
    whole = bench.study("profile").seconds
    parts = bench.timings("profile")
    parts["start, claims, report"] = whole - sum(parts.values())
    results = Store(bench.here / "profile" / "results.duckdb")
    cells = results.frame("SELECT metric, seconds FROM cells ORDER BY 2 DESC").itertuples(index=False)
    parts |= {f"of metrics: `{metric}`": seconds for metric, seconds in cells}
    rows = [(name, f"{seconds:.1f}", f"{seconds / whole:.0%}") for name, seconds in parts.items()]
    print_table((f"of {whole:.1f} s", "seconds", "share"), rows)


def loop(bench: Bench) -> None:
    """Against a script that goes text by text, with NumPy for one statistic: processes with all that they import."""
    short = replace(bench, texts=bench.short)
    result = bench.interleaved({
        "loop": lambda n: run_python(
            [__file__, "--loop", "--model", bench.model, "--text", bench.short], bench.here / "loop.log"
        ).seconds,
        "whole command, that metric": lambda n: short.study(f"l{n}", metrics="[convergence]").seconds,
        "whole command, every metric": lambda n: short.study(f"la{n}").seconds,
    })  # fmt: skip
    first = min(result["loop"])
    rows = [(name, spread(times), f"{first / min(times):.1f} × as fast") for name, times in result.items()]
    print_table(("", "seconds", "against the loop"), rows)


def look(bench: Bench) -> None:
    """`reporter look` against a script that imports transformers, loads the model and reads the same texts once."""
    from reporter.app.look.study import TEXTS

    shipped = Path(__file__).resolve().parents[2] / "reporter" / "texts" / "english.jsonl"
    texts = write(
        bench.here / "look.txt", [json.loads(line)["text"] for line in shipped.read_text().splitlines()][:TEXTS]
    )
    result = bench.interleaved({
        "plain script": lambda n: run_python(
            [__file__, "--plain", "--model", bench.model, "--text", texts], bench.here / "plain.log"
        ).seconds,
        "`reporter look`": lambda n: bench.looked(f"look{n}").seconds,
    })  # fmt: skip
    first = min(result["plain script"])
    rows = [(name, spread(times), f"{min(times) / first:.2f}") for name, times in result.items()]
    print_table(("", "seconds", "over the script (≤ 2.0)"), rows)


def memory(bench: Bench) -> None:
    """Peak memory on a corpus that fills shards and samples, and on one ten times as large; a BERT of 4 × 64."""
    model, peaks = random_bert(bench.here / "small", 4, 64), {}
    for count in (2_000, 20_000):
        texts, name = write(bench.here / f"memory{count}.txt", lines(None, count, 8, (20, 80))), f"memory{count}"
        peaks[count] = replace(bench, model=model, texts=texts).study(name, precision="float32").memory
    rows = [(f"{count:,} texts", f"{peak:,.0f}", f"{peak / peaks[2_000] - 1:+.1%}") for count, peak in peaks.items()]
    print_table(("", "MiB", "over the first (≤ +5 %)"), rows)


def slope(bench: Bench) -> None:
    """What more texts cost: the command's added seconds, and those of its parts, over the added bare float32 pass."""
    bare, ratios = "bare float32 pass", defaultdict[str, list[float]](list)
    for number in range(bench.rounds):
        costs = []
        for name, of in ((f"few{number}", bench), (f"many{number}", replace(bench, texts=bench.many))):
            cost = {bare: forward_pass(of.model, batches_of(of)[0], mixed=False)}
            costs.append(cost | {"whole command (≤ 1.0)": of.study(name).seconds} | of.timings(name))
        few, many = costs
        for part, seconds in many.items():
            ratios[part].append((seconds - few.get(part, 0.0)) / (many[bare] - few[bare]))
    print_table(("added seconds of", "over those of the pass"), [(name, f"{min(r):.2f}") for name, r in ratios.items()])


GROWING = {
    "texts": (100, 1_000, 10_000),
    "models": (1, 4, 16, 40),
    "layers": (2, 16, 64),
    "width": (384, 1_024, 4_096),
}
SMALL = {"texts": 100, "models": 1, "layers": 2, "width": 384}


def growth(bench: Bench) -> None:
    """CPU time, by the parts of a run, and memory of a study that grows in one way: BERTs with random weights."""
    rows = []
    for what, sizes in GROWING.items():
        for size in sizes:
            shape = SMALL | {what: size}
            name = f"{what}{size}"
            texts = write(bench.here / f"{name}.txt", lines(None, shape["texts"], 8, (20, 80)))
            models = [
                random_bert(bench.here / f"{name}-{number}", shape["layers"], shape["width"], 0.02 + 1e-4 * number)
                for number in range(shape["models"])
            ]
            study = [
                "study: bench\nmetrics: all\nviews: [text tokens, without sinks]\nrun: {precision: float32}",
                f"corpora: {{texts: {{file: {texts}, unit: line, max_tokens: {MAX_TOKENS}}}}}\nmodels:",
                *(f"  m{number}: {{path: {folder}}}" for number, folder in enumerate(models)),
            ]
            cost = bench.run(write(bench.here / f"{name}.yaml", study), name)
            parts = bench.timings(name)
            whole = sum(parts.values())
            shares = (f"{parts.get(part, 0) / whole:.0%}" for part in ("forward", "observables", "metrics", "store"))
            size_of = (bench.here / name / "results.duckdb").stat().st_size / 2**20
            rows.append((f"{size:,} {what}", f"{cost.cpu:.1f}", f"{cost.memory:,.0f}", f"{size_of:.1f}", *shares))
            shutil.rmtree(bench.here / name)
            for folder in models:
                shutil.rmtree(folder)
    kept = ", ".join(f"{size} {what}" for what, size in SMALL.items())
    print(f"every metric that a plain pass feeds, two token sets; otherwise {kept}\n")
    print_table(("", "CPU seconds", "MiB", "database, MiB", "forward", "observables", "metrics", "store"), rows)


PARTS: dict[str, Callable[[Bench], None]] = {
    part.__name__: part for part in (ratios, neighbour, look, profile, loop, memory, slope, growth)
}


def batches_of(bench: Bench) -> tuple[list[Any], int]:
    """Return padded batches of about 8192 tokens of texts sorted by length, and how many tokens they hold."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bench.model)
    texts = [line for line in bench.texts.read_text("utf-8").splitlines() if line.strip()]
    rows = sorted(tokenizer(texts, truncation=True, max_length=MAX_TOKENS)["input_ids"], key=len, reverse=True)
    tokens, batches = sum(map(len, rows)), []
    while rows:
        count = max(1, 8192 // len(rows[0]))
        batches.append(tokenizer.pad({"input_ids": rows[:count]}, return_tensors="pt"))
        rows = rows[count:]
    return batches, tokens


def forward_pass(path: Path, batches: Sequence[Any], *, mixed: bool) -> float:
    """Time the bare forward pass."""
    import torch

    model = load(path)
    began = time.perf_counter()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
        for batch in batches:
            model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    return time.perf_counter() - began


def one_by_one(path: Path, texts: Path) -> None:
    """Do as a notebook does: the mean cosine of each layer's states with the last layer's, in NumPy."""
    import torch
    from transformers import AutoTokenizer

    model, tokenizer = load(path), AutoTokenizer.from_pretrained(path)
    sums, tokens = 0.0, 0
    with torch.inference_mode():
        for text in texts.read_text("utf-8").splitlines():
            given = tokenizer(text, return_tensors="pt", truncation=True, max_length=MAX_TOKENS)
            seen = model(**given, output_hidden_states=True).hidden_states
            states = np.stack([layer[0].numpy() for layer in seen]).astype(np.float64)
            units = states / np.linalg.norm(states, axis=-1, keepdims=True)
            sums, tokens = sums + (units * units[-1]).sum(axis=(1, 2)), tokens + states.shape[1]
    assert np.isfinite(sums / tokens).all()


def read_once(path: Path, texts: Path) -> None:
    """Read each text once, as a script of ten lines does."""
    import torch
    from transformers import AutoTokenizer

    model, tokenizer = load(path), AutoTokenizer.from_pretrained(path)
    with torch.inference_mode():
        for text in texts.read_text("utf-8").splitlines():
            model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=MAX_TOKENS))


def load(path: Path) -> Any:
    """Load a model as a notebook does."""
    import torch
    from transformers import AutoModel

    return AutoModel.from_pretrained(path, dtype=torch.float32).eval()


def spread(times: Sequence[float]) -> str:
    """Return the least of some times and how far the largest lies above it."""
    return f"{min(times):.1f} (+{max(times) / min(times) - 1:.0%})"


def machine() -> str:
    """Name the machine."""
    import torch

    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = (re.findall(r"model name\s*: (.*)", info) or [platform.processor() or platform.machine()])[0]
    return f"{name}, {torch.get_num_threads()} cores, torch {torch.__version__}, Python {platform.python_version()}"


def lines(given: Path | None, limit: int, least: int, words: tuple[int, int]) -> list[str]:
    """Return texts: those of a file with at least so many words, or generated ones."""
    if given is not None:
        result = [line.strip() for line in given.read_text("utf-8").splitlines() if len(line.split()) >= least]
        return result[:limit]
    rng = np.random.default_rng(limit)
    chosen = rng.zipf(1.3, size=(limit, words[1])) % len(WORDS)
    return [" ".join(WORDS[i] for i in row[: rng.integers(*words)]) for row in chosen]


def random_bert(folder: Path, layers: int, width: int, scale: float = 0.02) -> Path:
    """Save a BERT with random weights and a word-level tokenizer."""
    from oracles.families import build_family
    from oracles.tiny_hub import add_words

    shape = {"hidden_size": width, "intermediate_size": 4 * width, "max_position_embeddings": 512}
    shape |= {"num_hidden_layers": layers, "num_attention_heads": width // 32, "vocab_size": len(WORDS) + 32}
    add_words(build_family("bert", folder, **shape, initializer_range=scale), WORDS)
    return folder


if __name__ == "__main__":
    main()
