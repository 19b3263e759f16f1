"""How tokens of each kind of tokenizer read."""

from __future__ import annotations

import pytest

from reporter.models.words import byte_alphabet, readable, token_names

SIGN = {byte: sign for sign, byte in byte_alphabet().items()}


def in_bytes(text: str | bytes) -> str:
    """Return a text as byte-level BPE writes it."""
    return "".join(SIGN[byte] for byte in (text.encode() if isinstance(text, str) else text))


def test_byte_level_tokens_are_decoded() -> None:
    texts = [" the", "的", "café", " 😀", "\n\n", "\t", " Ġorġ", "na", "  "]
    special = "<|endoftext|>"
    tokens = [
        *map(in_bytes, texts),
        in_bytes("的".encode()[:2]),
        in_bytes(b" \xf0\x9f"),
        in_bytes(b"\x00"),
        special,
        None,
    ]
    assert readable(tokens, {12}) == (
        *("␣the", "的", "café", "␣😀", "⏎⏎", "⇥", "␣Ġorġ", "na", "␣␣"),
        *("<0xE7><0x9A>", "␣<0xF0><0x9F>", "<0x00>", special, None),
    )


def test_every_single_byte_reads_otherwise() -> None:
    tokens = [SIGN[byte] for byte in range(256)]
    shown = readable([*tokens, in_bytes(" the")], ())
    assert len(set(shown)) == 257
    assert shown[0xE7] == "<0xE7>" and shown[ord("A")] == "A" and shown[ord(" ")] == "␣"


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (["▁the", "s", "▁", "<0xE7>", "é", "▁▁"], ["␣the", "s", "␣", "<0xE7>", "é", "␣␣"]),
        (["the", "##ing", "##", "é", "a b"], ["the", "##ing", "##", "é", "a␣b"]),
        (["the</w>", "the", "é</w>"], ["the␣", "the", "é␣"]),
        (["cat", "的", "\x07", "\u0085"], ["cat", "的", "<0x07>", "<U+0085>"]),
    ],
    ids=["SentencePiece", "WordPiece", "end of word", "words"],
)
def test_other_tokenizers(tokens: list[str], shown: list[str]) -> None:
    assert readable(tokens, ()) == tuple(shown)


def test_bytes_with_the_ends_of_words_marked() -> None:
    """CLIP: GPT-2's alphabet, and a mark at the end."""
    ends = [f"{sign}</w>" for sign in SIGN.values()]
    tokens = [*SIGN.values(), *ends, in_bytes("été") + "</w>"]
    assert readable(tokens, ())[-1] == "été␣"


def test_bytes_by_number() -> None:
    """ByT5: the byte 0xE7 is the character of the same number."""
    tokens = [chr(byte) for byte in range(256)]
    shown = readable(tokens, ())
    assert shown[0xE7] == "<0xE7>" and shown[ord("a")] == "a" and len(set(shown)) == 256


def test_names_that_were_given_are_kept() -> None:
    class Given:
        def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
            return [f"Ġ{i}" for i in ids]

    assert token_names(Given(), [3, 4]) == {3: "Ġ3", 4: "Ġ4"}
