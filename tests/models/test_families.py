"""Every family, built and loaded once: its blocks, sites and head are what is known of it, against transformers.

Also parts of models: both halves of an encoder–decoder, and the text tower of a model for texts and images.
"""

import json
import re
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from models.folders import change_weights, configure
from oracles import families
from oracles.families import CASES, FAMILIES, PARALLEL_ATTENTION, SHIFTED, build_language_model
from torch.nn.utils.rnn import pad_sequence

from reporter.app.verify.by_model import PlainModel, calls_of
from reporter.core.errors import ReporterError
from reporter.models.head import Head, load_head
from reporter.models.sublayers import Sublayer


@pytest.fixture
def model(name, shared):
    """Return the loaded model of a family; skip what this version of transformers lacks."""
    import transformers

    if not hasattr(transformers, f"{CASES[name][0]}Model"):
        pytest.skip(f"transformers {transformers.__version__} has no {CASES[name][0]}")
    return shared(name)


def of_families(*names):
    return pytest.mark.parametrize("name", names)


def padded(model):
    """Tokenise the texts and pad them on the right by hand."""
    rows = [torch.tensor(model.tokenizer(text)["input_ids"]) for text in families.TEXTS]
    ids = pad_sequence(rows, batch_first=True, padding_value=model.tokenizer.pad_token_id or 0)
    return ids, pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)


def head_of(model):
    return load_head(model.checkpoint, model, offline=True)


def assert_close(mine, theirs, mask, **within):
    for ours, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(ours[mask.bool()], expected[mask.bool()], **within)


@of_families(*CASES)
def test_the_anatomy_is_what_is_known_of_the_family(name, model, language_model):
    anatomy, config = model.anatomy, json.loads((language_model(name) / "config.json").read_text())
    placed = (anatomy.role, anatomy.norm_placement, anatomy.last_hidden_state, anatomy.positions, anatomy.max_tokens)
    assert placed == CASES[name][2:]
    assert (anatomy.family, anatomy.vocabulary_size) == (config["model_type"], config["vocab_size"])
    assert (anatomy.width, anatomy.own_states) == (32, "shifted" if name in SHIFTED else "same")
    assert anatomy.self_test <= 1e-5 and anatomy.initialised is not True  # its norms have random weights
    if name in FAMILIES:
        assert anatomy.attention == ("parallel" if name in PARALLEL_ATTENTION else "sequential")


# What ``reporter verify`` reads without our hooks is compared, too, also where the model's own last entry is normed.
VERIFIED = {"bert", "albert", "t5", "bart", "gpt2", "openai-gpt", "opt, projected", "llama", "olmo2", *SHIFTED}


