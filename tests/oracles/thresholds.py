"""Where the limits of words come from: how far copies of a model move every number, and how stable its sinks are.

    python tests/oracles/thresholds.py MODEL WORK [--texts 12]
    python tests/oracles/thresholds.py toys WORK

MODEL is a folder with `model.safetensors`. WORK keeps the copies and the results, so that a second call only prints.
The page `thresholds.md` of the documentation has the tables. `toys` compares two seeds of training, of small models.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles`` when run as a script

from oracles.damages import BLOCK, damaged, rounded

import reporter
from reporter.forward.token_categories import SinkRule, Sinks, find_sinks
from reporter.judge.claims import least_effect
from reporter.judge.numbers import declared

METRICS = ["all", "loss", "lens", "journey", "linearity", "local_dimension", "information_imbalance"]
FLOAT32 = {"precision": "float32"}
RUNS: dict[str, dict[str, Any]] = {
    "batch of one text": FLOAT32 | {"batch_tokens": 1},
    "another sampling seed": FLOAT32 | {"seed": 1},
    "bf16 products": {"precision": "mixed"},
}
COPIES = {"bf16": "", "fp16": "", "int8": "", "noise-1": "noised by a hundredth", "noise-5": "noised"}
COPIES |= {"noise-20": "noised by a fifth"}
TOYS = {"encoder": "bert", "decoder": "gpt2"}
RULES = [(factor, dominance) for factor in (1.0, 2.0, 4.0) for dominance in (0.5, 1.0, 2.0)]
SHIPPED = Path(reporter.__file__).parent / "texts" / "english.jsonl"


def copies_of(folder: Path, into: Path, names: list[str]) -> dict[str, Path]:
    """Return copies of a model with rounded weights, or with noise in one block in the middle; make them once."""
    with safe_open(folder / "model.safetensors", "pt") as weights:
        weights_names = list(weights.keys())
    numbers = [int(match[2]) for name in weights_names if (match := BLOCK.fullmatch(name))]
    made = {}
    for name in names:
        how = COPIES[name]
        made[name] = into / name
        if not made[name].exists():
            damaged(folder, made[name], how, 1 + max(numbers) // 2) if how else rounded(folder, made[name], name)
    return made


def seeds(architecture: str) -> dict[str, Any]:
    """Return two small models of a family that only the seed of their training tells apart."""
    recipe = {"architecture": architecture, "layers": 4, "width": 64, "train_on": "texts", "steps": 400, "context": 64}
    return {"model": {"recipe": recipe}, "seed": {"recipe": recipe | {"seed": 1}}}


def run(work: Path, name: str, models: Mapping[str, Any], settings: Mapping[str, Any], texts: int, read: list[str] = METRICS) -> reporter.Results:
    """Run a study of a model and its copies."""
    corpora = {"texts": {"sample": "english", "limit": texts}}
    metrics = read + (["change", "divergence"] if any("base" in model for model in models.values()) else [])
    study = {"study": "s", "models": models, "corpora": corpora, "metrics": metrics, "views": ["words"]}
    return reporter.run(study | {"run": dict(settings)}, work / name.replace(" ", "-"), offline=True)


def numbers(results: reporter.Results, model: str) -> dict[str, dict[Any, float]]:
    """Return the numbers of a model by statistic and place."""
    of_layers = """SELECT metric || '.' || statistic AS name, layer AS a, NULL AS b, value FROM layer_metrics
        WHERE model = $model AND value IS NOT NULL AND coalesce(site, 'block') IN ('embedding', 'block')"""
    of_pairs = """SELECT metric || '.' || statistic AS name, layer_a AS a, layer_b AS b, value FROM layer_pairs
        WHERE model_a = $model AND model_b = $model AND value IS NOT NULL"""
    found: dict[str, dict[Any, float]] = {}
    for query in (of_layers, of_pairs):
        for row in results.sql(query.replace("$model", f"'{model}'")).itertuples():
            found.setdefault(row.name, {})[str(row.a), str(row.b)] = row.value
    return found


def print_numbers(base: Mapping[str, dict[Any, float]], others: Mapping[str, Mapping[str, dict[Any, float]]]) -> None:
    """Print the largest difference of each statistic, in its minimum meaningful differences."""
    print("\n| statistic | mean size | minimum |", " | ".join(others), "|")
    print("|---|---:|---:|", "---:|" * len(others), sep="")
    for name, (_, statistic) in declared().items():
        only = not base.get(name)  # numbers of two models
        first = base.get(name) or next((found[name] for found in others.values() if name in found), None)
        if first is None:
            continue
        values = np.array(list(first.values()))
        least = least_effect(statistic, values)
        cells = []
        for found in others.values():
            gaps = [abs(value - (0.0 if only else first.get(at, np.nan))) for at, value in found.get(name, {}).items()]
            gaps = [gap for gap in gaps if gap == gap]
            cells.append(f"{max(gaps) / least:.3g}" if gaps and least else "–")
        marked, source = "**" * statistic.main, "" if statistic.smallest else " (1 %)"
        size = np.abs(values).mean()
        print(f"| {marked}{name}{marked} | {size:.3g} | {least:.3g}{source} |", " | ".join(cells), "|")


def print_lens(profiles: Mapping[str, Mapping[str, dict[Any, float]]]) -> None:
    """Print the layer from which the lens stays near the output, for several limits."""
    limits = (0.25, 0.5, 1.0, 2.0, 4.0)
    print("\n| lens | KL of the last layers |", " | ".join(f"{limit:g} nats" for limit in limits), "|")
    for name, found in profiles.items():
        kl = [value for _, value in sorted((int(float(a)), v) for (a, _), v in found.get("lens.kl", {}).items())]
        if kl:
            layers = [max((i + 1 for i, value in enumerate(kl) if value >= limit), default=0) for limit in limits]
            last = ", ".join(f"{value:.2f}" for value in kl[-5:])
            print(f"| {name} | {last} |", " | ".join(map(str, layers)), f"| of {len(kl) - 1}")


def sinks_of(folder: Path, texts: list[str], together: bool, dtype: torch.dtype) -> dict[Any, Any]:
    """Return sinks by rule, of each text on its own or of all texts in one padded batch."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModel.from_pretrained(folder, dtype=dtype).eval()
    found: dict[Any, Any] = {rule: set() for rule in RULES} | {"dominance": {}, "ratio": {}}
    for first, batch in enumerate([texts] if together else [[text] for text in texts]):
        read = tokenizer(batch, return_tensors="pt", padding=True, truncation=True, max_length=256)
        with torch.inference_mode():
            states = [state.float() for state in model(**read, output_hidden_states=True).hidden_states[1:]]
        mask, norms = read["attention_mask"].numpy(), torch.stack([state.norm(dim=-1) for state in states]).numpy()
        for rule in RULES:
            sinks: Sinks = find_sinks(states, norms, mask, SinkRule(rule[1], rule[0]))
            for text, position in zip(*(sinks.sink & (mask == 1)).nonzero(), strict=True):
                found[rule].add((first + int(text), int(position)))
            if rule == (2.0, 1.0):
                for text, position in zip(*mask.nonzero(), strict=True):
                    at = first + int(text), int(position)
                    found["dominance"][at] = float(sinks.dominance[text, position])
                    found["ratio"][at] = float(sinks.ratio[text, position])
    return found


