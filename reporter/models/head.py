"""A model's language-model head: from final states to logits over the vocabulary, as transformers itself does it.

The head is the family's own language model with its base model's forward replaced by one that returns the states
it is given, so that transforms, biases, softcaps and logit scales are what they should be. It is built with one
block and shares its weights with the loaded model, so that nothing large is in memory twice.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from reporter.core.errors import ReporterError, failing_as, failures
from reporter.core.imports import changed
from reporter.models.blocks import trace
from reporter.models.checkpoint import Checkpoint, loading, local_folder
from reporter.models.load import LoadedModel
from reporter.models.model_folder import weight_files
from reporter.models.parts import DecoderBesideEncoder, fixed_arguments
from reporter.models.weights import LAYERS, build, headers, needed, read_config

TOLERANCE = 1e-4  # of the largest logit, in float32


@dataclass(frozen=True)
class Head:
    """A language-model head, ready to be applied to states.

    Args:
        kind: ``causal`` predicts the next token, ``masked`` the token itself where it is masked.
        mask_id: the id of the mask token; None where the tokenizer has none.
        problem: why tokens cannot be predicted; empty where they can.
    """

    kind: Literal["causal", "masked"]
    mask_id: int | None
    problem: str
    _model: nn.Module = field(repr=False)
    _bases: tuple[nn.Module, ...] = field(repr=False)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Its weights by name, those that are tied to an embedding among them."""
        inside = {id(part) for base in self._bases for part in base.modules()}
        return {
            f"{path}.{name}".lstrip("."): weight
            for path, part in self._model.named_modules()
            if id(part) not in inside
            for name, weight in part.named_parameters(recurse=False)
        }

    def in_float32(self) -> "Head":
        """Return the head with its weights in float32."""
        self._model.float()
        return self

    def logits(self, final_states: Tensor) -> Tensor:
        """Return the logits of each token over the vocabulary, softcaps and scales included.

        Call it in ``torch.inference_mode()``; otherwise a graph is kept.

        Args:
            final_states: what the model returns last, (tokens, final width): ``Captured.final``, or the output of
                the last block where there is none, or ``LoadedModel.close`` of any state.

        Returns:
            (tokens, vocabulary).
        """
        weight = next(self._model.parameters())
        states = final_states[None].to(weight.device, weight.dtype)
        given = _given(states)
        ids = torch.zeros((1, len(final_states)), dtype=torch.long, device=weight.device)
        with _standing_in(self._bases, lambda *args, **kwargs: given):  # whatever the tokens
            return self._model(**_arguments(self._model, ids)).logits[0]  # type: ignore[no-any-return]


@contextmanager
def _standing_in(bases: Sequence[nn.Module], *forwards: Callable[..., Any]) -> Iterator[None]:
    """Have parts of a model do something else, while this lasts; one function stands in for all."""
    with ExitStack() as stack:
        for base, forward in zip(bases, forwards * len(bases), strict=False):
            stack.enter_context(changed(base, forward=forward))
        yield


def _given(states: Tensor) -> Any:
    """Return what a model returns before its head; all that it may hold besides its last state is None."""
    from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions

    class Given(BaseModelOutputWithPastAndCrossAttentions):  # type: ignore[misc]
        def __getattr__(self, name: str) -> None:
            if name.startswith("__"):
                raise AttributeError(name)

    return Given(last_hidden_state=states)


def lacks_head(folder: Path) -> bool:
    """Return whether a model surely has no language-model head, by its configuration and the shapes of its weights.

    A head that is not tied to the embedding has a weight as large as the vocabulary outside of the model itself.
    """
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True)
        if config.is_encoder_decoder:
            return True  # whose encoder is measured
        masked = type(config) in transformers.MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
        kind = transformers.AutoModelForMaskedLM if masked else transformers.AutoModelForCausalLM
        with torch.device("meta"):
            whole = kind.from_config(config)
        inside = {name.partition(".")[0] for name, _ in whole.base_model.named_parameters()}
        if len(list(whole.parameters())) == len(list(whole.base_model.parameters())):
            return False  # tied
        vocabulary = whole.get_input_embeddings().weight.shape[0]
        beside = (x for name, x in headers(weight_files(folder, False)) if inside.isdisjoint(name.split(".")))
        return not any(vocabulary in tensor.get_shape() for tensor in beside)
    except failures():  # which the run reports
        return False


class _LacksHeadError(ReporterError):
    """The files of a model have no head."""


