"""The tables of every family, against what is known of each from its paper, and kinds of tokens by their marks."""

import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel

from reporter.metrics._static_vectors import Token, classify, static_vectors, table_kind
from reporter.models.words import marks

# From the papers: what each family adds to its tokens' vectors; name of its table of positions, and its first row used.
POSITIONS = {
    **dict.fromkeys(("bert", "albert", "deberta-v2, convolution"), ("learned", "embeddings.position_embeddings", 0)),
    **dict.fromkeys(("roberta", "mpnet"), ("learned", "embeddings.position_embeddings", 2)),
    "bart": ("learned", "embed_positions", 2),
    "gpt2": ("learned", "wpe", 0),
    "openai-gpt": ("learned", "positions_embed", 0),
    **dict.fromkeys(("opt", "opt, projected"), ("learned", "decoder.embed_positions", 2)),
    **dict.fromkeys(("deberta-v2", "modernbert", "t5", "gpt-j", "bloom", "falcon, alibi", "llama"), ("none", "", 0)),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_what_is_found_is_what_is_known(name, family_model):
    model, (kind, table, offset) = family_model(name), POSITIONS[name]
    found, embedding = static_vectors(model), model.module.get_input_embeddings().weight
    assert found.position_kind == kind
    assert found.tokens.data_ptr() == embedding.data_ptr()  # no copy
    assert len(found.strings) == len(embedding)
    assert (found.positions is not None) == bool(table)
    if table:
        torch.testing.assert_close(found.positions, model.module.get_submodule(table).weight.data[offset:])
        assert len(found.positions) == model.anatomy.max_tokens
    assert (found.types is not None) == (name in ("bert", "roberta", "albert"))
    if found.types is not None:
        types = model.module.get_submodule("embeddings.token_type_embeddings").weight.data
        torch.testing.assert_close(found.types, types)
        assert len(types) == 2


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
    for table in (sines + 0.01 * torch.randn(60, 32), torch.zeros(60, 32), torch.ones(60, 32)):
        assert table_kind(table) == "learned"


def test_strings_and_special_ids(family_model):
    found = static_vectors(family_model("bert"))
    assert found.strings[:5] == ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
    assert found.strings[-3:] == (None, None, None)  # the table has three rows more than the tokenizer
    assert found.special >= {0, 1, 2, 3, 4}


KINDS = {"a": "alphabetic", "n": "numeric", "b": "alphanumeric", "m": "mixed", "p": "punctuation", " ": "space"}
KINDS |= {"s": "special", "u": "unused", "x": "bytes", "-": "missing"}


def classified(tokens, kinds):
    """Return the tokens as they are read, the first of them special, whose kinds are as written in letters."""
    found = classify(tokens, {0})
    assert [token.kind for token in found] == [KINDS[letter] for letter in kinds]
    return found


def test_word_piece():
    tokens = ["[PAD]", "[unused12]", "the", "##ing", "##1", "mp3", "don't", "!", "##!", "1990", "中", "été", "##", None]
    assert marks(filter(None, tokens)) == "wordpiece"
    found = classified(tokens, "suaanbmppnaap-")
    assert [t.subword for t in found][:6] == [None, None, False, True, True, False]
    assert found[12].text == "##"  # the mark alone is the text "##"
    assert (found[3], found[13]) == (Token("ing", "alphabetic", True), Token("", "missing", None))


def test_byte_level_bpe():
    encode = ByteLevel(add_prefix_space=False, use_regex=False)
    texts = [" the", "ing", " café", "中", " 12", "\n\n", " ", " привет", "naïve", "'s"]
    written = [encode.pre_tokenize_str(text)[0][0] for text in texts]
    found = classified(["<|endoftext|>", *written, written[3][:2], "<|im start|>"], "saaaan  aamxm")
    assert [t.text for t in found[1:11]] == ["the", "ing", "café", "中", "12", "\n\n", "", "привет", "naïve", "'s"]
    assert [t.subword for t in found[:6]] == [None, False, True, False, True, False]
    assert found[11].subword is None


def test_sentence_piece_end_of_word_marks_none_and_unused():
    tokens = ["<s>", "▁the", "s", "▁", "▁▁", "<0x0A>", "▁Ärzte", "▁नमस्ते", "コーヒー", "<unused3>", "▁A1", "½"]
    found = classified(tokens, "saa  xaaaubn")
    assert [t.subword for t in found[1:4]] == [False, True, False]
    assert found[7] == Token("नमस्ते", "alphabetic", False)
    assert [t.subword for t in classify(["the</w>", "th", "e</w>"], ())] == [False, True, False]
    assert [t.subword for t in classify(["cat", "dog", "."], ())] == [None, None, None]
    assert marks(["cat"]) == marks([]) == "none"
    unused = ["[unused0]", "<unused99>", "madeupword0001", "<|reserved_special_token_12|>"]
    classified(["<s>", *unused, "reserved", "unused"], "suuuuaa")