def print_sinks(models: Mapping[str, Path], texts: list[str]) -> None:
    """Print how many tokens are sinks by each rule, and how wide the gap of the default rule is."""
    print("\n| sinks | tokens | changed | gap of the dominance |", " | ".join(f"{f:g}×, {d:g}" for f, d in RULES), "|")
    base, plain = None, next(iter(models.values()))
    cases = [(name, path, False, torch.float32) for name, path in models.items()]
    cases += [("one padded batch", plain, True, torch.float32), ("bf16 products", plain, False, torch.bfloat16)]
    for name, folder, together, dtype in cases:
        found = sinks_of(folder, texts, together, dtype)
        default = found[2.0, 1.0]
        base = default if base is None else base
        inside = [found["dominance"][at] for at in default]
        outside = [value for at, value in found["dominance"].items() if at not in default]
        gap = f"{max(outside):.2g} to {min(inside, default=float('nan')):.2g}"
        counts = " | ".join(str(len(found[rule])) for rule in RULES)
        print(f"| {name} | {len(found['ratio'])} | {len(default ^ base)} | {gap} | {counts} |")


def main() -> None:
    """Print the tables of one model, or of two seeds of small models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("work", type=Path)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--metrics", type=lambda text: text.split(","), default=METRICS)
    parser.add_argument("--copies", type=lambda text: text.split(","), default=list(COPIES))
    given = parser.parse_args()
    texts = [json.loads(line)["text"] for line in itertools.islice(SHIPPED.open(encoding="utf-8"), given.texts)]
    print(given.model)
    if given.model == "toys":
        for role, architecture in TOYS.items():
            trained = run(given.work, role, seeds(architecture), FLOAT32, 150)
            print_lens({name: numbers(trained, name) for name in ("model", "seed")})
            print_numbers(numbers(trained, "model"), {"another training seed": numbers(trained, "seed")})
        return
    folder = Path(given.model).resolve()
    folders = copies_of(folder, given.work, given.copies)
    models = {"model": {"path": str(folder)}}
    models |= {name: {"path": str(path), "base": "model"} for name, path in folders.items()}
    whole = run(given.work, "copies", models, FLOAT32, given.texts, given.metrics)
    base = numbers(whole, "model")
    others = {name: numbers(whole, name) for name in folders}
    for name, settings in RUNS.items():
        others[name] = numbers(run(given.work, name, {"model": models["model"]}, settings, given.texts, given.metrics), "model")
    print_lens({"model": base} | others)
    print_numbers(base, others)
    print_sinks({"model": folder} | folders, texts)


if __name__ == "__main__":
    main()
