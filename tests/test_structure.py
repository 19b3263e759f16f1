"""The house keeps its shape: what is light, who removes files, what must not be written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "reporter"

HEAVY = {"torch", "transformers", "tokenizers", "pandas", "altair", "vl_convert", "sklearn", "scipy", "duckdb", "rich"}
TOP_LEVEL = {
    ".ci", ".github", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md",
    "pyproject.toml", "reporter", "requirements-dev.txt", "requirements.txt", "studies", "templates", "tests",
}  # fmt: skip
# Where packages come from is the business of each machine's own configuration, and nobody has our folders.
UNWANTED = re.compile(
    r"\bpy(?:pi|thonhosted)\.org\b|--(?:extra-)?index-url|--trusted[-]host"
    r"|(?<![\w.}/])/(?:work|root|tmp)/|\.\./shared\b"
)


def tracked_files() -> list[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    # one may be deleted, not yet committed
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


VERBS = ("--help", "init new", "validate new.yaml", "validate --schema", "metrics motion", "diff --help")
AT_ONCE = ["import reporter; assert not {'reporter.core', 'numpy', 'pydantic'} & sys.modules.keys()"]
AT_ONCE += ["from reporter.app.cli import app", *(f"app({verb.split()}, standalone_mode=False)" for verb in VERBS)]
AT_ONCE += ["import reporter.study", "import reporter.store", "import reporter.runs.runner"]
AT_ONCE += ["from reporter.metrics.base import catalogue; assert catalogue()"]
AT_ONCE += ["from reporter.metrics.analysis import analyses; assert analyses()"]
AT_ONCE += ["from reporter.texts import build_texts; from reporter.texts.sources.generated import GeneratedCorpus"]
AT_ONCE += ["build_texts('mine', GeneratedCorpus(generate='grammar', texts=3), Path(), Path('cache'))"]


def test_what_answers_at_once_imports_nothing_heavy(tmp_path):
    listing = f"print('heavy:', *sorted({HEAVY} & sys.modules.keys()))"
    code = "import sys\nfrom pathlib import Path\n" + "\n".join(f"{step}\n{listing}" for step in AT_ONCE)
    how = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(ROOT)}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=False, **how)
    assert done.returncode == 0, done.stderr
    heavy = re.findall(r"^heavy:(.*)", done.stdout, re.MULTILINE)
    assert dict(zip(AT_ONCE, heavy, strict=True)) == dict.fromkeys(AT_ONCE, "")


REMOVING = re.compile(r"\brmtree\(|\.unlink\(|\.rename\((?!columns)|\bcopytree\(|os\.remove\(")
WITHIN_OUR_OWN = {  # who removes or renames: the owner of outputs, and the keepers of the cache and of new folders
    "core/outputs.py", "core/artifacts.py", "core/checksums.py", "core/files.py", "core/locks.py", "app/docs/site.py",
    "app/verify/verification.py", "forward/kept.py", "forward/observable.py", "models/states.py",
    "report/single_file.py",
}  # fmt: skip


def test_one_owner_removes_files_and_one_opens_databases():
    removing, opening = set(), set()
    for path in PACKAGE.rglob("*.py"):
        name, text = path.relative_to(PACKAGE).as_posix(), path.read_text()
        removing |= {name} if REMOVING.search(text) else set()
        opening |= {name} if "duckdb.connect(" in text else set()
    assert removing <= WITHIN_OUR_OWN, "use reporter.core.outputs for what stands under a name that a person gave"
    assert opening <= {"core/confined.py", "store/sandbox.py"}, "use reporter.core.confined"


def test_the_top_level_holds_only_what_belongs_there():
    assert {name.split("/")[0] for name in tracked_files()} <= TOP_LEVEL


def test_no_index_and_no_folder_of_one_machine_is_written_down():
    found = []
    for name in tracked_files():
        lines = enumerate((ROOT / name).read_text("utf-8", errors="replace").splitlines(), 1)
        found += [f"{name}:{number}: {line.strip()[:100]}" for number, line in lines if UNWANTED.search(line)]
    assert not found, "\n".join(found)


def test_the_documentation_names_files_of_tests_that_exist():
    pages = [page.read_text("utf-8") for page in (PACKAGE / "app" / "docs" / "pages").glob("*.md")]
    named = set(re.findall(r"`(?:python )?(tests/[\w/]+\.\w+)", " ".join(pages)))
    assert len(named) > 20 and not [name for name in sorted(named) if not (ROOT / name).is_file()]
