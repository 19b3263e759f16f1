"""Recipe models: what identifies them, that training is repeatable, safe to kill, and learns."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from reporter.core.errors import ReporterError
from reporter.models.checkpoint import Checkpoint
from reporter.models.head import load_head
from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.models.toy import model as pocket_training
from reporter.models.toy import training as pocket_tokenizer
from reporter.models.toy.training import _remove_unfinished, prepare, prepare_together
from reporter.models.words import whole_words
from reporter.spec.models import RecipeModel
from reporter.spec.recipes import Recipe
from reporter.texts import Texts, build_texts
from reporter.texts.sources.stored import InlineCorpus

SMALL = {"layers": 2, "width": 16, "heads": 2, "train_on": "c", "steps": 4, "batch": 4, "context": 12}

DOES = {"cat": "sleeps", "dog": "barks", "bird": "sings", "mouse": "hides", "cow": "eats"}


class Watched:
    """A progress bar that remembers."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, str]] = []
        self.advanced = 0
        self.notes: list[str] = []

    @contextmanager
    def step(self, name: str, total: int, unit: str) -> Iterator[Any]:
        self.steps.append((name, total, unit))
        yield self.advance

    def advance(self, amount: int) -> None:
        self.advanced += amount

    def note(self, text: str) -> None:
        self.notes.append(text)


def sentences(number: int) -> list[str]:
    """Return texts in which each animal does one thing, so that half of the words can be guessed."""
    chance = random.Random(0)
    return [
        " ".join(f"the {animal} {DOES[animal]} ." for animal in chance.choices(list(DOES), k=chance.randint(1, 4)))
        for _ in range(number)
    ]


@pytest.fixture
def texts(tmp_path: Path) -> Callable[..., Texts]:
    def build(texts: list[str] | None = None) -> Texts:
        spec = InlineCorpus(texts=tuple(texts or sentences(60)))
        return build_texts("c", spec, tmp_path, tmp_path / "cache")

    return build


@pytest.fixture
def resolved(tmp_path: Path, texts: Callable[..., Texts]) -> Callable[..., tuple[Checkpoint, ...]]:
    def get(cache: str = "cache", corpus: list[str] | None = None, **options: Any) -> tuple[Checkpoint, ...]:
        spec = RecipeModel(recipe=Recipe(**({"architecture": "bert"} | SMALL | options)))
        return resolve("m", spec, tmp_path, tmp_path / cache, lambda name: texts(corpus), offline=True)

    return get


Resolved = Callable[..., tuple[Checkpoint, ...]]


def trained(checkpoints: tuple[Checkpoint, ...], progress: Watched | None = None) -> tuple[Checkpoint, ...]:
    return prepare(checkpoints, progress or Watched())


def weights(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    assert checkpoint.folder is not None
    return load_file(checkpoint.folder / "model.safetensors")


def test_checkpoints_are_steps(resolved: Resolved) -> None:
    first, last = resolved(checkpoints=(0, 4))
    assert [(c.name, c.step) for c in (first, last)] == [("step-0", 0), ("step-4", 4)]
    assert first.fingerprint != last.fingerprint
    assert first.folder is not None
    assert not first.folder.exists()
    (only,) = resolved()
    assert (only.name, only.step, only.source) == ("final", 4, "recipe")
    assert only.fingerprint == last.fingerprint


def test_models_trained_side_by_side_are_those_trained_alone(resolved: Resolved) -> None:
    """Each draws its weights and its texts as if it were alone, and the trainings are shown as one."""
    different = ({"architecture": "bert"}, {"architecture": "gpt2"}, {"seed": 3})
    alone = [resolved("alone", checkpoints=(0, 4), **one) for one in different]
    beside = [resolved("beside", checkpoints=(0, 4), **one) for one in different]
    for one in alone:
        trained(one)
    shown = Watched()
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        prepare_together([*beside, ()], shown)
    finally:
        torch.set_num_threads(before)
    assert shown.steps == [("training m, m, m", 12, "steps")]
    assert shown.advanced == 12
    for one, other in zip(alone, beside, strict=True):
        assert [c.loss for c in trained(one)] == [c.loss for c in trained(other)]
        for a, b in zip(one, other, strict=True):
            assert weights(a).keys() == weights(b).keys()
            assert all(torch.equal(tensor, weights(b)[name]) for name, tensor in weights(a).items())
    again = Watched()
    prepare_together(beside, again)
    assert not again.steps


def test_a_model_that_cannot_be_trained_is_left_to_say_so_itself(resolved: Resolved) -> None:
    good, bad = resolved("g"), resolved("b", learning_rate=1e30, steps=30, architecture="gpt2")
    prepare_together([bad, good], Watched())
    assert trained(good)[-1].loss is not None
    with pytest.raises(ReporterError, match="diverged"):
        trained(bad)


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"width": 32}, {"learning_rate": 1e-2}, {"corpus": sentences(61)}, {"architecture": "gpt2"}]
)
def test_whatever_changes_the_weights_changes_the_fingerprint(resolved: Resolved, change: dict[str, Any]) -> None:
    assert resolved(**change)[0].fingerprint != resolved()[0].fingerprint


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama"])
def test_every_architecture_trains_and_loads(resolved: Resolved, architecture: str) -> None:
    progress = Watched()
    first, last = trained(resolved(architecture=architecture, checkpoints=(0, 4)), progress)
    assert progress.steps == [("training m", 4, "steps")]
    assert progress.advanced == 4
    assert first.loss is not None and last.loss is not None
    assert first.unigram_entropy == last.unigram_entropy > 0
    assert resolved(architecture=architecture, checkpoints=(0, 4)) == (first, last)
    model = load(last, "cpu", offline=True)
    encoder = architecture in ("bert", "roberta")
    assert model.anatomy.role == ("encoder" if encoder else "decoder")
    assert (model.anatomy.layers, model.anatomy.width, model.anatomy.max_tokens) == (2, 16, 12)
    words = model.tokenizer("The cat sings.", return_special_tokens_mask=True)
    names = model.tokenizer.convert_ids_to_tokens(words["input_ids"])
    assert names[1:-1] == ["the", "cat", "sings", "."] if encoder else names == ["the", "cat", "sings", "."]
    assert sum(words["special_tokens_mask"]) == (2 if encoder else 0)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama"])