@of_families(*CASES)
def test_the_path_and_the_final_state_are_the_models_own(name, model, own_model):
    """Some models list the closed state last, and some leave out what enters the first block."""
    plain_model, (ids, mask), last = own_model(name), padded(model), CASES[name][4]
    if name == "rwkv":
        plain_model.config.rescale_every = 0  # it would halve the stream
    with torch.inference_mode():
        run = model.run(ids, mask)
        theirs = plain_model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        torch.testing.assert_close(run.path, model.states(ids, mask), rtol=0, atol=0)
        closed, by_token = model.close(run.path[-1]), model.close(run.path[-1][mask.bool()])
        embedded = plain_model.get_input_embeddings()(ids)
    assert len(run.path) == model.anatomy.layers + 1
    listed = theirs.hidden_states[:-1]
    assert_close(*((run.path, [embedded, *listed]) if name in SHIFTED else (run.path[:-1], listed)), mask)
    assert_close([run.last, closed], [theirs.last_hidden_state] * 2, mask, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(by_token, closed[mask.bool()], rtol=1e-5, atol=1e-5)
    assert model.closing.problem == ""
    if last == "block":
        assert (run.final, model.anatomy.final_width) == (None, None) and closed is run.path[-1]
    else:
        assert run.final is run.last
        assert run.final.shape[-1] == model.anatomy.final_width == (16 if name == "opt, projected" else 32)
        assert run.final.shape != run.path[-1].shape or not torch.allclose(run.final, run.path[-1], atol=1e-6)
    if name in VERIFIED:
        plain, first = PlainModel(model.checkpoint, model.anatomy.layers, last, offline=True), mask[0].bool()
        states, final = plain.states(ids[0, first].tolist())
        torch.testing.assert_close(states, [state[0, first] for state in run.path], rtol=1e-5, atol=1e-5)
        assert final is None if run.final is None else torch.allclose(final, run.final[0, first], 1e-5, 1e-5)


@of_families(*FAMILIES)
def test_the_state_after_attention_is_what_the_named_modules_see(name, model, own_model):
    plain_model, (ids, mask), returned = own_model(name), padded(model), name in PARALLEL_ATTENTION
    named = re.compile(re.escape((PARALLEL_ATTENTION | families.AFTER_ATTENTION)[name]).replace(r"\{\}", r"\d+"))
    seeing = [module for path, module in plain_model.named_modules() if named.fullmatch(path)]
    with torch.inference_mode(), calls_of([seeing]) as (calls,):
        run = model.run(ids, mask, attention=True)
        before = plain_model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    assert len(run.attention) == model.anatomy.layers
    expected = [x + added if returned else taken[0] for x, (taken, added) in zip(before[:-1], calls, strict=True)]
    assert_close(run.attention, [x.view_as(run.path[0]) for x in expected], mask, rtol=1e-5, atol=1e-5)


@of_families(*FAMILIES)
def test_the_longest_input_fits_and_padding_changes_nothing(model):
    longest = torch.arange(model.anatomy.max_tokens or 64)[None] % 20 + 6
    ids, mask = padded(model)
    with torch.inference_mode():
        assert all(x.isfinite().all() for x in model.states(longest, torch.ones_like(longest)))
        together = model.run(ids, mask, attention=True)
        for row, length in enumerate(mask.sum(dim=1).tolist()):
            alone = model.run(ids[row : row + 1, :length], mask[row : row + 1, :length], attention=True)
            batch, single = ((*run.path, *run.attention, run.last) for run in (together, alone))
            expected = [x[0] for x in single]
            torch.testing.assert_close([x[row, :length] for x in batch], expected, rtol=1e-4, atol=1e-4)


@of_families(*CASES)
def test_states_depend_neither_on_other_texts_nor_on_what_was_measured_before(model):
    """Long texts first or last, alone or side by side, after heads, sites and blocks that were left out."""
    lengths = (min(model.anatomy.max_tokens or 38, 38), 3, 17)
    rows = [torch.arange(n)[None] * 7 % 17 + 5 for n in lengths]
    ids = pad_sequence([row[0] for row in rows], batch_first=True, padding_value=model.inputs.pad_id)
    mask = pad_sequence([torch.ones_like(row[0]) for row in rows], batch_first=True)

    def alone(order):
        return {n: model.run(rows[n], torch.ones_like(rows[n])) for n in order}

    with torch.inference_mode():
        first = alone((0, 1, 2))
        with suppress(ReporterError):  # not every family has sites, blocks to leave out, or weights of attention
            model.run(rows[0], torch.ones_like(rows[0]), attention=True)
            captured, resume = model.keep(rows[0], torch.ones_like(rows[0]))
            torch.testing.assert_close(resume(0, 0, full=True), captured.last)
            assert not torch.allclose(resume(1, 0), captured.last)
            model.attention_weights(rows[1], torch.ones_like(rows[1]))
        for n, run in alone((2, 1, 0)).items():
            torch.testing.assert_close([*run.path, run.last], [*first[n].path, first[n].last], rtol=0, atol=0)
        for order in (torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0])):
            batch = model.run(ids[order], mask[order])
            for place, n in enumerate(order.tolist()):
                mine = [x[place, : lengths[n]] for x in (*batch.path, batch.last)]
                expected = [x[0] for x in (*first[n].path, first[n].last)]
                torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-4)


