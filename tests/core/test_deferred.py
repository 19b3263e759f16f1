"""Placeholders of modules: they cost no import until something uses them, and then behave like the real thing."""

import subprocess
import sys

import pytest

from reporter.core.deferred import deferring

MODULE = """
class Kind:
    size = 3
def double(number): return 2 * number
NUMBERS = [1, 2]
"""


@pytest.fixture
def heavy(tmp_path, monkeypatch):
    (tmp_path / "heavy").mkdir()
    (tmp_path / "heavy" / "__init__.py").write_text(MODULE)
    (tmp_path / "heavy" / "part.py").write_text("WHERE = 'part'\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("heavy")]:
        del sys.modules[name]


def test_names_wait_until_they_are_used(heavy):
    with deferring("heavy", calls=True):
        import heavy as module
        from heavy import NUMBERS, Kind, double
        from heavy.part import WHERE

        later = double(4)
        assert not isinstance(3, Kind)
        assert bool(later)
        annotation = Kind | None
    assert "heavy" not in sys.modules
    assert annotation
    assert isinstance(later, type(double)), "a call waits as well"
    assert list(NUMBERS) == [1, 2]
    assert "heavy" in sys.modules
    import heavy as real

    assert double(5) == module.double(5) == 10
    assert later._value() == 8
    assert isinstance(real.Kind(), Kind) and issubclass(real.Kind, Kind) and not isinstance(3, Kind)
    assert Kind.size == 3 and WHERE.upper() == "PART"


def test_a_base_class_and_a_plain_call_are_imported_at_once(heavy):
    with deferring("heavy"):
        from heavy import Kind, double

        class More(Kind):
            pass

        assert double(4) == 8
    import heavy as real

    assert issubclass(More, real.Kind)


def test_what_is_imported_already_stays(heavy):
    import heavy as real

    with deferring("heavy"):
        from heavy import Kind
    assert Kind is real.Kind


def test_models_load_without_the_compiler_and_it_is_there_when_asked_for():
    code = """
import sys
from reporter.models.libraries import import_transformers
import_transformers()
import torch, transformers
transformers.BertModel
assert not {"torch.distributed.tensor", "scipy.optimize", "torch._dynamo.convert_frame"} & sys.modules.keys()
light = torch._dynamo
torch.empty(2, device="meta").normal_()
assert light.marked and all(hasattr(fn, "__dynamo_disable") for fn in light.marked)
assert torch._dynamo.is_compiling() is False and torch._dynamo is sys.modules["torch._dynamo"] is not light
assert not any(hasattr(fn, "__dynamo_disable") for fn in light.marked)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
