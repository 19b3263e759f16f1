"""The times of the studies of hub models that the README gives: estimated from the models' sizes, nothing downloaded.

    python tests/benchmarks/hub.py [STUDY…]

Each model stands for itself by its configuration alone, each corpus that is downloaded by paragraphs of as many words.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

STUDIES = Path(__file__).resolve().parents[2] / "studies"
PARAGRAPH, TWEET = 100, 17  # words of a text of WikiText-2 with at least 8 of them, and of a tweet

# Blocks, width, width of the feed-forward, vocabulary, longest text; of those with a gate a sixth thing.
SIZES: dict[str, tuple[int, ...]] = {
    "google-bert/bert-base-uncased": (12, 768, 3072, 30522, 512),
    "google-bert/bert-base-cased": (12, 768, 3072, 28996, 512),
    "google-bert/bert-large-uncased": (24, 1024, 4096, 30522, 512),
    "distilbert/distilbert-base-uncased": (6, 768, 3072, 30522, 512),
    "FacebookAI/roberta-base": (12, 768, 3072, 50265, 512),
    "FacebookAI/roberta-large": (24, 1024, 4096, 50265, 512),
    "distilbert/distilroberta-base": (6, 768, 3072, 50265, 512),
    "albert/albert-base-v2": (12, 768, 3072, 30000, 512),
    "FacebookAI/xlm-roberta-base": (12, 768, 3072, 250002, 512),
    "answerdotai/ModernBERT-base": (22, 768, 1152, 50368, 8192, 1),
    "sentence-transformers/all-MiniLM-L6-v2": (6, 384, 1536, 30522, 512),
    "openai-community/gpt2": (12, 768, 3072, 50257, 1024),
    "openai-community/gpt2-medium": (24, 1024, 4096, 50257, 1024),
    "distilbert/distilgpt2": (6, 768, 3072, 50257, 1024),
    "EleutherAI/gpt-neo-125m": (12, 768, 3072, 50257, 2048),
    "EleutherAI/pythia-70m": (6, 512, 2048, 50304, 2048),
    "EleutherAI/pythia-160m": (12, 768, 3072, 50304, 2048),
    "EleutherAI/pythia-410m": (24, 1024, 4096, 50304, 2048),
    "bigscience/bloom-560m": (24, 1024, 4096, 250880, 2048),
    "bigscience/bloom-560m-intermediate": (24, 1024, 4096, 250880, 2048),
    "HuggingFaceTB/SmolLM2-135M": (30, 576, 1536, 49152, 8192, 1),
    "Qwen/Qwen2.5-0.5B": (24, 896, 4864, 151936, 32768, 1),
}
ETTIN = {"17m": (7, 256, 384), "32m": (10, 384, 576), "68m": (19, 512, 768), "150m": (22, 768, 1152)}
SIZES |= {
    f"jhu-clsp/ettin-{kind}-{size}": (*shape, 50368, 8192, 1)
    for size, shape in ETTIN.items()
    for kind in ("encoder", "decoder", "enc-from-dec", "dec-from-enc")
}
NOT_OF_THE_HUB = ("quickstart", "guard")


def main(studies: list[str]) -> None:
    """Print an estimate for each study."""
    with tempfile.TemporaryDirectory() as folder:
        for path in map(Path, studies) if studies else sorted(STUDIES.glob("*.yaml")):
            if path.stem not in NOT_OF_THE_HUB:
                print(f"\n{path.stem}")
                print("\n".join(f"  {line}" for line in estimated(path, Path(folder))))


def estimated(path: Path, folder: Path) -> list[str]:
    """Return the estimate of a study of hub models.

    Args:
        path: the study.
        folder: where what stands for models and corpora is written.
    """
    import yaml

    from reporter.runs.estimate import estimate
    from reporter.runs.planner import plan_study
    from reporter.runs.studies import read_study

    said: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    said["models"] = {name: _model(model, folder) for name, model in said["models"].items()}
    said["corpora"] = {name: _corpus(name, corpus, folder) for name, corpus in said["corpora"].items()}
    said.pop("claims", None)
    written = folder / path.name
    written.write_text(yaml.safe_dump(said, sort_keys=False), "utf-8")
    plan = plan_study(read_study(written), folder / "results", offline=True)
    failed = {cell.why for cell in plan.cells if cell.state == "failed"}
    return [*sorted(failed), *estimate(plan, folder / "results" / "cache").lines()]


def _model(said: Any, folder: Path) -> dict[str, Any]:
    """Return a model of a folder that has the size of a hub model, and weights of nothing."""
    spec = {"hub": said} if isinstance(said, str) else said
    layers, width, inner, vocabulary, longest, *gated = SIZES[spec["hub"]]
    config = {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": inner,
        "vocab_size": vocabulary,
        "max_position_embeddings": longest,
        **({"rms_norm_eps": 1e-6} if gated else {}),
    }
    root = folder / spec["hub"].replace("/", "--")
    checkpoints = spec.get("checkpoints", [])
    for inside in [root / str(one) for one in checkpoints] or [root]:
        inside.mkdir(parents=True, exist_ok=True)
        (inside / "config.json").write_text(json.dumps(config), "utf-8")
        name = json.dumps({"__metadata__": {"name": str(inside)}}).encode()
        (inside / "model.safetensors").write_bytes(struct.pack("<Q", len(name)) + name)
        (inside / "vocab.txt").write_text("a\n", "utf-8")
    return {"path": str(root), **({"checkpoints": checkpoints} if checkpoints else {})}


def _corpus(name: str, said: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a corpus of as many texts of the usual length where one is downloaded."""
    if "dataset" not in said:
        return {key: value for key, value in said.items() if key != "vocabulary"}
    words = TWEET if "tweet" in said["dataset"] else PARAGRAPH
    path = folder / f"{name}-{words}.csv"
    rows = [f'"{" ".join(f"w{i}x{j}" for j in range(words))}",{"ab"[i % 2]}' for i in range(said["limit"])]
    path.write_text("\n".join(["text,label", *rows]) + "\n", "utf-8")
    kept = {key: said[key] for key in ("min_words", "limit", "max_tokens") if key in said}
    return {"file": str(path), "column": "text", **({"label": "label"} if "label" in said else {}), **kept}


if __name__ == "__main__":
    main(sys.argv[1:])
