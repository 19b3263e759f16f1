"""Loads: many models and claims, many short texts, one very long text; time, memory by the system's accounting, sizes.

    python tests/faults/load.py models 200                  (models of two blocks made on the spot; 500 claims)
    python tests/faults/load.py texts 1000000               (of two or three words, through a model of two blocks)
    python tests/faults/load.py long --model PATH           (one text of a megabyte through a real model)

Each line is a run of the command line in a process of its own: its exit code, seconds, processor seconds, the most
memory that it had at once (``getrusage``), and what it left. A code other than 0 is a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb
from undisturbed import ROOT, scratch

sys.path.append(str(ROOT / "tests"))
METRICS = ["convergence", "motion", "anisotropy", "spectrum", "outliers"]
CORPORA = ["first", "second"]
TEXTS = 8  # an interval over texts needs some
WORDS = ["the", "cat", "that", "dogs", "chase", "sleeps", "and", "a", "mouse", "was", "in", "kitchen", "when", "clock"]


def measured(name: str, study: Path, *more: str) -> int:
    """Run a study, print what it took, and return its exit code; with ``more`` options of ``reporter run``."""
    out, said = study.parent / "results", study.with_suffix(".said")
    began = time.monotonic()
    command = [sys.executable, "-m", "reporter", "run", str(study), "--out", str(out), *more]
    with said.open("w") as file:
        started = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(started.pid, 0)
    started.returncode = code = os.waitstatus_to_exitcode(status)
    if code:
        print(said.read_text("utf-8")[-3000:])
    sizes = {"cache": _bytes(out / "cache"), "database": _bytes(out / "results.duckdb")}
    sizes["pages"] = _bytes(out) - sum(sizes.values())
    print(
        f"{name:32} exit {code} {time.monotonic() - began:6.0f} s {used.ru_utime + used.ru_stime:6.0f} s processor "
        f"{used.ru_maxrss / 1024:6.0f} MiB at most; "
        + ", ".join(f"{what} {size / 1e6:.1f} MB" for what, size in sizes.items()),
        flush=True,
    )
    return code


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def make_models(folder: Path, how_many: int) -> dict[str, dict[str, str]]:
    """Save encoders and decoders in turn, each with weights of its own; return them as a study names them."""
    import torch
    import transformers
    from oracles.families import build_family, spread

    bases = {family: build_family(family, folder / family) for family in ("bert", "gpt2")}
    named = {}
    for number in range(how_many):
        family = ("bert", "gpt2")[number % 2]
        path = folder / f"{family}-{number}"
        shutil.copytree(bases[family], path)
        config = transformers.AutoConfig.from_pretrained(path)
        torch.manual_seed(number)
        model = transformers.AutoModel.from_config(config)
        spread(model)
        model.save_pretrained(path)
        named[path.name] = {"path": str(path)}
    return named


def claims(models: list[str], how_many: int) -> dict[str, object]:
    """Say so many things of the models: of numbers and shapes of each, and of all encoders against all decoders."""
    made: list[dict[str, object]] = []
    for corpus in CORPORA:
        for name, least in (("motion.norm", 0.1), ("anisotropy.mean_cosine", 0), ("spectrum.effective_rank", 2)):
            at = {"metric": name, "corpus": corpus}
            made.append({"differ": at | {"a": "decoders", "b": "encoders", "is": "above"}})
            made.append({"shape": at | {"models": "decoders", "is": "increasing"}})
            made.append({"value": at | {"model": "all", "layer": 1}, "above": least})
            made += [{"value": at | {"model": model, "layer": 1}, "above": least} for model in models]
            made += [{"shape": at | {"models": model, "is": "increasing"}} for model in models]
    random.Random(0).shuffle(made)
    return {f"c{n}": {"says": f"Number {n}."} | claim for n, claim in enumerate(made[:how_many])}


def sentences(how_many: int, words: tuple[int, int]) -> list[str]:
    """Return so many texts."""
    dice = random.Random(0)
    return [" ".join(dice.choices(WORDS, k=dice.randint(*words))) for _ in range(how_many)]


def many_models(home: Path, how_many: int, asserted: int) -> int:
    """Run a study of many models, five metrics and two corpora, and many claims; then again; return what went wrong."""
    models = make_models(home / "models", how_many)
    texts = sentences(2 * TEXTS, (4, 9))
    study = {
        "study": "load",
        "models": models,
        "corpora": {name: {"texts": texts[n * TEXTS : (n + 1) * TEXTS]} for n, name in enumerate(CORPORA)},
        "metrics": METRICS,
        "run": {"precision": "float32"},
    }
    path = home / "load.yaml"
    path.write_text(json.dumps(study))  # which is YAML
    bad = measured(f"{how_many} models, no claims", path)
    path.write_text(json.dumps(study | {"claims": claims(list(models), asserted)}))
    bad += measured(f"and {asserted} claims", path) != 0
    bad += measured("the same again", path) != 0
    with duckdb.connect(str(home / "results" / "results.duckdb"), read_only=True) as base:
        [(cells, failed)] = base.execute("SELECT count(*), count(*) FILTER (status <> 'done') FROM cells").fetchall()
        [(numbers,)] = base.execute("SELECT count(*) FROM layer_metrics").fetchall()
        verdicts = base.execute(
            "SELECT verdict, count(*), count(p) FROM claims WHERE reading = 1 GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    print(f"{cells} cells, {failed} not done; {numbers} numbers; verdicts, of how many claims, with a p: {verdicts}")
    largest = sorted((home / "results").rglob("*.html"), key=lambda page: -page.stat().st_size)[:3]
    print("largest pages: " + ", ".join(f"{page.name} {page.stat().st_size / 1e6:.2f} MB" for page in largest))
    wrong = cells < how_many * len(METRICS) * len(CORPORA) or failed or any(v == "failed" for v, *_ in verdicts)
    return bad + bool(wrong)


def many_texts(home: Path, how_many: int) -> int:
    """Run the first thousand, a tenth and all of many short texts through a model of two blocks; return what failed."""
    model = {"architecture": "gpt2", "layers": 2, "width": 16, "heads": 2, "train_on": "few", "steps": 2, "context": 16}
    (home / "short.txt").write_text("\n".join(f"{text} {n}" for n, text in enumerate(sentences(how_many, (2, 2)))))
    bad = 0
    for limit in (1000, how_many // 10, how_many):
        study = {
            "study": f"texts-{limit}",
            "models": {"pocket": {"recipe": model}},
            "corpora": {"few": {"generate": "grammar", "texts": 60}, "short": {"file": "short.txt", "limit": limit}},
            "metrics": ["convergence"],
        }
        path = home / f"texts-{limit}.yaml"
        path.write_text(json.dumps(study))
        bad += measured(f"{limit} of {how_many} texts", path) != 0
    return bad


def long_text(home: Path, model: Path) -> int:
    """Run one text of a megabyte through a model, cut and in windows, beside a short one; return what failed."""
    (home / "short.txt").write_text(" ".join(sentences(20, (9, 9))))
    (home / "long.txt").write_text(" ".join(sentences(12_000, (20, 20)))[: 2**20])
    bad = 0
    for name, corpus in {
        "a text of a kilobyte": {"file": "short.txt"},
        "a megabyte, cut at 256 tokens": {"file": "long.txt", "max_tokens": 256},
        "a megabyte, in windows of 512": {"file": "long.txt", "window": 512, "stride": 256},
    }.items():
        study = {
            "study": f"long-{bad}-{len(name)}",
            "models": {"real": {"path": str(model.resolve())}},
            "corpora": {"one": corpus | {"unit": "document"}},
            "metrics": ["convergence", "motion", "spectrum"],
        }
        path = home / f"{study['study']}.yaml"
        path.write_text(json.dumps(study))
        bad += measured(name, path) != 0
    return bad


def main() -> int:
    """Do one of the loads; return how many runs did not do what they should."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("load", choices=("models", "texts", "long"))
    parser.add_argument("how_many", type=int, nargs="?", help="models or texts; 200 and 1,000,000 if left out")
    parser.add_argument("--claims", type=int, default=500)
    parser.add_argument("--model", type=Path, help="of 'long': a folder in the transformers format")
    asked = parser.parse_args()
    if asked.load == "long" and asked.model is None:
        parser.error("'long' needs --model PATH")
    with scratch() as home:
        if asked.load == "models":
            return many_models(home, asked.how_many or 200, asked.claims)
        if asked.load == "texts":
            return many_texts(home, asked.how_many or 1_000_000)
        return long_text(home, asked.model)


if __name__ == "__main__":
    sys.exit(main() and 1)
