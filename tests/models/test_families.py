"""Every family: what is measured agrees with what is known of it, and the states with the model's own."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from oracles.families import FAMILIES, GUARDED, SHIFTED, TEXTS

from reporter.app.verify.by_model import PlainModel
from reporter.models.checkpoint import Checkpoint
from reporter.models.load import LoadedModel

Family = Callable[[str], Path]
Load = Callable[..., LoadedModel]


def padded(model: LoadedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokenise the texts and pad them on the right by hand."""
    rows = [model.tokenizer(text)["input_ids"] for text in TEXTS]
    ids = torch.full((len(rows), max(map(len, rows))), model.tokenizer.pad_token_id or 0)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        mask[i, : len(row)] = 1
    return ids, mask


@pytest.mark.parametrize("name", FAMILIES)
def test_states_are_the_models_own_hidden_states(name: str, family: Family, loaded: Load) -> None:
    import transformers

    folder = family(name)
    model = loaded(folder)
    ids, mask = padded(model)
    with torch.inference_mode():
        states = model.states(ids, mask)
    # The oracle is loaded apart, by its own class, and has no hook of ours.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = getattr(transformers, f"{FAMILIES[name][0]}Model").from_pretrained(folder).eval()
        own = own.get_encoder() if own.config.is_encoder_decoder else own
        with torch.inference_mode():
            result = own(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    assert len(states) == len(result.hidden_states) == model.anatomy.layers + 1
    for mine, theirs in zip(states[:-1], result.hidden_states[:-1], strict=True):
        torch.testing.assert_close(mine[mask.bool()], theirs[mask.bool()])
    last_is_block = (
        torch.allclose(states[-1][mask.bool()], result.last_hidden_state[mask.bool()], atol=1e-6)
        if states[-1].shape == result.last_hidden_state.shape
        else False
    )
    assert last_is_block == (FAMILIES[name][4] == "block")
    assert model.anatomy.self_test <= 1e-5


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_measured_is_what_is_known(name: str, family: Family, loaded: Load) -> None:
    _, _, role, norms, last, positions, longest = FAMILIES[name]
    anatomy = loaded(family(name)).anatomy
    config = json.loads((family(name) / "config.json").read_text())
    assert anatomy.family == config["model_type"]
    measured = (
        anatomy.role,
        anatomy.norm_placement,
        anatomy.last_hidden_state,
        anatomy.positions,
        anatomy.max_tokens,
    )
    assert measured == (role, norms, last, positions, longest)
    assert anatomy.width == 32
    assert anatomy.vocabulary_size == config["vocab_size"]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_longest_input_fits_and_padding_changes_nothing(name: str, family: Family, loaded: Load) -> None:
    model = loaded(family(name))
    longest = model.anatomy.max_tokens or 64
    ids = torch.arange(longest)[None] % 20 + 6
    with torch.inference_mode():
        assert all(x.isfinite().all() for x in model.states(ids, torch.ones_like(ids)))
        ids, mask = padded(model)
        batch = model.states(ids, mask)
        for row in range(len(ids)):
            length = int(mask[row].sum())
            alone = model.states(ids[row : row + 1, :length], mask[row : row + 1, :length])
            for together, single in zip(batch, alone, strict=True):
                torch.testing.assert_close(together[row, :length], single[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_plain_run_of_one_text_has_the_same_states(
    name: str, family: Family, found: Callable[..., Checkpoint], loaded: Load
) -> None:
    """What ``reporter verify`` reads without our hooks, also where the model's own last entry is normed."""
    model = loaded(family(name))
    plain = PlainModel(found(family(name)), model.anatomy.layers, model.anatomy.last_hidden_state, offline=True)
    for text in TEXTS:
        ids = torch.tensor([model.tokenizer(text)["input_ids"]])
        with torch.inference_mode():
            captured = model.run(ids, torch.ones_like(ids))
        states, final = plain.states(ids[0].tolist())
        for theirs, mine in zip(captured.path, states, strict=True):
            torch.testing.assert_close(mine, theirs[0])
        assert (final is None) == (captured.final is None)
        if final is not None:
            torch.testing.assert_close(final, captured.final[0])


@pytest.mark.parametrize("name", SHIFTED)
def test_hidden_states_without_the_embedding_are_recognised(
    name: str, family: Family, found: Callable[..., Checkpoint], loaded: Load
) -> None:
    """Their entry l is what block l + 1 returned, and the last one is closed; RWKV would halve the stream, too."""
    import transformers

    folder = family(name)
    model = loaded(folder)
    role, norms, last, positions, longest = SHIFTED[name][2:]
    anatomy = model.anatomy
    measured = (anatomy.role, anatomy.norm_placement, anatomy.last_hidden_state, anatomy.positions, anatomy.max_tokens)
    assert measured == (role, norms, last, positions, longest)
    assert (anatomy.own_states, anatomy.layers, anatomy.self_test) == ("shifted", 3, 0.0)
    ids, mask = padded(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = getattr(transformers, f"{SHIFTED[name][0]}Model").from_pretrained(folder).eval()
        own.config.rescale_every = 0
        with torch.inference_mode():
            mine = model.run(ids, mask)
            theirs = own(input_ids=ids, attention_mask=mask, output_hidden_states=True, use_cache=False)
            embedded = own.get_input_embeddings()(ids)
    for ours, expected in zip(mine.path, (embedded, *theirs.hidden_states[:-1]), strict=True):
        torch.testing.assert_close(ours[mask.bool()], expected[mask.bool()])
    assert mine.final is not None
    torch.testing.assert_close(mine.final[mask.bool()], theirs.last_hidden_state[mask.bool()])
    plain = PlainModel(found(folder), anatomy.layers, anatomy.last_hidden_state, offline=True)
    length = int(mask[0].sum())
    states, final = plain.states(ids[0, :length].tolist())
    for ours, expected in zip(mine.path, states, strict=True):
        torch.testing.assert_close(ours[0, :length], expected)
    assert final is not None
    torch.testing.assert_close(mine.final[0, :length], final)


def test_the_hidden_states_of_others_are_not_shifted(family: Family, loaded: Load) -> None:
    assert loaded(family("gpt2")).anatomy.own_states == "same"


@pytest.mark.parametrize("name", GUARDED)
def test_what_follows_the_data_works_for_other_families(name: str, family: Family, loaded: Load) -> None:
    """Mixtures of experts, hybrids, decoders turned bidirectional: measured, and with the model's own states."""
    import transformers

    if not hasattr(transformers, f"{GUARDED[name][0]}Model"):
        pytest.skip(f"transformers {transformers.__version__} has no {GUARDED[name][0]}")
    folder = family(name)
    model = loaded(folder)
    role, norms, last, positions, longest = GUARDED[name][2:]
    anatomy = model.anatomy
    measured = (anatomy.role, anatomy.norm_placement, anatomy.last_hidden_state, anatomy.positions, anatomy.max_tokens)
    assert measured == (role, norms, last, positions, longest)
    assert (anatomy.own_states, anatomy.layers) == ("same", GUARDED[name][1].get("num_hidden_layers"))
    ids, mask = padded(model)
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        own = getattr(transformers, f"{GUARDED[name][0]}Model").from_pretrained(folder).eval()
        theirs = own(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        mine = model.run(ids, mask)
    for ours, expected in zip(mine.path[:-1], theirs.hidden_states[:-1], strict=True):
        torch.testing.assert_close(ours[mask.bool()], expected[mask.bool()])
    torch.testing.assert_close(mine.last[mask.bool()], theirs.last_hidden_state[mask.bool()])
