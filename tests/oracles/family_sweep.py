"""Every text model of transformers, tiny and random: its states and logits here, against transformers alone.

``python tests/oracles/family_sweep.py [MODEL_TYPE …] [--write]`` prints a row for each model type, and writes the page
of families in the documentation. Each model reads texts of several lengths, first the longest, in one padded batch, or
one by one where padding moves the states; transformers reads each alone, without padding, in a model that was loaded
apart.
"""

import argparse
import inspect
import logging
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import transformers
from oracles.families import repaired, write_tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers.models.auto import modeling_auto as auto

from reporter.core.errors import ReporterError
from reporter.models.head import load_head
from reporter.models.load import LoadedModel, load
from reporter.models.resolve import resolve
from reporter.study.models import PathModel

PAGE = Path(__file__).parents[2] / "reporter/app/docs/pages/families.md"
LENGTHS = (3, 21, 7)  # tokens; the second is longer than any window
MOST_WEIGHTS = 40_000_000
MINUTES = 3
NOT_BUILT = "not built"

# What makes a model small, by the names that configurations have for it.
SMALL = dict.fromkeys(["hidden_size", "d_model", "n_embd", "dim", "embed_dim", "emb_dim", "word_embed_proj_dim"], 32)
SMALL |= dict.fromkeys(["num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers"], 3)
SMALL |= dict.fromkeys(["decoder_layers", "num_decoder_layers", "num_encoder_layers"], 3)
SMALL |= dict.fromkeys(["num_attention_heads", "n_head", "n_heads", "num_heads"], 4)
SMALL |= dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads", "num_decoder_attention_heads"], 4)
SMALL |= dict.fromkeys(["num_key_value_heads", "num_kv_heads"], 4)
SMALL |= dict.fromkeys(["head_dim", "d_kv", "d_head", "attention_head_size", "v_head_dim", "mamba_head_dim"], 8)
SMALL |= dict.fromkeys(
    ["intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "n_inner"], 48
)
SMALL |= dict.fromkeys(["hidden_dim", "ffn_hidden_size", "num_encoder_ffn_dim", "moe_ffn_hidden_size"], 48)
SMALL |= dict.fromkeys(["num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"], 4)
SMALL |= dict.fromkeys(["num_experts_per_tok", "moe_topk", "moe_k", "moe_top_k", "num_experts_per_token"], 2)
SMALL |= dict.fromkeys(["moe_intermediate_size", "shared_expert_intermediate_size"], 16)
SMALL |= {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "n_group": 1}
SMALL |= {"topk_group": 1, "first_k_dense_replace": 1, "n_shared_experts": 1, "initializer_range": 0.2, "init_std": 0.2}
SMALL |= {"max_position_embeddings": 64, "n_positions": 64, "n_ctx": 64, "vocab_size": 32, "embedding_size": 32}
SMALL |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 1, "dropout": 0.0}
SMALL |= {"sliding_window": 8, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2}
SMALL |= {"linear_num_value_heads": 4, "mamba_d_state": 8, "mamba_n_heads": 8, "state_size": 8, "chunk_size": 8}

