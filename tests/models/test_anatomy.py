"""What the measurements find in models that are made to mislead them, and what is said where they must give up."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reporter.core.errors import ReporterError
from reporter.models.anatomy import examine

WIDTH, VOCABULARY = 8, 20
IDS = torch.tensor([[3, 4, 5, 6]])
MASK = torch.ones_like(IDS)


def mix(x, mask):
    """Mix a token with those before it."""
    weights = mask[:, None, :].tril().float()
    return (weights @ x / weights.sum(-1, keepdim=True).clamp_min(1)).expand_as(x)


def plain(block, x, mask):
    return x + block.linear(mix(x, mask))


def overwriting(block, x, mask):
    y = plain(block, x, mask)
    x.mul_(0)
    return y


def feed_forward_first(block, x, mask):
    x = x + block.linear(x)
    return x + block.query(mix(block.norm(x), mask))


def halved(block, x, mask):
    """Add a half of what attention returns, and write over that at once."""
    a = block.query(mix(x, mask))
    y = x + 0.5 * a
    a.mul_(0)
    return y + block.linear(block.norm(y))


def doubled(block, x, mask):
    """No module returns what the feed-forward adds."""
    return halved(block, x, mask) * 2


def normed_twice(block, x, mask):
    """A post-norm block that scales what its sublayers add: DeepNorm's shape, the factor on the other side."""
    z = block.norm(x + 0.5 * block.query(mix(x, mask)))
    return block.second(z + 0.25 * block.linear(z))


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.linear, self.query = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, mask):
        return self.kind(self, x, mask)


class Toy(nn.Module):
    """A model of three blocks that is called as transformers' models are."""

    def __init__(self, *kinds, closing=None):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block(kind) for kind in (kinds * 3 or [plain] * 3)[:3])
        self.closing = closing
        self.config = SimpleNamespace(model_type="toy", max_position_embeddings=16)
        self.eval().requires_grad_(False)

    def get_input_embeddings(self):
        return self.embedding

    def own(self, states):
        return states

    def close(self, x):
        return self.closing(x) if self.closing else x

    def forward(self, input_ids, attention_mask, output_hidden_states=False):
        x = self.embedding(input_ids)
        states = [x.clone()]
        for layer in self.layers:
            x = layer(x, attention_mask)
            states.append(x.clone())
        hidden = self.own(states) if output_hidden_states else None
        return SimpleNamespace(last_hidden_state=self.close(x), hidden_states=hidden)


class ToyTokenizer:
    all_special_ids, pad_token_id, eos_token_id = (0, 1), 0, 1

    def __call__(self, text, return_special_tokens_mask):
        return {"input_ids": [2, 1], "special_tokens_mask": [0, 1]}

    def convert_ids_to_tokens(self, ids):
        return [str(i) for i in ids]


def examined(model):
    return examine(model, ToyTokenizer())


def changed(**methods):
    """Return a toy model of which some methods are others."""
    return type("Changed", (Toy,), methods)


@pytest.mark.parametrize("kind", [plain, overwriting])
def test_an_unknown_model_is_measured_also_where_it_overwrites_its_states(kind):
    model = Toy(kind)
    result = examined(model)
    anatomy = result.anatomy
    assert (anatomy.family, anatomy.role, anatomy.layers, anatomy.width) == ("toy", "decoder", 3, WIDTH)
    assert (anatomy.positions, anatomy.norm_placement, anatomy.last_hidden_state) == ("not-added", "none", "block")
    assert (anatomy.vocabulary_size, anatomy.max_tokens, anatomy.self_test) == (VOCABULARY, 16, 0.0)
    expected = model(**result.inputs(IDS, MASK, output_hidden_states=True)).hidden_states
    assert expected[0].abs().sum() > 0
    torch.testing.assert_close(result.capture.take(4), expected, rtol=0, atol=0)


def lazy(self, input_ids, attention_mask, output_hidden_states=False):
    if output_hidden_states:
        return Toy.forward(self, input_ids, attention_mask, output_hidden_states)
    return SimpleNamespace(last_hidden_state=self.layers[0](self.embedding(input_ids), attention_mask))


