"""Makes the tokenizers of recipe models and trains those that are not in the cache; a kill leaves no half checkpoint.

A checkpoint is written to a temporary folder and renamed when it is complete; the record of the training,
which makes checkpoints count, is written last. A training that was killed starts again from its seed: toy
models train in seconds, and the same seed gives the same weights.
"""

import json
import platform
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from reporter.core.errors import ReporterError, failing_as
from reporter.core.files import found_intact, held, is_damaged, read_note, sealed_folder, set_aside, write_note
from reporter.core.progress import Progress
from reporter.core.threads import raise_if_cancelled, single, spread
from reporter.models.checkpoint import FINAL, UNLEARNED, Checkpoint, quiet
from reporter.models.model_folder import fingerprint, tokenizer_files
from reporter.study.recipes import Recipe, Tuning
from reporter.texts.texts import Texts

# The tokenizer of a recipe model, made from the texts that it is trained on.
#
# Its tokens are words and punctuation marks where the distinct ones of the texts fit the recipe's vocabulary, as they
# are or in lower case; else byte-level BPE of that size.


_TOKENIZER = "tokenizer"
_BYTES = 256  # byte-level BPE begins with a token for every byte
_LEAST_MERGES = 32


# A family's special tokens by their role, in the order of their ids; cls and sep stand around a text.
SPECIAL_TOKENS = {
    "bert": {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"},
    "roberta": {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "mask": "<mask>"},
    "gpt2": {"eos": "<|endoftext|>", "unk": "<unk>"},
    "llama": {"eos": "</s>", "unk": "<unk>"},
}


def role_ids(architecture: str) -> dict[str, int]:
    """Return the ids of a family's special tokens by their role."""
    return {role: number for number, role in enumerate(SPECIAL_TOKENS[architecture])}


def ensure_tokenizer(checkpoint: Checkpoint) -> Path:
    """Return the folder of a recipe model's tokenizer, making it if it is not there.

    A model that continues another has that one's tokenizer.
    """
    if checkpoint.origin:
        return ensure_tokenizer(checkpoint.origin[-1])
    assert checkpoint.path is not None and checkpoint.recipe is not None and checkpoint.training_texts is not None
    folder = checkpoint.path / _TOKENIZER
    if not found_intact(folder, "the tokenizer is made again"):
        checkpoint.path.mkdir(parents=True, exist_ok=True)
        # A lock of its own: it is made when a run is planned, while another run may be training the model.
        with held(checkpoint.path / "tokenizer.lock", f"tokenizer of {checkpoint.model}"):
            if not found_intact(folder, "the tokenizer is made again"):
                with sealed_folder(folder) as part:
                    write_tokenizer(checkpoint.recipe, checkpoint.training_texts, part)
    return folder


def write_tokenizer(recipe: Recipe, texts: Texts, folder: Path) -> None:
    """Make the tokenizer of a recipe and write it as transformers' ``AutoTokenizer`` reads it."""
    special = SPECIAL_TOKENS[recipe.architecture]
    _tokenizer(recipe, texts, special).save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": recipe.context,
        "padding_side": "right",
        "clean_up_tokenization_spaces": False,
        **{f"{role}_token": token for role, token in special.items()},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), "utf-8")


def _tokenizer(recipe: Recipe, texts: Texts, special: dict[str, str]) -> Any:
    from tokenizers import AddedToken
    from tokenizers.processors import TemplateProcessing

    names = list(special.values())
    tokenizer = _word_level(recipe, texts, special) or _byte_level(recipe, texts, names)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    if "cls" in special:
        begin, end = special["cls"], special["sep"]
        tokenizer.post_processor = TemplateProcessing(
            single=f"{begin} $A {end}",
            pair=f"{begin} $A {end} $B:1 {end}:1",
            special_tokens=[(name, names.index(name)) for name in (begin, end)],
        )
    return tokenizer


def _word_level(recipe: Recipe, texts: Texts, special: dict[str, str]) -> Any | None:
    """Return a tokenizer of whole words, most frequent first, or None where they do not fit.

    Where the texts know no capitals, it reads other texts in lower case, too, instead of not knowing their words.
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    names = list(special.values())
    split = pre_tokenizers.Whitespace()
    for normalizer in (normalizers.NFC(), normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])):
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text)))
        words = sorted(counts.keys() - set(names), key=lambda word: (-counts[word], word))
        if isinstance(normalizer, normalizers.NFC) and all(word == word.lower() for word in words):
            continue
        if len(names) + len(words) <= recipe.vocabulary:
            vocabulary = {token: i for i, token in enumerate([*names, *words])}
            tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special["unk"]))
            tokenizer.normalizer = normalizer
            tokenizer.pre_tokenizer = split
            return tokenizer
    return None


def _byte_level(recipe: Recipe, texts: Texts, names: list[str]) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    least = len(names) + _BYTES + _LEAST_MERGES
    if recipe.vocabulary < least:
        raise ReporterError(
            f"a vocabulary of {recipe.vocabulary} is too small for corpus '{texts.name}'; write `vocabulary: {least}` "
            "or more"
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


# What a training leaves: its record, beside the folders of the checkpoints.


RECORD = "training.json"


Record = dict[str, Any]
"""What was measured while a recipe model was trained: ``recipe``, hash of the ``texts``, ``unigram_entropy`` of the
tokens to be predicted in nats, ``losses`` on held-out texts by step, ``curve`` of pairs of step and mean training loss
since the pair before, ``training_tokens``, ``held_out_texts``, ``seconds``, ``versions`` of what else decides about the
last digits, ``unknown_share`` of the training tokens that the tokenizer does not know."""


def step_folder(step: int) -> str:
    """Return the name of the folder that holds the model after ``step`` steps."""
    return f"step-{step:06d}"


def is_saved(folder: Path) -> bool:
    """Return whether a checkpoint's folder is complete; a damaged folder is renamed."""
    return found_intact(folder, "the model is trained again")


