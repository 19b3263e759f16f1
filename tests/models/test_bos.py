"""A BOS before each text, or none: what the tokenizer then does, and what is recorded."""

from __future__ import annotations

import json
import shutil

import pytest

from reporter.core.errors import ReporterError
from reporter.models.tokenizer import added_tokens, tokenizer_hash
from reporter.texts.tokens import tokenise_texts

TEXT = "the mouse was gone"


def ids_of(model, text=TEXT, limit=100):
    (found,) = tokenise_texts([text], model.tokenizer, limit)
    return found.ids.tolist(), found.special.tolist()


@pytest.fixture
def with_bos(family, tmp_path):
    """Return a copy of a decoder's folder whose tokenizer names a BOS, which it puts before no text."""

    def copy(name):
        folder = tmp_path / name
        shutil.copytree(family(name), folder)
        config = folder / "tokenizer_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"bos_token": "<s>"}))
        return folder

    return copy


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decoder_gets_a_bos_where_it_has_none(with_bos, loaded, name):
    folder = with_bos(name)
    plain, added = loaded(folder), loaded(folder, bos="add")
    without, _ = ids_of(plain)
    ids, special = ids_of(added)
    assert ids == [plain.tokenizer.bos_token_id, *without] and special == [True, *[False] * len(without)]
    assert (plain.anatomy.first_token, added.anatomy.first_token) == ("word", "<s>")
    assert loaded(folder, bos="none").anatomy.first_token == "word"
    cut, marks = ids_of(added, limit=3)
    assert cut == ids[:3] and marks == [True, False, False]


def test_the_first_token_of_an_encoder_can_be_left_out_and_its_last_one_stays(family, loaded):
    plain, none = loaded(family("bert")), loaded(family("bert"), bos="none")
    ids, _ = ids_of(plain)
    assert ids_of(none)[0] == ids[1:] and ids_of(none)[1][-1] is True
    assert plain.anatomy.first_token == plain.tokenizer.cls_token and none.anatomy.first_token == "word"
    assert ids_of(loaded(family("bert"), bos="add"))[0] == ids  # there is one already


def test_without_a_name_for_it_no_bos_can_be_added(family, loaded):
    with pytest.raises(ReporterError, match=r"'bos: add' needs a tokenizer that names a BOS token"):
        loaded(family("gpt2"), bos="add")


def test_a_bos_is_no_part_of_the_weights_identity(family, found):
    plain, added = found(family("gpt2")), found(family("gpt2"), bos="add")
    assert plain.fingerprint == added.fingerprint and (plain.bos, added.bos) == ("as-is", "add")


def test_a_tokenizer_is_known_by_what_it_does_to_texts(family, loaded):
    plain, again, none = loaded(family("bert")), loaded(family("bert")), loaded(family("bert"), bos="none")
    ids_of(plain, limit=3)  # cutting leaves its mark on the tokenizer
    assert tokenizer_hash(plain.tokenizer) == tokenizer_hash(again.tokenizer) != tokenizer_hash(none.tokenizer)
    again.tokenizer.add_tokens(["mouse"])
    assert tokenizer_hash(plain.tokenizer) != tokenizer_hash(again.tokenizer)
    assert ids_of(plain, limit=3)[0] == ids_of(plain)[0][:2] + ids_of(plain)[0][-1:]
    assert tokenizer_hash(object()) == ""  # a slow one cannot be read


def test_a_special_string_inside_a_text_is_no_word(family, loaded):
    model = loaded(family("bert"))
    sep = model.tokenizer.sep_token
    ids, special = ids_of(model, f"the mouse {sep} was gone")
    assert [place for place, mark in enumerate(special) if mark] == [
        0,
        ids.index(model.tokenizer.sep_token_id),
        len(ids) - 1,
    ]
    unknown = model.tokenizer.unk_token_id
    ids, special = ids_of(model, "the ☃☃☃ mouse")
    assert unknown in ids and not special[ids.index(unknown)]


def test_what_is_added_around_a_text(family, loaded):
    tokenizer = loaded(family("bert")).tokenizer
    assert added_tokens(tokenizer) == ([tokenizer.cls_token], [tokenizer.sep_token])
