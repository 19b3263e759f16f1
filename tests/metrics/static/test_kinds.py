"""The tables of every family, against what is known of each without asking the program."""

import pytest
import torch

from reporter.metrics._static_vectors import static_vectors, table_kind

# From the papers: what each family adds to its tokens' vectors; name of its table of positions, and its first row used.
POSITIONS = {
    **dict.fromkeys(("bert", "albert"), ("learned", "embeddings.position_embeddings", 0)),
    **dict.fromkeys(("roberta", "mpnet"), ("learned", "embeddings.position_embeddings", 2)),
    "bart": ("learned", "embed_positions", 2),
    "gpt2": ("learned", "wpe", 0),
    "openai-gpt": ("learned", "positions_embed", 0),
    **dict.fromkeys(("opt", "opt, projected"), ("learned", "decoder.embed_positions", 2)),
    "deberta-v2, convolution": ("learned", "embeddings.position_embeddings", 0),
    **dict.fromkeys(("deberta-v2", "modernbert", "t5", "gpt-j", "bloom", "falcon, alibi", "llama"), ("none", "", 0)),
}
TYPES = dict.fromkeys(("bert", "roberta", "albert"), 2)


@pytest.mark.parametrize("name", POSITIONS)
def test_what_is_found_is_what_is_known(name, family_model):
    model = family_model(name)
    found = static_vectors(model)
    kind, table, offset = POSITIONS[name]
    assert found.position_kind == kind
    embedding = model.module.get_input_embeddings().weight
    assert found.tokens.data_ptr() == embedding.data_ptr()  # no copy
    assert len(found.strings) == len(embedding)
    assert (found.positions is not None) == bool(table)
    if table:
        torch.testing.assert_close(found.positions, model.module.get_submodule(table).weight.data[offset:])
        assert len(found.positions) == model.anatomy.max_tokens
    assert (0 if found.types is None else len(found.types)) == TYPES.get(name, 0)
    if found.types is not None:
        types = model.module.get_submodule("embeddings.token_type_embeddings").weight.data
        torch.testing.assert_close(found.types, types)


def test_narrow_scaled_and_normed_embeddings_are_said(family_model):
    for name in ("albert", "electra", "opt, projected"):
        found = static_vectors(family_model(name))
        assert found.tokens.shape[1] == 16
        assert "Token vectors have 16 dimensions and are projected to the 32 dimensions of the blocks." in found.notes
        assert found.comparable("token", "position") == (name != "opt, projected")
    assert "The input of the first block is 5.657 × these vectors." in static_vectors(family_model("gemma2")).notes
    assert any("a norm or another" in note for note in static_vectors(family_model("bloom")).notes)
    assert static_vectors(family_model("llama")).notes == ()


def test_sines_are_told_from_learned_vectors(family_model):
    assert static_vectors(family_model("distilbert", sinusoidal_pos_embds=True)).position_kind == "sinusoidal"
    position = torch.arange(60)[:, None] / 10000 ** (torch.arange(16) / 16)
    sines = torch.cat([position.sin(), position.cos()], dim=1)
    assert table_kind(sines) == table_kind(sines.bfloat16()) == "sinusoidal"
    assert table_kind(sines + 0.01 * torch.randn(60, 32)) == "learned"
    assert table_kind(torch.zeros(60, 32)) == table_kind(torch.ones(60, 32)) == "learned"


def test_strings_and_special_ids(family_model):
    found = static_vectors(family_model("bert"))
    assert found.strings[:5] == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert found.strings[-3:] == (None, None, None)  # the table has three rows more than the tokenizer
    assert found.special >= {0, 1, 2, 3, 4}
