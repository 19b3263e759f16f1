"""What attention and feed-forward add, by the published formula, from plain hooks on modules that are named here.

Csordás, Manning & Potts 2025, arXiv:2505.13898: ‖a‖/‖h‖ and ‖m‖/‖h + a‖, and the cosines, means over tokens. Which
module returns a and m, and in a post-norm block the stream, was read off each implementation.
"""

from itertools import product
from typing import Any

import numpy as np
import torch

# Attention, feed-forward, the norm between them in a post-norm block, and what the block multiplies both by.
_BERT = ("encoder.layer.{}.attention.output.dense", "encoder.layer.{}.output.dense")
_LLAMA = ("layers.{}.self_attn.o_proj", "layers.{}.mlp.down_proj")
_SANDWICH = ("layers.{}.post_attention_layernorm", "layers.{}.post_feedforward_layernorm")
NAMES: dict[str, tuple[str, str, str | None, float]] = {
    "bert": (*_BERT, "encoder.layer.{}.attention.output.LayerNorm", 1.0),
    "bart": ("layers.{}.self_attn.out_proj", "layers.{}.fc2", "layers.{}.self_attn_layer_norm", 1.0),
    "gpt2": ("h.{}.attn.c_proj", "h.{}.mlp.c_proj", None, 1.0),
    "llama": (*_LLAMA, None, 1.0),
    "modernbert": ("layers.{}.attn.Wo", "layers.{}.mlp.Wo", None, 1.0),
    "t5": ("block.{}.layer.0.SelfAttention.o", "block.{}.layer.1.DenseReluDense.wo", None, 1.0),
    **dict.fromkeys(("gemma2", "olmo2"), (*_SANDWICH, None, 1.0)),
    "granite": (*_LLAMA, None, 0.3),
    "neox, parallel": ("layers.{}.attention.dense", "layers.{}.mlp.dense_4h_to_h", None, 1.0),
    "falcon": ("h.{}.self_attention.dense", "h.{}.mlp.dense_4h_to_h", None, 1.0),
}
PARALLEL = {"neox, parallel", "falcon"}


def contributions(name: str, own: Any, ids: torch.Tensor) -> dict[tuple[str, int], np.ndarray]:
    """Return each quantity of each token of a text, by name and block from 0, (tokens,) in float64.

    Args:
        name: the family.
        own: its model, loaded apart and without our hooks.
        ids: of one text, (1, tokens).
    """
    attention, feed_forward, norm, factor = NAMES[name]
    path = attention.partition("{}")[0] + "{}"
    modules, kept, hooks = dict(own.named_modules()), {}, []

    def keep(what: str, block: int, module: str) -> None:
        def hook(_: Any, args: Any, kwargs: Any, output: Any = None) -> None:
            x = (*args, *kwargs.values())[0] if what == "h" else output
            x = x if isinstance(x, torch.Tensor) else x[0]
            kept[what, block] = x.detach().clone().double().reshape(ids.shape[1], -1)

        of = modules[module.format(block)]
        register = of.register_forward_pre_hook if what == "h" else of.register_forward_hook
        hooks.append(register(hook, with_kwargs=True))

    layers = sum(path.format(n) in modules for n in range(99))
    places = {"h": path, "y": path, "a": attention, "m": feed_forward} | ({} if norm is None else {"s": norm})
    for block, (what, module) in product(range(layers), places.items()):
        keep(what, block, module)
    with torch.no_grad():
        own(input_ids=ids, attention_mask=torch.ones_like(ids))
    for hook in hooks:
        hook.remove()
    result = {}
    for block in range(layers):
        h, y, *added_by = (kept[what, block].numpy() for what in "hyam")
        a, m = (factor * x for x in added_by)
        s = kept["s", block].numpy() if norm is not None else h if name in PARALLEL else h + a
        for what, added, stream in (("attention", a, h), ("feed_forward", m, s), ("block", y - h, h)):
            long, to = (np.linalg.norm(x, axis=1) for x in (added, stream))
            if what != "block":
                result[f"{what}_ratio", block] = long / to
            result[f"{what}_cosine", block] = (added * stream).sum(axis=1) / (long * to)
    return result