@of_families("bert", "albert, two inner", "gpt2", "gpt-j", "neox, parallel", "opt, projected", "gemma2", "granite")
def test_attention_and_the_head_are_found_in_bfloat16_and_in_silence(name, model, language_model, loaded, capfd):
    rough, names = loaded(language_model(name), dtype="bfloat16"), []
    for each in (model, rough):
        paths = {module: path for path, module in each.module.named_modules()}
        names.append([paths[part] for part in each.attention.modules])
        capfd.readouterr()
        logits = head_of(each).logits(torch.zeros(3, each.anatomy.final_width or 32))
        assert capfd.readouterr() == ("", "")
        assert logits.shape == (3, each.anatomy.vocabulary_size) and logits.dtype == each.module.dtype
    assert rough.anatomy.attention == model.anatomy.attention and names[0] == names[1]


def assert_logits_are_the_models_own(name, folder, model):
    head, (ids, mask) = head_of(model), padded(model)
    with warnings.catch_warnings(action="ignore"):
        plain_model = families.language_model_class(name).from_pretrained(folder).eval()
    with torch.inference_mode():
        run = model.run(ids, mask)
        mine = [head.logits(states[mask.bool()]) for states in (run.last, model.close(run.path[-1]))]
        theirs = plain_model(input_ids=ids, attention_mask=mask).logits[mask.bool()]
    torch.testing.assert_close(mine, [theirs] * 2, rtol=1e-4, atol=1e-4)
    assert head.kind == ("causal" if CASES[name][2] == "decoder" else "masked")
    assert head.mask_id == (4 if head.kind == "masked" else None)
    assert ("a causal one" in head.problem) == (name in families.CAUSAL_ALONE)
    return head


@of_families(*(name for name in CASES if name not in families.PAIRS))
def test_logits_are_the_language_models_own_and_the_model_is_left_alone(name, model, language_model):
    ids, mask = padded(model)
    with torch.inference_mode():
        before = model.states(ids, mask)
        head = assert_logits_are_the_models_own(name, language_model(name), model)
        torch.testing.assert_close(model.states(ids, mask), before, rtol=0, atol=0)
    if name in ("bert", "gpt2", "albert", "opt"):  # whose heads are tied: weights are shared
        mine = {p.data_ptr() for p in model.module.parameters()}
        apart = [p.numel() for p in head._model.parameters() if p.data_ptr() not in mine]
        assert sum(apart) < (32 * 32 + 300 if head.kind == "masked" else 100)  # a transform of BERT, and a bias


CHANGED = [("gpt2", {})]  # a tied head needs no weights of its own
CHANGED += [("gemma2", {"final_logit_softcapping": 0.5}), ("cohere", {"logit_scale": 3.0})]
CHANGED += [("granite", {"logits_scaling": 0.2}), ("llama", {"tie_word_embeddings": True})]
CHANGED += [("gpt2", {"tie_word_embeddings": False}), ("bert", {"tie_word_embeddings": False})]


@pytest.mark.parametrize(("name", "options"), CHANGED)
def test_what_follows_the_last_matrix_is_part_of_the_head(name, options, family, tmp_path, loaded):
    folder = build_language_model(name, tmp_path / "m", **options) if options else family(name)
    assert_logits_are_the_models_own(name, folder, loaded(folder))


@pytest.mark.parametrize(("name", "outputs"), [("bert", r"output\.dense"), ("llama", "(o|down)_proj")])
def test_a_block_that_was_pruned_to_nothing_adds_nothing(name, outputs, copy, loaded):
    folder, pruned = copy(name), re.compile(rf"layers?\.1\..*{outputs}")
    change_weights(folder, lambda weights: {k: w * (not pruned.search(k)) for k, w in weights.items()})
    model = loaded(folder)
    assert not model.contributions_problem
    ids, mask = padded(model)
    with torch.inference_mode():
        shares = model.run(ids, mask, attention=True, contributions=True).contributions
    lengths = shares[:, mask.bool()][..., 0]  # (L, tokens, 2)
    assert (lengths[1] == 0).all() and (lengths[0] > 0).all()


