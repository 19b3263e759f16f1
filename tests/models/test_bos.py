"""A BOS before each text, or none: what the tokenizer then does, and what is recorded."""

import pytest
from models.folders import configure

from reporter.core.errors import ReporterError
from reporter.models.tokenizer import added_tokens, tokenizer_hash
from reporter.texts.tokens import tokenise_texts


def ids_of(model, text="the mouse was gone", limit=100):
    (tokens,) = tokenise_texts([text], model.tokenizer, limit)
    return tokens.ids.tolist(), tokens.special.tolist()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decoder_gets_a_bos_where_it_has_none_and_its_name_is_known(copy, found, loaded, name):
    folder = copy(name)
    with pytest.raises(ReporterError, match=r"needs a BOS token, .*; remove `bos`"):
        loaded(folder, bos="add")
    configure(folder, "tokenizer_config.json", bos_token="<s>")
    plain, added = loaded(folder), loaded(folder, bos="add")
    without, _ = ids_of(plain)
    ids, special = ids_of(added)
    assert ids == [plain.tokenizer.bos_token_id, *without] and special == [True, *[False] * len(without)]
    assert (plain.anatomy.first_token, added.anatomy.first_token) == ("word", "<s>")
    assert loaded(folder, bos="none").anatomy.first_token == "word"
    cut, marks = ids_of(added, limit=3)
    assert cut == ids[:3] and marks == [True, False, False]
    plain, added = found(folder), found(folder, bos="add")  # it is no part of the identity of the weights
    assert plain.fingerprint == added.fingerprint and (plain.bos, added.bos) == ("as-is", "add")


def test_the_first_token_of_an_encoder_can_be_left_out_and_its_last_one_stays(family, loaded):
    plain, none = loaded(family("bert")), loaded(family("bert"), bos="none")
    ids, _ = ids_of(plain)
    assert ids_of(none)[0] == ids[1:] and ids_of(none)[1][-1] is True
    assert plain.anatomy.first_token == plain.tokenizer.cls_token and none.anatomy.first_token == "word"
    assert added_tokens(plain.tokenizer) == ([plain.tokenizer.cls_token], [plain.tokenizer.sep_token])
    assert ids_of(loaded(family("bert"), bos="add"))[0] == ids  # there is one already


def test_a_tokenizer_is_identified_by_what_it_does_to_texts(family, loaded):
    plain, again, none = loaded(family("bert")), loaded(family("bert")), loaded(family("bert"), bos="none")
    ids_of(plain, limit=3)  # cutting leaves its mark on the tokenizer
    assert tokenizer_hash(plain.tokenizer) == tokenizer_hash(again.tokenizer) != tokenizer_hash(none.tokenizer)
    again.tokenizer.add_tokens(["mouse"])
    assert tokenizer_hash(plain.tokenizer) != tokenizer_hash(again.tokenizer)
    assert ids_of(plain, limit=3)[0] == ids_of(plain)[0][:2] + ids_of(plain)[0][-1:]
    assert tokenizer_hash(object()) == ""  # a slow one cannot be read


def test_a_special_string_inside_a_text_is_no_word_and_an_unknown_word_is_one(shared):
    model = shared("bert")
    ids, special = ids_of(model, f"the mouse {model.tokenizer.sep_token} was gone")
    inside = ids.index(model.tokenizer.sep_token_id)
    assert [place for place, mark in enumerate(special) if mark] == [0, inside, len(ids) - 1]
    unknown = model.tokenizer.unk_token_id
    ids, special = ids_of(model, "the ☃☃☃ mouse")
    assert unknown in ids and not special[ids.index(unknown)]
