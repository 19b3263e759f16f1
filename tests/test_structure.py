"""The house keeps its shape: who may import whom, what is light, what is small, what must not be written."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "reporter"

ROOMS = (
    "core", "spec", "texts", "models", "geometry", "charts", "forward", "metrics", "store", "judge", "report", "runs",
    "app",
)  # fmt: skip
"""Data flows from left to right: a room imports only rooms to its left."""
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = {"torch", "transformers", "tokenizers", "pandas", "altair", "vl_convert", "sklearn", "scipy", "duckdb"}
TOP_LEVEL = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md",
    "pyproject.toml", "reporter", "requirements-dev.txt", "requirements.txt", "studies", "templates", "tests",
}  # fmt: skip
# Where packages come from is the business of each machine's own configuration, and nobody has our folders.
MUST_NOT_BE_WRITTEN = re.compile(
    r"\bpy(?:pi|thonhosted)\.org\b|--(?:extra-)?index-url|--trusted[-]host"
    r"|(?<![\w.}/])/(?:work|root|tmp)/|\.\./shared\b"
)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tracked_files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


def test_rooms_import_only_rooms_to_their_left():
    loose = {"__init__.py", "__main__.py", "py.typed"}
    assert {path.name for path in PACKAGE.iterdir()} - {"__pycache__"} == {*ROOMS, *loose}
    wrong = []
    for number, room in enumerate(ROOMS):
        for path in (PACKAGE / room).rglob("*.py"):
            for imported in re.findall(r"^\s*(?:from|import) reporter\.(\w+)", path.read_text(), re.MULTILINE):
                if imported not in ROOMS[: number + 1]:
                    wrong.append(f"{name_of(path)} imports {imported}")
    assert not wrong, "\n".join(wrong)


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


def test_what_answers_at_once_imports_nothing_heavy():
    statements = (
        "import reporter.app.cli",
        "import reporter.spec",
        "from reporter.metrics.base import catalogue; assert catalogue()",
        "from reporter.metrics.analysis import analyses; assert analyses()",
        "import reporter.store",
        "import reporter.runs.runner",
    )
    listing = f"print(*sorted({HEAVY!r} & sys.modules.keys()))"
    code = "import sys\n" + "\n".join(f"{statement}\n{listing}" for statement in statements)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    heavy = dict(zip(statements, done.stdout.splitlines(), strict=True))
    assert heavy == dict.fromkeys(statements, "")


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