def test_a_recipe_model_has_the_head_it_was_trained_with(resolved: Resolved, architecture: str) -> None:
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    (checkpoint,) = trained(resolved(architecture=architecture))
    model = load(checkpoint, "cpu", offline=True)
    head = load_head(checkpoint, model, offline=True)
    own = AutoModelForCausalLM if model.anatomy.role == "decoder" else AutoModelForMaskedLM
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.inference_mode():
        run = model.run(ids, torch.ones_like(ids))
        mine = head.logits((run.path[-1] if run.final is None else run.final)[0])
        theirs = own.from_pretrained(checkpoint.folder).eval()(input_ids=ids).logits[0]
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_the_same_seed_gives_the_same_weights_and_another_does_not(resolved: Resolved) -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    (first,) = trained(resolved())
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    (again,) = trained(resolved(cache="elsewhere"))
    assert first.path != again.path
    for name, weight in weights(first).items():
        assert torch.equal(weight, weights(again)[name]), name
    (other,) = trained(resolved(seed=1))
    assert not torch.equal(
        weights(first)["bert.embeddings.word_embeddings.weight"],
        weights(other)["bert.embeddings.word_embeddings.weight"],
    )


def test_measuring_more_checkpoints_changes_nothing(resolved: Resolved) -> None:
    (sparse,) = trained(resolved(checkpoints=(4,)))
    *_, dense = trained(resolved(cache="elsewhere", checkpoints=(0, 1, 2, 3, 4)))
    assert sparse.loss == dense.loss
    for name, weight in weights(sparse).items():
        assert torch.equal(weight, weights(dense)[name]), name


