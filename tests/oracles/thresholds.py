"""Where the limits of words come from: how far copies of a model move its states, sinks, lens and every number.

    python tests/oracles/thresholds.py MODEL WORK          # MODEL is a folder with `model.safetensors`
    python tests/oracles/thresholds.py bert WORK           # or gpt2: two small models, trained with different seeds

WORK keeps copies and results, so that a second call prints the tables at once. `thresholds.md` of the documentation
has them. Of a model of 135 million parameters, two cores need an hour; `--copies` and `--metrics` take less.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for ``oracles`` when run as a script

from oracles.damages import BLOCK, damaged, rounded

import reporter
from reporter.forward.token_categories import SinkRule, find_sinks
from reporter.judge.claims import least_effect
from reporter.judge.facts import declared

METRICS = "all,loss,lens,journey,linearity,local_dimension,information_imbalance"
FLOAT32 = {"precision": "float32"}
RUNS: dict[str, dict[str, Any]] = {
    "batch-1": FLOAT32 | {"batch_tokens": 1},
    "sampling-seed": FLOAT32 | {"seed": 1},
    "bf16-products": {"precision": "mixed"},
}
COPIES = {"bf16": "", "fp16": "", "int8": "", "noise-1": "noised by a hundredth", "noise-5": "noised"}
COPIES |= {"noise-20": "noised by a fifth"}
RULES = [SinkRule(dominance, factor) for factor in (1.0, 2.0, 4.0) for dominance in (0.5, 1.0, 2.0)]
NATS = (0.25, 0.5, 1.0, 2.0, 4.0)
SHIPPED = Path(reporter.__file__).parent / "texts" / "english.jsonl"

Numbers = Mapping[str, Mapping[Any, float]]
"""Numbers by statistic, then by layer or by two layers."""


def copies_of(folder: Path, into: Path, names: Sequence[str]) -> dict[str, Path]:
    """Return copies of a model with rounded weights, or with noise in one block in the middle; make them once."""
    with safe_open(folder / "model.safetensors", "pt") as file:
        weights = list(file.keys())
    middle = max(int(match[2]) for name in weights if (match := BLOCK.fullmatch(name))) // 2 + 1
    for name in names:
        if not (into / name).exists():
            how = COPIES[name]
            damaged(folder, into / name, how, middle) if how else rounded(folder, into / name, name)
    return {name: into / name for name in names}


def run(work: Path, models: Mapping[str, Any], settings: Mapping[str, Any], texts: int, metrics: str) -> dict[str, Any]:
    """Run a study and return the numbers of each model."""
    read = [*metrics.split(","), *(["change", "divergence"] if len(models) > 1 else [])]
    study = {"study": "s", "models": models, "metrics": read, "views": ["text tokens"], "run": dict(settings)}
    results = reporter.run(study | {"corpora": {"texts": {"sample": "english", "limit": texts}}}, work, offline=True)
    numbers: dict[str, dict[str, dict[Any, float]]] = {name: {} for name in models}
    for row in results.sql(
        """SELECT model, metric || '.' || statistic AS name, coalesce(layer, 0) AS a, 0 AS b, value FROM layer_metrics
        WHERE value IS NOT NULL AND coalesce(site, 'block') IN ('embedding', 'block')
        UNION ALL SELECT model_a, metric || '.' || statistic, layer_a, layer_b, value FROM layer_pairs
        WHERE model_a = model_b AND value IS NOT NULL"""
    ).itertuples():
        numbers[row.model].setdefault(row.name, {})[row.a, row.b] = row.value
    return numbers


def print_numbers(base: Numbers, others: Mapping[str, Numbers]) -> None:
    """Print the largest difference of each statistic, in its minimum meaningful differences; main ones in bold."""
    print("\n| statistic | mean size | minimum |", " | ".join(others), "|\n|---|---:|---:|", "---:|" * len(others))
    for name, (metric, statistic) in declared().items():
        first = base.get(name) or next((other[name] for other in others.values() if name in other), {})
        least, cells = least_effect(statistic, list(first.values())), []
        for numbers in others.values():
            before = {} if metric.compares_only else first
            gaps = [abs(value - before.get(at, 0.0)) for at, value in numbers.get(name, {}).items()]
            cells.append(f"{max(gaps) / least:.3g}" if gaps and least else "–")
        if first:
            mark, size = "**" * statistic.main, np.abs(list(first.values())).mean()
            print(f"| {mark}{name}{mark} | {size:.3g} | {least:.3g} |", " | ".join(cells), "|")


def print_lens(models: Mapping[str, Numbers]) -> None:
    """Print the layer from which the lens stays near the output, for several limits."""
    print("\n| lens | KL of the last layers |", " | ".join(f"{limit:g} nats" for limit in NATS), "|")
    for name, numbers in models.items():
        kl = np.array([value for _, value in sorted(numbers.get("lens.kl", {}).items())])
        near = [max(np.flatnonzero(kl >= limit) + 1, default=0) for limit in NATS]
        print(f"| {name} |", ", ".join(f"{value:.2f}" for value in kl[-6:]), "|", " | ".join(map(str, near)), "|")


def read(folder: Path, texts: list[str], together: bool = False, bf16: bool = False) -> list[tuple[Any, Any]]:
    """Return the states (layers, tokens, width) and log-probabilities of each text; of an encoder None."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    decoder = AutoConfig.from_pretrained(folder).architectures[0].endswith("ForCausalLM")
    model = (AutoModelForCausalLM if decoder else AutoModel).from_pretrained(folder, dtype=torch.float32).eval()
    result = []
    for batch in [texts] if together else [[text] for text in texts]:
        ids = tokenizer(batch, return_tensors="pt", padding=True, truncation=True, max_length=256)
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            out = model(**ids, output_hidden_states=True)
        for i, kept in enumerate(ids["attention_mask"].bool()):
            logits = out.logits[i, kept].float().log_softmax(dim=-1) if decoder else None
            result.append((torch.stack([state[i, kept].float() for state in out.hidden_states]), logits))
    return result


