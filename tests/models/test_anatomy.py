"""What the measurements find in models that are made to mislead them, and what is said where they must give up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError
from reporter.models.anatomy import MeasuredModel, examine
from reporter.models.capture import Capture, Closing

WIDTH, VOCABULARY = 8, 20


class Block(nn.Module):
    """Mixes a token with those around it; what each subclass does differently is the point of a test."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def mix(self, x: Tensor, mask: Tensor) -> Tensor:
        weights = mask[:, None, :].tril().float()
        return weights @ x / weights.sum(-1, keepdim=True).clamp_min(1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + self.linear(self.mix(x, mask))


class Overwriting(Block):
    """Writes into its own input."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = x + self.linear(self.mix(x, mask))
        x.mul_(0)
        return y


class Leaking(Block):
    """Sees padding."""

    def mix(self, x: Tensor, mask: Tensor) -> Tensor:
        return x.mean(dim=1, keepdim=True).expand_as(x)


class Toy(nn.Module):
    """A model of three blocks that is called as transformers' models are."""

    blocks_made_of: type[Block] = Block

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(self.blocks_made_of() for _ in range(3))
        self.config = SimpleNamespace(model_type="toy", max_position_embeddings=16)
        self.eval().requires_grad_(False)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)

    def own(self, states: list[Tensor]) -> list[Tensor]:
        return states

    def close(self, x: Tensor) -> Tensor:
        return x

    def forward(self, input_ids: Tensor, attention_mask: Tensor, output_hidden_states: bool = False) -> Any:
        x = self.embed(input_ids)
        states = [x.clone()]
        for layer in self.layers:
            x = layer(x, attention_mask)
            states.append(x.clone())
        return SimpleNamespace(
            last_hidden_state=self.close(x), hidden_states=self.own(states) if output_hidden_states else None
        )


class Normed(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)

    def close(self, x: Tensor) -> Tensor:
        return self.norm(x)


class ToyTokenizer:
    all_special_ids, pad_token_id, eos_token_id = (0, 1), 0, 1

    def __call__(self, text: str, return_special_tokens_mask: bool) -> dict[str, list[int]]:
        return {"input_ids": [2, 1], "special_tokens_mask": [0, 1]}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [str(i) for i in ids]


def examined(model: nn.Module) -> MeasuredModel:
    return examine(model, ToyTokenizer())


def look(model: nn.Module) -> tuple[Any, Capture, Any]:
    found = examined(model)
    return found.anatomy, found.capture, found.inputs


def refused(model: nn.Module) -> str:
    with pytest.raises(ReporterError) as caught:
        look(model)
    return str(caught.value)


def test_a_model_that_nobody_has_heard_of() -> None:
    model = Toy()
    anatomy, capture, inputs = look(model)
    assert (anatomy.family, anatomy.role, anatomy.layers, anatomy.width) == ("toy", "decoder", 3, WIDTH)
    assert (anatomy.positions, anatomy.norm_placement, anatomy.last_hidden_state) == ("not-added", "none", "block")
    assert (anatomy.vocabulary_size, anatomy.max_tokens, anatomy.self_test) == (VOCABULARY, 16, 0.0)
    ids = torch.tensor([[3, 4, 5]])
    own = model(**inputs(ids, torch.ones_like(ids), output_hidden_states=True)).hidden_states
    for mine, theirs in zip(capture.take(), own, strict=True):
        assert torch.equal(mine, theirs)


def test_states_that_the_model_overwrites_are_copied_in_time() -> None:
    class Rude(Toy):
        blocks_made_of = Overwriting

    model = Rude()
    _, capture, inputs = look(model)
    ids = torch.tensor([[3, 4, 5]])
    own = model(**inputs(ids, torch.ones_like(ids), output_hidden_states=True)).hidden_states
    states = capture.take()
    assert states[0].abs().sum() > 0
    for mine, theirs in zip(states, own, strict=True):
        assert torch.equal(mine, theirs)


def test_padding_that_is_seen() -> None:
    class Leaky(Toy):
        blocks_made_of = Leaking

    assert "padding on the right changes the states" in refused(Leaky())


def test_hidden_states_that_are_not_what_blocks_pass_on() -> None:
    class Boastful(Toy):
        def own(self, states: list[Tensor]) -> list[Tensor]:
            return [states[0], states[1] * 1.001, *states[2:]]

    message = refused(Boastful())
    assert "its 3 modules layers.* look like blocks" in message
    assert "differ from its own hidden states by up to 1.0e-03" in message


def test_another_number_of_hidden_states() -> None:
    class Short(Toy):
        def own(self, states: list[Tensor]) -> list[Tensor]:
            return states[:-1]

    assert "but it returns 3 hidden states instead of 4" in refused(Short())


def test_no_hidden_states() -> None:
    class Silent(Toy):
        def own(self, states: list[Tensor]) -> list[Tensor]:
            return []

    assert "does not return hidden_states" in refused(Silent())


def test_an_end_that_no_module_explains() -> None:
    class Odd(Toy):
        def close(self, x: Tensor) -> Tensor:
            return x * 2

    assert "its last_hidden_state is neither" in refused(Odd())


def test_an_end_that_a_module_explains() -> None:
    assert look(Normed())[0].last_hidden_state == "final"


def test_an_end_that_cannot_be_repeated_for_other_states() -> None:
    class Scale(nn.Module):
        def forward(self, x: Tensor, by: Tensor) -> Tensor:
            return x * by

    class Scaled(Toy):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Scale()

        def close(self, x: Tensor) -> Tensor:
            return self.scale(x, torch.arange(1.0, x.shape[1] + 1)[:, None])

    found = examined(Scaled())
    assert (found.anatomy.last_hidden_state, found.anatomy.final_width) == ("final", WIDTH)
    assert "no chain of modules" in found.closing.problem
    with pytest.raises(ReporterError, match="no chain of modules"):
        found.closing(torch.zeros(2, WIDTH))


