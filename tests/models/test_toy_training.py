"""Recipe models: what identifies them, that training is repeatable, safe to kill and learns, and how one continues
another."""

import json
import random
import shutil
from contextlib import contextmanager

import pytest
import torch
from scipy.stats import entropy

from reporter.core.errors import ReporterError
from reporter.core.threads import given
from reporter.models.checkpoint import random_init
from reporter.models.head import load_head
from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.models.toy import model as toy_model
from reporter.models.toy.training import SPECIAL_TOKENS, prepare, prepare_together
from reporter.models.words import whole_words
from reporter.study.models import RecipeModel
from reporter.texts import build_texts
from reporter.texts.sources.stored import InlineCorpus

SIZE = {"layers": 2, "width": 16, "heads": 2, "context": 12}
SMALL = SIZE | {"architecture": "bert", "train_on": "c", "steps": 4, "batch": 4}
DOES = {"cat": "sleeps", "dog": "barks", "bird": "sings", "mouse": "hides", "cow": "eats"}


class Progress:
    """A progress bar that remembers."""

    def __init__(self):
        self.steps, self.advanced = [], []

    @contextmanager
    def step(self, name, total, unit):
        self.steps.append(f"{name}, {total} {unit}")
        yield self.advanced.append

    def note(self, text):
        """Say nothing."""


def sentences(number):
    """Return texts in which each animal does one thing, so that half of the words can be guessed."""
    chance = random.Random(0)
    drawn = (chance.choices(list(DOES), k=chance.randint(1, 4)) for _ in range(number))
    return [" ".join(f"the {animal} {DOES[animal]} ." for animal in animals) for animals in drawn]


TEXTS = {"c": sentences(60), "second": ("a cat barks .", "the dog sings .") * 20}


@pytest.fixture
def study(tmp_path):
    """Resolve recipes by the names of their models."""

    def get(cache="cache", corpus=None, **recipes):
        def texts(name):
            written = InlineCorpus(texts=tuple(corpus if corpus and name == "c" else TEXTS[name]))
            return build_texts(name, written, tmp_path, tmp_path / "cache")

        def model(name):
            spec = RecipeModel.model_validate({"recipe": recipes[name]})
            return resolve(name, spec, tmp_path, tmp_path / cache, texts, offline=True, models=model)

        return {name: model(name) for name in recipes}

    return get


@pytest.fixture
def resolved(study):
    return lambda cache="cache", corpus=None, **options: study(cache, corpus, m=SMALL | options)["m"]


@pytest.fixture
def chain(study):
    """Resolve ``base`` and recipes that continue it."""
    return lambda base=None, **recipes: study(base=SMALL | (base or {}), **recipes)


def tuned(steps=2, **options):
    return {"from": "base", "train_on": "second", "steps": steps} | options


def trained(checkpoints):
    return prepare(checkpoints, Progress())


def same(a, b):
    """Say whether two checkpoints have the same bytes of weights."""
    return (a.folder / "model.safetensors").read_bytes() == (b.folder / "model.safetensors").read_bytes()


def test_checkpoints_are_steps_and_are_not_trained_by_resolving(resolved):
    (only,), (first, last) = resolved(), resolved(checkpoints=(0, 4))
    assert [(c.name, c.step) for c in (first, last)] == [("step-0", 0), ("step-4", 4)]
    assert (only.name, only.step, only.source, only.loss) == ("final", 4, "recipe", None)
    assert only.fingerprint == last.fingerprint != first.fingerprint and not first.folder.exists()
    assert set(whole_words(only)) == {"the", *DOES, *DOES.values()}  # before training
    with pytest.raises(ReporterError, match=r"model 'm': there is no folder"):
        load(only, "cpu", offline=True)
    changes = [{"seed": 1}, {"width": 32}, {"learning_rate": 1e-2}, {"corpus": sentences(61)}, {"architecture": "gpt2"}]
    assert len({resolved(**change)[0].fingerprint for change in ({}, *changes)}) == 6


def test_models_trained_side_by_side_are_those_trained_alone(resolved):
    """Each draws its weights and its texts as if it were alone, and the trainings are shown as one."""
    different = ({"architecture": "bert"}, {"architecture": "gpt2"}, {"seed": 3})
    alone, beside = ([resolved(to, checkpoints=(0, 4), **more) for more in different] for to in ("alone", "beside"))
    shown, again = Progress(), Progress()
    with given(3):
        prepare_together([*beside, ()], shown)
    assert (shown.steps, sum(shown.advanced)) == (["training m, m, m, 12 steps"], 12)
    for first, other in zip(alone, beside, strict=True):
        assert [c.loss for c in trained(first)] == [c.loss for c in trained(other)]
        assert all(same(a, b) for a, b in zip(first, other, strict=True))
    assert not same(alone[0][1], alone[2][1])  # of another seed
    prepare_together(beside, again)
    assert not again.steps


