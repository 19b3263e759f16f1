"""Wrong metrics made on purpose: one operation of the code is another, and the tests of its numbers have to notice.

    python tests/faults/mutants.py motion      (or convergence, _approach, dimension, ratios)

A mutant has one comparison, sum, product, condition or constant changed; nothing is written, since each is a fork of
this process in which the module's functions have other code. What a metric declares of itself in words and bounds is
left alone. Ready-made tools leave out decorated functions, as each metric is one, or begin a process for each mutant.
"""

from __future__ import annotations

import ast
import os
import signal
import sys
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from types import FunctionType

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
FUTURE = annotations.compiler_flag
LONGEST = 100  # seconds of the processor, so that other work is not taken for a mutant that hangs, which is noticed
CONVERGENCE = (
    "tests/metrics/test_convergence.py::test_the_gap_is_tested_over_distinct_texts",
    "tests/metrics/test_convergence.py::test_a_gap_that_does_not_vary_is_not_tested",
    "tests/metrics/test_convergence.py::test_a_model_without_a_closing_norm_converges_to_its_last_block",
    "tests/metrics/test_convergence.py::test_a_base_of_another_depth_compares_as_a_whole_only",
    "tests/metrics/test_convergence.py::test_the_final_state_of_another_width_is_no_target",
    "tests/metrics/test_convergence.py::test_one_block_has_neither_a_published_rate_nor_a_slope",
    "tests/metrics/test_convergence.py::test_replicates_are_numbers_of_the_replicates_of_similarity",
    "tests/metrics/test_convergence.py::test_frequent_and_rare_have_the_intervals_of_half_samples",
    "tests/metrics/test_convergence.py::test_targets_and_means[final-token-no-sinks]",
    "tests/metrics/test_convergence.py::test_targets_and_means[block-text-words]",
    "tests/metrics/test_convergence.py::test_what_moves_with_the_size_of_a_corpus_is_compared_at_equal_size_only",
    "tests/metrics/test_convergence.py::test_two_corpora_are_independent_and_a_corpus_with_itself_is_paired",
)
TESTED = {  # the cheap tests that pin numbers, the cheapest first
    "reporter.geometry.spectra": (
        "tests/metrics/test_intrinsic_dimension.py::test_an_estimate_reads_the_ratios_of_its_scale",
        "tests/metrics/test_intrinsic_dimension.py::test_scikit_dimension_agrees",
        "tests/metrics/test_intrinsic_dimension.py::test_ten_distinct_states_whose_neighbours_differ_have_a_dimension",
        "tests/metrics/test_intrinsic_dimension.py::test_any_share_can_be_discarded",
        "tests/metrics/test_intrinsic_dimension.py::test_a_fifth_of_a_multiple_of_five_is_a_fifth",
        "tests/metrics/test_intrinsic_dimension.py::test_the_option_moves_twonn_and_the_published_form_stays",
        "tests/geometry/test_gride.py::test_scipy_finds_the_same_maximum",
        "tests/geometry/test_gride.py::test_scale_1_is_the_first_ratio_alone",
        "tests/geometry/test_gride.py::test_a_scale_needs_its_neighbours",
        "tests/geometry/test_spectra.py",
    ),
    "reporter.geometry.ratios": (
        "tests/metrics/test_intrinsic_dimension.py::test_a_half_sample_is_measured_as_if_it_were_alone",
        "tests/metrics/test_intrinsic_dimension.py::test_set_bits_are_counted",
        "tests/metrics/test_intrinsic_dimension.py::test_a_half_sample_of_ten_states_has_estimates_and_one_of_nine_has_none",
        "tests/metrics/test_intrinsic_dimension.py::test_a_half_sample_whose_ratios_are_all_one_has_no_estimate",
        "tests/metrics/test_intrinsic_dimension.py::test_a_scale_for_which_lists_are_too_short_has_no_estimate",
        "tests/metrics/test_intrinsic_dimension.py::test_half_samples_are_read_at_the_same_distance",
        "tests/metrics/test_intrinsic_dimension.py::test_batches_with_equal_states_are_measured_as_if_each_were_there_once",
        "tests/metrics/test_intrinsic_dimension.py::test_equal_rows_are_dropped_before_n_is_taken",
        "tests/geometry/test_gride.py::test_hard_ratios",
        "tests/geometry/test_gride.py::test_scipy_finds_the_same_maximum",
        "tests/geometry/test_gride.py::test_a_scale_needs_its_neighbours",
        "tests/metrics/test_intrinsic_dimension.py::test_scikit_dimension_agrees",
        "tests/metrics/test_intrinsic_dimension.py::test_ten_distinct_states_whose_neighbours_differ_have_a_dimension",
        "tests/metrics/test_intrinsic_dimension.py::test_noise_of_several_sizes_reads_what_each_reads_alone",
    ),
    "reporter.metrics.motion": ("tests/metrics/test_motion.py",),
    "reporter.metrics.convergence": CONVERGENCE,
}  # fmt: skip
OTHER = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,), ast.Add: (ast.Sub,), ast.Sub: (ast.Add,), ast.Mult: (ast.Div,), ast.Div: (ast.Mult,),
    ast.Pow: (ast.Mult,), ast.FloorDiv: (ast.Mult,), ast.And: (ast.Or,), ast.Or: (ast.And,),
    ast.LShift: (ast.RShift,), ast.RShift: (ast.LShift,), ast.BitAnd: (ast.BitOr,), ast.BitOr: (ast.BitAnd,),
}  # fmt: skip
CALLED = {"min": "max", "max": "min", "all": "any", "any": "all"}


