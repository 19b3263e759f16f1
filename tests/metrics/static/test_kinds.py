"""The tables of every family, against what is known of each without asking the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from oracles.families import FAMILIES
from torch import nn

from reporter.metrics._static_vectors import static_vectors, table_kind
from reporter.models.load import LoadedModel

# From the papers: how each family knows the order of tokens; name of its table of positions, and its first row used.
POSITIONS = {
    "bert": ("learned", "embeddings.position_embeddings", 0),
    "roberta": ("learned", "embeddings.position_embeddings", 2),
    "xlm-roberta": ("learned", "embeddings.position_embeddings", 2),
    "camembert": ("learned", "embeddings.position_embeddings", 2),
    "distilbert": ("learned", "embeddings.position_embeddings", 0),
    "albert": ("learned", "embeddings.position_embeddings", 0),
    "electra": ("learned", "embeddings.position_embeddings", 0),
    "deberta-v2": ("relative", "", 0),
    "deberta-v2, convolution": ("learned", "embeddings.position_embeddings", 0),
    "mpnet": ("learned", "embeddings.position_embeddings", 2),
    "modernbert": ("rotary", "", 0),
    "t5": ("relative", "", 0),
    "mt5": ("relative", "", 0),
    "bart": ("learned", "embed_positions", 2),
    "gpt2": ("learned", "wpe", 0),
    "gpt-neo": ("learned", "wpe", 0),
    "gpt-j": ("rotary", "", 0),
    "openai-gpt": ("learned", "positions_embed", 0),
    "opt": ("learned", "decoder.embed_positions", 2),
    "opt, projected": ("learned", "decoder.embed_positions", 2),
    "bloom": ("alibi", "", 0),
    "falcon": ("rotary", "", 0),
    "falcon, alibi": ("alibi", "", 0),
    **dict.fromkeys(("neox, parallel", "llama", "mistral", "qwen3", "gemma2", "olmo2", "phi"), ("rotary", "", 0)),
}
TYPES = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "albert", "electra"), 2),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_what_is_found_is_what_is_known(name: str, of_family: Callable[..., LoadedModel]) -> None:
    model = of_family(name)
    found = static_vectors(model)
    kind, table, offset = POSITIONS[name]
    assert (found.position_kind, found.position_offset) == (kind, offset)
    embedding = model.module.get_input_embeddings().weight  # type: ignore[operator]
    assert found.tokens.data_ptr() == embedding.data_ptr()  # no copy
    assert len(found.strings) == len(embedding)
    if table:
        assert found.positions is not None
        torch.testing.assert_close(found.positions, model.module.get_submodule(table).weight.data[offset:])
        assert len(found.positions) == model.anatomy.max_tokens
    else:
        assert found.positions is None
    assert (0 if found.types is None else len(found.types)) == TYPES.get(name, 0)
    if found.types is not None:
        torch.testing.assert_close(
            found.types, model.module.get_submodule("embeddings.token_type_embeddings").weight.data
        )


def test_second_ways_to_know_positions_are_said(of_family: Callable[..., LoadedModel]) -> None:
    assert static_vectors(of_family("mpnet")).also == ("relative",)
    assert static_vectors(of_family("bert")).also == ()
    assert "32 distances × 4" in " ".join(static_vectors(of_family("t5")).notes)


def test_narrow_embeddings_are_said(of_family: Callable[..., LoadedModel]) -> None:
    for name in ("albert", "electra", "opt, projected"):
        found = static_vectors(of_family(name))
        assert found.tokens.shape[1] == 16
        assert "Token vectors have 16 dimensions and are projected to the 32 of its blocks." in found.notes
        assert found.comparable("token", "position") == (name != "opt, projected")


def test_scaled_and_normed_embeddings_are_said(of_family: Callable[..., LoadedModel]) -> None:
    assert "What enters the first block is 5.657 × these vectors." in static_vectors(of_family("gemma2")).notes
    assert any("a norm, or another" in note for note in static_vectors(of_family("bloom")).notes)
    assert len(static_vectors(of_family("llama")).notes) == 1


def test_sines_are_told_from_learned_vectors(of_family: Callable[..., LoadedModel]) -> None:
    assert static_vectors(of_family("distilbert", sinusoidal_pos_embds=True)).position_kind == "sinusoidal"
    position = torch.arange(60)[:, None] / 10000 ** (torch.arange(16) / 16)
    sines = torch.cat([position.sin(), position.cos()], dim=1)
    assert table_kind(sines) == table_kind(sines.bfloat16()) == "sinusoidal"
    assert table_kind(sines + 0.01 * torch.randn(60, 32)) == "learned"
    assert table_kind(torch.zeros(60, 32)) == table_kind(torch.ones(60, 32)) == "learned"


def test_a_model_without_positions(of_family: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch) -> None:
    model = of_family("llama")

    class Still(nn.Module):  # no angle at all, under a name that says nothing
        def forward(self, x: torch.Tensor, *args: object, **options: object) -> tuple[torch.Tensor, torch.Tensor]:
            one = torch.ones(1, x.shape[1], 8)
            return one, 0 * one

    monkeypatch.setitem(model.module._modules, "rotary_emb", Still())
    found = static_vectors(model)
    assert (found.position_kind, found.positions) == ("none", None)
    assert found.notes == ("Positions are none: the order of earlier tokens changes nothing in block 1.",)


def test_an_unknown_way_is_not_called_none(
    of_family: Callable[..., LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = of_family("llama")

    class Odd(nn.Module):
        def forward(self, x: torch.Tensor, *args: object, **options: object) -> tuple[torch.Tensor, torch.Tensor]:
            growing = 1 + 0.3 * torch.arange(x.shape[1])[None, :, None].expand(1, -1, 8)
            return growing, 0 * growing

    monkeypatch.setitem(model.module._modules, "rotary_emb", Odd())
    assert static_vectors(model).position_kind == "unrecognised"


def test_strings_and_special_ids(of_family: Callable[..., LoadedModel]) -> None:
    found = static_vectors(of_family("bert"))
    assert found.strings[:5] == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert found.strings[-3:] == (None, None, None)  # the table has three rows more than the tokenizer
    assert found.special >= {0, 1, 2, 3, 4}


def test_every_family_has_a_known_kind(of_family: Callable[..., LoadedModel]) -> None:
    for name in FAMILIES.keys() - POSITIONS.keys():
        assert static_vectors(of_family(name)).position_kind in {"rotary", "learned"}, name
