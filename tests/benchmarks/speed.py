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
import math
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from reporter.store import Store

TWO = "[words, no-sinks]"
MAX_TOKENS = 256


@dataclass(frozen=True)
class Bench:
    """What is measured.

    Args:
        model: a folder in the transformers format.
        texts: a file, one text a line.
        short: the same, of short texts.
        here: where everything is written.
        rounds: how often.
    """

    model: Path
    texts: Path
    short: Path
    here: Path
    rounds: int


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
    given = parser.parse_args()
    wanted = given.only.split(",")
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        here = Path(given.keep or folder).resolve()
        here.mkdir(parents=True, exist_ok=True)
        bench = Bench(
            model=given.model.resolve() if given.model else _random_bert(here / "bert", 6, 384),
            texts=_written(here / "texts.txt", _lines(given.text, given.limit, 8, (20, 120))),
            short=_written(here / "short.txt", _lines(given.short, 600, 1, (5, 25))),
            here=here,
            rounds=given.rounds,
        )
        print(f"{_machine()}; least of {given.rounds} rounds, in brackets how far the largest lies above it")
        for name in wanted:
            print(f"\n### {name}\n", flush=True)
            PARTS[name](bench)


def ratios(bench: Bench) -> None:
    """A whole command against the bare forward pass over the same tokens; a second view; the cache; nothing to do."""
    batches, tokens = _prepared(bench)
    auto, single, two, one = "auto", "float32", "whole command, `auto`, two views", "whole command, `auto`, one view"
    contestants = {
        "bare forward pass, float32": (lambda n: _bare(bench.model, batches, mixed=False), ""),
        "bare forward pass, mixed": (lambda n: _bare(bench.model, batches, mixed=True), ""),
        two: (lambda n: _study(bench, f"{auto}{n}"), "≤ 1.1 to 1.2"),
        "whole command, `float32`, two views": (lambda n: _study(bench, f"{single}{n}", precision=single), "≤ 1.4"),
        one: (lambda n: _study(bench, f"one{n}", views="[words]"), ""),
        "the same again: nothing to compute": (lambda n: _study(bench, f"{auto}{n}"), "≤ 1.5 s"),
    }
    found = _interleaved({name: run for name, (run, _) in contestants.items()}, bench.rounds)
    least = {name: min(times) for name, times in found.items()}
    bare = least["bare forward pass, float32"]
    table = [
        (name, _seconds(found[name]), f"{tokens / least[name]:,.0f}", f"{least[name] / bare:.2f}", target)
        for name, (_, target) in contestants.items()
    ]
    table.append(("the second view", "", "", f"{least[two] / least[one] - 1:+.1%} of the command with one", "≤ +5 %"))
    files = (path.stat().st_blocks * 512 for path in (bench.here / f"{auto}0" / "cache").rglob("*") if path.is_file())
    table.append(("what it leaves in the cache", "", "", f"{sum(files) / 2**20:,.0f} MiB", "≤ 60 or 250 MiB"))
    print(f"{tokens:,} tokens; every metric that a plain pass feeds\n")
    _table(("", "seconds", "tokens a second", "over bare float32", "target"), table)


def profile(bench: Bench) -> None:
    """Where the time of a whole command goes."""
    whole = _study(bench, "profile")
    parts = _timings(bench.here / "profile")
    parts["start, claims, report"] = whole - sum(parts.values())
    cells = Store(bench.here / "profile" / "results.duckdb").frame("SELECT metric, seconds FROM cells ORDER BY 2 DESC")
    parts |= {f"of metrics: `{metric}`": seconds for metric, seconds in cells.itertuples(index=False)}
    rows = [(name, f"{seconds:.1f}", f"{seconds / whole:.0%}") for name, seconds in parts.items()]
    _table((f"of {whole:.1f} s", "seconds", "share"), rows)


