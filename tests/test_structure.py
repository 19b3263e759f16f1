"""The house keeps its shape: who may import whom, what is light, what is small, what must not be written."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "reporter"

# Data flows from left to right and nobody imports to the right: texts know nothing of models, and metrics
# nothing of runs.
FLOW = [
    "errors",
    "geometry",
    "build",
    "locks",
    "seals",
    "spec",
    "texts",
    "models",
    "forward",
    "observables",
    "metrics",
    "store",
    "claims",
    "findings",
    "report",
]
EVERYWHERE = {
    "effort",
    "errors",
    "files",
    "imports",
    "paths",
    "places",
    "registry",
    "table",
    "threads",
}  # what people are told, and where that is, which files end, what imports take, plug-ins, how cores are shared
MAY_IMPORT = (
    {room: {*FLOW[:place]} for place, room in enumerate(FLOW)}
    | {
        "files": set(),  # it looks at them, and opens none
        "spec": {"errors"},  # it is given the metric catalogue
        "registry": set(),
        "threads": set(),
        "imports": {"errors"},
        "paths": set(),  # how they are written for others
        "places": set(),  # how a layer is named
        "effort": set(),  # what something costs, in numbers
        "table": set(),  # what a row of the database is
        "charts": set(),  # below what names them: metrics and analyses
        "metrics": {"charts", "geometry", "observables"},  # a metric is a function of observables
        "answers": {
            "charts",
            "geometry",
            "metrics",
            "analyses",
        },  # it is given a way to read, and names its tables
        "store": {"errors", "metrics", "analyses", "answers"},  # definitions alone: they name their tables
        "claims": {"errors", "geometry", "spec", "metrics", "store"},  # they are tested on what the database holds
        "findings": {
            "answers",
            "charts",
            "claims",
            "geometry",
            "metrics",
            "spec",
            "store",
        },  # the same tests, asked again
        "weights": {"errors", "geometry", "models"},  # beside forward: it looks at tables, not at texts
        "analyses": {
            *FLOW[: FLOW.index("metrics")],
            "charts",
            "metrics",
            "weights",
        },  # beside metrics: it gets the model itself
        "report": {
            "build",
            "charts",
            "metrics",
            "store",
            "analyses",
            "answers",
        },  # definitions alone: it computes nothing, it needs no model
        # after report, whose contents it writes for papers
        "export": {"errors", "spec", "charts", "metrics", "analyses", "store", "report"},
        "integrations": {
            "spec",
            "charts",
            "metrics",
            "analyses",
            "store",
            "export",
        },  # the same for other people's tools
        "diff": {"errors", "spec", "charts", "store"},  # beside report: two databases and two study files, drawn alike
        "runs": {*FLOW, "analyses", "answers"},
        # A second opinion: weights, tokenizer and texts come from the same loaders, and ``runs`` says which cells there
        # are; of what it checks (forward, observables, metrics) it imports nothing.
        "verify": {"errors", "spec", "models", "store", "runs", "texts"},
        "docs": {"spec", "metrics", "analyses", "store", "report", "runs"},  # what they declare, written out
        "cli": {*FLOW, "runs", "analyses", "answers", "diff", "docs", "export", "integrations", "verify"},
        "door": {*FLOW, "integrations", "runs"},
        "callback": {"door", "errors", "metrics", "runs", "spec", "store"},  # a training calls it: a door of its own
        "__main__": {"cli"},
        "__init__": {
            "door",
            "errors",
            "geometry",
            "spec",
            "models",
            "observables",
            "metrics",
            "claims",
            "analyses",
            "texts",
        },  # by name, when they are first used
    }
)
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {
    "torch",
    "transformers",
    "tokenizers",
    "pandas",
    "altair",
    "vl_convert",
    "sklearn",
    "scipy",
    "duckdb",
}
TOP_LEVEL = {
    ".ci",
    ".github",
    ".gitignore",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "reporter",
    "requirements-dev.txt",
    "requirements.txt",
    "studies",
    "templates",
    "tests",
}
# Where packages come from is the business of each machine's own configuration, and nobody has our folders.
MUST_NOT_BE_WRITTEN = re.compile(
    r"\bpy(?:pi|thonhosted)\.org\b|--(?:extra-)?index-url|--trusted[-]host"
    r"|(?<![\w.}/])/(?:work|root|tmp)/|\.\./shared\b"
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(source: str, package: str) -> set[str]:
    """The rooms that a module of a package imports, anywhere: at the top, in functions, for types alone."""
    targets = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            targets += [f"{base}.{alias.name}" if base == "reporter" else base for alias in node.names]
    rooms = {target.split(".")[1] for target in targets if target.startswith("reporter.")}
    return {room for room in rooms if not room.startswith("__")}  # `from reporter import __version__`


def tracked_files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_imports_follow_the_flow():
    wrong = []
    for path in MODULES:
        room = room_of(path)
        package = ".".join(path.relative_to(ROOT).parts[:-1])
        for other in sorted(imported_rooms(path.read_text(), package) - MAY_IMPORT[room] - EVERYWHERE - {room}):
            wrong.append(f"{name_of(path)}: {room} must not import {other}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        "import reporter.runs.plan",
        "from reporter.runs import plan",
        "from reporter import runs",
        "from ..runs import plan",
        "from .. import runs",
        "def f():\n    from reporter.runs.plan import Plan",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from reporter.runs import plan",
    ],
)
def test_every_way_to_import_is_seen(source):
    assert imported_rooms(source, "reporter.metrics") == {"runs"}


def test_every_public_name_has_a_docstring():
    bare = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        if tree.body and not ast.get_docstring(tree):
            bare.append(name_of(path))
        for scope in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
            if isinstance(scope, ast.ClassDef) and scope.name.startswith("_"):
                continue
            for node in scope.body:
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    continue
                if not node.name.startswith("_") and not ast.get_docstring(node) and not is_overload(node):
                    bare.append(f"{name_of(path)}:{node.lineno}: {node.name}")
    assert not bare, "without a docstring:\n" + "\n".join(bare)


def is_overload(node: ast.stmt) -> bool:
    return any(ast.unparse(decorator).endswith("overload") for decorator in getattr(node, "decorator_list", []))


@pytest.mark.parametrize(
    "statement",
    [
        "import reporter.cli",
        "import reporter.spec",
        "from reporter.metrics.registry import catalogue; assert catalogue()",
        "from reporter.analyses.registry import analyses; assert analyses()",
        "import reporter.store",
        "import reporter.runs.runner",
    ],
)
def test_what_answers_at_once_imports_nothing_heavy(statement):
    code = f"{statement}\nimport sys\nprint(*sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_the_top_level_holds_only_what_belongs_there():
    assert {name.split("/")[0] for name in tracked_files()} <= TOP_LEVEL


def test_no_index_and_no_folder_of_one_machine_is_written_down():
    found = []
    for name in tracked_files():
        path = ROOT / name
        if not path.is_file():  # deleted, not yet committed
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if MUST_NOT_BE_WRITTEN.search(line):
                found.append(f"{name}:{number}: {line.strip()[:100]}")
    assert not found, "\n".join(found)
