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
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

TWO, ONE = "[words, no-sinks]", "[words]"
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
    parser.add_argument("--peak", nargs=2, metavar=("STUDY", "OUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(json.dumps(_run_and_tell_peak(*map(Path, given.peak))))
        return
    wanted = given.only.split(",")
    if unknown := [name for name in wanted if name not in PARTS]:
        parser.error(f"--only {', '.join(unknown)}: there are {', '.join(PARTS)}")
    with _folder(given.keep) as here:
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
    out = {name: bench.here / f"ratios-{name}" for name in ("auto", "float32", "one")}
    found = _interleaved(
        {
            "bare": lambda n: _bare(bench.model, batches, mixed=False),
            "bare mixed": lambda n: _bare(bench.model, batches, mixed=True),
            "auto": lambda n: _study(bench, _numbered(out["auto"], n)),
            "float32": lambda n: _study(bench, _numbered(out["float32"], n), precision="float32"),
            "one": lambda n: _study(bench, _numbered(out["one"], n), views=ONE),
            "nothing": lambda n: _study(bench, _numbered(out["auto"], n)),
        },
        bench.rounds,
    )
    bare = min(found["bare"])
    rows = [
        ("bare forward pass, float32", "bare", ""),
        ("bare forward pass, mixed", "bare mixed", ""),
        ("whole command, `auto`, two views", "auto", "≤ 1.1 to 1.2"),
        ("whole command, `float32`, two views", "float32", "≤ 1.4"),
        ("whole command, `auto`, one view", "one", ""),
        ("the same again: nothing to compute", "nothing", "≤ 1.5 s"),
    ]
    table = [
        (said, _seconds(found[name]), f"{tokens / min(found[name]):,.0f}", f"{min(found[name]) / bare:.2f}", target)
        for said, name, target in rows
    ]
    second = (min(found["auto"]) - min(found["one"])) / min(found["one"])
    table.append(("the second view", "", "", f"{second:+.1%} of the command with one", "≤ +5 %"))
    cache = _bytes_of(_numbered(out["auto"], 0) / "cache") / 2**20
    table.append(("what it leaves in the cache", "", "", f"{cache:,.0f} MiB", "≤ 60 or 250 MiB"))
    print(f"{tokens:,} tokens; every metric that a plain pass feeds\n")
    _table(("", "seconds", "tokens a second", "over bare float32", "target"), table)


def profile(bench: Bench) -> None:
    """Where the time of a whole command goes."""
    out = bench.here / "profile"
    whole = _study(bench, out)
    parts = json.loads(_asked(out, "SELECT timings FROM studies"))
    parts["start, claims, report"] = whole - sum(parts.values())
    rows = [(name, f"{seconds:.1f}", f"{seconds / whole:.0%}") for name, seconds in parts.items()]
    cells = _rows(out, "SELECT metric, seconds FROM cells ORDER BY seconds DESC")
    rows += [(f"of metrics: `{name}`", f"{seconds:.1f}", f"{seconds / whole:.0%}") for name, seconds in cells]
    _table((f"of {whole:.1f} s", "seconds", "share"), rows)


def loop(bench: Bench) -> None:
    """Against what a notebook does: text by text with all hidden states, and NumPy for one statistic; short texts."""
    found = _interleaved(
        {
            "loop": lambda n: _one_by_one(bench.model, bench.short),
            "whole command, that metric": lambda n: _study(
                bench, bench.here / f"l{n}", metrics="[convergence]", short=True
            ),
            "whole command, every metric": lambda n: _study(bench, bench.here / f"la{n}", short=True),
        },
        bench.rounds,
    )
    first = min(found["loop"])
    rows = [(name, _seconds(times), f"{first / min(times):.1f} × as fast") for name, times in found.items()]
    _table(("", "seconds", "against the loop"), rows)


def quickstart(bench: Bench) -> None:
    """The quickstart, fresh."""
    study = Path(__file__).resolve().parents[2] / "studies" / "quickstart.yaml"
    out = bench.here / "quickstart"
    seconds = _timed(["run", str(study), "--out", str(out)])
    parts = json.loads(_asked(out, "SELECT timings FROM studies"))
    rows = [("fresh (≤ 60 s)", f"{seconds:.1f}"), *((name, f"{part:.1f}") for name, part in parts.items())]
    _table(("", "seconds"), rows)


def memory(bench: Bench) -> None:
    """Peak memory on a corpus that fills shards and samples, and on one ten times as large; a BERT of 4 × 64."""
    model, rows, first = _random_bert(bench.here / "small", 4, 64), [], 0.0
    for times in (1, 10):
        texts = _written(bench.here / f"memory{times}.txt", _lines(None, 2000 * times, 8, (20, 80)))
        study, out = bench.here / f"memory{times}.yaml", bench.here / f"memory{times}"
        study.write_text(_spec(model, texts, "float32", TWO, "all"), "utf-8")
        peak = _peak(study, out)
        first = first or peak
        rows.append((f"{2000 * times:,} texts", f"{peak:,.0f}", f"{peak / first - 1:+.1%}"))
    _table(("", "MiB", "over the first (≤ +5 %)"), rows)


def exponents(bench: Bench) -> None:
    """How pass and metrics grow with tokens, layers and width, as the exponent between neighbouring sizes."""
    rows = []
    for what, sizes in (("texts", (200, 400, 800)), ("layers", (3, 6, 12)), ("width", (128, 256, 512))):
        found: list[dict[str, float]] = []
        for size in sizes:
            shape = {"layers": 3, "width": 128} | ({what: size} if what != "texts" else {})
            model = _random_bert(bench.here / f"{what}{size}", **shape)
            texts = _written(
                bench.here / f"{what}{size}.txt", _lines(None, size if what == "texts" else 400, 8, (20, 120))
            )
            out = bench.here / f"grow-{what}{size}"
            seconds = []
            for number in range(bench.rounds):
                _study(Bench(model, texts, texts, bench.here, 1), _numbered(out, number), precision="float32")
                parts = json.loads(_asked(_numbered(out, number), "SELECT timings FROM studies"))
                seconds.append({name: parts.get(name, 0.0) for name in ("forward", "observables", "metrics")})
            found.append({name: min(one[name] for one in seconds) for name in seconds[0]})
        for name in found[0]:
            times = [one[name] for one in found]
            slopes = [math.log2(b / a) for a, b in pairwise(times)]
            said = " / ".join(f"{seconds:.1f}" for seconds in times)
            rows.append(
                (f"{what} {sizes[0]}, {sizes[1]}, {sizes[2]}", name, said, " / ".join(f"{x:.2f}" for x in slopes))
            )
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


def _study(
    bench: Bench,
    out: Path,
    *,
    precision: str = "auto",
    views: str = TWO,
    metrics: str = "all",
    short: bool = False,
) -> float:
    """Time the whole command: start of Python, imports, texts, pass, metrics, database and report."""
    return _timed(["run", str(_write_study(bench, out, precision, views, metrics, short)), "--out", str(out)])


def _write_study(bench: Bench, out: Path, precision: str, views: str, metrics: str, short: bool) -> Path:
    study = out.with_suffix(".yaml")
    study.write_text(_spec(bench.model, bench.short if short else bench.texts, precision, views, metrics), "utf-8")
    return study


def _spec(model: Path, texts: Path, precision: str, views: str, metrics: str) -> str:
    return f"""
study: bench
models: {{model: {{path: {model}}}}}
corpora: {{texts: {{file: {texts}, unit: line, max_tokens: {MAX_TOKENS}}}}}
metrics: {metrics}
views: {views}
run: {{precision: {precision}}}
"""


def _timed(arguments: list[str]) -> float:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "reporter", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"reporter {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - began


def _peak(study: Path, out: Path) -> float:
    """Run a study in a process of its own; return the most memory that it held, in MiB."""
    command = [sys.executable, __file__, "--peak", str(study), str(out)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _run_and_tell_peak(study: Path, out: Path) -> float:
    from reporter.runs.runner import run_studies
    from reporter.runs.studies import offer
    from reporter.spec import load_study

    run_studies([load_study(study, offer())], out)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _rows(out: Path, query: str) -> list[Any]:
    from reporter.store import Store

    return [tuple(row) for row in Store(out / "results.duckdb").frame(query).itertuples(index=False)]


def _asked(out: Path, query: str) -> Any:
    return _rows(out, query)[0][0]


def _bytes_of(folder: Path) -> int:
    """Return what a folder takes on disk, as the operating system counts it."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def _seconds(times: Sequence[float]) -> str:
    return f"{min(times):.1f} (+{max(times) / min(times) - 1:.0%})"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(map(str, row))} |")


def _machine() -> str:
    """Name the machine."""
    import torch

    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        name = named[0] if named else name
    return f"{name}, {torch.get_num_threads()} cores, torch {torch.__version__}, Python {platform.python_version()}"


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{number}")


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
    shape = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 32,
        "intermediate_size": 4 * width,
    }
    BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    main()
