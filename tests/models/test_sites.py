"""Sites beside the path: after attention, after the closing norm, and what the closing norm makes of any state."""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from oracles.families import AFTER_ATTENTION, FAMILIES, PARALLEL_ATTENTION
from torch import Tensor

from reporter.core.errors import ReporterError
from reporter.models.load import LoadedModel
from reporter.models.sublayers import Sublayer

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]
LENGTHS = (12, 3, 8)


def batch() -> tuple[Tensor, Tensor]:
    ids = torch.randint(6, 26, (len(LENGTHS), max(LENGTHS)), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(max(LENGTHS))[None] < torch.tensor(LENGTHS)[:, None]).long()
    return torch.where(mask.bool(), ids, 1), mask


def own_model(name: str, folder: Path) -> Any:
    """Load the model apart, by its own class and without any hook of ours."""
    import transformers

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = getattr(transformers, f"{FAMILIES[name][0]}Model").from_pretrained(folder).eval()
    return own.get_encoder() if own.config.is_encoder_decoder else own


def passed(model: Any, pattern: str, outputs: bool, ids: Tensor, mask: Tensor) -> tuple[list[Tensor], Any]:
    """Run a model and return what the modules of this name read first, or returned first, and the model's results."""
    found: list[Tensor] = []
    name = re.compile(re.escape(pattern).replace(r"\{\}", r"\d+"))
    hooks = []
    for path, module in model.named_modules():
        if name.fullmatch(path) and outputs:
            hooks.append(
                module.register_forward_hook(lambda m, a, o: found.append((o if torch.is_tensor(o) else o[0]).clone()))
            )
        elif name.fullmatch(path):
            hooks.append(
                module.register_forward_pre_hook(
                    lambda m, a, k: found.append((*a, *k.values())[0].clone()), with_kwargs=True
                )
            )
    with torch.inference_mode():
        result = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    for hook in hooks:
        hook.remove()
    return found, result