def others(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yield a field of a node and another value for it, for each change of this node."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            for other in OTHER[type(op)]:
                yield "ops", [*node.ops[:at], other(), *node.ops[at + 1 :]]
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


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield line, description and tree of each mutant of a module."""
    tree = ast.parse(source)
    declared = [
        part for part in tree.body if isinstance(part, ast.Assign) and "STATISTICS" in ast.unparse(part.targets)
    ]
    declared += [part for part in tree.body if isinstance(part, ast.If)]  # imports of types
    declared += [part for one in tree.body if isinstance(one, ast.FunctionDef) for part in one.decorator_list]
    for node in ast.walk(tree):
        declared += [said for name in ("annotation", "returns") if (said := getattr(node, name, None))]
    left = {id(node) for part in declared for node in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in left:
            continue
        before = ast.unparse(node).split("\n")[0]
        for field, other in list(others(node)):
            kept = getattr(node, field)
            setattr(node, field, other)
            after = ast.unparse(node).split("\n")[0]
            if after != before:
                yield node.lineno, f"{before}  →  {after}", ast.fix_missing_locations(deepcopy(tree))
            setattr(node, field, kept)


class Mutants:
    """Stands for pytest's loop over the tests: once for each mutant, in a fork, up to the first failure."""

    def __init__(self, name: str) -> None:
        self.name, self.file = name, ROOT / f"{name.replace('.', '/')}.py"

    def survives(self, session: pytest.Session, tree: ast.Module) -> bool:
        """Return whether all tests pass in a fork in which the module is this tree."""
        pid = os.fork()
        if pid:
            return os.waitpid(pid, 0)[1] == 0
        signal.setitimer(signal.ITIMER_PROF, LONGEST)
        session.config.pluginmanager.unregister(name="terminalreporter")
        kept = sys.modules[self.name].__dict__
        for part in tree.body:  # functions are in registries, so that they get other code and stay what they are
            if isinstance(part, ast.FunctionDef):
                self.change(kept[part.name], part)
            elif isinstance(part, ast.ClassDef):
                for method in part.body:
                    if isinstance(method, ast.FunctionDef):
                        self.change(getattr(kept[part.name], method.name), method)
            elif isinstance(part, ast.Assign):
                before = {name: kept[name] for name in map(ast.unparse, part.targets)}
                exec(compile(ast.Module([part], []), str(self.file), "exec", FUTURE), kept)
                for other in list(sys.modules.values()):  # those that imported it
                    for name, value in before.items():
                        if vars(other).get(name) is value:
                            setattr(other, name, kept[name])
        self.test(session)
        os._exit(bool(session.testsfailed))

    def change(self, function: FunctionType, into: ast.FunctionDef) -> None:
        """Give a function the code and the defaults of another one."""
        into.decorator_list = []
        made = dict(function.__globals__)
        exec(compile(ast.Module([into], []), str(self.file), "exec", FUTURE), made)
        for what in ("__code__", "__defaults__", "__kwdefaults__"):
            setattr(function, what, getattr(made[into.name], what))

    def test(self, session: pytest.Session) -> None:
        """Run the tests up to the first failure."""
        for item, following in pairwise([*session.items, None]):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                break

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Print what survives, and the score."""
        source = self.file.read_text()
        self.test(session)  # not in a fork, so that what tests import need not be imported for each mutant
        if session.testsfailed or not self.survives(session, ast.parse(source)):
            raise pytest.UsageError("the tests fail without a change")
        made = list(mutants(source))
        alive = 0
        for line, what, tree in made:
            if self.survives(session, tree):
                alive += 1
                print(f"{self.file.name}:{line}: {what}", flush=True)
        print(f"{self.name}: {len(made) - alive} of {len(made)} mutants noticed", flush=True)
        return True


if __name__ == "__main__":
    os.chdir(ROOT)
    torch.set_num_threads(1)  # threads do not outlive a fork
    os.environ["OMP_NUM_THREADS"] = "1"  # nor do those of what is imported later
    name = next(name for name in TESTED if name.endswith(sys.argv[1]))
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *TESTED[name]], plugins=[Mutants(name)]))
