"""Tokens of each kind of tokenizer: which are whole words, how each reads; and a BOS before each text, or none."""

import json
from types import SimpleNamespace

import pytest
from models.folders import configure, refused
from tokenizers import AddedToken

from reporter.core.errors import ReporterError
from reporter.metrics._static_vectors import classify
from reporter.models.checkpoint import Checkpoint
from reporter.models.tokenizer import added_tokens, load_tokenizer, tokenizer_hash
from reporter.models.words import byte_alphabet, readable, token_names, whole_words, word_tokens
from reporter.texts.tokens import tokenise_texts

SIGN = {byte: sign for sign, byte in byte_alphabet().items()}


def words_of(folder, content, file="tokenizer.json"):
    (folder / file).write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return whole_words(Checkpoint("m", "final", "path", str(folder), "fingerprint", path=folder))


def ids(*tokens):
    return {token: i for i, token in enumerate(tokens)}


def tokenizer_of(tokens, special=(), written=None, **added):
    """Return as much of a tokenizer as words and names need; ``special`` are ids, ``added`` is by text."""
    return SimpleNamespace(
        get_vocab=ids(*tokens).copy,
        convert_ids_to_tokens=lambda i: [(written or tokens)[k] for k in i],
        all_special_tokens=[tokens[i] for i in special],
        all_special_ids=special,
        added_tokens_decoder={tokens.index(text): token for text, token in added.items()},
    )


def vocabulary(kind, vocabulary, special):
    added = [{"id": 0, "content": special}] * bool(special)
    return {"added_tokens": added, "model": {"type": kind, "vocab": vocabulary}}


WORD_PIECE = ids("[PAD]", "[unused1]", "the", "##ing", "a", "b", "I", "x2", "'", "dog", "中", "été")
BYTES = ids("<|endoftext|>", "the", "Ġthe", "ing", "Ġcaf", "ĠcafÃ©", "Ġ", "Ġ12", "ĠÃ", "Ġa", "Ġb")
PIECES = [["<s>", 0.0], ["▁the", -1.0], ["s", -2.0], ["▁", -2.5], ["▁dogs", -3.0]]


def test_whole_words_of_each_kind_of_tokenizer(tmp_path):
    for content, words in (
        (vocabulary("WordPiece", WORD_PIECE, "[PAD]"), ["the", "a", "I", "dog", "été"]),
        (vocabulary("BPE", BYTES, "<|endoftext|>"), ["the", "caf", "café", "a"]),
        (vocabulary("BPE", ids("the</w>", "the", "do"), None), ["the"]),
        (vocabulary("Unigram", PIECES, "<s>"), ["the", "dogs"]),
        (vocabulary("WordLevel", {"cat": 2, "dog": 1, "<unk>": 0, ".": 3}, "<unk>"), ["dog", "cat"]),
    ):
        assert words_of(tmp_path, content) == words
    with pytest.raises(ReporterError, match="model 'm': no token of its vocabulary is a whole word"):
        words_of(tmp_path, vocabulary("WordLevel", ids("1", "2"), None))
    with pytest.raises(ReporterError, match=r"model 'm': cannot read the tokenizer in"):
        words_of(tmp_path, "{")
    (tmp_path / "tokenizer.json").unlink()
    assert words_of(tmp_path, ids("Ġthe", "dog", "Ġdog"), "vocab.json") == ["the", "dog"]
    (tmp_path / "vocab.json").unlink()
    assert words_of(tmp_path, "[PAD]\nthe\n##s\ndog\n", "vocab.txt") == ["the", "dog"]