def test_a_model_that_diverges_is_refused_alone_and_named(resolved, chain):
    good, bad = resolved("g"), resolved("b", learning_rate=1e30, steps=30, architecture="gpt2")
    prepare_together([bad, good], Progress())
    assert trained(good)[-1].loss is not None
    with pytest.raises(ReporterError, match=r"model 'm': training diverged before step 30 .*lower `learning_rate`"):
        trained(bad)
    with pytest.raises(ReporterError, match="model 'base': training diverged"):
        trained(chain({"learning_rate": 1e30, "steps": 30, "architecture": "gpt2"}, m=tuned())["m"])


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama"])
def test_every_architecture_trains_and_loads_with_its_head(resolved, architecture):
    progress, encoder = Progress(), architecture in ("bert", "roberta")
    first, last = prepare(resolved(architecture=architecture, checkpoints=(0, 4)), progress)
    assert (progress.steps, sum(progress.advanced)) == (["training m, 4 steps"], 4)
    assert None not in (first.loss, last.loss)
    assert first.unigram_entropy == last.unigram_entropy > 0
    assert resolved(architecture=architecture, checkpoints=(0, 4)) == (first, last)
    model = load(last, "cpu", offline=True)
    assert model.anatomy.role == ("encoder" if encoder else "decoder")
    assert (model.anatomy.layers, model.anatomy.width, model.anatomy.max_tokens) == (2, 16, 12)
    words = model.tokenizer("The cat sings.", return_special_tokens_mask=True)
    names, special = model.tokenizer.convert_ids_to_tokens, SPECIAL_TOKENS[architecture]
    assert names(range(len(special))) == list(special.values())
    assert {role: getattr(model.tokenizer, f"{role}_token") for role in special} == special
    inside = ["the", "cat", "sings", "."]
    assert names(words["input_ids"]) == ([special["cls"], *inside, special["sep"]] if encoder else inside)
    assert sum(words["special_tokens_mask"]) == (2 if encoder else 0)
    head = load_head(last, model, offline=True)  # which compares its logits with the model's own
    assert head.kind == ("masked" if encoder else "causal")
    context = 3 if encoder else 2  # one text and the shortest context train as well
    (short,) = trained(resolved(architecture=architecture, corpus=["x y z x y z"], context=context))
    assert short.loss is not None and load(short, "cpu", offline=True).anatomy.max_tokens == context


def test_what_was_trained_is_kept_and_one_more_checkpoint_joins_it(resolved, monkeypatch):
    (before,) = trained(resolved(checkpoints=(4,)))
    written = (before.folder / "model.safetensors").stat().st_mtime_ns
    first, early, late = trained(resolved(checkpoints=(0, 2, 4)))
    assert (early.step, late.loss) == (2, before.loss)
    assert (before.folder / "model.safetensors").stat().st_mtime_ns == written
    record = json.loads((late.path / "training.json").read_text())
    assert record["losses"] == {str(c.step): c.loss for c in (first, early, late)} and record["held_out_texts"] == 16
    assert [step for step, _ in record["curve"]] == [1, 2, 3, 4]
    assert first.warning == ""  # of an untrained model nothing is expected
    assert late.warning.startswith("training did not get past token frequencies")
    monkeypatch.setattr(toy_model, "Training", None)
    assert trained(resolved(checkpoints=(2,)))[0].loss is not None


def test_a_killed_training_leaves_nothing_that_looks_finished_and_ends_where_another_does(resolved, monkeypatch):
    """Whatever checkpoints are kept and whatever random numbers were drawn before: the seed alone decides."""
    checkpoints, states = resolved(checkpoints=(0, 2, 4)), toy_model.Training.states

    def killed(self, steps):
        for state in states(self, steps):
            if state.step == 3:
                raise KeyboardInterrupt
            yield state

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(toy_model.Training, "states", killed)
        trained(checkpoints)
    assert all(c.loss is None for c in resolved(checkpoints=(0, 2, 4)))
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    (clean,) = trained(resolved(cache="elsewhere", checkpoints=(4,)))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(6)
    *_, last = trained(checkpoints)
    assert last.loss == clean.loss and same(last, clean)
    assert not list(last.path.glob("unfinished-*"))
    (last.folder / "model.safetensors").unlink()  # a half-written checkpoint is trained again
    assert resolved(checkpoints=(4,))[0].loss is None
    (again,) = trained(resolved(checkpoints=(4,)))
    assert again.loss == clean.loss and same(again, clean)


