"""Parts of models: both halves of an encoder–decoder, and the text tower of a model for texts and images."""

import warnings

import pytest
import torch
from models.folders import configure
from oracles.families import spread, write_tokenizer

from reporter.app.verify.by_model import PlainModel
from reporter.core.errors import ReporterError

LAYERS = {"t5": 3, "bart": 2}  # of the decoder


@pytest.mark.parametrize("name", LAYERS)
def test_a_decoder_reads_the_text_beside_its_encoder(name, copy, loaded):
    from transformers import AutoModel

    folder = copy(name)
    configure(folder, decoder_start_token_id=1)
    model = loaded(folder, part="decoder")
    anatomy = model.anatomy
    assert (anatomy.part, anatomy.role, anatomy.layers) == ("decoder", "decoder", LAYERS[name])
    assert anatomy.first_token == "<pad>"
    ids = torch.tensor([model.tokenizer("the cat that dogs chase sleeps")["input_ids"]])
    assert ids[0, 0] == 1
    with torch.inference_mode():
        captured = model.run(ids, torch.ones_like(ids))
    # The whole pair, as anybody would call it for teacher forcing.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = AutoModel.from_pretrained(folder).eval()
        with torch.inference_mode():
            result = own(input_ids=ids[:, 1:], decoder_input_ids=ids, output_hidden_states=True)
    torch.testing.assert_close(captured.path[:-1], result.decoder_hidden_states[:-1])
    torch.testing.assert_close(captured.last, result.last_hidden_state)
    assert anatomy.parameters == sum(p.numel() for p in own.get_decoder().parameters())
    plain = PlainModel(model.checkpoint, anatomy.layers, anatomy.last_hidden_state, offline=True)
    torch.testing.assert_close([x[0] for x in captured.path], plain.states(ids[0].tolist())[0])


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

    write_tokenizer(tmp_path, eos_token="</s>", pad_token="<pad>")
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        more = {"text_config": _TEXT, "vision_config": _IMAGE} if whole else _TEXT
        name = prefix if whole else f"{prefix}Text"
        own = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**more))
        spread(own)
        own.save_pretrained(tmp_path)
    model = loaded(tmp_path)
    assert (model.anatomy.part, model.anatomy.role) == ("text" if whole else None, role)
    assert (model.anatomy.layers, model.anatomy.width, model.anatomy.max_tokens) == (3, 32, 40)
    ids = torch.tensor([[7, 8, 9, 10, 2]])
    tower = own.text_model if whole else own
    with torch.inference_mode():
        states = model.states(ids, torch.ones_like(ids))
        theirs = tower.eval()(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)
    torch.testing.assert_close(states[:-1], theirs.hidden_states[:-1])
