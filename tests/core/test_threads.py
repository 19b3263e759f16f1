"""Parts of a work on all cores: in their order, each with one thread, and everything as before afterwards."""

import os
import platform
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from reporter.core.threads import (
    NARROW,
    Ahead,
    GivenUp,
    given,
    let_waiting_threads_sleep,
    raise_if_cancelled,
    single,
    spread,
    suited_to,
    tasks_at_once,
)


@pytest.fixture(autouse=True)
def _two_threads():
    usual = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(usual)


def _blas():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_results_come_in_the_order_of_the_items_and_parts_of_a_part_run_one_after_the_other():
    both = threading.Barrier(2, timeout=30)  # is passed only where two run at once

    def job(i):
        both.wait()
        here = threading.get_ident()
        return i, torch.get_num_threads(), {here} == set(spread(lambda _: threading.get_ident(), range(3)))

    assert spread(job, range(6)) == [(i, 1, True) for i in range(6)]


def test_a_study_says_how_many_there_are_and_linear_algebra_has_its_own_again_afterwards():
    np.linalg.eigvalsh(np.eye(3))
    before = _blas()
    for one in (single, lambda: given(1)):
        with one():
            assert (torch.get_num_threads(), _blas()) == (1, {1})
            assert len(set(spread(lambda _: threading.get_ident(), range(4)))) == 1
        assert (torch.get_num_threads(), _blas()) == (2, before)
    with given(None):
        assert torch.get_num_threads() == 2


def test_modes_of_the_caller_hold_in_every_part():
    x = torch.ones(2, requires_grad=True)

    def job(_):
        return torch.is_inference_mode_enabled(), (x * 2).requires_grad

    with torch.inference_mode():
        assert spread(job, range(2)) == [(True, False)] * 2
    with torch.no_grad():
        assert spread(job, range(2)) == [(False, False)] * 2
    assert spread(job, range(2)) == [(False, True)] * 2
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        spread(lambda i: np.float64(i) / np.float64(0), range(1, 4))


def test_the_first_item_that_fails_is_what_is_raised():
    with pytest.raises(ValueError, match=r"'x1'"):
        spread(lambda i: i and int(f"x{i}"), range(4))


def test_what_nobody_waits_for_any_more_ends():
    both, ended = threading.Barrier(2, timeout=30), []

    def job(i):
        both.wait()
        if i == 0:
            raise KeyboardInterrupt
        with pytest.raises(GivenUp):
            while True:
                raise_if_cancelled()
        ended.append(i)

    with pytest.raises(KeyboardInterrupt):
        spread(job, range(2))
    assert ended == [1]
    raise_if_cancelled()  # outside of a job there is nothing to end


@pytest.mark.parametrize("policy", ["PASSIVE", "ACTIVE"])
def test_waiting_threads_spin_a_moment_and_then_sleep_unless_the_environment_says_otherwise(monkeypatch, policy):
    monkeypatch.setattr(os, "environ", {} if policy == "PASSIVE" else {"OMP_WAIT_POLICY": policy})
    let_waiting_threads_sleep()
    assert os.environ["OMP_WAIT_POLICY"] == policy and ("GOMP_SPINCOUNT" in os.environ) == (policy == "PASSIVE")


@pytest.mark.parametrize(
    ("width", "device", "tasks", "threads"),
    [(NARROW, "cpu", 1, 1), (NARROW + 1, "cpu", 1, 2), (NARROW + 1, "cpu", 2, 1), (NARROW, "cuda", 2, 2)],
)
def test_narrow_operations_and_those_of_many_tasks_have_one_thread(width, device, tasks, threads):
    with suited_to(width, device, tasks):
        assert torch.get_num_threads() == threads and tasks_at_once() == (2 if threads == 1 else 1)
    assert tasks_at_once() == 1


@pytest.mark.parametrize("cores", [1, 3])
def test_jobs_that_run_ahead_come_in_their_order_and_one_that_failed_can_be_given_again(cores):
    failing = {4}

    def job(i):
        if i in failing:
            raise ValueError(i)
        return 10 * i, torch.get_num_threads()

    with Ahead(job, cores) as running:
        for i in range(3):
            running.give(i)
        assert [running.next() for _ in range(2)] == [(i, (10 * i, 1 if cores > 1 else 2)) for i in range(2)]
        for i in range(3, 7):
            running.give(i)
        running.next(), running.next()
        with pytest.raises(ValueError, match="4"):
            running.next()
        assert running.take_back() == [4, 5, 6] and len(running) == 0
        failing.clear()
        running.give(4)
        assert running.next()[1][0] == 40


ARENAS = """
import ctypes, os, threading
from reporter.core.threads import let_threads_share_memory
{call}
library, together = ctypes.CDLL(None), threading.Barrier(16)
library.malloc.restype = library.fdopen.restype = ctypes.c_void_p
library.free.argtypes, library.malloc_info.argtypes = (ctypes.c_void_p,), (ctypes.c_int, ctypes.c_void_p)
library.fflush.argtypes = (ctypes.c_void_p,)
def work():
    together.wait()
    library.free(library.malloc(1000))
    together.wait()
threads = [threading.Thread(target=work) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
file = library.fdopen(1, b"w")
library.malloc_info(0, file)
library.fflush(file)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no arenas")
def test_threads_share_the_memory_that_others_freed():
    def arenas(call):
        environment = {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"}
        told = subprocess.run(
            [sys.executable, "-c", ARENAS.format(call=call)], capture_output=True, check=True, env=environment
        )
        return told.stdout.count(b"<heap nr")

    assert arenas("") > arenas("let_threads_share_memory()") <= max(2, os.cpu_count())
