"""How fast this machine is, timed in about two seconds and remembered for a day."""

from __future__ import annotations

import json
import math
import os
import time
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from reporter.effort import Effort
    from reporter.forward.precision import Precision

DAY = 24 * 3600.0
VERSION = 1  # raise it when something else is timed
WIDTHS = (64, 256, 1024)
SIZES = (32, 128, 512)
_TOKENS, _LENGTH = 512, 64
_ENOUGH = 0.1  # seconds of tries for one figure
_POINTS, _WIDTH = 4096, 256
_STEPS = 10_000

Curve = tuple[tuple[float, float], ...]
"""A quantity at some sizes, ascending."""


@dataclass(frozen=True)
class Machine:
    """How fast a machine is.

    Args:
        device: where it was timed, and with how many threads.
        float32: operations a second in a transformer block of some widths, in float32.
        mixed: the same with bf16 products.
        reading: bytes a second in going through a large array.
        eigen: eigenproblems a second of some sizes, all cores together.
        search: seconds of a neighbour search among ``_POINTS`` points of width ``_WIDTH``.
        step: seconds of a small call.
        timed: when it was timed, in seconds since 1970.
    """

    device: str
    float32: Curve
    mixed: Curve
    reading: float
    eigen: Curve
    search: float
    step: float
    timed: float

    def rate(self, precision: Precision, width: float) -> float:
        """Return the operations a second in products of states of some width."""
        return _at(self.float32 if precision == "float32" else self.mixed, width)

    def seconds(self, effort: Effort, width: float) -> float:
        """Return how long some work takes on states of some width."""
        eigen = sum(many / _at(self.eigen, size) for size, many in effort.eigen if size)
        searched = sum(many * points**2 * d for points, d, many in effort.searches) / (_POINTS**2 * _WIDTH)
        return (
            effort.products / self.rate("float32", width)
            + effort.bytes / self.reading
            + eigen
            + self.search * searched
            + self.step * effort.steps
        )

    def line(self) -> str:
        """Say what was found."""
        fast, bf16 = (max(rate for _, rate in curve) / 1e9 for curve in (self.float32, self.mixed))
        ago = max(0.0, time.time() - self.timed) / 60
        when = "just now" if ago < 2 else f"{ago:.0f} minutes ago" if ago < 120 else f"{ago / 60:.0f} hours ago"
        return f"{self.device}, timed {when}: {fast:.0f} GFLOP/s in float32, {bf16:.0f} in bf16"


def this_machine(cache: Path, device: str) -> Machine:
    """Return how fast this machine is, as it was timed within the last day, or now.

    Args:
        cache: the folder of caches.
        device: where models run.
    """
    import torch

    said = f"{_name(device)}, {torch.get_num_threads()} threads, torch {torch.__version__}"
    path = cache / "machine.json"
    known = _read(path, said)
    if known is None:
        known = timed(device, said)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps({"version": VERSION} | asdict(known), indent=1), "utf-8")
        part.replace(path)
    return known


def _read(path: Path, device: str) -> Machine | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        curves = {name: tuple(map(tuple, found[name])) for name in ("float32", "mixed", "eigen")}
        if found.pop("version") != VERSION:
            return None
        machine = Machine(**found | curves)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return machine if machine.device == device and 0 <= time.time() - machine.timed < DAY else None


def timed(device: str, said: str) -> Machine:
    """Time a machine; each figure is the best of a few tries, so that other work on it does little.

    Args:
        device: where models run.
        said: its name.
    """
    import torch

    clock = _Stopwatch(device)
    generator = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        blocks = [_Block(width, device, generator) for width in WIDTHS]
        float32 = tuple((float(b.width), b.operations / clock.least(b.run)) for b in blocks)
        mixed = tuple((float(b.width), b.operations / clock.least(b.run_mixed)) for b in blocks)
        large = torch.rand(2**23, device=device)
        reading = large.nbytes / clock.least(lambda: torch.mul(large, large).sum())
        eigen = tuple((float(size), _eigen(size, device, clock)) for size in SIZES)
        points = torch.randn(_POINTS, _WIDTH, generator=generator).to(device)
        _searched(points[:256])
        search = clock.once(lambda: _searched(points))
    step = clock.least(_small_calls) / _STEPS
    return Machine(said, float32, mixed, reading, eigen, search, step, time.time())


