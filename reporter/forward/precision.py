"""The precision of a pass: float32, or bf16 products over float32 weights.

The latter where the machine is made for it and the states hardly change.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from reporter.core.threads import suited_to
from reporter.forward.reading import batched, longest, run_together
from reporter.models.load import LoadedModel
from reporter.models.states import SavedStates
from reporter.texts.texts import Texts
from reporter.texts.tokens import Shard, TokenBatch, tokenise

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
    return nullcontext() if precision == "float32" else torch.autocast(device.type, dtype=torch.bfloat16)


def expected(precision: Asked, width: int, device: torch.device) -> Precision:
    """Return the precision that a model comes to unless its states deviate too much."""
    if precision == "auto":
        return "mixed" if width >= NARROWEST and _has_bf16(device) else "float32"
    return precision


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if device.type == "cpu":
        info = Path("/proc/cpuinfo")  # torch tells AVX-512, but not in public whether it comes with bf16
        flags = info.read_text() if info.exists() else ""
        wide = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
        return wide and ("avx512_bf16" in flags or "amx_bf16" in flags)
    return False


def _deviation(model: LoadedModel, batch: TokenBatch) -> float:
    ids = torch.as_tensor(batch.ids[:8], device=model.device)
    mask = torch.as_tensor(batch.mask[:8], device=model.device)

    def states(precision: Precision) -> list[torch.Tensor]:
        with torch.inference_mode(), autocast(model.device, precision):
            return model.states(ids, mask)

    ways: tuple[Precision, ...] = ("float32", "mixed")
    exact, rough = run_together(states, ways, model)
    with torch.inference_mode():
        kept = mask.bool()
        deviations = []
        for x, reference in ((a.float()[kept], b.float()[kept]) for a, b in zip(rough, exact, strict=True)):
            difference = (x - reference).norm(dim=-1)
            deviations.append((difference / reference.norm(dim=-1)).masked_fill(difference == 0, 0.0).mean())
    return float(torch.stack(deviations).max())  # NaN, where one is: then no tolerance holds


def settle_precision(precision: Asked, model: LoadedModel | SavedStates, texts: Texts, max_tokens: int) -> Chosen:
    """Choose the precision of a pass by trying it on the first few texts of the corpus.

    ``auto`` is ``mixed`` on a device with bf16 instructions, for a model wide enough to profit, whose states deviate
    by no more than ``TOLERANCE``. Nothing is timed, so that the choice is the same in every run on a machine.
    """
    if isinstance(model, SavedStates):
        return Chosen("float32", None)
    tokens = tokenise(texts, Shard(0, 0, min(4, len(texts))), model.tokenizer, min(128, longest(max_tokens, model)))
    if not tokens or expected(precision, model.anatomy.width, model.device) == "float32":
        return Chosen("float32", None)
    with suited_to(model.anatomy.width, model.device.type):
        deviation = _deviation(model, next(batched(tokens, 512, model)))
    if precision == "auto" and not deviation <= TOLERANCE:
        return Chosen("float32", deviation)
    return Chosen("mixed", deviation)
