"""Mutation testing: change one operation of the program at a time, and count the changes that the tests catch.

    python tests/faults/mutants.py AREA [--sample 100] [--seed 0] [--jobs 2]

AREA is ``geometry``, ``claims``, ``study``, ``resume`` or any module, such as ``metrics/motion``. The last line is the
share of mutants that some test caught; the lines before list the mutants that survived. The sample depends on the
program alone, so two versions of the tests can be compared.

A mutant changes one comparison, sum, product, condition or number inside a function. Nothing is written: each mutant
is a fork of this process in which the function has other code. A fork runs only the tests that call the function, the
fastest first. Existing tools leave out decorated functions, such as each metric, or start a process for each mutant.
"""

import argparse
import ast
import gc
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from functools import _lru_cache_wrapper
from pathlib import Path
from time import perf_counter
from types import CodeType, FrameType, FunctionType, ModuleType

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
PROCESSOR_SECONDS, SECONDS = 60, 600  # a mutant that takes this much more than its tests hangs: it counts as caught
AREAS = {  # name: (modules below ``reporter/``, tests below ``tests/``)
    "geometry": (("geometry/*",), ("geometry", "truth")),
    "claims": (
        ("judge/claims/*", "judge/judging", "judge/estimates", "judge/outcomes", "judge/points", "judge/shapes"),
        ("judge/claims",),
    ),
    "study": (("study/*",), ("study",)),
    "resume": (("forward/kept", "runs/cache", "runs/records", "runs/tasks"), ("runs",)),
}
OTHER = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,), ast.FloorDiv: (ast.Mult,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "all": "any", "any": "all"}


def changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yield a field of a node and another value for it, for each change of this node."""
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            for other in OTHER[type(operator)]:
                yield "ops", [*node.ops[:index], other(), *node.ops[index + 1 :]]
    elif isinstance(node, ast.BinOp | ast.BoolOp):
        for other in OTHER.get(type(node.op), ()):
            yield "op", other()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "op", ast.UAdd()
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "value", node.value + 1
        yield "value", node.value - 1
    elif isinstance(node, ast.Name) and node.id in CALLED:
        yield "id", CALLED[node.id]
    elif isinstance(node, ast.If | ast.IfExp) and not isinstance(node.test, ast.Compare):
        yield "test", ast.UnaryOp(ast.Not(), node.test)


def inside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes in the bodies of functions, without annotations, defaults and decorators."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            for statement in node.body:
                yield from (part for part in ast.walk(statement))
        elif isinstance(node, ast.ClassDef | ast.If):
            yield from inside_functions(node)


def mutants(file: Path) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield line, description and tree of each mutant of a module."""
    tree = ast.parse(file.read_text())
    annotations_of = [getattr(node, name, None) for node in ast.walk(tree) for name in ("annotation", "returns")]
    left_out = {id(part) for node in annotations_of if node for part in ast.walk(node)}
    for node in list(inside_functions(tree)):
        if id(node) in left_out:
            continue
        before = ast.unparse(node).split("\n")[0]
        for field, other in list(changes(node)):
            kept = getattr(node, field)
            setattr(node, field, other)
            after = ast.unparse(node).split("\n")[0]
            if after != before:
                yield node.lineno, f"{before}  →  {after}", ast.fix_missing_locations(deepcopy(tree))
            setattr(node, field, kept)


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions of a module's code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes(constant)