@pytest.mark.parametrize("name", FAMILIES)
def test_the_state_after_attention_is_what_the_named_modules_see(name: str, family: Family, loaded: Load) -> None:
    model, ids_mask = loaded(family(name)), batch()
    kept = ids_mask[1].bool()
    own = own_model(name, family(name))
    with torch.inference_mode():
        run = model.run(*ids_mask, attention=True)
    assert run.attention is not None
    if name in PARALLEL_ATTENTION:
        assert model.anatomy.attention == "parallel"
        added, result = passed(own, PARALLEL_ATTENTION[name], True, *ids_mask)
        expected = [x + a for x, a in zip(result.hidden_states[:-1], added, strict=True)]
    else:
        assert model.anatomy.attention == "sequential"
        expected, _ = passed(own, AFTER_ATTENTION[name], False, *ids_mask)
    assert len(run.attention) == len(expected) == model.anatomy.layers
    for mine, theirs in zip(run.attention, expected, strict=True):
        assert mine.shape == run.path[0].shape
        torch.testing.assert_close(mine[kept], theirs.reshape(mine.shape)[kept], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_final_state_and_closing(name: str, family: Family, loaded: Load) -> None:
    model, (ids, mask) = loaded(family(name)), batch()
    with torch.inference_mode():
        run = model.run(ids, mask)
        own = own_model(name, family(name))(input_ids=ids, attention_mask=mask).last_hidden_state
        for state, same in zip(run.path, model.states(ids, mask), strict=True):
            assert torch.equal(state, same)
        closed = model.close(run.path[-1])
        by_token = model.close(run.path[-1][mask.bool()])
    kept = mask.bool()
    torch.testing.assert_close(closed[kept], own[kept], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(by_token, own[kept], rtol=1e-5, atol=1e-5)
    assert model.closing.problem == ""
    if FAMILIES[name][4] == "block":
        assert (run.final, model.anatomy.final_width) == (None, None)
        assert closed is run.path[-1]
    else:
        assert run.final is not None
        torch.testing.assert_close(run.final[kept], own[kept], rtol=1e-5, atol=1e-5)
        assert run.final.shape[-1] == model.anatomy.final_width == (16 if name == "opt, projected" else 32)


def test_by_the_formulas_of_gpt2_and_llama(family: Family, loaded: Load) -> None:
    from torch.nn.functional import layer_norm

    ids, mask = batch()
    for name in ("gpt2", "llama"):
        model, own = loaded(family(name)), own_model(name, family(name))
        with torch.inference_mode():
            run = model.run(ids, mask, attention=True)
            assert run.attention is not None and run.final is not None
            h = run.path[-1]
            for x, after, y, block in zip(
                run.path, run.attention, run.path[1:], own.h if name == "gpt2" else own.layers, strict=False
            ):
                feed_forward = (
                    block.mlp(block.ln_2(after)) if name == "gpt2" else block.mlp(block.post_attention_layernorm(after))
                )
                torch.testing.assert_close(y, after + feed_forward, rtol=1e-5, atol=1e-5)
                assert not torch.allclose(after, x, atol=1e-2)
            if name == "gpt2":
                expected = layer_norm(h, (32,), own.ln_f.weight, own.ln_f.bias, own.ln_f.eps)
            else:
                expected = h / (h.square().mean(-1, keepdim=True) + own.norm.variance_epsilon).sqrt() * own.norm.weight
        torch.testing.assert_close(run.final, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "roberta"])
def test_by_the_formula_of_bert(name: str, family: Family, loaded: Load) -> None:
    model, own = loaded(family(name)), own_model(name, family(name))
    with torch.inference_mode():
        run = model.run(*batch(), attention=True)
        assert run.attention is not None
        for after, y, block in zip(run.attention, run.path[1:], own.encoder.layer, strict=True):
            normed = block.attention.output.LayerNorm(after)
            torch.testing.assert_close(
                y, block.output(block.intermediate(normed), normed), rtol=1e-5, atol=1e-5
            )  # so `after` is not normalised yet, and no block
            assert not torch.allclose(after, y, atol=1e-2)
            assert not torch.allclose(after, normed, atol=1e-2)


@pytest.mark.parametrize("name", FAMILIES)
def test_other_texts_and_padding_change_nothing(name: str, family: Family, loaded: Load) -> None:
    model, (ids, mask) = loaded(family(name)), batch()
    with torch.inference_mode():
        together = model.run(ids, mask, attention=True)
        for row, length in enumerate(LENGTHS):
            alone = model.run(ids[row : row + 1, :length], mask[row : row + 1, :length], attention=True)
            assert together.attention is not None and alone.attention is not None
            for a, b in zip(together.attention, alone.attention, strict=True):
                torch.testing.assert_close(a[row, :length], b[0], rtol=1e-4, atol=1e-4)
            if together.final is not None and alone.final is not None:
                torch.testing.assert_close(together.final[row, :length], alone.final[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bert", "gpt2", "falcon"])
def test_nothing_stays_where_attention_is_not_asked_for(name: str, family: Family, loaded: Load) -> None:
    model = loaded(family(name))
    count = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.module.modules())
    with torch.inference_mode():
        model.run(*batch(), attention=True)
        assert model.run(*batch()).attention is None
    assert sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.module.modules()) == count


@pytest.mark.parametrize("name", FAMILIES)
def test_attention_is_found_in_bfloat16_where_float32_has_it(name: str, family: Family, loaded: Load) -> None:
    exact, rough = loaded(family(name)), loaded(family(name), dtype="bfloat16")
    names = [{module: n for n, module in model.module.named_modules()} for model in (exact, rough)]
    assert rough.anatomy.attention == exact.anatomy.attention
    places = [[n[m] for m in model.attention.modules] for n, model in zip(names, (exact, rough), strict=True)]
    assert places[0] == places[1]


@pytest.mark.parametrize(("name", "outputs"), [("bert", ("output.dense",)), ("llama", ("o_proj", "down_proj"))])
def test_a_block_that_was_pruned_to_nothing_adds_nothing(
    name: str, outputs: tuple[str, ...], family: Family, loaded: Load, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(family(name), tmp_path / name))
    weights = load_file(folder / "model.safetensors")
    pruned = {k for k in weights if re.search(r"layers?\.1\.", k) and any(part in k for part in outputs)}
    assert pruned
    save_file({k: w * (k not in pruned) for k, w in weights.items()}, folder / "model.safetensors", {"format": "pt"})
    model = loaded(folder)
    assert not model.contributions_problem
    with torch.inference_mode():
        found = model.run(*batch(), attention=True, contributions=True).contributions
    assert found is not None
    lengths = found[..., 0][:, batch()[1].bool()]  # (L, tokens, 2)
    assert (lengths[1] == 0).all() and (lengths[0] > 0).all()


def test_a_model_without_attention_states_says_so(family: Family, loaded: Load) -> None:
    model = replace(loaded(family("bert")), attention=Sublayer("none", problem="it was not found"))
    with torch.inference_mode():
        assert model.run(*batch()).attention is None
        with pytest.raises(ReporterError, match="model 'm': it has no attention states: it was not found"):
            model.run(*batch(), attention=True)


@pytest.mark.parametrize("name", ["bert", "llama", "falcon"])
def test_bf16_products_leave_the_states_in_float32(name: str, family: Family, loaded: Load) -> None:
    model = loaded(family(name))
    with torch.inference_mode():
        exact = model.run(*batch(), attention=True).attention
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = model.run(*batch(), attention=True).attention
    assert exact is not None and rough is not None
    for a, b in zip(exact, rough, strict=True):
        assert b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=0.1, atol=0.3)