def read_record(folder: Path) -> Record | None:
    """Return the record of a training, with the losses of those checkpoints alone that are there; None without one."""
    if is_damaged(folder / RECORD):
        set_aside(folder / RECORD, "its checkpoints are trained again")
    record = read_note(folder / RECORD)
    try:
        losses = {int(step): float(loss) for step, loss in record["losses"].items()} if record else {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    saved = {step: loss for step, loss in losses.items() if is_saved(folder / step_folder(step))}
    return record and record | {"losses": saved}


VERSION = 2  # raise it when the same recipe would give other weights or another tokenizer

UNKNOWN = 0.05  # of the training tokens: more of them than that, and a model learns to predict "unknown"
PLATEAU = 0.9  # of the unigram entropy: a loss above it says that little more than frequencies was learned


def resolve_recipe(
    name: str, entry: Recipe | Tuning, cache: Path, texts: Texts, origin: tuple[Checkpoint, ...] = ()
) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of a recipe model, trained or not.

    The fingerprint covers the recipe, the texts it is trained on, the version of the code that trains and the
    checkpoint that it begins at, but not which steps are kept: asking for one more checkpoint leaves the others what
    they were. Nor does it cover the version of torch, which is recorded with the training instead.

    """
    if isinstance(entry, Tuning):
        start = origin[-1]
        assert start.recipe is not None
        recipe, begins = entry.after(start.recipe), {"begins": start.fingerprint}
        location = f"{start.location}, then on"
    else:
        recipe, location, begins = entry, f"{entry.architecture} trained on", {}
    decides = recipe.model_dump(mode="json", exclude={"checkpoints", "train_on"})
    training = fingerprint({"recipe": decides, "texts": texts.hash, "code": VERSION} | begins)
    folder = cache / "models" / training
    record = read_record(folder)
    return tuple(
        with_record(
            Checkpoint(
                model=name,
                name=f"step-{step}" if len(recipe.checkpoints) > 1 else FINAL,
                step=step,
                source="recipe",
                location=f"{location} {texts.name}",
                path=folder,
                revision=training,
                subfolder=step_folder(step),
                dtype="float32",
                fingerprint=fingerprint({"training": training, "step": step}),
                recipe=recipe,
                training_texts=texts,
                origin=origin,
            ),
            record,
        )
        for step in recipe.checkpoints
    )


def with_record(checkpoint: Checkpoint, record: Record | None) -> Checkpoint:
    """Return the checkpoint with what its training measured, if it was trained."""
    if record is None or checkpoint.step is None or checkpoint.step not in record["losses"]:
        return checkpoint
    recipe, loss = checkpoint.recipe, record["losses"][checkpoint.step]
    entropy, unknown, warnings = record["unigram_entropy"], record.get("unknown_share", 0.0), []
    if recipe is not None and checkpoint.step == recipe.steps > 0 and loss > PLATEAU * entropy:
        warnings.append(
            f"{UNLEARNED}: the loss is {loss:.2f}, and token frequencies alone give "
            f"{entropy:.2f}. Raise `steps`, or add texts"
        )
    if unknown > UNKNOWN:
        warnings.append(
            f"the tokenizer, which comes from the continued model, does not know {100 * unknown:.0f} % of the training "
            "tokens. Train on texts with the same words"
        )
    return replace(checkpoint, loss=loss, unigram_entropy=entropy, warning="; ".join(warnings))


_CURVE_POINTS = 100
_WIDE = 512  # below it a step's matrices are done before threads have met; with one the weights are any machine's


def prepare_together(models: Sequence[Sequence[Checkpoint]], progress: Progress) -> None:
    """Train narrow models side by side, each with one thread, so that no core is idle.

    A model that cannot be trained is left for :func:`prepare` to say why, and so is one that continues another; wide
    ones use all cores by themselves. The weights are those of a training alone.

    """
    narrow = [
        series
        for series in models
        if series
        and (recipe := series[0].recipe)
        and recipe.width < _WIDE
        and not series[0].origin
        and _record(series) is None
    ]
    if len(narrow) < 2:
        return
    steps = sum(max(_steps(series)) for series in narrow)
    with (
        progress.step(f"training {', '.join(series[0].model for series in narrow)}", steps, "steps") as advance,
        quiet(),
    ):
        lock = Lock()

        def advance_together(amount: int) -> None:
            raise_if_cancelled()
            with lock:
                advance(amount)

        def attempt(checkpoints: Sequence[Checkpoint]) -> None:
            with suppress(Exception):  # it comes again, where the model is asked for
                prepare(checkpoints, progress, advance_together)

        spread(attempt, narrow)


def prepare(
    checkpoints: Sequence[Checkpoint], progress: Progress, advance: Callable[[int], None] | None = None
) -> tuple[Checkpoint, ...]:
    """Train missing checkpoints, and return the checkpoints with their losses.

    A model that continues another has that one trained first, with all of its checkpoints. Steps of training are
    counted by ``advance``, or as a step of their own.
    """
    if not checkpoints or checkpoints[0].recipe is None:
        return tuple(checkpoints)
    first = checkpoints[0]
    assert first.path is not None and first.recipe is not None
    if (record := _record(checkpoints)) is None:
        prepare(first.origin, progress)
        try:
            with failing_as(f"cannot write to {first.path}", OSError):
                first.path.mkdir(parents=True, exist_ok=True)
                with held(first.path.with_suffix(".lock"), f"training {first.model}", progress.note):
                    record = _train(checkpoints, progress, advance)
        except ReporterError as error:
            raise ReporterError(f"model '{first.model}': {error}") from error
    return tuple(with_record(checkpoint, record) for checkpoint in checkpoints)


def _record(checkpoints: Sequence[Checkpoint]) -> Record | None:
    path = checkpoints[0].path
    record = None if path is None else read_record(path)
    return record if record and _steps(checkpoints) <= record["losses"].keys() else None


def _train(checkpoints: Sequence[Checkpoint], progress: Progress, advance: Callable[[int], None] | None) -> Record:
    first = checkpoints[0]
    texts = first.training_texts
    assert first.path is not None and first.recipe is not None and texts is not None
    before = read_record(first.path)
    steps = _steps(checkpoints)
    if before is not None and steps <= before["losses"].keys():
        return before
    tokenizer = ensure_tokenizer(first)
    import torch
    from tokenizers import Tokenizer

    from reporter.models.toy.model import Training

    began = time.perf_counter()
    begin = first.origin[-1].folder if first.origin else None
    training = Training(first.recipe, texts, Tokenizer.from_file(str(tokenizer / "tokenizer.json")), begin)
    losses: dict[int, float] = {}
    train_losses: list[float] = []
    last = max(steps)
    few = single() if first.recipe.width < _WIDE else nullcontext()
    shown = nullcontext(advance) if advance else progress.step(f"training {first.model}", last, "steps")
    with shown as count_steps, quiet(), few:
        for state in training.states(last):
            if state.train_loss is not None:
                train_losses.append(state.train_loss)
                count_steps(1)
            if state.step in steps:
                loss = losses[state.step] = training.held_out_loss(state.model)
                if not loss < float("inf"):
                    raise ReporterError(
                        f"training diverged before step {state.step} (loss {loss}); lower `learning_rate`"
                    )
                _save(state.model, tokenizer, first.path / step_folder(state.step))
        versions = {name: version(name) for name in ("torch", "transformers", "tokenizers")}
        versions |= {"python": platform.python_version(), "threads": str(torch.get_num_threads())}
    record = {
        "recipe": first.recipe.model_dump(mode="json"),
        "texts": texts.hash,
        "unigram_entropy": training.stream.entropy(),
        "losses": {**(before["losses"] if before else {}), **losses},
        "curve": _curve(train_losses),
        "training_tokens": len(training.stream.tokens),
        "held_out_texts": training.held_out_texts,
        "seconds": time.perf_counter() - began,
        "versions": versions,
        "unknown_share": training.stream.unknown_share(),
    }
    write_note(first.path / RECORD, record)  # last of all: what it names is complete
    return record


def _steps(checkpoints: Sequence[Checkpoint]) -> set[int]:
    return {int(c.subfolder.removeprefix("step-")) for c in checkpoints if c.subfolder}


def _save(model: Any, tokenizer: Path, folder: Path) -> None:
    if is_saved(folder):
        return  # from an earlier training of the same recipe, which may be measured at this moment
    with sealed_folder(folder) as part:
        with failing_as(f"cannot write to {folder}"):  # safetensors has an error of its own for a full disk
            model.save_pretrained(part)
        for file in tokenizer_files(tokenizer):
            shutil.copyfile(file, part / file.name)


def _curve(losses: Sequence[float]) -> tuple[tuple[int, float], ...]:
    size = max(1, -(-len(losses) // _CURVE_POINTS))
    parts = [losses[i : i + size] for i in range(0, len(losses), size)]
    return tuple((min((i + 1) * size, len(losses)), sum(part) / len(part)) for i, part in enumerate(parts))
