"""Code of other people that hangs, fills the memory, crashes or panics ends in one line, and leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reporter.core import children
from reporter.core.children import Limit, in_child, in_children
from reporter.core.errors import ReporterError

pytestmark = pytest.mark.skipif(not children.CAN_FORK, reason="only Linux can fork safely")

GIB = 2**30
LIMIT = Limit("the library", "use another one", seconds=60.0, memory=GIB)
QUICK = Limit("the library", "use another one", seconds=1.0, memory=GIB)


class PanicException(BaseException):
    """As PyO3 makes one for each library in Rust."""


def offspring():
    """The children of this process, ended ones too: other tests may have some."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def raising(error):
    def fail():
        raise error

    return fail


def deep():
    return deep()


@pytest.mark.parametrize(
    ("function", "limit", "message"),
    [
        (lambda: time.sleep(600), QUICK, r"the library did not finish within 1 s and was stopped; use another one"),
        (lambda: re.match("(a+)+$", "a" * 60 + "b"), QUICK, r"did not finish within 1 s"),  # keeps the interpreter lock
        (lambda: len(bytearray(8 * GIB)), LIMIT, r"the library needs more than 1\.0 GiB of memory; use another one"),
        (os.abort, LIMIT, r"needs more than 1\.0 GiB of memory"),  # as Rust does without memory
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), LIMIT, r"the library crashed \(SIGSEGV\); use another one"),
        (lambda: os._exit(3), LIMIT, r"the library crashed \(exit code 3\)"),
        (raising(ReporterError("as it is")), LIMIT, r"^as it is$"),
        (raising(PanicException("no entry")), LIMIT, r"PanicException: no entry"),
        (raising(SystemExit("bye")), LIMIT, r"SystemExit: bye"),
        (deep, LIMIT, r"RecursionError"),
        (lambda: lambda: None, LIMIT, r"pickle"),
    ],
)  # fmt: skip
def test_what_fails_in_a_child_is_one_line_and_leaves_no_process(function, limit, message):
    before, others = dict(os.environ), offspring()
    with pytest.raises(ReporterError, match=message) as caught:
        in_child(function, limit)
    assert "\n" not in str(caught.value) and dict(os.environ) == before
    assert offspring() == others


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_come_in_order_from_as_many_children_as_there_are_cores(monkeypatch, count):
    monkeypatch.setattr(children, "cores", lambda: count)
    others = offspring()
    results = list(in_children(lambda item: (item * "x" * 70_000, os.getpid()), range(7), lambda _: LIMIT))
    assert [text for text, _ in results] == [item * "x" * 70_000 for item in range(7)]
    assert len({process for _, process in results} - {os.getpid()}) == count
    first = in_children(lambda item: item, range(7), lambda _: LIMIT)
    assert next(first) == 0
    first.close()  # the caller needs no more
    assert offspring() == others


def test_without_forks_the_same_results_come_from_this_process(monkeypatch):
    monkeypatch.setattr(children, "CAN_FORK", False)
    assert list(in_children(lambda item: (item, os.getpid()), [1, 2], lambda _: LIMIT)) == [
        (1, os.getpid()),
        (2, os.getpid()),
    ]


def test_a_child_ends_when_its_parent_is_killed():
    code = (
        "import sys\nfrom reporter.core.children import Limit, in_child\n"
        "def hang():\n    open(sys.argv[1], 'w').write(str(__import__('os').getpid()))\n    while True: pass\n"
        "in_child(hang, Limit('it', 'wait', seconds=1.0))"
    )
    reader, writer = os.pipe()
    place = f"/proc/self/fd/{writer}"
    with subprocess.Popen([sys.executable, "-c", code, place], pass_fds=[writer]) as parent:
        child = int(os.read(reader, 20))
        parent.kill()
    for _ in range(300):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            break
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break  # dead, but nobody has waited for it
        time.sleep(0.1)
    else:
        pytest.fail("the child is still at work")
    os.close(reader)
    os.close(writer)
