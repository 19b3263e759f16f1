"""Models and texts without a model hub: trained here, changed a little, or drawn at random."""

import csv
import io
import random
import shutil
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import torch
from safetensors.torch import load_file, save_file

from reporter.core.progress import Progress
from reporter.runs.runner import run_studies
from reporter.runs.studies import offer
from reporter.study import load_study

ADJECTIVES = ["old", "red", "small", "quiet", "broken", "happy", "green", "young"]
NOUNS = {"animal": ["cat", "dog", "mouse", "bird"], "thing": ["clock", "train", "house", "garden"]}
VERBS = ["sleeps", "runs", "sings", "waits", "falls", "opens", "moves", "sees"]


def write_texts(here: Path, count: int) -> None:
    """Write texts with a label, the same in reverse order, texts of 120 words, and scored pairs of texts."""
    draws, rows = random.Random(0), []
    for _ in range(count):
        kind, clauses = draws.choice(list(NOUNS)), []
        for _ in range(draws.randint(2, 6)):
            clauses.append(f"the {draws.choice(ADJECTIVES)} {draws.choice(NOUNS[kind])} {draws.choice(VERBS)}")
        rows.append((f" {draws.choice(('and', 'while'))} ".join(clauses) + ".", kind))
    words = [*ADJECTIVES, *VERBS, *NOUNS["animal"], *NOUNS["thing"]]
    long = [(" ".join(draws.choices(words, k=120)), "long") for _ in range(count)]
    for name, chosen in (("texts.csv", rows), ("reversed.csv", rows[::-1]), ("long.csv", long)):
        with (here / name).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "kind"), *chosen])
    pairs = [f"{first}\t{second}\t{draws.randint(0, 5)}" for (first, _), (second, _) in pairwise(rows[:41])]
    (here / "scored.tsv").write_text("\n".join(["first\tsecond\tscore", *pairs]), "utf-8")


def small_models(here: Path, width: int, layers: int, steps: int) -> Mapping[str, Path]:
    """Train an encoder and a decoder on the texts; return their folders, and two decoders near the trained one."""
    shape = f"layers: {layers}, width: {width}, heads: 2, train_on: texts, steps: {steps}, batch: 16"
    lines = ["study: train", "models:", f"  enc: {{recipe: {{architecture: bert, {shape}}}}}"]
    lines += [f"  dec: {{recipe: {{architecture: gpt2, {shape}}}}}"]
    lines += ["corpora: {texts: {file: texts.csv, column: text}}", "metrics: [loss]", "run: {device: cpu}"]
    study, out = here / "train.yaml", here / "out" / "train"
    study.write_text("\n".join(lines), "utf-8")
    with patch("reporter.runs.runner._report", lambda *_: ()):
        run_studies([load_study(study, offer())], out, progress=Progress(io.StringIO()), offline=True)
    folders = {}
    for file in (out / "cache" / "models").glob("*/step-*/config.json"):
        name = "enc" if '"bert"' in file.read_text("utf-8") else "dec"
        folders[name] = nudged(file.parent, here / name, 0.0, 0)
    return folders | {
        name: nudged(folders["dec"], here / name, 0.05, seed) for seed, name in enumerate(("tuned", "twin"))
    }


def nudged(folder: Path, to: Path, off: float, seed: int) -> Path:
    """Copy a model with weights that are off by at most ``off``, relatively, uniformly at random."""
    shutil.copytree(folder, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("seal.json"))
    draws, weights = torch.Generator().manual_seed(seed), load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        if weight.is_floating_point():
            weights[name] = weight * (1 + off * (2 * torch.rand(weight.shape, generator=draws) - 1))
    save_file(weights, to / "model.safetensors", metadata={"format": "pt"})
    return to


def large_model(
    folder: Path, width: int, layers: int, like: Path, dtype: torch.dtype = torch.bfloat16
) -> tuple[dict[str, Path], int]:
    """Save a decoder with random weights and the tokenizer of another model; return how many weights it has."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer, heads = AutoTokenizer.from_pretrained(like), max(1, width // 64)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}
    sizes |= {"num_attention_heads": heads, "num_key_value_heads": heads, "max_position_embeddings": 512}
    shutil.rmtree(folder, ignore_errors=True)
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):  # where a billion numbers are drawn at once
        model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=len(tokenizer), dtype=dtype)).to(dtype)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"random": folder}, sum(weight.numel() for weight in model.parameters())