def test_tokens_that_belong_together():
    for tokens, words, goes_on, unfinished in (
        (["[PAD]", "the", "##ing", "'", "2", "##", "it"], {1: "the", 6: "it"}, [2], []),
        (["</s>", "Ġthe", "ing", "'s", ".", "Ġdog", "2", "Ã", "Ġ"], {1: "the", 5: "dog"}, [2, 3, 6, 7], []),
        (["<s>", "▁the", "s", "’", ".", "▁12", "▁"], {1: "the"}, [2, 3], []),
        (["<s>", "the</w>", "do", "x</w>", "."], {1: "the"}, [], [2, 4]),
        (["<unk>", "cat", ".", "dogs"], {1: "cat", 3: "dogs"}, [], []),
        # Vowel signs and bytes go with letters; "ै" stands on the letter before it.
        (
            ["<s>", "▁नमस्ते", "ै", "▁ไทย", "ั", "。", "京", "▁می\u200cخواهم"],
            {1: "नमस्ते", 3: "ไทย", 7: "می\u200cخواهم"},
            [2, 4, 6],
            [],
        ),
        (["<s>", "▁the", "<0xE7>", "<0x79>", "<0x2E>", "😀", "\u200d"], {1: "the"}, [2, 3, 6], []),
        (["[CLS]", "##न", "नमस्ते", "我", "##है", "привет", "ै"], {2: "नमस्ते", 5: "привет"}, [1, 4], []),
        (["<unk>", "the", "ca@@", "t", "@@"], {1: "the"}, [], [2, 4]),  # words of PhoBERT and CTRL
        (["<s>", " the", "ing", " é", " ", "."], {1: "the"}, [2], []),  # mistral-common
        (["<s>", *map(chr, range(ord("a"), 0x180)), "▁", "Ġ"], {1: "a"}, [], []),  # characters: none is a mark
    ):
        tokenizer = tokenizer_of(tokens, [0])
        result = word_tokens(tokenizer, len(tokens))
        marked = [of.nonzero()[0].tolist() for of in (result.goes_on, result.unfinished)]
        assert (result.words, marked) == (words, [goes_on, unfinished])
        assert len(word_tokens(tokenizer, 2).goes_on) == 2


def in_bytes(text):
    """Return a text as byte-level BPE writes it."""
    return "".join(SIGN[byte] for byte in (text.encode() if isinstance(text, str) else text))


def test_byte_level_tokens_are_decoded():
    shown = {
        " the": "␣the",
        "的": "的",
        "café": "café",
        " 😀": "␣😀",
        "\n\n": "⏎⏎",
        "\t": "⇥",
        " Ġorġ": "␣Ġorġ",
        "na": "na",
    }
    shown |= {"  ": "␣␣", "的".encode()[:2]: "<0xE7><0x9A>", b" \xf0\x9f": "␣<0xF0><0x9F>", b"\x00": "<0x00>"}
    tokens = [*map(in_bytes, shown), "<|endoftext|>", None]
    assert readable(tokens, {12}) == (*shown.values(), *tokens[12:])


def test_added_tokens_read_as_they_were_added_and_count_as_words():
    """In the alphabet of bytes an é stands for the byte E9, and in an added token for itself."""
    added = ["café", "Größe", "naïve", "<tag>", "ab c"]
    tokens = ["<s>", *map(in_bytes, (" the", "na")), *added]
    tokenizer = tokenizer_of(tokens, [0, 6], **{text: AddedToken(text, special=text == "<tag>") for text in added})
    names = token_names(tokenizer, range(len(tokens)))
    assert list(names.values()) == ["<s>", "␣the", "na", "café", "Größe", "naïve", "<tag>", "ab␣c"]
    assert word_tokens(tokenizer, len(tokens)).words == {1: "the", 3: "café", 4: "Größe", 5: "naïve"}
    normalised = tokenizer_of(
        ["a", "b", "北京"], written=["a", "b", " 北  京 "], 北京=AddedToken("北京", special=False)
    )
    assert token_names(normalised, range(3)) == {0: "a", 1: "b", 2: "北京"}


def test_what_is_added_to_a_text_is_found_on_a_text_that_the_tokenizer_reads(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(["<cls>", "<eos>", "L", "K", "V"])}
    backend = Tokenizer(models.WordLevel(vocabulary))  # of proteins: no "a", and no token for what is unknown
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    pairs = [("<cls>", 0), ("<eos>", 1)]
    backend.post_processor = processors.TemplateProcessing(single="<cls> $A <eos>", special_tokens=pairs)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, cls_token="<cls>", eos_token="<eos>")
    assert added_tokens(tokenizer) == (["<cls>"], ["<eos>"])


@pytest.mark.parametrize("sign", [SIGN.get, chr], ids=["GPT-2's alphabet", "ByT5: characters of the same number"])
def test_every_single_byte_reads_otherwise(sign):
    shown = readable([*map(sign, range(256)), *([in_bytes(" the")] if sign is not chr else [])], ())
    assert len(set(shown)) == len(shown)
    assert shown[0xE7] == "<0xE7>" and shown[ord("A")] == "A" and shown[ord(" ")] == "␣"


