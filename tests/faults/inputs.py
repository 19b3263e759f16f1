"""Ten thousand studies with mistakes: each is read, or told in printable lines that have a place; never a traceback.

    python tests/faults/inputs.py 10000 [SEED]      (the seed of the first one; a failure names its own)

Each begins as a study that is right, every second one as one that ships, and is changed in one to four places:
characters, lines, keys and values are dropped, doubled, swapped, or replaced by what has another type, is very long, or
means something in YAML. The suite has ten thousand of the short ones, which together have most keys and cost a third.
"""

import random
import sys
import tempfile
from pathlib import Path

from reporter.runs.studies import offer
from reporter.study import SpecError, load_study
from reporter.study.offer import Offer

ODD = [
    "null", "~", "[]", "{}", "-1", "0", "1e309", ".nan", "true", "''", "[[[[", "}", ": :", "- -", "*a", "&a b", "!!x y",
    "<<: 1", "'", '"', "\t", "\r", "\x00", "\u2028", "\ufeff", "é", "😀", "x" * 5000, "9" * 5000, "../" * 50, "%",
    "@", "`", "#", "|", ">", "{a: 1}", "[1, 2]", "2024-01-01", "12:30", "0x1F", "<b>", "{{ x }}",
    "'; DROP TABLE cells; --",
]  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]
RECIPES = """study: a
models:
  a: gpt2
  b: {hub: x/y, checkpoints: [step1, {revision: main, step: 3}], dtype: auto}
  c: {path: ./x, checkpoints: [{folder: k, step: 1}]}
  d: {recipe: {architecture: bert, train_on: g, steps: 5, layers: 2, checkpoints: [0, 5]}}
corpora:
  g: {generate: grammar, texts: 5, words: [1, 5], seed: 1}
  h: {generate: random-words, vocabulary: d}
"""
METRICS = """study: b
title: T
models: {a: gpt2}
corpora: {f: {file: x.txt, unit: line, limit: 5, min_words: 2}, i: {texts: [a, "b"], max_words: 7}, j: {dataset: x/y}}
views: [text tokens, with special tokens, without sinks]
metrics:
  - convergence
  - anisotropy: {sample: 64, batches: 2}
run: {device: cpu, batch_tokens: 10, seed: 0}
"""
CLAIMS = """study: c
models: {a: gpt2, b: bert}
corpora: {f: {texts: [a]}}
metrics: [motion]
claims:
  v: {says: x, value: {metric: motion.norm, model: a, corpus: f, layer: 1}, above: 0}
  s: {says: x, shape: {metric: motion.norm, is: peak-at, at: 0.5, models: [a]}}
"""
SHORT = (RECIPES, METRICS, CLAIMS)


def mutated(text: str, draw: random.Random) -> str:
    """Change a study in one to four places."""
    for _ in range(draw.randint(1, 4)):
        lines, words = text.split("\n"), text.split(" ")
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        place, odd, length = draw.randrange(len(text) + 1), draw.choice(ODD), draw.randint(1, 20)
        swapped, placed, replaced = list(lines), list(lines), list(words)
        swapped[at], swapped[other] = lines[other], lines[at]
        placed[at] = " " * draw.randint(0, 9) + lines[at].lstrip()
        replaced[draw.randrange(len(words))] = draw.choice(words)
        key, colon, _ = lines[at].partition(":")
        text = draw.choice([
            text[:place] + text[place + length :],
            text[:place] + odd + text[place:],
            "\n".join(lines[:at] + lines[at + 1 :]),
            "\n".join([*lines[:at], lines[other], *lines[at:]]),
            "\n".join(swapped),
            "\n".join([*lines[:at], f"{key}{colon} {odd}", *lines[at + 1 :]]),
            "\n".join(placed),
            " ".join(replaced),
        ])  # fmt: skip
    return text


def wrong(text: str, path: Path, may: Offer) -> str:
    """Return what a reader of a study with mistakes must not see; empty where all is well.

    Args:
        text: the study.
        path: a file, which is overwritten with it.
        may: what a study may ask for.
    """
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load_study(path, may)
    except SpecError as error:
        lines = str(error).split("\n")
        if not all(line.isprintable() and ":" in line and len(line) < 3000 for line in lines):
            return repr(max(lines, key=len)[:300])
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return ""


def main(how_many: int, first: int = 0, shipped: bool = True) -> int:
    """Check so many studies; return how many broke the promise."""
    bad, may = 0, offer()
    own = [path.read_text("utf-8") for path in sorted((ROOT / "studies").rglob("*.yaml")) if shipped]
    own = [text for text in own if len(text) < 5000]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        for text in (*SHORT, *own):
            path.write_text(text, "utf-8")
            load_study(path, may)  # or mistakes would be found that nobody made
        for seed in range(first, first + how_many):
            draw = random.Random(seed)
            text = draw.choice(own if own and seed % 2 else SHORT)
            if problem := wrong(mutated(text, draw), path, may):
                bad += 1
                print(f"seed {seed}: {problem}")
    print(f"{how_many} studies, {bad} bad")
    return bad


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:] or ["10000"])) and 1)