class _Stopwatch:
    def __init__(self, device: str) -> None:
        import torch

        # A GPU is told what to do, and does it while Python goes on.
        self._wait: Callable[[], None] = getattr(torch, torch.device(device).type).synchronize

    def least(self, work: Callable[[], Any]) -> float:
        """Return the least seconds of some tries, after one that warms up: two, or as many as ``_ENOUGH`` allows."""
        tries = [self.once(work) for _ in range(3)][1:]
        while sum(tries) < _ENOUGH:
            tries.append(self.once(work))
        return min(tries)

    def once(self, work: Callable[[], Any]) -> float:
        """Return the seconds of one try."""
        self._wait()
        began = time.perf_counter()
        work()
        self._wait()
        return max(time.perf_counter() - began, 1e-9)


class _Block:
    """What a transformer's block does: attention among texts, two products with four times the width between them."""

    def __init__(self, width: int, device: str, generator: Any) -> None:
        import torch

        def normal(*shape: int) -> Any:
            return torch.randn(*shape, generator=generator).div_(math.sqrt(width)).to(device)

        self.width, self.device = width, device
        self.states = normal(_TOKENS // _LENGTH, _LENGTH, width)
        self.weights = [
            normal(3 * width, width),
            normal(width, width),
            normal(4 * width, width),
            normal(width, 4 * width),
        ]
        self.operations = operations(width, _LENGTH) * _TOKENS

    def run(self) -> Any:
        """Do it in float32."""
        from torch.nn import functional

        heads = self.width // 64
        inward, outward, up, down = self.weights
        query, key, value = (
            part.view(*part.shape[:2], heads, 64).transpose(1, 2)
            for part in functional.linear(self.states, inward).chunk(3, dim=-1)
        )
        seen = functional.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        x = functional.layer_norm(self.states + functional.linear(seen, outward), (self.width,))
        return x + functional.linear(functional.gelu(functional.linear(x, up)), down)

    def run_mixed(self) -> Any:
        """Do it with bf16 products."""
        import torch

        with torch.autocast(torch.device(self.device).type, dtype=torch.bfloat16):
            return self.run()


def operations(width: float, length: float, inner: float | None = None, gated: bool = False) -> float:
    """Return the floating-point operations of a block for each token.

    Args:
        width: of the states.
        length: tokens of a text.
        inner: width of the feed-forward; four times ``width`` if left out.
        gated: whether that has a gate, which is a third product.
    """
    return 2 * (4 * width**2 + (3 if gated else 2) * width * (inner or 4 * width)) + 4 * length * width


def _eigen(size: int, device: str, clock: _Stopwatch) -> float:
    """Return how many eigenproblems of a size are solved in a second."""
    import torch

    from reporter.threads import spread

    many = {32: 64, 128: 16}.get(size, 2)
    x = torch.rand(many, size, size, dtype=torch.float64)
    matrices = x @ x.mT
    if not device.startswith("cuda"):  # Apple's GPUs have no float64: metrics leave these to the processor, too
        return many / clock.least(lambda: spread(torch.linalg.eigvalsh, matrices.unbind()))
    there = matrices.to(device)
    return many / clock.least(lambda: torch.linalg.eigvalsh(there))


def _small_calls() -> int:
    total = 0
    for number in range(_STEPS):
        total += len({"number": number})
    return total


def _at(curve: Sequence[tuple[float, float]], size: float) -> float:
    """Return a quantity at a size: between those that were timed on a straight line of logarithms, beyond them its end.

    Beyond the last size a rate stays what it is, except that eigenproblems grow with the cube, which the line goes on.
    """
    sizes = [x for x, _ in curve]
    right = min(max(bisect(sizes, size), 1), len(curve) - 1)
    (a, at_a), (b, at_b) = curve[right - 1], curve[right]
    share = (math.log(max(size, 1)) - math.log(a)) / (math.log(b) - math.log(a))
    return math.exp(math.log(at_a) + share * (math.log(at_b) - math.log(at_a)))


def _searched(points: Any) -> Any:
    from reporter import geometry

    return geometry.twonn(points)


def _name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return str(torch.cuda.get_device_name(torch.device(device)))
    return device