@of_families("bert", "gpt2", "falcon")
def test_sites_leave_no_hooks_and_stay_in_float32_under_bf16_products(model):
    ids, mask = padded(model)
    listening = [(module._forward_hooks, module._forward_pre_hooks) for module in model.module.modules()]
    before = [len(hooks) for pair in listening for hooks in pair]
    with torch.inference_mode():
        exact = model.run(ids, mask, attention=True).attention
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = model.run(ids, mask, attention=True).attention
    assert [len(hooks) for pair in listening for hooks in pair] == before
    assert all(x.dtype == torch.float32 for x in rough)
    assert_close(rough, exact, mask, rtol=0.1, atol=0.3)
    model = replace(model, attention=Sublayer("none", problem="it was not found"))
    with pytest.raises(ReporterError, match="'m': no attention states, since it was not found; remove `attention`"):
        model.run(ids, mask, attention=True)


# Language-model heads that are missing, incomplete or not what they seem.


@pytest.mark.parametrize("name", ["bert", "albert", "llama", "gpt-j"])
def test_a_model_saved_without_its_head_or_a_part_of_it_is_refused(name, tmp_path, loaded):
    model = loaded(families.build_family(name, tmp_path / "m", tie_word_embeddings=False))
    with pytest.raises(ReporterError, match=r"^model 'm': .*no language-model head.* lack \w[^\n]*$"):
        head_of(model)
    if name == "bert":
        folder, lost = build_language_model(name, tmp_path / "n"), "cls.predictions.transform.dense.weight"
        change_weights(folder, lambda weights: {name: weight for name, weight in weights.items() if name != lost})
        with pytest.raises(ReporterError, match=rf"lack {lost}$"):
            head_of(loaded(folder))


def test_a_model_without_a_head_of_that_kind_is_refused(shared):
    for name in ("t5", "bart"):
        with pytest.raises(ReporterError, match=r"reads the decoder, .*write `part: decoder`"):
            head_of(shared(name))
    for name, role in (("gpt2", "encoder"), ("distilbert", "decoder")):
        model = shared(name)
        other = replace(model, anatomy=replace(model.anatomy, role=role))
        if role == "encoder":  # it has logits, but no loss: its attention would see what is to be predicted
            assert "its head is a causal one" in head_of(other).problem
        else:
            with pytest.raises(ReporterError, match="no causal language model for the model type distilbert"):
                head_of(other)


def test_a_head_that_breaks_and_one_that_is_not_what_it_seems_are_refused(shared, monkeypatch):
    from transformers import LlamaForCausalLM

    model, logits = shared("llama"), Head.logits
    with monkeypatch.context() as patch:
        patch.setattr(LlamaForCausalLM, "forward", lambda self, input_ids: 1 / 0)
        with pytest.raises(ReporterError, match=r"head fails on a short test input.*ZeroDivisionError"):
            head_of(model)
    monkeypatch.setattr(Head, "logits", lambda self, states: logits(self, states) * 1.01)
    with pytest.raises(ReporterError, match="logits of the language-model head differ"):
        head_of(model)


