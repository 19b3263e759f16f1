"""Quantised weights, unpacked when they are loaded, so that what is measured are the numbers that they stand for.

Products with packed weights are rounded as a kernel likes, which depends on the shape of a batch; those of 8 bits
(LLM.int8(), Dettmers et al. 2022) even leave out of the rounding whatever dimension is large in any token of the batch,
so that a token's state depends on its neighbours. Neither is a property of the model.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any


def method_of(config: Any) -> str:
    """Return how a model's weights are quantised, as its configuration calls it; empty where they are not."""
    said = getattr(config, "quantization_config", None)
    if said is None:
        return ""
    found = said.get("quant_method", "") if isinstance(said, dict) else getattr(said, "quant_method", "")
    return str(getattr(found, "value", found))


@contextmanager
def quiet(library: str) -> Iterator[None]:
    """Keep a library from saying that faster kernels are missing, which is no concern of who measures."""
    logger = logging.getLogger(library)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def unpacking(config: Any) -> Iterator[None]:
    """Have weights unpacked while they are loaded, where their format knows how to, and keep its library quiet."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as KINDS

    said, method = getattr(config, "quantization_config", None), method_of(config)
    kind = KINDS.get(method)
    if isinstance(said, dict) and kind is not None and "dequantize" in inspect.signature(kind.__init__).parameters:
        said["dequantize"] = True
    with quiet(method.replace("-", "_")) if method else nullcontext():
        yield


def unpacked(model: Any) -> Any:
    """Return a model with the numbers in place of its packed weights; itself where nothing is packed, or cannot be."""
    if getattr(model, "hf_quantizer", None) is None or all(p.is_floating_point() for p in model.parameters()):
        return model
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), model.dtype)
    try:
        return model.dequantize(dtype=dtype).to(dtype)
    except NotImplementedError:  # what it computes as it is must not depend on padding more than on a batch's shape
        return model
