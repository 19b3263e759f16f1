"""The anatomy of a model, measured on a few tokens: role, depth, limit, place of norms, truth of hooks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError, failing_as
from reporter.models import sublayers
from reporter.models.blocks import Blocks, find_blocks, noise_of, relative, trace
from reporter.models.capture import NO_MODULES, Capture, Closing, find_closing
from reporter.models.lookups import Lookups
from reporter.models.parts import DecoderBesideEncoder, Inputs, PartName, config_limit, weight_of
from reporter.models.sublayers import Sublayer
from reporter.models.tokenizer import added_tokens

Role = Literal["encoder", "decoder"]

PADDING_TOLERANCE = 1e-3  # relative, per token, in float32: other kernels for another shape, nothing more


@dataclass(frozen=True)
class Anatomy:
    """The measured anatomy of a loaded model.

    Args:
        family: transformers' ``model_type``; ``states`` where only the states are there.
        role: ``decoder`` where no token sees a later one, ``encoder`` where tokens do.
        layers: number of blocks L, counted while they ran.
        width: dimension d of the states.
        parameters: number of weights, without a vocabulary head.
        vocabulary_size: rows of the input embedding.
        max_tokens: the longest input; None where there is no limit.
        positions: ``added`` where the state that enters the first block depends on the token's position.
        norm_placement: ``post``: a block ends with a norm; ``pre``: its parts normalise what they read;
            ``sandwich``: they also normalise what they add; ``inner``: they normalise only what they add;
            ``none``: no norm was seen.
        last_hidden_state: what the model itself returns last: ``block``, the output of block L, or ``final``,
            that output after a final norm or projection.
        final_width: dimension of that ``final`` state; None where there is none.
        attention: ``sequential``: a block's feed-forward reads what its attention left; ``parallel``: both read
            what enters the block; ``none``: what attention adds was not found.
        first_token: what stands at position 0 of its input: ``word``, or the token that its tokenizer puts there.
        self_test: largest relative deviation of the captured states from the model's own ``hidden_states``.
        initialised: whether its weights are those of an initialisation; None where that cannot be told.
        part: which part of a model it is; None where it is the whole. Of a decoder beside its encoder the role is that
            of its own attention, for a fixed text in its encoder.
        own_states: ``shifted`` where the model's own ``hidden_states`` begin with what the first block returned and end
            with the closed state, as those of state-space models do; ``same`` where they begin with what enters it.

    Where only the states of a model are there, parameters, norm placement, self-test, initialised and
    own states are None; where layers are no modules, norm placement is.
    """

    family: str
    role: Role
    layers: int
    width: int
    parameters: int | None
    vocabulary_size: int
    max_tokens: int | None
    positions: Literal["added", "not-added"]
    norm_placement: sublayers.NormPlacement | None
    last_hidden_state: Literal["block", "final"]
    final_width: int | None
    attention: sublayers.Placement
    first_token: str
    self_test: float | None
    initialised: bool | None
    part: PartName | None = None
    own_states: Literal["same", "shifted"] | None = None


@dataclass(frozen=True)
class MeasuredModel:
    """A model that was measured.

    Args:
        anatomy: what was found.
        capture: the installed hooks.
        inputs: how the model wants its inputs.
        closing: what it does after its last block.
        attention: where its attention adds to the residual stream.
        feed_forward: where its feed-forward does.
    """

    anatomy: Anatomy
    capture: Capture = field(repr=False)
    inputs: Inputs = field(repr=False)
    closing: Closing = field(repr=False)
    attention: Sublayer = field(repr=False)
    feed_forward: Sublayer = field(repr=False)


def examine(module: nn.Module, tokenizer: Any, part: PartName | None = None) -> MeasuredModel:
    """Measure a model, hook its blocks and test the hooks."""
    inputs = Inputs(module, tokenizer)
    ids = inputs.random_ids(texts=2)
    with failing_as("the model fails on a short test input"):
        traced = trace(module, inputs(ids, torch.ones_like(ids), output_hidden_states=True))
    blocks = find_blocks(traced, (ids.shape[0], ids.shape[1]))
    attention, feed_forward = _sublayers(module, inputs, ids, blocks)
    closing = find_closing(traced, blocks)
    capture = Capture(blocks, module)

    def states(ids: Tensor, mask: Tensor | None = None, encoder_ids: Tensor | None = None) -> list[Tensor]:
        capture.clear()
        with torch.inference_mode():
            module(**inputs(ids, torch.ones_like(ids) if mask is None else mask, encoder_ids=encoder_ids))
        return capture.take(ids.shape[1])

    repeated = states(inputs.repeated_id())[0]
    added = bool(relative(repeated, repeated[:, :1].expand_as(repeated)).max() > noise_of(repeated))
    role = _role(states(ids), states(inputs.with_other_token(ids, -1), encoder_ids=ids))  # the encoder's input stays
    own_limit = measured_limit(module, inputs(ids, torch.ones_like(ids)), inputs.vocabulary) if added else None
    config: Any = module.config
    measured = module.decoder if isinstance(module, DecoderBesideEncoder) else module
    anatomy = Anatomy(
        family=str(config.model_type),
        role=role,
        layers=len(blocks.states) - 1,
        width=blocks.states[0].shape[-1],
        parameters=sum(p.numel() for p in measured.parameters()),
        vocabulary_size=inputs.vocabulary_size,
        max_tokens=own_limit if own_limit is not None else config_limit(config),
        positions="added" if added else "not-added",
        norm_placement=sublayers.norm_placement(traced, blocks) if blocks.calls else None,
        last_hidden_state=closing.last,
        final_width=closing.width,
        attention=attention.placement,
        first_token=(added_tokens(tokenizer)[0] or ["word"])[0],
        self_test=blocks.deviation,
        initialised=_initialised(module),
        part=part,
        own_states="shifted" if blocks.shifted else "same",
    )
    return MeasuredModel(anatomy, capture, inputs, closing, attention, feed_forward)


def _initialised(module: nn.Module) -> bool | None:
    """Return whether the weights were never trained: then all gains of each norm are equal.

    Every architecture starts its norms at 1 (or 0, where 1 is added), and one step of training moves each gain by an
    amount of its own. None where no norm has gains.
    """
    gains = [
        weight.detach()
        for part in module.modules()
        if "norm" in type(part).__name__.lower()
        if isinstance(getattr(part, "weight", None), Tensor)
        for weight in [weight_of(part)]
        if weight.ndim == 1 and len(weight) > 1
    ]
    return all(bool((gain == gain[0]).all()) for gain in gains) if gains else None


def _sublayers(module: nn.Module, inputs: Inputs, ids: Tensor, blocks: Blocks) -> tuple[Sublayer, Sublayer]:
    if not blocks.calls:
        return Sublayer("none", problem=NO_MODULES), Sublayer("none", problem=NO_MODULES)
    inside = tuple(f"{call.name}." for call in blocks.calls)
    names = {call.name for call in blocks.calls}
    size = blocks.passed[0].numel()

    def watch(other_first: bool) -> list[sublayers.BlockTrace]:
        tokens = inputs.with_other_token(ids, 0) if other_first else ids
        traced = trace(
            module,
            inputs(tokens, torch.ones_like(tokens)),
            copied=lambda name, tensor: tensor.numel() == size and (name in names or name.startswith(inside)),
        )
        return sublayers.blocks_with_copies(traced, blocks)

    ran = watch(other_first=False)
    attention = sublayers.find_attention(ran, watch(other_first=True), blocks)
    return attention, sublayers.find_feed_forward(ran, attention)


def _role(states: list[Tensor], changed: list[Tensor]) -> Role:
    moved = torch.stack(
        [(relative(x, y)[:, :-1] > noise_of(x)).any(dim=1) for x, y in zip(changed[1:], states[1:], strict=True)]
    ).any(dim=0)
    if moved.all():
        return "encoder"
    if not moved.any():
        return "decoder"
    raise ReporterError(
        "the model is neither encoder nor decoder: some tokens see later tokens, others do not; "
        "reporter cannot measure it"
    )


def moved_by_padding(padded: list[Tensor], alone: list[Tensor]) -> tuple[float, bool]:
    """Return by how much padding changes the states of texts, relative, and whether by more than rounding."""
    worst = max(relative(x[:, : a.shape[1]], a).max().item() for x, a in zip(padded, alone, strict=True))
    return worst, not worst <= (PADDING_TOLERANCE if alone[0].dtype == torch.float32 else 0.1)


def measured_limit(model: nn.Module, inputs: Mapping[str, Any], vocabulary: Tensor) -> int | None:
    """Return how many tokens fit into the model's table of positions, or None where it has no such table.

    A table of positions is one in which the tokens of a text look up consecutive rows. The rows before the
    first token's are never used: RoBERTa's table has 514 rows, and its first token looks up row 2.

    """
    with torch.no_grad(), Lookups() as lookups:
        model(**inputs)
    length = inputs["input_ids"].shape[1]
    limits = [
        len(x.table) - int(x.rows.flatten()[0])
        for x in lookups.seen
        if x.embedded and len(x.table) >= length > 1 and x.table.data_ptr() != vocabulary.data_ptr()
        if x.rows.dim() and x.rows.shape[-1] >= length
        if (x.rows[..., :length].diff(dim=-1) == 1).all()  # or padded inside
    ]
    return min(limits, default=None)