def test_a_model_whose_states_cannot_be_trusted_is_refused():
    other = changed(own=lambda self, states: [states[0], states[1] * 1.001, *states[2:]])()
    broken = changed(forward=lambda self, input_ids, attention_mask, **_: {}["rope"])()
    for model, *says in (
        (other, "the 3 modules layers.* look like blocks", "differ from the model's hidden states by up to 1.0e-03"),
        (changed(own=lambda self, states: states[:-1])(), "returns 3 hidden states instead of 4"),
        (changed(own=lambda self, states: [])(), "returns no hidden_states"),
        (changed(own=lambda self, states: [torch.stack([h, h]) for h in states])(), "several vectors side by side"),
        (changed(own=lambda self, states: [h[:, ::2] for h in states])(), "no state for each token"),
        (changed(close=lambda self, x: x * 2)(), "last_hidden_state of the model is neither"),
        (broken, "fails on a short test input: KeyError: 'rope'"),
        (changed(forward=lazy)(), "of 3 blocks ran"),
    ):
        with pytest.raises(ReporterError) as caught:
            examined(model)
        assert all(part in str(caught.value) for part in says)


def test_an_end_of_modules_can_be_repeated_for_other_states_or_says_why_not():
    model = Toy(closing=nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)))
    result = examined(model)
    assert (result.anatomy.last_hidden_state, result.anatomy.final_width) == ("final", 3)
    h = torch.randn(2, WIDTH)
    assert torch.equal(result.closing(h), model.closing(h))
    places = torch.arange(1.0, 100).expand(WIDTH, -1).T
    by_place = changed(close=lambda self, x: self.closing(x, places[: x.shape[1]].expand_as(x)))
    result = examined(by_place(closing=nn.Bilinear(WIDTH, WIDTH, WIDTH)))
    assert (result.anatomy.last_hidden_state, result.anatomy.final_width) == ("final", WIDTH)
    with pytest.raises(ReporterError, match="cannot be applied to other states"):
        result.closing(torch.zeros(2, WIDTH))


def test_sublayers_that_cannot_be_found_are_reported_missing():
    lacks = "no module in the first block mixes tokens and is added"
    for kinds, attention, problem in (
        ([plain], "none", lacks),
        ([feed_forward_first], "none", lacks),
        ([halved, halved, plain], "none", "the first block adds the output of query, but other blocks do not"),
        ([doubled], "sequential", ""),
    ):
        result = examined(Toy(*kinds))
        assert result.anatomy.attention == attention
        assert problem in result.attention.problem and bool(problem) == bool(result.attention.problem)
        expected = "the contribution of attention is unknown" if problem else "no module in the first block is added af"
        assert expected in result.feed_forward.problem


@pytest.mark.parametrize(("kind", "placement", "factor"), [(halved, "sequential", 1.0), (normed_twice, "normed", 0.25)])
def test_what_sublayers_add_where_it_is_scaled_and_overwritten(kind, placement, factor):
    model = Toy(kind)
    result = examined(model)
    assert (result.anatomy.attention, result.feed_forward.placement) == ("sequential", placement)
    assert result.feed_forward.factor == pytest.approx(factor, rel=1e-5)
    assert result.attention.factor == pytest.approx(0.5, rel=1e-5)
    capture, parts = result.capture, (result.attention, result.feed_forward)
    capture.clear()
    with torch.inference_mode(), capture.attending(parts[0]), capture.contributing(*parts) as shares:
        model(IDS, MASK)
        after, path = capture.take_attention(4), capture.take(4)
    assert len(shares) == len(after) == 3
    for block, x, state, share in zip(model.layers, path, after, shares, strict=False):
        a = 0.5 * block.query(mix(x, MASK))
        s = x + a if kind is halved else block.norm(x + a)
        m = block.linear(block.norm(s)) if kind is halved else 0.25 * block.linear(s)
        torch.testing.assert_close(state, x + a)
        for row, (added, stream) in enumerate(((a, x), (m, s))):
            ratio, cosine = added.norm(dim=-1) / stream.norm(dim=-1), torch.cosine_similarity(added, stream, dim=-1)
            torch.testing.assert_close(share[..., row, :2], torch.stack([ratio, cosine], dim=-1))