def load_head(checkpoint: Checkpoint, model: LoadedModel, offline: bool) -> Head:
    """Load the language-model head of a loaded model and test it.

    Args:
        checkpoint: the model's checkpoint.
        model: the loaded model, whose weights the head shares where they are tied.
        offline: never ask a hub.
    """
    with loading(checkpoint, offline), torch.inference_mode(False), torch.no_grad():
        folder = local_folder(checkpoint, offline)
        config = read_config(checkpoint, folder)
        kind, problem = _class(model, checkpoint, config)

        def attempt(config: Any) -> Head:
            whole, missing = build(kind, checkpoint, folder, config, few_layers=True)
            with failing_as("the language-model head fails on a short test input"):
                return _tested(problem, whole.to(model.device), missing, model)

        small = copy.deepcopy(config)
        for name in LAYERS:
            with suppress(NotImplementedError):  # ProphetNet has two numbers
                if name == "num_hidden_layers" or name in vars(config):
                    setattr(small, name, 1)
        try:
            return attempt(small)
        except _LacksHeadError:
            raise
        except ReporterError:  # some families cannot be built with one block, or have other weights then
            return attempt(config)


def _tested(problem: str, whole: Any, missing: Mapping[str, Tensor], model: LoadedModel) -> Head:
    if isinstance(model.module, DecoderBesideEncoder):
        decoder = whole.get_decoder()
        bases = {whole.get_encoder(): model.module.encoder}
        bases[getattr(decoder, "base_model", decoder)] = model.module.decoder
    else:
        ids = torch.zeros((1, 2), dtype=torch.long, device=next(whole.parameters()).device)
        bases = {trace(whole, _arguments(whole, ids)).calls[0].module: model.module}
    for base, module in ((whole.base_model, model.module), *bases.items()):
        _share(base, module)
    mask_id = None if model.anatomy.role == "decoder" else model.tokenizer.mask_token_id
    head = Head("causal" if model.anatomy.role == "decoder" else "masked", mask_id, problem, whole, tuple(bases))
    if head.kind == "masked" and mask_id is None and not problem:
        head = replace(head, problem="the tokenizer has no mask token")
    states = torch.ones((2, model.anatomy.final_width or model.anatomy.width), device=model.device)
    lacking = needed(lambda: head.logits(states), missing)
    if lacking:
        raise _LacksHeadError(f"its files have no language-model head; they lack {lacking}")
    _test(head, whole, model, list(bases.values()))
    return head


def _class(model: LoadedModel, checkpoint: Checkpoint, config: Any) -> tuple[Any, str]:
    """Return transformers' class of whole language models for a model, and why it predicts no tokens; or empty."""
    import transformers

    kinds = {
        "causal": ("AutoModelForCausalLM", transformers.MODEL_FOR_CAUSAL_LM_MAPPING),
        "masked": ("AutoModelForMaskedLM", transformers.MODEL_FOR_MASKED_LM_MAPPING),
        "sequence-to-sequence": ("AutoModelForSeq2SeqLM", transformers.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING),
    }
    kind = "causal" if model.anatomy.role == "decoder" else "masked"
    if isinstance(model.module, DecoderBesideEncoder):
        kind = "sequence-to-sequence"
    elif config.is_encoder_decoder:
        raise ReporterError(
            "the language-model head reads the decoder, but the encoder is measured; write `part: decoder`"
        )
    remote = (getattr(config, "auto_map", None) or {}) if checkpoint.trust_remote_code else {}
    available = [each for each, (name, mapping) in kinds.items() if type(config) in mapping or name in remote]
    if kind in available:
        return getattr(transformers, kinds[kind][0]), ""
    if kind == "masked" and "causal" in available:
        return transformers.AutoModelForCausalLM, "its attention sees later tokens, but its head is a causal one"
    raise ReporterError(f"transformers has no {kind} language model for the model type {config.model_type}")


def _share(base: nn.Module, module: nn.Module) -> None:
    loaded = dict(module.named_parameters())
    for name, weight in base.named_parameters():
        if name in loaded and loaded[name].shape == weight.shape and not loaded[name].is_meta:
            weight.data = loaded[name].data


def _test(head: Head, whole: Any, model: LoadedModel, modules: Sequence[nn.Module]) -> None:
    ids = model.inputs.random_ids(texts=2)
    mask = torch.ones_like(ids)
    mine = head.logits(model.run(ids, mask).last.flatten(0, 1))
    first, more = 0, {}
    if isinstance(model.module, DecoderBesideEncoder):
        first = int(model.module.starts)
        more = {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    with _standing_in(head._bases, *(module.__call__ for module in modules)):
        arguments = _arguments(whole, ids[:, first:], attention_mask=mask[:, first:]) | more
        theirs = whole(**arguments).logits.flatten(0, 1)
    model.capture.clear()
    tolerance = TOLERANCE if theirs.dtype == torch.float32 else 0.02
    deviation = ((mine - theirs).abs().max() / theirs.abs().max()).item()
    if not deviation <= tolerance:
        raise ReporterError(
            f"the logits of the language-model head differ from the whole model by {deviation:.1e} (relative)"
        )


def _arguments(whole: nn.Module, ids: Tensor, **more: Tensor) -> dict[str, Any]:
    fixed = fixed_arguments(whole)
    if getattr(whole.config, "is_encoder_decoder", False):
        fixed["decoder_input_ids"] = ids
    return {"input_ids": ids, **fixed, **more}