@pytest.mark.parametrize(("name", "layers"), [("t5", 3), ("bart", 2)])
def test_a_decoder_reads_the_text_beside_its_encoder(name, layers, copy, loaded):
    from transformers import AutoModel

    folder = copy(name)
    configure(folder, decoder_start_token_id=1)
    model = loaded(folder, part="decoder")
    anatomy = model.anatomy
    assert (anatomy.part, anatomy.role, anatomy.layers) == ("decoder", "decoder", layers)
    assert anatomy.first_token == "<pad>"
    ids = torch.tensor([model.tokenizer("the cat that dogs chase sleeps")["input_ids"]])
    assert ids[0, 0] == 1
    with torch.inference_mode():
        captured = model.run(ids, torch.ones_like(ids))
    # The whole pair, as anybody would call it for teacher forcing.
    with warnings.catch_warnings(action="ignore"), torch.inference_mode():
        plain_model = AutoModel.from_pretrained(folder).eval()
        result = plain_model(input_ids=ids[:, 1:], decoder_input_ids=ids, output_hidden_states=True)
    torch.testing.assert_close(captured.path[:-1], result.decoder_hidden_states[:-1])
    torch.testing.assert_close(captured.last, result.last_hidden_state)
    assert anatomy.parameters == sum(p.numel() for p in plain_model.get_decoder().parameters())
    plain = PlainModel(model.checkpoint, anatomy.layers, anatomy.last_hidden_state, offline=True)
    torch.testing.assert_close([x[0] for x in captured.path], plain.states(ids[0].tolist())[0])


@pytest.mark.parametrize("name", families.PAIRS)
def test_logits_of_a_decoder_beside_its_encoder_are_those_of_teacher_forcing(name, tmp_path, loaded):
    folder = build_language_model(name, tmp_path / "m", decoder_start_token_id=1)
    model = loaded(folder, part="decoder")
    ids = torch.tensor([[1, 7, 8, 9, 10, 11, 2]])
    with warnings.catch_warnings(action="ignore"), torch.inference_mode():
        plain_model = families.language_model_class(name).from_pretrained(folder).eval()
        theirs = plain_model(input_ids=ids[:, 1:], decoder_input_ids=ids).logits[0]
        mine = head_of(model).logits(model.run(ids, torch.ones_like(ids)).last[0])
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_halves_are_models_of_their_own_and_other_models_have_none(family, found, loaded):
    folder = family("t5")
    prints = {part: found(folder, part=part).fingerprint for part in (None, "encoder", "decoder")}
    assert prints[None] == prints["encoder"] != prints["decoder"]
    assert loaded(folder).anatomy.part == loaded(folder, part="encoder").anatomy.part == "encoder"
    with pytest.raises(ReporterError, match="bert is not an encoder–decoder; remove `part`"):
        loaded(family("bert"), part="decoder")


_TOWER = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
_TEXT = _TOWER | {"max_position_embeddings": 40, "vocab_size": 30, "eos_token_id": 2, "bos_token_id": 0}
_IMAGE = _TOWER | {"image_size": 16, "patch_size": 8}


@pytest.mark.parametrize(("prefix", "role"), [("CLIP", "decoder"), ("Siglip", "encoder")])
@pytest.mark.parametrize("whole", [True, False])
def test_a_text_tower_is_measured_with_its_images_or_alone(prefix, whole, role, tmp_path, loaded):
    import transformers

    families.write_tokenizer(tmp_path, eos_token="</s>", pad_token="<pad>")
    with warnings.catch_warnings(action="ignore"), torch.random.fork_rng():
        torch.manual_seed(0)
        more = {"text_config": _TEXT, "vision_config": _IMAGE} if whole else _TEXT
        name = prefix if whole else f"{prefix}Text"
        plain_model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**more))
        families.spread(plain_model)
        plain_model.save_pretrained(tmp_path)
    model = loaded(tmp_path)
    anatomy, ids = model.anatomy, torch.tensor([[7, 8, 9, 10, 2]])
    assert (anatomy.part, anatomy.role) == ("text" if whole else None, role)
    assert (anatomy.layers, anatomy.width, anatomy.max_tokens) == (3, 32, 40)
    tower, mask = (plain_model.text_model if whole else plain_model).eval(), torch.ones_like(ids)
    with torch.inference_mode():
        states = model.states(ids, mask)
        theirs = tower(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    torch.testing.assert_close(states[:-1], theirs.hidden_states[:-1])