def print_states(copies: Mapping[str, Path], texts: list[str]) -> None:
    """Print how far states, predictions and sinks are from the model's, and how many sinks other limits find."""
    rules = " | ".join(f"{rule.factor:g}×, {rule.dominance:g}" for rule in RULES)
    print("\n| copy | largest distance | mean KL | largest weight of no sink | least of sinks | changed |", rules, "|")
    model, *_ = copies.values()
    cases = [(name, folder, False, False) for name, folder in copies.items()]
    cases += [("padded batch", model, True, False), ("bf16-products", model, False, True)]
    base, before = read(model, texts), None
    for name, *how in cases:
        mine = read(how[0], texts, *how[1:])
        far = [(a - b).norm(dim=-1) / b.norm(dim=-1).clamp(min=1e-9) for (a, _), (b, _) in zip(mine, base, strict=True)]
        kl = [(q.exp() * (q - p)).sum(dim=-1) for (_, p), (_, q) in zip(mine, base, strict=True) if p is not None]
        by_rule = [[_sinks(states, rule) for states, _ in mine] for rule in RULES]
        counts = [sum(int(sinks.sink.sum()) for sinks in of_texts) for of_texts in by_rule]
        default = by_rule[RULES.index(SinkRule())]
        sink, weight = (np.concatenate([getattr(s, field)[0] for s in default]) for field in ("sink", "dominance"))
        before = sink if before is None else before
        cells = [f"{torch.cat(far, dim=1).mean(dim=1).max():.2g}", f"{torch.cat(kl).mean():.2g}" if kl else "–"]
        cells += [f"{weight[~sink].max():.2g}", f"{weight[sink].min(initial=np.inf):.2g}", str((sink ^ before).sum())]
        print(f"| {name} |", " | ".join([*cells, *map(str, counts)]), "|")


def _sinks(states: Any, rule: SinkRule) -> Any:
    blocks = list(states[1:, None])
    norms = torch.stack([block.norm(dim=-1) for block in blocks]).numpy()
    return find_sinks(blocks, norms, np.ones(norms.shape[1:], dtype=np.int64), rule)


def main() -> None:
    """Print the tables of one model and its copies, or of two seeds of a small model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("work", type=lambda text: Path(text).resolve())
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("--copies", default=",".join(COPIES))
    given = parser.parse_args()
    if given.model in ("bert", "gpt2"):
        small = {"layers": 4, "width": 64, "train_on": "texts", "steps": 400, "context": 64}
        recipe = {"architecture": given.model, **small}
        models = {"model": {"recipe": recipe}, "training-seed": {"recipe": recipe | {"seed": 1}, "base": "model"}}
        numbers = run(given.work, models, FLOAT32, 150, given.metrics)
    else:
        folder = Path(given.model).resolve()
        copies = copies_of(folder, given.work, given.copies.split(","))
        models = {"model": {"path": str(folder)}}
        copied = {name: {"path": str(path), "base": "model"} for name, path in copies.items()}
        numbers = run(given.work / "copies", models | copied, FLOAT32, given.texts, given.metrics)
        for name, settings in RUNS.items():
            numbers[name] = run(given.work / name, models, settings, given.texts, given.metrics)["model"]
        texts = [json.loads(line)["text"] for line in itertools.islice(SHIPPED.open(encoding="utf-8"), given.texts)]
        print_states({"model": folder} | copies, texts)
    print_lens(numbers)
    print_numbers(numbers.pop("model"), numbers)


if __name__ == "__main__":
    main()