def test_how_tokens_of_other_tokenizers_read():
    for tokens, shown in (
        (["▁the", "s", "▁", "<0xE7>", "é", "▁▁"], ["␣the", "s", "␣", "<0xE7>", "é", "␣␣"]),
        (["the", "##ing", "##", "é", "a b"], ["the", "##ing", "##", "é", "a␣b"]),
        (["the</w>", "the", "é</w>"], ["the␣", "the", "é␣"]),
        (["cat", "的", "\x07", "\u0085"], ["cat", "的", "<0x07>", "<U+0085>"]),
    ):
        assert readable(tokens, ()) == tuple(shown)
    ends = [f"{sign}</w>" for sign in SIGN.values()]  # CLIP: GPT-2's alphabet, and a mark at the end
    clip = [*SIGN.values(), *ends, in_bytes("été") + "</w>", in_bytes("नमस्ते") + "</w>"]
    assert readable(clip, ())[-2:] == ("été␣", "नमस्ते␣")
    words = word_tokens(tokenizer_of(clip), len(clip)).words
    assert list(words.values()) == ["A", "I", "a", "été", "नमस्ते"]
    assert [token.kind for token in classify([*clip, "Größe"], (), {len(clip)})[-3:]] == ["alphabetic"] * 3
    characters = [*map(chr, range(0x20, 0x250)), "▁", "Ġ", "的"]  # CANINE: every character is a token
    assert readable(characters, ())[-1] == "的" and "é" in readable(characters, ())
    assert readable([*characters, "##ing", "##ed"], ())[:0x250].count("é") == 1  # mBERT has all of GPT-2's alphabet


def test_what_cannot_be_seen_is_shown_by_its_number():
    for token, shown in (
        ("\u200d", "<U+200D>"),
        ("\ufe0f", "<U+FE0F>"),
        ("\u3000", "<U+3000>"),
        ("👩\u200d", "👩\u200d"),
    ):
        assert readable([token, "cat"], ()) == (shown, "cat")


def ids_of(model, text="the mouse was gone", limit=100):
    (tokens,) = tokenise_texts([text], model.tokenizer, limit)
    return tokens.ids.tolist(), tokens.special.tolist()


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decoder_gets_a_bos_where_it_has_none_and_its_name_is_known(copy, found, loaded, name):
    folder = copy(name)
    with pytest.raises(ReporterError, match=r"needs a BOS token, .*; remove `bos`"):
        loaded(folder, bos="add")
    configure(folder, "tokenizer_config.json", bos_token="<s>", truncation_side="left")
    plain, added = loaded(folder), loaded(folder, bos="add")
    (without, _), (ids, special) = ids_of(plain), ids_of(added)
    assert ids == [plain.tokenizer.bos_token_id, *without] and special == [True, *[False] * len(without)]
    assert (plain.anatomy.first_token, added.anatomy.first_token) == ("word", "<s>")
    assert loaded(folder, bos="none").anatomy.first_token == "word"
    assert ids_of(added, limit=3) == (ids[:3], [True, False, False])
    plain, added = found(folder), found(folder, bos="add")  # it is no part of the identity of the weights
    assert plain.fingerprint == added.fingerprint and (plain.bos, added.bos) == ("as-is", "add")


def test_the_first_token_of_an_encoder_can_be_left_out_and_its_tokenizer_is_known_by_what_it_does(family, loaded):
    plain, again, none, added = (loaded(family("bert"), bos=bos) for bos in ("as-is", "as-is", "none", "add"))
    ids, special = ids_of(plain)
    assert ids_of(none) == (ids[1:], special[1:]) and special[-1]
    assert ids_of(added)[0] == ids  # there is one already
    assert plain.anatomy.first_token == plain.tokenizer.cls_token and none.anatomy.first_token == "word"
    assert added_tokens(plain.tokenizer) == ([plain.tokenizer.cls_token], [plain.tokenizer.sep_token])
    assert ids_of(plain, limit=3)[0] == [*ids[:2], ids[-1]]  # cutting leaves its mark on the tokenizer
    assert tokenizer_hash(plain.tokenizer) == tokenizer_hash(again.tokenizer) != tokenizer_hash(none.tokenizer)
    again.tokenizer.add_tokens(["mouse"])
    assert tokenizer_hash(plain.tokenizer) != tokenizer_hash(again.tokenizer)
    assert tokenizer_hash(object()) == ""  # a slow one cannot be read