_HYBRID = {"num_hidden_layers": 4}
_FEW_HEADS = {"num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16}
_TYPES = _HYBRID | {"layer_types": ["linear_attention", "full_attention"] * 2}
_SLIDING = _HYBRID | {"layer_types": ["sliding_attention", "full_attention"] * 2}
_SLIDING |= {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 32}
_ZAMBA = _HYBRID | {"layers_block_type": ["mamba", "hybrid"] * 2}
_MAMBA2 = {"num_heads": 4, "head_dim": 16, "n_groups": 2}
_GEMMA = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
_GEMMA |= {"intermediate_size": 48, "vocab_size": 32, "sliding_window": 8}


def _sections(*sections: int) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": list(sections)}}


_SECTIONS = _sections(2, 1, 1)
_INDEXER = {"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 8}
_INDEXER |= {"indexer_budget": 8, "indexer_compress_ratio": 2}
_ROPE = {"rope_type": "default", "rope_theta": 1e4}
_SWA = {"swa_num_key_value_heads": 4, "swa_num_attention_heads": 4, "swa_head_dim": 24, "swa_v_head_dim": 8}

MORE: dict[str, dict[str, Any]] = {
    **dict.fromkeys(["qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"], _HYBRID),
    **dict.fromkeys(["qwen2_5_vl_text", "qwen2_vl_text", "hunyuan_vl_text", "cosmos3_edge_text"], _SECTIONS),
    **dict.fromkeys(["glm4v_text", "glm_image_text"], _sections(4, 2, 2) | _FEW_HEADS),
    **dict.fromkeys(["glm4v_moe_text", "glm_ocr_text"], _SECTIONS | _FEW_HEADS),
    "qwen4_exp_text": _HYBRID | _INDEXER | {"hc_lowrank": 8, "linear_num_value_heads": 4},
    "bailing_hybrid": _HYBRID | {"layer_group_size": 2},
    "longcat_flash": {"expert_ffn_hidden_size": 16, "zero_expert_num": 2},
    "dots3_note_text": {"num_hidden_layers": 3, "num_key_value_heads": 4},
    "bamba": {"attn_layer_indices": [1], "mamba_d_head": 8},
    "canine": {"downsampling_rate": 2, "local_transformer_stride": 8, "num_hash_buckets": 64},
    "codegen": {"rotary_dim": 4},
    "cohere_compass_text": {"layer_types": ["full_attention"] * 3, "rope_parameters": {"full_attention": _ROPE}},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 48, "hidden_size": 32},
    },
    "funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1},
    "gemma3n_text": _SLIDING
    | {"num_kv_shared_layers": 2, "laurel_rank": 4, "num_key_value_heads": 2}
    | {"activation_sparsity_pattern": [0.0] * 4, "intermediate_size": [48] * 4},
    "gemma4_text": _SLIDING | {"global_head_dim": 8, "num_kv_shared_layers": 0},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "window_size": 4},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba"], "mamba_d_head": 8},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "mamba_dt_rank": 4},
    "kimi_linear": _TYPES,
    "lfm2_moe": _HYBRID | {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "lilt": {"hidden_size": 48, "channel_shrink_ratio": 4, "max_2d_position_embeddings": 64},
    "longformer": {"attention_window": 4},
    "led": {"attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    "luke": {"entity_vocab_size": 8, "entity_emb_size": 16},
    "mamba2": _MAMBA2,
    "mimo_v2_flash": _SWA | {"head_dim": 24},
    "mobilebert": {"true_hidden_size": 32, "intra_bottleneck_size": 32, "num_feedforward_networks": 2},
    "reformer": {
        "axial_pos_embds_dim": [16, 16],
        "axial_pos_shape": [8, 8],
        "lsh_attn_chunk_length": 8,
        "local_attn_chunk_length": 8,
        "attn_layers": ["local", "lsh", "local"],
    },
    "t5gemma": {"encoder": _GEMMA, "decoder": _GEMMA},
    "xlstm": {"num_blocks": 3, "qk_dim_factor": 2.0, "v_dim_factor": 2.0},
    "xmod": {"default_language": "en_XX"},
    "zamba": _ZAMBA | {"attn_layer_period": 2},
    "zamba2": _ZAMBA | {"hybrid_layer_ids": [1, 3], "mamba_headdim": 8, "use_shared_mlp_adapter": False},
    "zaya": {"num_experts_per_tok": 1},
}
"""What some model types need besides."""


@dataclass(frozen=True)
class Row:
    """What is found for one model, or one half of a pair: deviations relative to the largest norm or logit.

    ``modules`` tells whether its layers are modules.
    """

    family: str
    states: float | None = None
    logits: float | None = None
    refused: str = ""
    headless: str = ""
    modules: bool = True


def families() -> list[str]:
    """Return the model types that read token ids, and nothing else."""
    kinds = ("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM", "TEXT_ENCODING")
    names = set(auto.MODEL_MAPPING_NAMES).union(*(getattr(auto, f"MODEL_FOR_{kind}_MAPPING_NAMES") for kind in kinds))
    return sorted(name for name in names - NOT_TEXT if _reads_text_alone(name))


def _reads_text_alone(name: str) -> bool:
    try:
        accepted = [set(inspect.signature(kind.forward).parameters) for kind in classes(_config_class(name))]
    except (ImportError, ValueError):  # a package that is not here
        return False
    text = all("input_ids" in names for names in accepted)
    return text and not any(name for names in accepted for name in names if _OTHER.search(name))


_OTHER = re.compile("pixel_values$|input_features|input_values|spectrogram|flattened_patches|audio|protein")
"""What models of images, sounds and pages take besides tokens."""
NOT_TEXT = {"bros", "dia", "dpr", "evolla", "gemma4_assistant", "gemma4_unified_assistant", "kyutai_speech_to_text"}
NOT_TEXT |= {"layoutlmv2", "lxmert", "musicgen", "musicgen_melody", "pe_video", "trocr", "videoprism", "vits"}
"""What cannot do without these, or without another model's states, though it takes token ids; or has no states."""


def _config_class(name: str) -> Any:
    return transformers.models.auto.configuration_auto.CONFIG_MAPPING[name]


def classes(config_class: Any) -> list[Any]:
    """Return transformers' classes for a configuration: that of language models first, then the plain model."""
    kinds = ("FOR_MASKED_LM_", "FOR_SEQ_TO_SEQ_CAUSAL_LM_", "FOR_CAUSAL_LM_", "")
    mappings = [getattr(auto, f"MODEL_{kind}MAPPING") for kind in kinds]
    outcome = [mapping[config_class] for mapping in mappings if config_class in mapping]
    return [kind for each in outcome for kind in (each if isinstance(each, tuple) else (each,))]


def small_config(name: str) -> Any:
    """Return the configuration of a tiny model."""
    kind = _config_class(name)
    usual = kind()
    given = {**dict.fromkeys(key for key, name in usual.attribute_map.items() if name not in SMALL), **vars(usual)}
    options = {key: value for key, value in SMALL.items() if key in given}
    if "qk_rope_head_dim" in given and "head_dim" in given:
        options["head_dim"] = SMALL["qk_rope_head_dim"]
    if usual.is_encoder_decoder:
        options["decoder_start_token_id"] = 1
    return kind(**(options | MORE.get(name, {})))


def build(name: str, folder: Path) -> Any:
    """Save a tiny random model with its tokenizer; return its class."""
    config = small_config(name)
    kind = classes(type(config))[0]
    with torch.device("meta"):
        weights = sum(p.numel() for p in kind._from_config(config).parameters())
    if weights > MOST_WEIGHTS:
        raise ValueError(f"it has {weights:,} weights, so it was not made small")
    special = {"eos_token": "</s>", "pad_token": "<pad>"}
    if config.is_encoder_decoder is False and kind in auto.MODEL_FOR_MASKED_LM_MAPPING.values():
        special |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
    write_tokenizer(folder, **special)
    torch.manual_seed(0)
    model = kind._from_config(config)
    repaired(model).save_pretrained(folder)
    return kind


def compare(name: str) -> Iterator[Row]:
    """Yield the rows of a family."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "m"
        try:
            kind = build(name, folder)
            own, base = (each.from_pretrained(folder).eval() for each in (kind, transformers.AutoModel))
            halves = ("encoder", "decoder") if own.config.is_encoder_decoder else (None,)
            ids = [torch.randint(6, 22, (n,), generator=torch.Generator().manual_seed(n)) for n in LENGTHS]
            expected = {half: [plain(own, base, half, row[None]) for row in ids] for half in halves}
        except Exception as error:
            yield Row(name, refused=f"{NOT_BUILT}: {type(error).__name__}: {' '.join(str(error).split())[:150]}")
            return
        for half in halves:
            yield _compared(f"{name}, {half}" if half else name, folder, half, ids, expected[half])


def plain(own: Any, base: Any, half: str | None, ids: Tensor) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Return what transformers itself says: hidden states, the last one, and logits."""
    more: dict[str, Any] = {"output_hidden_states": True, "return_dict": True}
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if half == "decoder":
        inputs = {"input_ids": ids[:, 1:], "attention_mask": torch.ones_like(ids[:, 1:]), "decoder_input_ids": ids}
    with torch.inference_mode():
        result = (base.get_encoder() if half == "encoder" else base)(**inputs, **more)
        logits = None if half == "encoder" else getattr(own(**inputs), "logits", None)
    states = result.decoder_hidden_states if half == "decoder" else result.hidden_states
    states = [h[0] if isinstance(h, tuple) else h for h in states]  # PegasusX adds global tokens, and lists its padding
    return [h[:, : ids.shape[1]] for h in states], result.last_hidden_state, logits


def _compared(label: str, folder: Path, half: Any, rows: list[Tensor], expected: list[Any]) -> Row:
    try:
        (checkpoint,) = resolve("m", PathModel(path=folder, part=half), folder, folder / "cache", None, offline=True)
        model = load(checkpoint, "cpu", offline=True)
        row = Row(label, _states(model, rows, expected), modules=model.anatomy.norm_placement is not None)
    except Exception as error:
        return Row(label, refused=_said(error, folder))
    if expected[0][2] is None:
        return replace(row, headless="transformers has none" if half != "encoder" else "its decoder has them")
    try:
        head, logits = load_head(checkpoint, model, offline=True), 0.0
        for ids, (_, _, theirs) in zip(rows, expected, strict=True):
            with torch.inference_mode():
                mine = head.logits(model.run(ids[None], torch.ones_like(ids[None])).last[0])
            logits = max(logits, ((mine - theirs[0]).abs().max() / theirs.abs().max()).item())
        return replace(row, logits=logits)
    except Exception as error:
        return replace(row, headless=_said(error, folder))


def _said(error: Exception, folder: Path) -> str:
    """Return a message without the name of the model, its folder, and what is the same in all.

    An error that is not ours is a mistake of the program, and says so.
    """
    text = " ".join(str(error).replace(str(folder), "FOLDER").split())
    if not isinstance(error, ReporterError):
        return f"RAW {type(error).__name__}: {text[:200]}"
    return text.removeprefix("model 'm': ").removesuffix("; reporter cannot measure it").replace("|", "\\|")


def _states(model: LoadedModel, rows: list[Tensor], expected: list[Any]) -> float:
    every, worst = list(range(len(rows))), 0.0
    together = model.may_pad(max(map(len, rows)))  # as a run reads them
    for order in [every, every[::-1]] if together else [[number] for number in (*every, *every[::-1])]:
        ids = pad_sequence([rows[i] for i in order], batch_first=True, padding_value=model.inputs.pad_id)
        mask = pad_sequence([torch.ones_like(rows[i]) for i in order], batch_first=True)
        with torch.inference_mode():
            run = model.run(ids, mask)
        for place, number in enumerate(order):
            hidden, last, _ = expected[number]
            n = len(rows[number])
            listed = run.path[1:] if model.anatomy.own_states == "shifted" else run.path
            pairs = [*zip(listed, hidden[:-1], strict=False), (run.last, last)]
            assert len(hidden) == len(run.path)
            for mine, theirs in pairs:
                difference = (mine[place, :n] - theirs[0]).norm(dim=-1) / theirs[0].norm(dim=-1).clamp_min(1e-30)
                worst = max(worst, difference.max().item())
    return worst


def _work(name: str) -> list[Row]:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    return list(compare(name))


def _number(deviation: float | None) -> str:
    return "–" if deviation is None else f"{deviation:.0e}" if deviation else "0"


def line(row: Row) -> str:
    """Return a row for the terminal."""
    return f"{row.family:32} {_number(row.states):>6} {_number(row.logits):>6}  {row.refused or row.headless}".rstrip()


def page(rows: list[Row]) -> str:
    """Return the page of the documentation."""
    measured = [row for row in rows if row.states is not None]
    refused = [row for row in rows if row.refused and not row.refused.startswith(NOT_BUILT)]
    untried = sorted({row.family for row in rows if row.refused.startswith(NOT_BUILT)})
    wrong = [row for row in measured if max(row.states or 0, row.logits or 0) > 1e-4]
    assert not wrong, f"these are wrong: {wrong}"
    rows_of = "\n".join(f"| {r.family} | {_number(r.states)} | {_number(r.logits)} | {r.headless} |" for r in measured)
    reasons = "\n".join(f"| {row.family} | {row.refused} |" for row in refused)
    return _PAGE.format(
        version=transformers.__version__,
        rows=rows_of,
        reasons=reasons,
        listed=", ".join(row.family for row in measured if not row.modules),
        untried=", ".join(untried),
    )


_PAGE = """# Families of models

Look up whether `reporter` measures a family of models, and how near it comes to `transformers` itself.

## How was this table made?

`python tests/oracles/family_sweep.py --write` made this page with transformers {version}. It builds a tiny random model
of every model type that reads token ids. `reporter` reads three texts side by side, in both orders. `transformers`
reads each text alone, in a model that was loaded apart.

The columns hold the largest relative deviation over layers and tokens. In float32, 1e-06 is rounding. An
encoder–decoder has a row for each half. What is missing here needs no new code:
blocks are found by following the data.

## Which families are measured?

| model type | states | logits | why no logits |
|---|---|---|---|
{rows}

The layers of these do not run as modules one after the other: {listed}. Their states are their
own `hidden_states`, so `skip`, `contributions` and the site `attention` have no numbers.

## Which families are refused?

| model type | why |
|---|---|
{reasons}

Not tried, since no tiny model was built: {untried}.
"""


def main() -> None:
    """Run the sweep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*")
    parser.add_argument("--write", action="store_true", help="write the page of the documentation")
    chosen = parser.parse_args()
    rows: list[Row] = []
    with get_context("spawn").Pool(os.cpu_count(), maxtasksperchild=25) as pool:
        names = chosen.families or families()
        waiting = [(name, pool.apply_async(_work, (name,))) for name in names]
        for name, work in waiting:
            try:
                outcome = work.get(MINUTES * 60)
            except Exception as error:
                outcome = [Row(name, refused=f"{NOT_BUILT}: {type(error).__name__}")]
            rows += outcome
            for row in outcome:
                print(line(row), flush=True)
    if chosen.write:
        PAGE.write_text(page(rows), "utf-8")


if __name__ == "__main__":
    main()
