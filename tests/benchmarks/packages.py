"""The same profile by the packages that people use and by one study: numbers, CPU time, memory, as a Markdown table.

    python tests/benchmarks/packages.py --model PATH --text FILE         # FILE has one text a line

The packages read `output_hidden_states=True`, in batches of 32 texts, as a notebook does. Each of the two is a process
of its own, and its CPU time counts all of it: imports, loading, the forward pass, and here also the report. A package
that is not installed has no number. `pip install torch-cka` adds the one that the tests do not need.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

MAX_TOKENS, BATCH = 128, 32
OURS = {
    "variance of the first axis": ("llm-microscope 0.0.7", "anisotropy", "top_variance_share"),
    "effective rank": ("scikit-learn, PCA", "spectrum", "effective_rank"),
    "TwoNN": ("scikit-dimension", "intrinsic_dimension", "twonn"),
    "mean cosine": ("scikit-learn, cosine_similarity", "anisotropy", "mean_cosine"),
    "CKA of neighbouring layers": ("torch-cka", "layer_pairs", "cka"),
    "convergence": ("NumPy", "convergence", "similarity"),
}
STUDY = """
study: profile
models: {{model: {{path: {model}}}}}
corpora: {{texts: {{file: {texts}, unit: line, max_tokens: {most}}}}}
metrics: [anisotropy, spectrum, convergence, layer_pairs: {{texts: {count}}}, intrinsic_dimension: {{sample: {tokens}}}]
views: [words]
run: {{precision: float32}}
"""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=150)
    parser.add_argument("--packages", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.packages:
        by_packages(given.model, given.text, given.packages)
    else:
        compare(given.model, given.text, given.limit)


def compare(path: Path, file: Path, limit: int) -> None:
    """Compute the profile in two ways, and print how they differ."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        texts = list(dict.fromkeys(line.strip() for line in file.read_text("utf-8").splitlines()))
        texts = [text for text in texts if len(text.split()) >= 8][:limit]
        (here / "texts.txt").write_text("\n".join(texts) + "\n", "utf-8")
        shared = ["--model", str(path.resolve()), "--text", str(here / "texts.txt")]
        theirs = _run([sys.argv[0], *shared, "--packages", str(here / "theirs.json")])
        found = json.loads((here / "theirs.json").read_text("utf-8"))
        study = STUDY.format(
            model=path.resolve(), texts="texts.txt", most=MAX_TOKENS, count=len(texts), tokens=found["tokens"]
        )
        (here / "study.yaml").write_text(study, "utf-8")
        ours = _run(["-m", "reporter", "run", str(here / "study.yaml"), "--out", str(here / "out")])
        print(f"{found['tokens']:,} tokens of {len(texts):,} texts\n")
        print("| number | package | largest difference | its CPU seconds |\n|---|---|---|---|")
        for name, (package, metric, statistic) in OURS.items():
            values, seconds = found["numbers"].get(name, (None, 0.0))
            gap = "not installed" if values is None else f"{_gap(here / 'out', metric, statistic, values):.1e}"
            print(f"| {name} | {package} | {gap} | {seconds:.1f} |")
        print("\n| whole process | CPU seconds | peak memory |\n|---|---|---|")
        for what, (seconds, memory) in {"the packages": theirs, "one study, with its report": ours}.items():
            print(f"| {what} | {seconds:.1f} | {memory:,.0f} MiB |")
        print(f"\nratio of CPU time: {theirs[0] / ours[0]:.1f}, of memory: {theirs[1] / ours[1]:.1f}")