def test_an_end_that_memory_does_not_suffice_for_is_not_taken_for_one_that_cannot_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def greedy(*_: Any) -> Tensor:
        raise MemoryError

    monkeypatch.setattr(Closing, "__call__", greedy)
    with pytest.raises(MemoryError):
        examined(Normed())


def test_an_end_of_two_modules() -> None:
    class Projected(Toy):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.project = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3)

        def close(self, x: Tensor) -> Tensor:
            return self.project(self.norm(x))

    model = Projected()
    found = examined(model)
    assert (found.anatomy.last_hidden_state, found.anatomy.final_width) == ("final", 3)
    h = torch.randn(2, WIDTH)
    assert torch.equal(found.closing(h), model.project(model.norm(h)))


class FeedForwardFirst(Block):
    """Has two parts, of which the first mixes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.linear(x)
        return x + self.attention(self.mix(self.norm(x), mask).expand_as(x))


class Halved(Block):
    """Adds a half of what its attention returns, and writes over that at once."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        a = self.query(self.mix(x, mask).expand_as(x))
        y = x + 0.5 * a
        a.mul_(0)
        return y + self.linear(self.norm(y))


@pytest.mark.parametrize("made_of", [Block, FeedForwardFirst])
def test_blocks_without_an_attention_that_could_be_found(made_of: type[Block]) -> None:
    found = examined(type("Odd", (Toy,), {"blocks_made_of": made_of})())
    assert found.anatomy.attention == "none"
    assert found.attention.problem == "no part of its first block mixes tokens and is added to what enters it"


def test_blocks_of_two_kinds() -> None:
    class Mixed(Toy):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Halved(), Halved(), Block()])

    found = examined(Mixed())
    assert found.anatomy.attention == "none"
    assert found.attention.problem == "what query adds in its first block is not added in the others"


def test_attention_that_is_scaled_and_overwritten() -> None:
    class Granite(Toy):
        blocks_made_of = Halved

    model = Granite()
    found = examined(model)
    assert (found.anatomy.attention, found.attention.factor) == ("sequential", pytest.approx(0.5))
    seen: list[Tensor] = []
    for layer in model.layers:
        layer.norm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    ids = torch.tensor([[3, 4, 5]])
    with found.capture.attending(found.attention):
        model(ids, torch.ones_like(ids))
    for mine, theirs in zip(found.capture.take_attention(), seen, strict=True):
        torch.testing.assert_close(mine, theirs)


class NormedTwice(Block):
    """A post-norm block that scales what its sublayers add: DeepNorm's shape, the factor on the other side."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        z = self.first(x + 0.5 * self.query(self.mix(x, mask).expand_as(x)))
        return self.second(z + 0.25 * self.linear(z))


@pytest.mark.parametrize(
    ("made_of", "placement", "factor"), [(Halved, "sequential", 1.0), (NormedTwice, "normed", 0.25)]
)
def test_what_sublayers_add_where_it_is_scaled(made_of: type[Any], placement: str, factor: float) -> None:
    model = type("Scaled", (Toy,), {"blocks_made_of": made_of})()
    found = examined(model)
    assert found.feed_forward.placement == placement
    assert found.feed_forward.factor == pytest.approx(factor, rel=1e-5)
    assert found.attention.factor == pytest.approx(0.5, rel=1e-5)
    ids = torch.tensor([[3, 4, 5, 6]])
    mask = torch.ones_like(ids)
    found.capture.clear()
    with torch.inference_mode(), found.capture.contributing(found.attention, found.feed_forward) as shares:
        model(ids, mask)
    assert len(shares) == 3
    for layer, x, got in zip(model.layers, found.capture.take(), shares, strict=False):
        with torch.inference_mode():
            a = 0.5 * layer.query(layer.mix(x, mask))
            s = x + a if made_of is Halved else layer.first(x + a)
            m = layer.linear(layer.norm(s)) if made_of is Halved else 0.25 * layer.linear(s)
        for row, (added, stream) in enumerate(((a, x), (m, s))):
            torch.testing.assert_close(got[..., row, 0], added.norm(dim=-1) / stream.norm(dim=-1))
            torch.testing.assert_close(got[..., row, 1], torch.cosine_similarity(added, stream, dim=-1))


def test_a_feed_forward_that_cannot_be_found_is_said_to_be_missing() -> None:
    class Twice(Halved):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            y = super().forward(x, mask)
            return y * 2  # no module returns what was added

    found = examined(type("Odd", (Toy,), {"blocks_made_of": Twice})())
    assert found.anatomy.attention == "sequential"
    assert found.feed_forward.problem == "no part of its first block is what the block adds after its attention"
    odd = examined(type("Odd", (Toy,), {"blocks_made_of": Block})())
    assert odd.feed_forward.problem.startswith("what attention adds is not known: no part of its first block mixes")


def test_a_model_that_breaks() -> None:
    class Broken(Toy):
        def embed(self, ids: Tensor) -> Tensor:
            raise KeyError("rope")

    assert "cannot be run on a few tokens: KeyError: 'rope'" in refused(Broken())


def test_blocks_that_are_skipped_now_and_then() -> None:
    class Lazy(Toy):
        def forward(self, input_ids: Tensor, attention_mask: Tensor, output_hidden_states: bool = False) -> Any:
            if not output_hidden_states:
                x = self.layers[0](self.embed(input_ids), attention_mask)
                return SimpleNamespace(last_hidden_state=x)
            return super().forward(input_ids, attention_mask, output_hidden_states)

    assert "of its 3 blocks ran" in refused(Lazy())
