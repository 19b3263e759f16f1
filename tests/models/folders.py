"""A model's folder that is changed, and what is said where it is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from reporter.core.errors import ReporterError

IDS = torch.tensor([[7, 8, 9, 10, 11, 12, 7, 9]])
MASK = torch.ones_like(IDS)


def states_of(model):
    """Return the residual stream of a model on a few tokens."""
    with torch.inference_mode():
        return model.states(IDS, MASK)


def change_weights(folder, change):
    weights = change(load_file(folder / "model.safetensors"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def configure(folder, file="config.json", **changes):
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(content | changes))


def refused(read, *folder, **options):
    """Return the one line in which a folder is refused where it is resolved or loaded."""
    with pytest.raises(ReporterError) as caught:
        read(*folder, **options)
    message = str(caught.value)
    assert message.startswith("model 'm': ") and "\n" not in message
    return message
