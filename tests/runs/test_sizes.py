"""What is known of a model before it is loaded: how many tokens it will read of a corpus."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from reporter import save_states
from reporter.forward.inputs import Size, size_of, tokens_of
from reporter.models.checkpoint import Checkpoint
from reporter.texts import Texts
from reporter.texts.tokens import Windows, windows_of

WORDS = (3, 8, 21, 50)


class Corpus(list[str]):
    words = sum(WORDS)


CORPUS = cast("Texts", Corpus(" ".join(["word"] * n) for n in WORDS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"word": 0, "[UNK]": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    config = {"num_hidden_layers": 2, "hidden_size": 8, "max_position_embeddings": 32}
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def checkpoint(path: Path | None, **more: Any) -> Checkpoint:
    return Checkpoint("m", "final", "path", "m", "fingerprint", path=path, **more)


def test_a_tokenizer_is_asked_and_texts_are_cut_at_the_smaller_limit(folder: Path) -> None:
    assert tokens_of(checkpoint(folder), CORPUS, 10) == 3 + 8 + 10 + 10
    assert tokens_of(checkpoint(folder), CORPUS, 256) == 3 + 8 + 21 + 32


@pytest.mark.parametrize(("size", "stride"), [(16, 4), (16, 16), (20, 7), (64, 32)])
def test_what_windows_repeat_is_read_again(folder: Path, size: int, stride: int) -> None:
    windows = Windows(size, stride)
    fitting = windows.within(32)
    cut = [windows_of(np.zeros(n, dtype=bool), fitting) for n in WORDS]
    read = sum(len(rows) for text in cut for rows, _ in text)
    expected = tokens_of(checkpoint(folder), CORPUS, size, windows)
    assert read <= expected <= read + sum(n > fitting.size for n in WORDS) * stride  # a last window may be shorter


def test_what_cannot_be_read_is_guessed_from_the_words(tmp_path: Path) -> None:
    missing = checkpoint(tmp_path / "gone")
    assert size_of(missing) is None and size_of(checkpoint(None)) is None
    assert tokens_of(missing, CORPUS, 256) == int(sum(WORDS) * 1.35) + 2 * len(WORDS)
    assert tokens_of(missing, CORPUS, 12) == 12 * len(WORDS)
    (tmp_path / "config.json").write_text("[]")
    assert size_of(checkpoint(tmp_path)) is None


def test_saved_states_have_a_size_and_no_weights(tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    saved = checkpoint(None, states={"c": (path, "hash")})
    assert size_of(saved) is None
    save_states(path, np.zeros((3, 5, 16)), texts=[0, 0, 0, 1, 1], role="encoder")
    size = size_of(saved)
    assert size is not None and (size.layers, size.width, size.parameters) == (2, 16, 0)
    path.write_bytes(path.read_bytes()[:9])
    assert size_of(saved) is None


def test_saved_states_are_no_more_than_the_texts_have_room_for(tmp_path: Path) -> None:
    saved = checkpoint(None, states={"c": (tmp_path / "c.npz", "hash")})
    assert tokens_of(saved, CORPUS, 256) == int(sum(WORDS) * 1.35)
    assert tokens_of(saved, CORPUS, 5) == 5 * len(WORDS)


def test_all_experts_of_a_mixture_are_counted_and_those_that_a_token_passes(folder: Path) -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 8, "num_local_experts": 4, "num_experts_per_tok": 1}
    (folder / "config.json").write_text(json.dumps(config))
    assert size_of(checkpoint(folder)) is None  # no weights yet
    experts = {f"model.layers.{i}.moe.experts.{e}.w1.weight": np.zeros((16, 8)) for i in range(2) for e in range(4)}
    save_file(experts, folder / "model-00001-of-00002.safetensors")
    save_file({"model.embed.weight": np.zeros((10, 8))}, folder / "model-00002-of-00002.safetensors")
    assert size_of(checkpoint(folder)) == Size(2, 8, 80 + 8 * 128, 80 + 2 * 128)
