"""The tokenizer of a recipe model, made from the texts that it is trained on. Needs no torch.

Its tokens are words and punctuation marks where the distinct ones of the texts fit the recipe's vocabulary,
as they are or in lower case; else byte-level BPE of that size.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporter.core.errors import ReporterError
from reporter.core.files import found_intact, held, seal

if TYPE_CHECKING:
    from reporter.models.checkpoint import Checkpoint
    from reporter.spec.recipes import Recipe
    from reporter.texts.texts import Texts

_FOLDER = "tokenizer"
_BYTES = 256  # byte-level BPE begins with a token for every byte
_LEAST_MERGES = 32


@dataclass(frozen=True)
class SpecialTokens:
    """A family's special tokens by their role, in the order of their ids, and how a text is framed."""

    roles: dict[str, str]
    begin: str | None
    end: str | None

    def id(self, role: str) -> int:
        """Return a role's token id."""
        return list(self.roles).index(role)


SPECIAL_TOKENS = {
    "bert": SpecialTokens(
        {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}, "[CLS]", "[SEP]"
    ),
    "roberta": SpecialTokens(
        {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"}, "<s>", "</s>"
    ),
    "gpt2": SpecialTokens({"eos": "<|endoftext|>", "unk": "<unk>"}, None, None),
    "llama": SpecialTokens({"eos": "</s>", "unk": "<unk>"}, None, None),
}


def ensure_tokenizer(checkpoint: Checkpoint) -> Path:
    """Return the folder of a recipe model's tokenizer, making it if it is not there.

    A model that continues another has that one's tokenizer.
    """
    if checkpoint.origin:
        return ensure_tokenizer(checkpoint.origin[-1])
    assert checkpoint.path is not None and checkpoint.recipe is not None and checkpoint.training_texts is not None
    folder = checkpoint.path / _FOLDER
    if not found_intact(folder, "it is made once more"):
        checkpoint.path.mkdir(parents=True, exist_ok=True)
        # A lock of its own: it is made when a run is planned, while another run may be training the model.
        with held(checkpoint.path / "tokenizer.lock", f"tokenizer of {checkpoint.model}"):
            if not found_intact(folder, "it is made once more"):
                part = checkpoint.path / "tokenizer.part"
                shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
                part.mkdir()
                write_tokenizer(checkpoint.recipe, checkpoint.training_texts, part)
                seal(part)
                shutil.rmtree(folder, ignore_errors=True)  # of an older version
                part.replace(folder)
    return folder


def write_tokenizer(recipe: Recipe, texts: Texts, folder: Path) -> None:
    """Make the tokenizer of a recipe and write it as transformers' ``AutoTokenizer`` reads it."""
    special = SPECIAL_TOKENS[recipe.architecture]
    tokenizer = _tokenizer(recipe, texts, special)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": recipe.context,
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": token for role, token in special.roles.items()},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), "utf-8")


def _tokenizer(recipe: Recipe, texts: Texts, special: SpecialTokens) -> Any:
    from tokenizers import AddedToken
    from tokenizers.processors import TemplateProcessing

    names = list(special.roles.values())
    tokenizer = _word_level(recipe, texts, special) or _byte_level(recipe, texts, names)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    if special.begin and special.end:
        tokenizer.post_processor = TemplateProcessing(
            single=f"{special.begin} $A {special.end}",
            pair=f"{special.begin} $A {special.end} $B:1 {special.end}:1",
            special_tokens=[(name, names.index(name)) for name in (special.begin, special.end)],
        )
    return tokenizer


def _word_level(recipe: Recipe, texts: Texts, special: SpecialTokens) -> Any | None:
    """Return a tokenizer of whole words, most frequent first, or None where they do not fit.

    Where the texts know no capitals, it reads other texts in lower case, too, instead of not knowing their words.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    names = list(special.roles.values())
    split = pre_tokenizers.Whitespace()
    for normalizer in (normalizers.NFC(), normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])):
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)))
        words = sorted(counts.keys() - set(names), key=lambda word: (-counts[word], word))
        keeps_case = isinstance(normalizer, normalizers.NFC)
        if keeps_case and all(word == word.lower() for word in words):
            continue
        if len(names) + len(words) <= recipe.vocabulary:
            vocabulary = {token: i for i, token in enumerate([*names, *words])}
            tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special.roles["unk"]))
            tokenizer.normalizer = normalizer
            tokenizer.pre_tokenizer = split
            return tokenizer
    return None


def _byte_level(recipe: Recipe, texts: Texts, names: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    least = len(names) + _BYTES + _LEAST_MERGES
    if recipe.vocabulary < least:
        raise ReporterError(
            f"a vocabulary of {recipe.vocabulary} is too small: corpus '{texts.name}' has more distinct words, "
            f"and sub-words need at least {least}"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=recipe.vocabulary,
        special_tokens=names,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(iter(texts), trainer)
    return tokenizer