def test_unigram_entropy_by_hand(resolved):
    corpus = ["x y x", "x z"] * 50  # the last 16 are held out: 42 × "x y x" and 42 × "x z" are left
    shares = {"bert": [3 / 5, 1 / 5, 1 / 5], "gpt2": [3 / 7, 1 / 7, 1 / 7, 2 / 7]}  # which also predicts ends
    for architecture, p in shares.items():
        (checkpoint,) = trained(resolved(corpus=corpus, architecture=architecture))
        assert checkpoint.unigram_entropy == pytest.approx(entropy(p))
    with pytest.raises(ReporterError, match="model 'm': corpus 'c' has too few words"):
        trained(resolved(corpus=["x"], context=2))


@pytest.mark.parametrize("architecture", ["bert", "gpt2"])
def test_it_learns_what_there_is_to_learn(resolved, architecture):
    """Half of the words follow from their neighbours; the best possible loss is far below the unigram entropy."""
    options = {"width": 32, "steps": 80, "batch": 16, "learning_rate": 6e-3, "checkpoints": (0, 80)}
    start, end = trained(resolved(architecture=architecture, corpus=sentences(400), **options))
    assert start.loss > 0.9 * end.unigram_entropy and end.loss < 0.55 * end.unigram_entropy
    assert (start.warning, end.warning) == ("", "")


def test_random_weights_of_a_recipe_are_drawn_beside_its_training_and_without_it(resolved):
    (checkpoint,) = resolved()
    made = random_init(checkpoint, 3)
    last, prepared = trained((checkpoint, made))
    assert prepared == made == random_init(last, 3) and last.loss is not None
    model = load(prepared, "cpu", offline=True)
    assert (model.anatomy.layers, model.anatomy.width) == (2, 16)
    assert load_head(prepared, model, offline=True).mask_id == model.tokenizer.mask_token_id
    shutil.rmtree(checkpoint.path)
    (alone,) = trained((made,))  # trains, as nothing else writes its configuration
    again = load(alone, "cpu", offline=True).module.state_dict()
    torch.testing.assert_close(dict(again), dict(model.module.state_dict()), rtol=0, atol=0)


@pytest.mark.parametrize("architecture", ["bert", "llama"])
def test_a_recipe_begins_where_the_one_that_it_continues_ended(chain, architecture):
    models = chain({"architecture": architecture}, m=tuned(train_on="c", checkpoints=(0, 2)), other=tuned())
    assert whole_words(models["other"][0]) == whole_words(models["base"][0])  # more than its own texts have
    progress = Progress()
    start, end = prepare(models["m"], progress)
    assert progress.steps == ["training base, 4 steps", "training m, 2 steps"]
    (base,) = prepare(models["base"], progress)
    assert len(progress.steps) == 2  # trained once for both
    assert same(start, base) and not same(end, base)
    # The same weights, head and tokenizer give the same loss on the same texts.
    assert start.loss == pytest.approx(base.loss, abs=1e-6)
    assert load(end, "cpu", offline=True).anatomy.max_tokens == 12


def test_a_continued_recipe_is_identified_by_what_it_continues(chain):
    (first,) = chain(m=tuned())["m"]
    # One more checkpoint of the base, which still ends where it did, changes nothing.
    for base in ({}, {"checkpoints": (0, 4)}):
        assert chain(base, m=tuned())["m"][0].fingerprint == first.fingerprint
    # Steps after the base are not the steps of a model that was trained on the same texts from the start.
    fresh = SMALL | {"train_on": "second"}
    for base, m in (({"seed": 1}, tuned()), ({"checkpoints": (0, 2)}, tuned()), ({}, tuned(seed=1)), ({}, fresh)):
        assert chain(base, m=m)["m"][0].fingerprint != first.fingerprint


def test_a_chain_is_trained_in_order_and_kept_without_its_base(chain, monkeypatch):
    recipes = {"c": tuned() | {"from": "b"}, "b": tuned(), "a": tuned(seed=1)}
    progress, models = Progress(), chain(**recipes)
    (c,) = prepare(models["c"], progress)
    assert [step.split(",")[0] for step in progress.steps] == ["training base", "training b", "training c"]
    assert c.location == "bert trained on c, then on second, then on second"
    prepare(models["a"], progress)
    assert progress.steps[3:] == ["training a, 2 steps"]
    (models["base"][0].folder / "model.safetensors").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(toy_model, "Training", None)
        assert prepare(chain(**recipes)["c"], progress) == (c,)
    prepare(chain(m=tuned(seed=2))["m"], progress)
    assert progress.steps[4:] == ["training base, 4 steps", "training m, 2 steps"]  # now the base is needed again


def test_words_that_the_tokenizer_lacks_are_a_warning(chain, monkeypatch):
    monkeypatch.setitem(TEXTS, "second", ("a zebra barks .", "one two three four") * 20)
    (m,) = trained(chain(m=tuned())["m"])
    assert "does not know 75 % of the training tokens" in m.warning
    assert chain(m=tuned())["m"][0].warning == m.warning