def test_a_trained_model_is_not_trained_again(resolved: Resolved, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(resolved(checkpoints=(2, 4)))
    monkeypatch.setattr(pocket_training, "Training", None)
    (one,) = trained(resolved(checkpoints=(2,)))
    assert one.loss is not None


def test_one_more_checkpoint_keeps_the_others(resolved: Resolved) -> None:
    (before,) = trained(resolved(checkpoints=(4,)))
    assert before.folder is not None
    written = (before.folder / "model.safetensors").stat().st_mtime_ns
    early, late = trained(resolved(checkpoints=(2, 4)))
    assert (early.step, late.loss) == (2, before.loss)
    assert (before.folder / "model.safetensors").stat().st_mtime_ns == written


def test_a_killed_training_leaves_nothing_that_looks_finished(
    resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = resolved(checkpoints=(0, 2, 4))
    states = pocket_training.Training.states

    def killed(self: Any, steps: int) -> Iterator[Any]:
        for state in states(self, steps):
            if state.step == 3:
                raise KeyboardInterrupt
            yield state

    monkeypatch.setattr(pocket_training.Training, "states", killed)
    with pytest.raises(KeyboardInterrupt):
        trained(checkpoints)
    assert all(c.loss is None for c in resolved(checkpoints=(0, 2, 4)))
    monkeypatch.undo()
    (clean,) = trained(resolved(cache="elsewhere", checkpoints=(4,)))
    *_, last = trained(checkpoints)
    assert last.loss == clean.loss
    assert last.path is not None
    assert not list(last.path.glob("unfinished-*"))


def test_a_tokenizer_that_another_process_is_making_survives_a_training(
    resolved: Resolved, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is planned makes the tokenizer while another one begins to train, and clears up after dead ones."""
    (checkpoint,) = resolved()
    write = pocket_tokenizer.write_tokenizer

    def meanwhile(recipe: Recipe, texts: Texts, folder: Path) -> None:
        assert checkpoint.path is not None
        _remove_unfinished(checkpoint.path)
        write(recipe, texts, folder)

    monkeypatch.setattr(pocket_tokenizer, "write_tokenizer", meanwhile)
    assert (pocket_tokenizer.ensure_tokenizer(checkpoint) / "tokenizer.json").is_file()


def test_a_half_written_checkpoint_is_trained_again(resolved: Resolved) -> None:
    (first,) = trained(resolved())
    assert first.folder is not None
    (first.folder / "model.safetensors").unlink()
    assert resolved()[0].loss is None
    (again,) = trained(resolved())
    assert again.loss == first.loss
    assert load(again, "cpu", offline=True).anatomy.layers == 2


def test_untrained_models_are_not_loaded(resolved: Resolved) -> None:
    with pytest.raises(ReporterError, match=r"model 'm': the folder .* is not there"):
        load(resolved()[0], "cpu", offline=True)


def test_the_record_tells_what_happened(resolved: Resolved) -> None:
    (checkpoint,) = trained(resolved())
    assert checkpoint.path is not None
    record = json.loads((checkpoint.path / "training.json").read_text())
    assert record["losses"] == {"4": checkpoint.loss}
    assert [step for step, _ in record["curve"]] == [1, 2, 3, 4]
    assert {"torch", "transformers", "tokenizers", "python", "threads"} <= record["versions"].keys()
    assert record["held_out_texts"] == 16
    assert record["seconds"] > 0


def test_unigram_entropy_by_hand(resolved: Resolved) -> None:
    corpus = ["x y x", "x z"] * 50  # the last 16 are held out: 42 × "x y x" and 42 × "x z" are left
    (encoder,) = trained(resolved(corpus=corpus))
    p = [3 / 5, 1 / 5, 1 / 5]
    assert encoder.unigram_entropy == pytest.approx(-sum(q * math.log(q) for q in p))
    (decoder,) = trained(resolved(corpus=corpus, architecture="gpt2"))  # which also predicts where texts end
    p = [3 / 7, 1 / 7, 1 / 7, 2 / 7]
    assert decoder.unigram_entropy == pytest.approx(-sum(q * math.log(q) for q in p))


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_it_learns_what_there_is_to_learn(resolved: Resolved, architecture: str) -> None:
    """Half of the words follow from their neighbours; the best possible loss is far below the unigram entropy."""
    options = {"layers": 2, "width": 32, "steps": 200, "batch": 16, "learning_rate": 3e-3, "checkpoints": (0, 200)}
    start, end = trained(resolved(architecture=architecture, corpus=sentences(400), **options))
    assert start.loss is not None and end.loss is not None and end.unigram_entropy is not None
    assert start.loss > 0.9 * end.unigram_entropy
    assert end.loss < 0.55 * end.unigram_entropy
    assert (start.warning, end.warning) == ("", "")


def test_a_model_on_the_plateau_says_so(resolved: Resolved) -> None:
    early, late = trained(resolved(checkpoints=(0, 4)))
    assert early.warning == ""  # nobody expects an untrained model to know anything
    assert late.warning.startswith("stayed on the unigram plateau")


def test_a_training_that_diverges(resolved: Resolved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pocket_training.Training, "held_out_loss", lambda self, model: math.nan)
    with pytest.raises(ReporterError, match="model 'm': the training diverged before step 4"):
        trained(resolved())


def test_a_context_without_room_for_words(resolved: Resolved) -> None:
    with pytest.raises(ReporterError, match="model 'm': corpus 'c' has too few words"):
        trained(resolved(corpus=["x"], context=2))


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama"])
def test_one_text_and_the_shortest_context(resolved: Resolved, architecture: str) -> None:
    context = 3 if architecture in ("bert", "roberta") else 2
    (checkpoint,) = trained(resolved(architecture=architecture, corpus=["x y z x y z"], context=context))
    assert checkpoint.loss is not None
    assert load(checkpoint, "cpu", offline=True).anatomy.max_tokens == context


def test_models_from_elsewhere_come_back_as_they_are(resolved: Resolved) -> None:
    other = tuple(replace(c, recipe=None, source="path") for c in resolved())
    assert prepare(other, Watched()) == other
    assert prepare((), Watched()) == ()


def test_whole_words_before_training(resolved: Resolved) -> None:
    (checkpoint,) = resolved()
    assert set(whole_words(checkpoint)) == {"the", *DOES, *DOES.values()}
    assert resolved()[0].loss is None
