"""Blocks left out: against models that were built without them, and losses against transformers' own."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from reporter.metrics.analysis import Corpus, analyses
from reporter.metrics.skip import Proposal, Skip, proposals

SKIP = analyses()["skip"]


@contextmanager
def shortened(module, blocks):
    """Take blocks out of the list of a model, which then is one that was built without them."""
    longest = max((m for m in module.modules() if isinstance(m, torch.nn.ModuleList)), key=len)
    whole, kept = longest._modules, [block for number, block in enumerate(longest, 1) if number not in blocks]
    layers = module.config.num_hidden_layers
    longest._modules = {str(number): block for number, block in enumerate(kept)}
    module.config.num_hidden_layers = len(kept)
    try:
        yield module
    finally:
        longest._modules, module.config.num_hidden_layers = whole, layers


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "deberta-v2"])
@pytest.mark.parametrize("blocks", [(2,), (1, 2)])
def test_skipped_blocks_are_as_if_they_were_not_there(family_model, family, blocks):
    model = family_model(family)
    ids = torch.randint(5, 20, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    with torch.inference_mode():
        whole = model.run(ids, mask)
        with model.skipping(blocks):
            found = model.run(ids, mask)
        again = model.run(ids, mask)
        with shortened(model.module, blocks) as module:
            expected = module(**model.inputs(ids, mask)).last_hidden_state
        model.capture.clear()
    for number in blocks:
        assert torch.equal(found.path[number], found.path[number - 1])
    assert all(torch.equal(a, b) for a, b in zip(whole.path, again.path, strict=True))
    assert torch.equal(found.path[0], whole.path[0])
    torch.testing.assert_close(found.last, expected)


def test_one_module_that_plays_every_block_is_skipped_by_number(family_model):
    model = family_model("albert")
    ids = torch.randint(5, 20, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(), model.skipping((2,)):
        found = model.run(ids, torch.ones_like(ids))
    assert torch.equal(found.path[2], found.path[1])
    assert not torch.equal(found.path[1], found.path[0])


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    return [" ".join(rng.choice(["the", "cat", "sees", "a", "dog", "house"], 9)) for _ in range(24)]


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_losses_and_angles_by_brute_force(of_family, family, texts):
    context = of_family(family, {"c": Corpus(texts, 64)})
    item = Skip(corpus="c", blocks=[1], texts=24)
    rows = list(SKIP.compute(item, context))
    values = {(row.statistic, row.place and row.place.layer): row for row in rows if hasattr(row, "statistic")}
    model = context.model
    cosines, losses = [], []
    from reporter.models.head import load_head

    head = load_head(model.checkpoint, model, offline=True) if family == "gpt2" else None
    for text in dict.fromkeys(texts):
        coded = model.tokenizer(text, return_special_tokens_mask=True, return_tensors="pt")
        ids, own = coded["input_ids"], coded["special_tokens_mask"][0] == 0
        with torch.inference_mode():
            run = model.run(ids, torch.ones_like(ids))
            x = torch.stack([state[0][own].double() for state in run.path])
            cosines.append(torch.nn.functional.cosine_similarity(x[:-1], x[1:], dim=-1))
            if family == "gpt2":
                log_p = torch.log_softmax(head.logits(run.last[0]).float(), dim=-1)
                losses += [-log_p[i - 1, ids[0, i]].item() for i in range(1, ids.shape[1]) if own[i]]
    cosines = torch.cat(cosines, dim=1)
    for layer in range(model.anatomy.layers):
        expected = 1 - cosines[layer].mean().item()
        assert values["influence", layer].value == pytest.approx(expected, abs=1e-6)
        assert values["influence", layer].ci_low < expected < values["influence", layer].ci_high
    whole = values["loss", None]
    if family == "gpt2":
        assert whole.value == pytest.approx(np.mean(losses), rel=1e-5)
        assert whole.n == len(losses)
    else:  # of that family the model was saved without a head: the order is there, and why there are no losses
        assert whole.value is None and "no language-model head" in whole.reason
        assert not [row for row in rows if not hasattr(row, "statistic")]
        return
    tried = [row for row in rows if not hasattr(row, "statistic")]
    for row in tried:
        assert row.change == pytest.approx(row.loss - whole.value)
        assert row.change_low <= row.change <= row.change_high
        assert row.influence == pytest.approx(values["influence", int(row.blocks) - 1].value)
    assert len(tried) == min(3, model.anatomy.layers)


def test_proposals_are_the_runs_that_turn_least_and_the_blocks_that_each_do():
    steps = np.array([0.3, 0.05, 0.2, 0.06, 0.21, 0.4])
    at = np.concatenate([[0], np.cumsum(steps)])
    angles = np.abs(at[:, None] - at)
    found = proposals(angles, angles, 2)
    assert found[0].blocks == (2, 3) and found[0].by == "angle" and found[0].angle == pytest.approx(0.25)
    assert found[1] == Proposal((2, 4), "influence", None)
    assert found[2].blocks == (3, 4)
    assert [one.blocks for one in proposals(angles, angles, 1)] == [(2,), (4,), (3,)]
    assert [one.by for one in proposals(angles, angles, 5)] == ["angle", "angle"]  # the five that turn least are a run