def by_packages(path: Path, texts: Path, out: Path) -> None:
    """Compute the profile as a notebook does, and write its numbers and their CPU seconds."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(path, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(path)
    tokenizer.padding_side, tokenizer.pad_token = "right", tokenizer.pad_token or tokenizer.eos_token
    lines, parts, means = texts.read_text("utf-8").splitlines(), [], []
    with torch.inference_mode():
        for start in range(0, len(lines), BATCH):
            some = lines[start : start + BATCH]
            given = tokenizer(
                some, return_tensors="pt", padding=True, truncation=True, max_length=MAX_TOKENS,
                return_special_tokens_mask=True,
            )  # fmt: skip
            own = (given.pop("special_tokens_mask") == 0) & given["attention_mask"].bool()
            seen = torch.stack(model(**given, output_hidden_states=True).hidden_states)
            parts.append(seen[:, own])
            means.append((seen * own[None, :, :, None]).sum(dim=2) / own.sum(dim=1)[None, :, None])
    states, vectors = torch.cat(parts, dim=1), torch.cat(means, dim=1)
    numbers = {}
    for name, measure in _measures(states, vectors).items():
        began = time.process_time()
        numbers[name] = ([measure(layer) for layer in range(len(states))], time.process_time() - began)
    out.write_text(json.dumps({"tokens": states.shape[1], "numbers": numbers}), "utf-8")


def _measures(states: Any, vectors: Any) -> dict[str, Callable[[int], float | None]]:
    from sklearn.decomposition import PCA
    from sklearn.metrics.pairwise import cosine_similarity

    measures: dict[str, Callable[[int], float | None]] = {}

    def effective_rank(layer: int) -> float:
        share = PCA().fit(states[layer].double().numpy()).explained_variance_ratio_
        share = share[share > 0]
        return float(np.exp(-(share * np.log(share)).sum()))

    def mean_cosine(layer: int) -> float:
        n = states.shape[1]
        return float((cosine_similarity(states[layer].numpy()).sum(dtype=np.float64) - n) / (n * (n - 1)))

    def convergence(layer: int) -> float:
        x, last = states[layer].double().numpy(), states[-1].double().numpy()
        return float(((x * last).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(last, axis=1)).mean())

    if microscope := _file("llm_microscope", "functions.py"):
        measures["variance of the first axis"] = lambda layer: microscope.calculate_anisotropy_torch(states[layer])
    measures["effective rank"] = effective_rank
    if importlib.util.find_spec("skdim"):
        from skdim.id import TwoNN

        measures["TwoNN"] = lambda layer: float(TwoNN().fit(states[layer].double().numpy()).dimension_)
    measures["mean cosine"] = mean_cosine
    if importlib.util.find_spec("torch_cka"):
        from torch_cka import CKA

        def cka(layer: int) -> float | None:
            if layer + 1 == len(vectors):
                return None
            a, b = (x @ x.T for x in vectors[layer : layer + 2])
            for gram in (a, b):
                gram.fill_diagonal_(0.0)
            hsic = partial(CKA._HSIC, SimpleNamespace(device="cpu"))
            return hsic(a, b) / (hsic(a, a) * hsic(b, b)) ** 0.5

        measures["CKA of neighbouring layers"] = cka
    measures["convergence"] = convergence
    return measures


def _file(package: str, name: str) -> Any:
    """Return a module of a package by its file: `llm_microscope` imports its own modules by the wrong name."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    spec = importlib.util.spec_from_file_location(package, Path(found.submodule_search_locations[0]) / name)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _gap(out: Path, metric: str, statistic: str, values: list[float | None]) -> float:
    """Return the largest relative difference over the blocks; of the embedding many states are duplicates."""
    from reporter.store import Store

    sql = "SELECT layer, value FROM layer_metrics WHERE metric = $metric AND statistic = $statistic AND site = 'block'"
    if metric == "layer_pairs":
        sql = "SELECT layer_a AS layer, value FROM layer_pairs WHERE metric = $metric AND statistic = $statistic"
        sql += " AND layer_b = layer_a + 1"
    rows = Store(out / "results.duckdb").records(sql, {"metric": metric, "statistic": statistic})
    pairs = [(row["value"], values[row["layer"]]) for row in rows if values[row["layer"]] is not None]
    assert pairs
    return max(abs(ours - theirs) / abs(theirs) for ours, theirs in pairs)


def _run(command: list[str]) -> tuple[float, float]:
    """Run Python in a process of its own; return its CPU seconds, and the most memory that it held, in MiB."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