def loop(bench: Bench) -> None:
    """Against what a notebook does: text by text with all hidden states, and NumPy for one statistic; short texts."""
    short = replace(bench, texts=bench.short)
    contestants = {
        "loop": lambda n: _one_by_one(bench.model, bench.short),
        "whole command, that metric": lambda n: _study(short, f"l{n}", metrics="[convergence]"),
        "whole command, every metric": lambda n: _study(short, f"la{n}"),
    }
    found = _interleaved(contestants, bench.rounds)
    first = min(found["loop"])
    rows = [(name, _seconds(times), f"{first / min(times):.1f} × as fast") for name, times in found.items()]
    _table(("", "seconds", "against the loop"), rows)


def quickstart(bench: Bench) -> None:
    """The quickstart, fresh."""
    out = bench.here / "quickstart"
    seconds, _ = _run(Path(__file__).resolve().parents[2] / "studies" / "quickstart.yaml", out)
    rows = [("fresh (≤ 60 s)", f"{seconds:.1f}"), *((name, f"{part:.1f}") for name, part in _timings(out).items())]
    _table(("", "seconds"), rows)


def memory(bench: Bench) -> None:
    """Peak memory on a corpus that fills shards and samples, and on one ten times as large; a BERT of 4 × 64."""
    model, peaks = _random_bert(bench.here / "small", 4, 64), {}
    for count in (2_000, 20_000):
        texts = _written(bench.here / f"memory{count}.txt", _lines(None, count, 8, (20, 80)))
        study = _written(bench.here / f"memory{count}.yaml", [_spec(model, texts, precision="float32")])
        _, peaks[count] = _run(study, bench.here / f"memory{count}")
    rows = [(f"{count:,} texts", f"{peak:,.0f}", f"{peak / peaks[2_000] - 1:+.1%}") for count, peak in peaks.items()]
    _table(("", "MiB", "over the first (≤ +5 %)"), rows)


def exponents(bench: Bench) -> None:
    """How pass and metrics grow with tokens, layers and width, as the exponent between neighbouring sizes."""
    rows = []
    for what, sizes in (("texts", (200, 400, 800)), ("layers", (3, 6, 12)), ("width", (128, 256, 512))):
        found = []
        for size in sizes:
            shape = {"texts": 400, "layers": 3, "width": 128} | {what: size}
            model = _random_bert(bench.here / f"{what}{size}", shape["layers"], shape["width"])
            texts = _written(bench.here / f"{what}{size}.txt", _lines(None, shape["texts"], 8, (20, 120)))
            seconds = []
            for number in range(bench.rounds):
                name = f"grow-{what}{size}-{number}"
                _study(replace(bench, model=model, texts=texts), name, precision="float32")
                seconds.append(_timings(bench.here / name))
            parts = ("forward", "observables", "metrics")
            found.append({part: min(one.get(part, 0.0) for one in seconds) for part in parts})
        for name in found[0]:
            times = [one[name] for one in found]
            slopes = (f"{math.log2(b / a):.2f}" for a, b in pairwise(times))
            each = " / ".join(f"{seconds:.1f}" for seconds in times)
            rows.append((f"{what} {', '.join(map(str, sizes))}", name, each, " / ".join(slopes)))
    _table(("", "part", "seconds", "exponent"), rows)


PARTS: dict[str, Callable[[Bench], None]] = {
    part.__name__: part for part in (ratios, profile, loop, quickstart, memory, exponents)
}


