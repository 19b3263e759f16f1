"""A study of many models, made of the rows of a small run: how large its pages are, and how long they take.

    python tests/benchmarks/big_study.py results STUDY big --models 40 --layers 25 --checkpoints 1

reads a results folder, and writes another one whose study ``big`` has so many models, each with every row of the
deepest model of STUDY, its values moved a little. It prints the size of each page and of all that it fetches.
"""

import argparse
import shutil
import time
from pathlib import Path

import duckdb

from reporter.report import render

NAMES = ("gpt2", "bert", "pythia", "ettin", "smollm", "minilm", "qwen", "modernbert", "opt", "roberta")
ROUGH = "(1 + 0.25 * sin(i * 1.7) + 0.05 * sin(i * 3.1 + coalesce({layer}, 0)))"


def fill(source: Path, study: str, out: Path, models: int, layers: int, checkpoints: int = 1) -> Path:
    """Write the database of a study of many models.

    Args:
        source: a database with a small run.
        study: its study.
        out: the results folder to make.
        models: how many models.
        layers: how many layers each has, the embedding among them; as many as the deepest model has, at most.
        checkpoints: how many each has; of one it keeps the name and step that it has in the small run.

    Returns:
        The new database.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    target = out / "results.duckdb"
    shutil.copyfile(source, target)
    with duckdb.connect(str(target)) as base:
        deepest = "SELECT model FROM models WHERE study = ? AND base IS NULL ORDER BY layers DESC LIMIT 1"
        [(deep,)] = base.execute(deepest, [study]).fetchall()
        names = [f"{NAMES[i % len(NAMES)]}-{i // len(NAMES) + 1}" for i in range(models)]
        base.execute(
            "CREATE TEMP TABLE many AS SELECT *, 'step-' || c AS mark, 1000 * c AS at_step "
            f"FROM (SELECT unnest(?) AS name, unnest(?) AS i), range(1, {checkpoints} + 1) AS cs(c)",
            [names, list(range(models))],
        )
        for (table,) in base.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall():
            columns = [name for (name, *_) in base.execute(f"DESCRIBE {table}").fetchall()]
            if "study" in columns and table != "findings":  # a handful, however many models there are
                base.execute(_spread(table, columns, study, deep, layers, checkpoints))
                base.execute(f"DELETE FROM {table}; INSERT INTO {table} SELECT * FROM fresh")
    return target


def _spread(table: str, columns: list[str], study: str, deep: str, layers: int, checkpoints: int) -> str:
    """Return SQL that gives each checkpoint of many models the rows of the deepest one; rows of no model stay once."""
    who = [name for name in ("model", "model_a", "model_b") if name in columns]
    said, has = {"study": "'big'"} | dict.fromkeys(who, "name"), set(columns)
    marks = [name for name in ("checkpoint", "checkpoint_a", "checkpoint_b") if name in has] if who else []
    rough = ROUGH.format(layer="layer" if "layer" in has else "NULL")
    if who:
        said |= {number: f"{number} * {rough}" for number in {"value", "ci_low", "ci_high", "loss"} & has}
        said |= {"role": "CASE WHEN i % 2 = 0 THEN 'decoder' ELSE 'encoder' END"} if "role" in has else {}
    if checkpoints > 1:
        said |= dict.fromkeys(marks, "mark") | ({"step": "at_step"} if who and "step" in has else {})
    said |= {"depth": f"layer / {layers - 1}.0"} if "depth" in has else {}
    said |= {"layers": str(layers - 1)} if table == "models" else {}
    kept = [f"study = '{study}'", *(f"{name} = '{deep}'" for name in who), *([] if who else ["i = 0"])]
    kept += [] if marks else ["c = 1"]
    # an answer has a row for each layer and names the best of them: it is whole, or it is none; of the last checkpoint
    if table.endswith("_answers"):
        kept += [f"c = {checkpoints}"] * bool(marks)
    else:
        kept += [f"({name} IS NULL OR {name} < {layers})" for name in {"layer", "layer_a", "layer_b", "last"} & has]
    given = ", ".join(f"{value} AS {name}" for name, value in said.items())
    fresh = f"SELECT rows.* REPLACE ({given}) FROM {table} AS rows, many WHERE {' AND '.join(kept)}"
    return f"CREATE OR REPLACE TEMP TABLE fresh AS {fresh}"


def main() -> None:
    """Make the study, write its pages, and say how large they are."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("results", type=Path)
    parser.add_argument("study")
    parser.add_argument("out", type=Path)
    for name, usual in (("models", 40), ("layers", 25), ("checkpoints", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    given = vars(parser.parse_args())
    target = fill(given.pop("results") / "results.duckdb", **given)
    began = time.process_time()
    pages = render(target, given["out"])
    print(f"{target.stat().st_size / 1e6:.0f} MB; written in {time.process_time() - began:.1f} s of processor time")
    parts = sorted((given["out"] / "big/data").glob("*.js"), key=lambda path: -path.stat().st_size)
    print(f"{sum(path.stat().st_size for path in parts) / 1e6:8.2f} MB  in {len(parts)} parts; the largest, and pages:")
    for path in (*pages, *parts[:10]):
        print(f"{path.stat().st_size / 1e6:8.2f} MB  {path.relative_to(given['out'])}")


if __name__ == "__main__":
    main()