def growing(letter):
    """Return a normaliser that makes 10^15 letters of one."""
    rule = {"type": "Replace", "pattern": {"String": letter}, "content": letter * 1000}
    return {"type": "Sequence", "normalizers": [rule] * 5}


PAIR = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
TEMPLATE = [{"SpecialToken": {"id": "[NOPE]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
NO_SUCH_TOKEN = {"type": "TemplateProcessing", "single": TEMPLATE, "pair": PAIR, "special_tokens": {}}
FLAGS = dict.fromkeys(["lstrip", "rstrip", "single_word", "special"], False)
ADDED = {"id": 0, "content": "zz", "normalized": True, **FLAGS}
DEEP = '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("tokenizer.json", {"post_processor": NO_SUCH_TOKEN}, "fails on a short text: PanicException"),
        ("tokenizer.json", {"normalizer": growing("a")}, "needs more than 1.0 GiB of memory; check `normalizer`"),
        ("tokenizer.json", {"normalizer": growing("z"), "added_tokens": [ADDED]}, "needs more than 1.0 GiB of memory"),
        ("tokenizer.json", DEEP, "cannot read the tokenizer"),
        ("tokenizer_config.json", DEEP, "cannot read the tokenizer"),
        ("special_tokens_map.json", DEEP, "cannot read the tokenizer"),
        ("config.json", DEEP, "config.json: lists and mappings are nested more than 100 deep; save or download"),
    ],
)
def test_a_hostile_file_is_one_line_about_its_model(copy, loaded, monkeypatch, file, changes, message):
    monkeypatch.setattr("reporter.models.tokenizer.MEMORY", 2**30)
    folder = copy("bert")
    if isinstance(changes, str):
        (folder / file).write_text(changes)
    else:
        configure(folder, file, **changes)
    assert message in refused(loaded, folder)


CODE = {"auto_map": {"AutoTokenizer": ["tok.Mine", None]}, "tokenizer_class": "Mine"}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {"tokenizer_config.json": json.dumps(CODE)},
            r"needs to run its Python code; if you trust it, add `trust_remo",
        ),
        (
            {"tokenizer_config.json": json.dumps(CODE), "vocab.txt": "a\n"},
            r"needs to run its Python code; .* add `trust",
        ),
        ({}, r"has no tokenizer \(tokenizer.json"),
        (
            {"tokenizer_config.json": '{"tokenizer_class": "LlamaTokenizer"}', "tokenizer.model": "\n\x0e"},
            "is a file of sentencepiece; run `pip install sentencepiece`",
        ),
        (
            {"tokenizer_config.json": '{"tokenizer_class": "LlamaTokenizer"}', "tokenizer.model": "YQ== 0\n"},
            "is a file of tiktoken; run `pip install tiktoken`",
        ),
    ],
)
def test_a_tokenizer_that_needs_code_or_a_package_says_so(tmp_path, monkeypatch, files, message):
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "tok.py").write_text("raise SystemExit")

    def lacks(*arguments, **more):
        raise ValueError("`tiktoken` is required to read a `tiktoken` file.")

    if "tokenizer.model" in files:  # whichever packages are here
        monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lacks)
        monkeypatch.setattr("reporter.models.tokenizer.find_spec", lambda name: None)
    with pytest.raises(ReporterError, match=message):
        load_tokenizer(Checkpoint("m", "final", "path", str(tmp_path), "fingerprint", path=tmp_path), tmp_path, True)


def test_a_tokenizer_that_fails_on_some_texts_alone_is_stopped_there(copy, loaded, monkeypatch):
    monkeypatch.setattr("reporter.texts.tokens.MEMORY", 2**30)
    folder = copy("bert")
    configure(folder, "tokenizer.json", normalizer=growing("z"))
    model = loaded(folder)
    assert tokenise_texts(["a b"], model.tokenizer, None)
    with pytest.raises(ReporterError, match=r"tokenising texts 1 to 1 needs more than 1\.0 GiB of memory; check"):
        tokenise_texts(["a z"], model.tokenizer, None)
    split = {"type": "Split", "pattern": {"Regex": r"(\w+\s?)*\w+[^\w\s]{9}"}, "behavior": "Isolated", "invert": False}
    configure(folder, "tokenizer.json", normalizer=None, pre_tokenizer=split)
    with pytest.raises(ReporterError, match=r"the tokenizer of the model fails: PanicException.*retry-limit"):
        tokenise_texts(["word " * 99], loaded(folder).tokenizer, None)