def _interleaved(contestants: dict[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, run in contestants.items():
            times[name].append(run(number))
    return times


def _prepared(bench: Bench) -> tuple[list[tuple[Any, Any]], int]:
    """Return batches of 8192 tokens of texts sorted by length, as tensors, and how many tokens they hold."""
    import torch
    from transformers import AutoTokenizer

    from reporter.texts.tokens import Shard, tokenise

    tokenizer = AutoTokenizer.from_pretrained(bench.model)
    sentences = [line for line in bench.texts.read_text("utf-8").splitlines() if line.strip()]

    class Lines:
        def slice(self, start: int, stop: int) -> list[str]:
            return sentences[start:stop]

    found = tokenise(Lines(), Shard(0, 0, len(sentences)), tokenizer, MAX_TOKENS)  # type: ignore[arg-type]
    found.sort(key=len, reverse=True)
    tensors: list[tuple[Any, Any]] = []
    while found_left := found[sum(len(ids) for ids, _ in tensors) :]:
        rows = [torch.as_tensor(text.ids) for text in found_left[: max(1, 8192 // len(found_left[0]))]]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        tensors.append((ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()))
    return tensors, sum(map(len, found))


def _bare(path: Path, batches: Sequence[tuple[Any, Any]], *, mixed: bool) -> float:
    import torch

    model = _model(path)
    began = time.perf_counter()
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
        for ids, mask in batches:
            model(input_ids=ids, attention_mask=mask)
    return time.perf_counter() - began


def _one_by_one(path: Path, texts: Path) -> float:
    """Time a notebook's loop: the mean cosine of each layer's states with the last layer's, in NumPy."""
    import torch
    from transformers import AutoTokenizer

    model, tokenizer = _model(path), AutoTokenizer.from_pretrained(path)
    began, sums, tokens = time.perf_counter(), 0.0, 0
    with torch.inference_mode():
        for text in texts.read_text("utf-8").splitlines():
            given = tokenizer(text, return_tensors="pt", truncation=True, max_length=MAX_TOKENS)
            seen = model(**given, output_hidden_states=True).hidden_states
            states = np.stack([layer[0].numpy() for layer in seen]).astype(np.float64)
            units = states / np.linalg.norm(states, axis=-1, keepdims=True)
            sums, tokens = sums + (units * units[-1]).sum(axis=(1, 2)), tokens + states.shape[1]
    assert np.isfinite(sums / tokens).all()
    return time.perf_counter() - began


def _model(path: Path) -> Any:
    import torch
    from transformers import AutoModel

    return AutoModel.from_pretrained(path, dtype=torch.float32).eval()


def _study(bench: Bench, name: str, **said: str) -> float:
    """Time the whole command: start of Python, imports, texts, pass, metrics, database and report."""
    study = _written(bench.here / f"{name}.yaml", [_spec(bench.model, bench.texts, **said)])
    return _run(study, bench.here / name)[0]


def _spec(model: Path, texts: Path, precision: str = "auto", views: str = TWO, metrics: str = "all") -> str:
    return f"""
study: bench
models: {{model: {{path: {model}}}}}
corpora: {{texts: {{file: {texts}, unit: line, max_tokens: {MAX_TOKENS}}}}}
metrics: {metrics}
views: {views}
run: {{precision: {precision}}}
"""


def _run(study: Path, out: Path) -> tuple[float, float]:
    """Run a study in a process of its own; return the seconds, and the most memory that it held, in MiB."""
    began, said = time.perf_counter(), out.with_suffix(".said")
    with said.open("w") as file:
        command = [sys.executable, "-m", "reporter", "run", str(study), "--out", str(out)]
        process = subprocess.Popen(command, stdout=file, stderr=file)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{said.read_text()}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def _timings(out: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads(Store(out / "results.duckdb").frame("SELECT timings FROM studies").iloc[0, 0])
    return found


def _seconds(times: Sequence[float]) -> str:
    return f"{min(times):.1f} (+{max(times) / min(times) - 1:.0%})"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(map(str, row))} |")


def _machine() -> str:
    """Name the machine."""
    import torch

    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = (re.findall(r"model name\s*: (.*)", info) or [platform.processor() or platform.machine()])[0]
    return f"{name}, {torch.get_num_threads()} cores, torch {torch.__version__}, Python {platform.python_version()}"


def _lines(given: Path | None, limit: int, least: int, words: tuple[int, int]) -> list[str]:
    """Return texts: those of a file with at least so many words, or generated ones."""
    if given is not None:
        found = [line.strip() for line in given.read_text("utf-8").splitlines() if len(line.split()) >= least]
        return found[:limit]
    rng = np.random.default_rng(limit)
    names = [f"w{i}" for i in range(2000)]
    chosen = rng.zipf(1.3, size=(limit, words[1])) % len(names)
    return [" ".join(names[i] for i in row[: rng.integers(*words)]) for row in chosen]


def _written(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _random_bert(folder: Path, layers: int, width: int) -> Path:
    """Save a BERT with random weights and a word-level tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(2000))]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 32}
    BertModel(BertConfig(vocab_size=len(words), intermediate_size=4 * width, **shape)).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    main()
