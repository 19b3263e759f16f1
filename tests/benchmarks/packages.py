"""The same profile by the packages that people use and by one study: numbers, CPU time, memory, as a Markdown table.

    python tests/benchmarks/packages.py --model PATH --text FILE         # FILE has one text a line

The packages read `output_hidden_states=True`, in batches of 32 texts, as a notebook does. Each of the two is a process
of its own, and its CPU time counts all of it: imports, loading, the forward pass, and here also the report. A package
that is not installed has no number. `pip install torch-cka` adds the one that the tests do not need.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from processes import print_table, run_python, write

MAX_TOKENS, BATCH = 128, 32
STUDY = """
study: profile
models: {{model: {{path: {model}}}}}
corpora: {{texts: {{file: texts.txt, unit: line, max_tokens: {most}}}}}
metrics: [anisotropy, spectrum, convergence, layer_pairs: {{texts: {count}}}, intrinsic_dimension: {{sample: {tokens}}}]
views: [text tokens]
run: {{precision: float32}}
"""


def main() -> None:
    """Print the table; with ``--packages``, be the process of the packages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=150)
    parser.add_argument("--packages", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.packages:
        by_packages(given.model, given.text, given.packages)
    else:
        with tempfile.TemporaryDirectory() as folder:
            compare(given.model.resolve(), given.text, given.limit, Path(folder))


def compare(model: Path, file: Path, limit: int, here: Path) -> None:
    """Compute the profile in two ways, and print how they differ."""
    texts = dict.fromkeys(line.strip() for line in file.read_text("utf-8").splitlines() if len(line.split()) >= 8)
    lines = write(here / "texts.txt", list(texts)[:limit])
    shared = ["--model", model, "--text", lines, "--packages", here / "theirs.json"]
    theirs = run_python([sys.argv[0], *shared], here / "log")
    result = json.loads((here / "theirs.json").read_text("utf-8"))
    count = min(limit, len(texts))
    study = write(
        here / "study.yaml", [STUDY.format(model=model, most=MAX_TOKENS, count=count, tokens=result["tokens"])]
    )
    ours = run_python(["-m", "reporter", "run", study, "--out", here / "out"], here / "log")
    print(f"{result['tokens']:,} tokens of {count:,} texts\n")
    rows = []
    for name, (package, metric, statistic, _) in NUMBERS.items():
        values, seconds = result["numbers"].get(name, (None, 0.0))
        gap = "not installed" if values is None else f"{_gap(here / 'out', metric, statistic, values):.1e}"
        rows.append((name, package, gap, f"{seconds:.1f}"))
    print_table(("number", "package", "largest difference", "its CPU seconds"), rows)
    processes = {"the packages": theirs, "one study, with its report": ours}
    rows = [(name, f"{cost.cpu:.1f}", f"{cost.memory:,.0f} MiB") for name, cost in processes.items()]
    print_table(("whole process", "CPU seconds", "peak memory"), rows)
    print(f"ratio of CPU time: {theirs.cpu / ours.cpu:.1f}, of memory: {theirs.memory / ours.memory:.1f}")


def by_packages(path: Path, texts: Path, out: Path) -> None:
    """Compute the profile as a notebook does, and write its numbers and their CPU seconds."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    model, tokenizer = AutoModel.from_pretrained(path, dtype=torch.float32).eval(), AutoTokenizer.from_pretrained(path)
    tokenizer.padding_side, tokenizer.pad_token = "right", tokenizer.pad_token or tokenizer.eos_token
    lines, parts, means = texts.read_text("utf-8").splitlines(), [], []
    how = {"padding": True, "truncation": True, "max_length": MAX_TOKENS, "return_special_tokens_mask": True}
    with torch.inference_mode():
        for start in range(0, len(lines), BATCH):
            given = tokenizer(lines[start : start + BATCH], return_tensors="pt", **how)
            own = (given.pop("special_tokens_mask") == 0) & given["attention_mask"].bool()
            seen = torch.stack(model(**given, output_hidden_states=True).hidden_states)
            parts.append(seen[:, own])
            means.append((seen * own[None, :, :, None]).sum(dim=2) / own.sum(dim=1)[None, :, None])
    states, vectors, numbers = torch.cat(parts, dim=1), torch.cat(means, dim=1), {}
    for name, (*_, measure) in NUMBERS.items():
        began = time.process_time()
        try:
            values = [measure(states, vectors, layer) for layer in range(len(states))]
        except ImportError:
            continue
        numbers[name] = values, time.process_time() - began
    out.write_text(json.dumps({"tokens": states.shape[1], "numbers": numbers}), "utf-8")


def top_variance_share(states: Any, vectors: Any, layer: int) -> float:
    """Load `llm_microscope` by the file of its functions: the package imports its own modules by the wrong name."""
    package = importlib.util.find_spec("llm_microscope")
    if package is None or not package.submodule_search_locations:
        raise ImportError
    sys.path.insert(0, package.submodule_search_locations[0])
    share: float = importlib.import_module("functions").calculate_anisotropy_torch(states[layer])
    return share


def effective_rank(states: Any, vectors: Any, layer: int) -> float:
    """Return exp of the entropy of the explained variances."""
    from sklearn.decomposition import PCA

    share = PCA().fit(states[layer].double().numpy()).explained_variance_ratio_
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


def twonn(states: Any, vectors: Any, layer: int) -> float:
    """Return the intrinsic dimension."""
    from skdim.id import TwoNN

    return float(TwoNN().fit(states[layer].double().numpy()).dimension_)


def mean_cosine(states: Any, vectors: Any, layer: int) -> float:
    """Return the mean cosine of two different states."""
    from sklearn.metrics.pairwise import cosine_similarity

    n = states.shape[1]
    return float((cosine_similarity(states[layer].numpy()).sum(dtype=np.float64) - n) / (n * (n - 1)))


def cka(states: Any, vectors: Any, layer: int) -> float | None:
    """Return the debiased CKA of the texts' mean states at a layer and at the next."""
    from torch_cka import CKA

    if layer + 1 == len(vectors):
        return None
    a, b = (x @ x.T for x in vectors[layer : layer + 2])
    for gram in (a, b):
        gram.fill_diagonal_(0.0)
    device = SimpleNamespace(device="cpu")
    both, one, other = (CKA._HSIC(device, *sides) for sides in ((a, b), (a, a), (b, b)))
    ratio: float = both / (one * other) ** 0.5
    return ratio


def convergence(states: Any, vectors: Any, layer: int) -> float:
    """Return the mean cosine with the last layer."""
    x, last = states[layer].double().numpy(), states[-1].double().numpy()
    return float(((x * last).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(last, axis=1)).mean())


NUMBERS: dict[str, tuple[str, str, str, Callable[[Any, Any, int], float | None]]] = {
    "variance of the first axis": ("llm-microscope 0.0.7", "anisotropy", "top_variance_share", top_variance_share),
    "effective rank": ("scikit-learn, PCA", "spectrum", "effective_rank", effective_rank),
    "TwoNN": ("scikit-dimension", "intrinsic_dimension", "twonn", twonn),
    "mean cosine": ("scikit-learn, cosine_similarity", "anisotropy", "mean_cosine", mean_cosine),
    "CKA of neighbouring layers": ("torch-cka", "layer_pairs", "cka", cka),
    "convergence": ("NumPy", "convergence", "similarity", convergence),
}


def _gap(out: Path, metric: str, statistic: str, values: list[float | None]) -> float:
    """Return the largest relative difference over the blocks; of the embedding many states are duplicates."""
    import reporter.metrics  # noqa: F401 (declares the tables of numbers)
    from reporter.store import Store

    rows = "SELECT layer, value FROM layer_metrics WHERE site = 'block'"
    if metric == "layer_pairs":
        rows = "SELECT layer_a AS layer, value FROM layer_pairs WHERE layer_b = layer_a + 1"
    query = f"{rows} AND metric = $metric AND statistic = $statistic"
    result = Store(out / "results.duckdb").records(query, {"metric": metric, "statistic": statistic})
    known = [(row["value"], theirs) for row in result if (theirs := values[row["layer"]]) is not None]
    return max(abs(ours - theirs) / abs(theirs) for ours, theirs in known)


if __name__ == "__main__":
    main()
