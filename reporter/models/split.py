"""Models that are too large for one device: spread by accelerate, which moves states from one device to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

if TYPE_CHECKING:
    from reporter.models.checkpoint import Split


def spread(split: Split) -> dict[str, Any]:
    """Return what ``from_pretrained`` must be told; a limit that is not said is what is free."""
    more: dict[str, Any] = {"max_memory": dict(split.max_memory)} if split.max_memory else {}
    if split.offload_folder is not None:
        more["offload_folder"] = str(split.offload_folder)
    return {"device_map": "auto", **more}


def is_spread(module: nn.Module) -> bool:
    """Tell whether accelerate moves what goes through a module, which then must stay where it is."""
    return any(hasattr(part, "_hf_hook") for part in module.modules())


def weight_of(module: nn.Module) -> Tensor:
    """Return the weight of a module; of one that is elsewhere until it is used, a copy in main memory."""
    weight = module.weight
    assert isinstance(weight, Tensor)
    if not weight.is_meta or not hasattr(module, "_hf_hook"):
        return weight
    from accelerate.utils import align_module_device

    with align_module_device(module):
        here: Any = module.weight
        return here.detach().cpu().clone()  # type: ignore[no-any-return]
