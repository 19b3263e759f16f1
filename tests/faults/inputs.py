"""Ten thousand studies with mistakes: each is read, or told in printable lines that have a place; never a traceback.

    python tests/faults/inputs.py 10000 [SEED]      (the seed of the first one; a failure names its own)

Each begins as a study that is right, those that ship among them, and is changed in one to four places: characters,
lines, keys and values are dropped, doubled, swapped, or replaced by what has another type, is very long, or means
something in YAML.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from reporter.runs.studies import offer
from reporter.spec import SpecError, load_study

ODD = [
    "null", "~", "[]", "{}", "-1", "0", "1e309", ".nan", "true", "''", "[[[[", "}", ": :", "- -", "*a", "&a b", "!!x y",
    "<<: 1", "'", '"', "\t", "\r", "\x00", "\u2028", "\ufeff", "é", "😀", "x" * 5000, "9" * 5000, "../" * 50, "%",
    "@", "`", "#", "|", ">", "{a: 1}", "[1, 2]", "2024-01-01", "12:30", "0x1F", "<b>", "{{ x }}",
    "'; DROP TABLE cells; --",
]  # fmt: skip
ROOT = Path(__file__).resolve().parents[2]


def mutated(text: str, draw: random.Random) -> str:
    """Change a study in one to four places."""
    for _ in range(draw.randint(1, 4)):
        lines = text.split("\n")
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        place = draw.randrange(len(text) + 1)
        how = draw.randrange(8)
        if how == 0:
            text = text[:place] + text[place + draw.randint(1, 20) :]
        elif how == 1:
            text = text[:place] + draw.choice(ODD) + text[place:]
        elif how == 2:
            text = "\n".join([*lines[:at], *lines[at + 1 :]])
        elif how == 3:
            text = "\n".join([*lines[:at], lines[other], *lines[at:]])
        elif how == 4:
            lines[at], lines[other] = lines[other], lines[at]
            text = "\n".join(lines)
        elif how == 5:
            key, colon, _ = lines[at].partition(":")
            lines[at] = key + colon + " " + draw.choice(ODD)
            text = "\n".join(lines)
        elif how == 6:
            lines[at] = " " * draw.randint(0, 9) + lines[at].lstrip()
            text = "\n".join(lines)
        else:
            words = text.split(" ")
            words[draw.randrange(len(words))] = draw.choice(words)
            text = " ".join(words)
    return text


def main(how_many: int, first: int = 0) -> int:
    """Check so many studies; return how many broke the promise."""
    began, bad, right = time.perf_counter(), 0, 0
    may = offer()
    small = [path.read_text("utf-8") for path in sorted((ROOT / "studies").rglob("*.yaml"))]
    small = [text for text in small if len(text) < 3000]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.yaml"
        for seed in range(first, first + how_many):
            draw = random.Random(seed)
            path.write_bytes(mutated(draw.choice(small), draw).encode("utf-8", "surrogatepass"))
            try:
                load_study(path, may)
                right += 1
            except SpecError as error:
                lines = str(error).split("\n")
                if not all(line.isprintable() and ":" in line and len(line) < 3000 for line in lines):
                    bad += 1
                    print(f"seed {seed}: {max(lines, key=len)[:300]!r}")
            except Exception as error:
                bad += 1
                print(f"seed {seed}: {type(error).__name__}: {str(error)[:300]}")
    took = time.perf_counter() - began
    print(f"{how_many} studies in {took:.0f} s: {right} still right, {how_many - right - bad} told why not, {bad} bad")
    return bad


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:] or ["10000"])) and 1)
