"""float32, or bf16 products over float32 weights where the machine is made for it and the states hardly change."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

    from reporter.models.load import LoadedModel
    from reporter.texts.tokens import TokenBatch

Precision = Literal["float32", "mixed"]
Asked = Literal["auto", "float32", "mixed"]

TOLERANCE = 0.02  # mean relative deviation of a state that `auto` accepts; bf16 itself rounds to 0.004
NARROWEST = 256  # below this width the products are too small for bf16 to be faster


@dataclass(frozen=True)
class Chosen:
    """The precision of a pass, and by how much it was seen to differ from float32 (None where it was not tried).

    The deviation is the largest over the layers of the mean over tokens of ‖h_mixed − h_float32‖ / ‖h_float32‖.
    """

    precision: Precision
    deviation: float | None


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[object]:
    """Return the context in which a model runs in this precision; weights and residual stream stay float32."""
    import torch

    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def choose(asked: Asked, model: LoadedModel, batch: TokenBatch) -> Chosen:
    """Settle on a precision, by trying it on one batch.

    ``auto`` is ``mixed`` on a device with bf16 instructions, for a model wide enough to profit, whose states deviate
    by no more than ``TOLERANCE``. Nothing is timed, so that the choice is the same in every run on a machine.
    """
    if expected(asked, model.anatomy.width, model.device) == "float32":
        return Chosen("float32", None)
    deviation = _deviation(model, batch)
    if asked == "auto" and not deviation <= TOLERANCE:
        return Chosen("float32", deviation)
    return Chosen("mixed", deviation)


def expected(asked: Asked, width: int, device: torch.device) -> Precision:
    """Return the precision that a model comes to unless its states deviate too much.

    Args:
        asked: what the study asks for.
        width: of the model's states.
        device: where it runs.
    """
    if asked == "auto":
        return "mixed" if width >= NARROWEST and _has_bf16(device) else "float32"
    return asked


def _has_bf16(device: torch.device) -> bool:
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        capabilities = torch.backends.cpu.get_cpu_capability(), _cpu_flags()
        return capabilities[0].startswith("AVX512") and (
            "avx512_bf16" in capabilities[1] or "amx_bf16" in capabilities[1]
        )
    return False


def _cpu_flags() -> str:
    from pathlib import Path

    info = Path("/proc/cpuinfo")  # torch tells AVX-512, but not in public whether it comes with bf16
    return info.read_text() if info.exists() else ""


def _deviation(model: LoadedModel, batch: TokenBatch) -> float:
    import torch

    ids = torch.as_tensor(batch.ids[:8], device=model.device)
    mask = torch.as_tensor(batch.mask[:8], device=model.device)
    with torch.inference_mode():
        exact = model.states(ids, mask)
        with autocast(model.device, "mixed"):
            rough = model.states(ids, mask)
        kept = mask.bool()
        deviations = [_relative(r.float()[kept], e.float()[kept]).mean() for r, e in zip(rough, exact, strict=True)]
    return float(torch.stack(deviations).max())  # NaN, where one is: then no tolerance holds


def _relative(rough: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return ‖rough − exact‖ / ‖exact‖ of each row; 0 where both are zero."""
    difference: torch.Tensor = (rough - exact).norm(dim=-1)
    relative: torch.Tensor = difference / exact.norm(dim=-1)
    return relative.masked_fill(difference == 0, 0.0)
