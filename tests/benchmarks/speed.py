"""What a whole study costs over the bare forward pass, and whether memory grows with the corpus.

    python tests/benchmarks/speed.py                     # a BERT of 6 × 384 with random weights
    python tests/benchmarks/speed.py --model PATH        # a model of your own, in the transformers format
    python tests/benchmarks/speed.py --text FILE         # texts of your own, a paragraph each

Everything is measured side by side in one run, since only ratios mean something on a shared machine. Each figure is the
least of several rounds, and the rounds of all contestants are interleaved.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

STUDY = """
study: bench
models: {{model: {{path: {model}}}}}
corpora: {{texts: {{file: {texts}, unit: line, max_tokens: 256}}}}
metrics: all
run: {{precision: {precision}, batch_tokens: 8192}}
"""


def main() -> None:
    """Print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--words", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--peak", nargs=2, metavar=("STUDY", "OUT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peak:
        print(json.dumps(_run_and_tell_peak(*map(Path, given.peak))))
        return
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        model = given.model.resolve() if given.model else _random_bert(here / "bert", 6, 384)
        texts = _texts(here / "texts.txt", given.text, given.words)
        _speed(model, texts, here, given.rounds)
        if not given.skip_memory:
            _memory(_random_bert(here / "small", 4, 64), 100_000, here)


def _speed(model: Path, texts: Path, here: Path, rounds: int) -> None:
    batches, sentences, tokens = _prepared(model, texts)
    contestants: dict[str, Callable[[int], float]] = {
        "bare batched forward, float32": lambda _: _bare(model, batches),
        "text by text, output_hidden_states=True": lambda _: _one_by_one(model, sentences),
        "reporter run, float32": lambda n: _study(model, texts, here / f"float32{n}", "float32"),
        "reporter run, mixed": lambda n: _study(model, texts, here / f"mixed{n}", "mixed"),
        "reporter run, auto": lambda n: _study(model, texts, here / f"auto{n}", "auto"),
    }
    best = {name: min(times) for name, times in _interleaved(contestants, rounds).items()}
    bare = best["bare batched forward, float32"]
    print(f"\n{tokens:,} tokens, {len(sentences):,} texts, every metric; least of {rounds} rounds\n")
    print(f"{'':42}{'seconds':>10}{'tokens/s':>12}{'over bare':>12}")
    for name, seconds in best.items():
        print(f"{name:42}{seconds:10.2f}{tokens / seconds:12,.0f}{seconds / bare:12.2f}")
        if name.startswith("reporter"):
            alone = min(_pass_seconds(out) for out in here.glob(f"{name.split()[-1]}[0-9]"))
            print(f"{'    of which pass and observables':42}{alone:10.2f}{tokens / alone:12,.0f}{alone / bare:12.2f}")


def _interleaved(contestants: dict[str, Callable[[int], float]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, run in contestants.items():
            times[name].append(run(number))
    return times


def _prepared(model: Path, texts: Path) -> tuple[list[tuple[object, object]], list[str], int]:
    """Return batches of 8192 tokens of texts sorted by length, as tensors, and the texts."""
    import torch
    from transformers import AutoTokenizer

    from reporter.texts.tokens import Shard, tokenise

    tokenizer = AutoTokenizer.from_pretrained(model)
    sentences = [line for line in texts.read_text("utf-8").splitlines() if line.strip()]

    class Lines:
        def slice(self, start: int, stop: int) -> list[str]:
            return sentences[start:stop]

    found = tokenise(Lines(), Shard(0, 0, len(sentences)), tokenizer, 256)  # type: ignore[arg-type]
    found.sort(key=len, reverse=True)
    tensors = []
    while found_left := found[sum(len(ids) for ids, _ in tensors) :]:
        rows = [torch.as_tensor(text.ids) for text in found_left[: max(1, 8192 // len(found_left[0]))]]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows])
        tensors.append((ids, (torch.arange(ids.shape[1]) < lengths[:, None]).long()))
    return tensors, sentences, sum(map(len, found))  # type: ignore[return-value]


def _bare(path: Path, batches: list[tuple[object, object]]) -> float:
    import torch

    model = _model(path)
    began = time.perf_counter()
    with torch.inference_mode():
        for ids, mask in batches:
            model(input_ids=ids, attention_mask=mask)
    return time.perf_counter() - began


def _one_by_one(path: Path, sentences: list[str]) -> float:
    """Time what a notebook does; at most 400 texts are run and the rest is scaled up."""
    import torch
    from transformers import AutoTokenizer

    model, tokenizer = _model(path), AutoTokenizer.from_pretrained(path)
    some = sentences[:: max(1, len(sentences) // 400)]
    began = time.perf_counter()
    with torch.inference_mode():
        for text in some:
            given = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
            model(**given, output_hidden_states=True)
    return (time.perf_counter() - began) * len(sentences) / len(some)


def _model(path: Path):  # type: ignore[no-untyped-def]
    import torch
    from transformers import AutoModel

    return AutoModel.from_pretrained(path, dtype=torch.float32).eval()


def _study(model: Path, texts: Path, out: Path, precision: str) -> float:
    """Time the whole command: start of Python, imports, texts, pass, metrics, database and report."""
    study = out.with_suffix(".yaml")
    study.write_text(STUDY.format(model=model, texts=texts, precision=precision), "utf-8")
    began = time.perf_counter()
    _reporter(["run", str(study), "--out", str(out)])
    return time.perf_counter() - began


def _pass_seconds(out: Path) -> float:
    """Return what the pass took without start-up, metrics, database and report."""
    from reporter.store import Store

    return float(Store(out / "results.duckdb").frame("SELECT sum(forward_seconds) AS s FROM cells")["s"][0])


def _reporter(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "reporter", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"reporter {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def _memory(model: Path, words: int, here: Path) -> None:
    """Compare a corpus that fills shards and samples with one ten times as large, on a model that is quick."""
    print("\npeak memory of a whole study, BERT of 4 × 64\n")
    print(f"{'words':>12}{'MiB':>10}{'over the first':>16}")
    first = 0.0
    for times in (1, 10):
        texts = _texts(here / f"texts{times}.txt", None, words * times)
        study, out = here / f"memory{times}.yaml", here / f"memory{times}"
        study.write_text(STUDY.format(model=model, texts=texts, precision="float32"), "utf-8")
        command = [sys.executable, __file__, "--peak", str(study), str(out)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        peak = json.loads(done.stdout.splitlines()[-1])
        first = first or peak
        print(f"{words * times:12,}{peak:10.0f}{peak / first:16.3f}")


def _run_and_tell_peak(study: Path, out: Path) -> float:
    """Run a study in this process; return its peak memory in MiB."""
    from reporter.runs.runner import run_studies
    from reporter.runs.studies import offer
    from reporter.spec import load_study

    run_studies([load_study(study, offer())], out)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _texts(path: Path, given: Path | None, words: int) -> Path:
    """Write texts of ``words`` words together, one a line: generated, or paragraphs of a file, over and over."""
    lines: list[str] = []
    found, number = 0, 0
    while found < words:
        for line in _source(given, number):
            lines.append(line)
            found += len(line.split())
            if found >= words:
                break
        number += 1
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def _source(given: Path | None, number: int) -> list[str]:
    if given is not None:
        return [line.strip() for line in given.read_text("utf-8").splitlines() if len(line.split()) >= 8]
    import numpy as np

    rng = np.random.default_rng(number)
    names = [f"w{i}" for i in range(2000)]
    chosen = rng.zipf(1.3, size=(200, 120)) % len(names)
    return [" ".join(names[i] for i in row[: rng.integers(20, 120)]) for row in chosen]


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
        "num_attention_heads": width // 16,
        "intermediate_size": 4 * width,
    }
    BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained(folder)
    return folder


if __name__ == "__main__":
    main()