class Mutants:
    """A pytest plugin in the place of the loop over the tests."""

    def __init__(self, modules: list[ModuleType], sample: int, seed: int, jobs: int) -> None:
        self.files = {str(Path(module.__file__ or "")): module for module in modules}
        self.sample, self.seed, self.jobs = sample, seed, jobs
        self.calls: set[tuple[str, int]] = set()
        self.of_fixture: dict[str, set[tuple[str, int]]] = defaultdict(set)
        self.of_test: dict[str, set[tuple[str, int]]] = {}
        self.seconds: dict[str, float] = {}

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename in self.files:
            self.calls.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    def clear_caches(self) -> None:
        """Forget what functions of the modules returned before: a test would not call them, nor a mutant compute it."""
        for module in self.files.values():
            for function in vars(module).values():
                if type(function) is _lru_cache_wrapper and function.__module__ == module.__name__:
                    function.cache_clear()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Iterator[None]:
        before, self.calls = self.calls, set()
        yield
        self.of_fixture[fixturedef.argname] |= self.calls
        self.calls |= before

    def test(self, session: pytest.Session, items: list[pytest.Item], measure: bool = False) -> None:
        """Run tests up to the first failure."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.calls, began = set(), perf_counter()
            if measure:
                self.clear_caches()
                threading.setprofile(self.profile)
                sys.setprofile(self.profile)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            sys.setprofile(None)
            threading.setprofile(None)
            self.seconds[item.nodeid] = perf_counter() - began
            self.of_test[item.nodeid] = self.calls
            if session.testsfailed:
                break

    def start(self, session: pytest.Session, file: str, line: int, tree: ast.Module) -> int:
        """Start a fork in which the module of ``file`` is ``tree``; its exit status tells whether a test fails."""
        changed = {
            (code.co_qualname, code.co_firstlineno): code
            for code in codes(compile(tree, file, "exec", dont_inherit=True))
        }
        around = max((code for code in changed.values() if code.co_firstlineno <= line and "<" not in code.co_name),
                     key=lambda code: code.co_firstlineno)  # fmt: skip
        chosen = [item for item in session.items if (file, around.co_firstlineno) in self.of_test[item.nodeid]]
        chosen.sort(key=lambda item: self.seconds[item.nodeid])
        pid = os.fork()
        if pid:
            return pid
        seconds = sum(self.seconds[item.nodeid] for item in chosen)
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS + 2 * seconds)
        signal.setitimer(signal.ITIMER_REAL, SECONDS + 5 * seconds)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        session.config.pluginmanager.unregister(name="terminalreporter")
        for function in gc.get_objects():
            if type(function) is FunctionType and function.__code__.co_filename == file:
                key = function.__code__.co_qualname, function.__code__.co_firstlineno
                if key in changed and len(changed[key].co_freevars) == len(function.__code__.co_freevars):
                    function.__code__ = changed[key]
        self.clear_caches()
        folder = Path(tempfile.mkdtemp())
        session.config._tmp_path_factory._basetemp = folder  # fixtures that last for a session are made again
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if chosen:
            self.test(session, chosen)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(bool(session.testsfailed))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print the mutants that survive, and the share of those caught."""
        self.test(session, session.items, measure=True)  # also imports, once for all forks, what the tests import
        if session.testsfailed:
            raise pytest.UsageError("the tests fail without a change")
        for item in session.items:
            for fixture in item.fixturenames:  # type: ignore[attr-defined]
                self.of_test[item.nodeid] |= self.of_fixture[fixture]
        made = [(file, *mutant) for file in sorted(self.files) for mutant in mutants(Path(file))]
        made = random.Random(self.seed).sample(made, min(self.sample, len(made)))
        running: dict[int, str] = {}
        survived = 0
        for mutant in [*made, None]:
            while running and (len(running) >= self.jobs or mutant is None):
                pid, status = os.wait()
                if (text := running.pop(pid, None)) and status == 0:
                    survived += 1
                    print(text, flush=True)
            if mutant is not None:
                file, line, description, tree = mutant
                running[self.start(session, file, line, tree)] = f"{Path(file).relative_to(ROOT)}:{line}: {description}"
        print(f"{len(made) - survived} of {len(made)} mutants caught", flush=True)
        return True


def main() -> int:
    """Mutate the area that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("area")
    parser.add_argument("tests", nargs="*", help="folders below tests/ (default: those of the area)")
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    patterns, tests = AREAS.get(options.area, ((options.area,), (options.area.split("/")[0],)))
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    torch.set_num_threads(1)  # threads do not outlive a fork
    os.environ["OMP_NUM_THREADS"] = "1"  # nor do those of libraries that are imported later
    files = [
        file for pattern in patterns for file in (ROOT / "reporter").glob(f"{pattern}.py") if file.stem != "__init__"
    ]
    modules = [importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts)) for file in files]
    plugin = Mutants(modules, options.sample, options.seed, options.jobs)
    paths = [f"tests/{folder}" for folder in options.tests or tests]
    return pytest.main(["-q", "-p", "no:cacheprovider", *paths], plugins=[plugin])


if __name__ == "__main__":
    sys.exit(main())
