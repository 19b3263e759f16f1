"""Families of models built small with random weights, and what is known of each without asking the program.

The knowledge is from papers and from reading the implementations; nothing of it comes from
``reporter.models``.
"""

import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from reporter.models.load import load
from reporter.models.resolve import resolve
from reporter.study.models import PathModel

WORDS = ["the", "cat", "that", "dogs", "chase", "sleeps", "and", "a", "mouse", "runs", "while"]
WORDS += ["birds", "sing", "of", "red", "green", "blue", "old", "days", "in", "town"]
TEXTS = ("The cat that dogs chase sleeps.", "A mouse runs", "birds sing of old red days in town while a cat sleeps")

# What is known of each family without asking the program (papers and the facts of each implementation):
# class of the configuration, its options, role, norm placement, own last state, positions, longest input.
Case = tuple[str, dict[str, Any], str, str | None, str, str, int | None]


def _post(prefix, options, role="encoder", positions="added", longest=40) -> Case:
    """Return a family whose own last state is that of its last block."""
    return prefix, options, role, "post", "block", positions, longest


def _pre(prefix, options, role="decoder", norm="pre", positions="not-added", longest=40) -> Case:
    """Return a family whose own last state is closed by a norm."""
    return prefix, options, role, norm, "final", positions, longest


_WIDE = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "initializer_range": 0.2}
_BERT = _WIDE | {"intermediate_size": 48, "max_position_embeddings": 40}
_LLAMA = _BERT | {"num_key_value_heads": 2}
_HEADS = _LLAMA | {"head_dim": 8}
_PADDED = _BERT | {"pad_token_id": 1}
_NARROW = _BERT | {"embedding_size": 16}
_ROBERTAS = ("Roberta", "XLM-Roberta", "Camembert")
_GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40, "initializer_range": 0.2}
_OPT = _BERT | {"ffn_dim": 48, "init_std": 0.2, "word_embed_proj_dim": 32}
_PROJECTED = _OPT | {"word_embed_proj_dim": 16, "do_layer_norm_before": False}
_T5 = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4, "feed_forward_proj": "gated-gelu"}
_BART = {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4, "init_std": 0.2}
_BART |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 40}
_DISTILBERT = {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
_DISTILBERT |= {"initializer_range": 0.2}
_DISENTANGLED = {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
_DISENTANGLED |= {"norm_rel_ebd": "layer_norm", "position_buckets": 8, "share_att_key": True}
_MODERN = _BERT | {"local_attention": 8, "pad_token_id": 0, "bos_token_id": 1}
_MODERN |= {"eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
_NEO = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
_NEO |= {"max_position_embeddings": 40, "initializer_range": 0.2, "window_size": 4}
_GRANITE = _LLAMA | {"residual_multiplier": 0.3, "embedding_multiplier": 2.0, "attention_multiplier": 0.5}

FAMILIES: dict[str, Case] = {
    "bert": _post("Bert", _BERT),
    **{name.lower(): _post(name.replace("-", ""), _PADDED, longest=38) for name in _ROBERTAS},
    "distilbert": _post("DistilBert", _DISTILBERT),
    "albert": _post("Albert", _NARROW),
    "albert, two groups": _post("Albert", _NARROW | {"num_hidden_layers": 4, "num_hidden_groups": 2}),
    "albert, two inner": _post("Albert", _NARROW | {"inner_group_num": 2}),
    "electra": _post("Electra", _NARROW),
    "deberta-v2": _post("DebertaV2", _BERT | _DISENTANGLED, positions="not-added"),
    "deberta-v2, convolution": _post("DebertaV2", _BERT | {"conv_kernel_size": 3, "conv_act": "gelu"}),
    "mpnet": _post("MPNet", _PADDED, longest=38),
    "modernbert": _pre("ModernBert", _MODERN, "encoder"),
    "t5": _pre("T5", _T5, "encoder", longest=None),
    "mt5": _pre("MT5", _T5, "encoder", longest=None),
    "bart": _post("Bart", _BART),
    "gpt2": _pre("GPT2", _GPT2, positions="added"),
    "gpt-neo": _pre("GPTNeo", _NEO, positions="added"),
    "gpt-j": _pre("GPTJ", _GPT2 | {"rotary_dim": 4}),
    "openai-gpt": _post("OpenAIGPT", _GPT2, "decoder"),
    "neox, parallel": _pre("GPTNeoX", _BERT | {"use_parallel_residual": True}),
    "neox, sequential": _pre("GPTNeoX", _BERT | {"use_parallel_residual": False}),
    "opt": _pre("OPT", _OPT, positions="added"),
    "opt, projected": _pre("OPT", _PROJECTED, norm="post", positions="added"),
    "llama": _pre("Llama", _LLAMA),
    "mistral": _pre("Mistral", _LLAMA | {"sliding_window": 8}),
    "qwen2": _pre("Qwen2", _LLAMA),
    "qwen3": _pre("Qwen3", _HEADS),
    "gemma": _pre("Gemma", _HEADS),
    "gemma2": _pre("Gemma2", _HEADS, norm="sandwich"),
    "olmo2": _pre("Olmo2", _LLAMA, norm="inner"),
    "phi": _pre("Phi", _LLAMA | {"num_key_value_heads": 4}),
    "cohere": _pre("Cohere", _LLAMA | {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1}),
    "granite": _pre("Granite", _GRANITE),
    "gemma3": _pre("Gemma3Text", _HEADS, norm="sandwich"),
    "stablelm, parallel": _pre("StableLm", _LLAMA | {"use_parallel_residual": True}),
    "stablelm": _pre("StableLm", _LLAMA),
    "bloom": _pre("Bloom", {"hidden_size": 32, "n_layer": 3, "n_head": 4, "initializer_range": 0.2}, longest=None),
    "falcon": _pre("Falcon", _WIDE | {"max_position_embeddings": 40, "alibi": False}),
    "falcon, alibi": _pre("Falcon", _WIDE | {"max_position_embeddings": 40, "alibi": True, "parallel_attn": False}),
}

# Each family's own hidden states lack what enters the first block and end with the closed state.
_MAMBA = {"hidden_size": 32, "num_hidden_layers": 3, "state_size": 8, "pad_token_id": 1}
_MAMBA2 = _MAMBA | {"num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8}
_RWKV = {"hidden_size": 32, "num_hidden_layers": 3, "attention_hidden_size": 32}
_RWKV |= {"context_length": 40, "rescale_every": 2}
SHIFTED: dict[str, Case] = {
    "mamba": _pre("Mamba", _MAMBA | {"time_step_rank": 4}, longest=None),
    "mamba2": _pre("Mamba2", _MAMBA2, longest=None),
    "falcon-mamba": _pre("FalconMamba", _MAMBA | {"time_step_rank": 4}, longest=None),
    "rwkv": _pre("Rwkv", _RWKV),
}

_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_GPT_OSS = {"sliding_window": 8, "rope_parameters": {"rope_type": "default"}, "pad_token_id": 1, "eos_token_id": 2}
_LATENT = {"num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
_LATENT |= {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "qk_nope_head_dim": 8}
_LATENT |= {"moe_intermediate_size": 16, "first_k_dense_replace": 1, "n_shared_experts": 1}
_JAMBA = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
_JAMBA |= {"num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2}
_NEXT = _EXPERTS | {"num_hidden_layers": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
_NEXT |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "shared_expert_intermediate_size": 16}
_XLSTM = {"hidden_size": 32, "num_hidden_layers": 3, "num_blocks": 3, "num_heads": 4, "chunk_size": 8}
_EUROBERT = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "mask_token_id": 4}
# What works because blocks are found by following the data, and is to go on doing so.
GUARDED: dict[str, Case] = {
    "last hidden states of their own": _pre("Llama", _LLAMA | {"tie_last_hidden_states": False}),
    "llama, bidirectional": _pre("Llama", _LLAMA | {"is_causal": False}, "encoder"),
    "qwen3, bidirectional": _pre("Qwen3", _HEADS | {"is_causal": False}, "encoder"),
    "mixtral": _pre("Mixtral", _LLAMA | _EXPERTS),
    "olmoe": _pre("Olmoe", _LLAMA | _EXPERTS),
    "modernbert-decoder": _pre("ModernBertDecoder", _MODERN),
    "eurobert": _pre("EuroBert", _LLAMA | _EUROBERT, "encoder"),
    "gpt-oss": _pre("GptOss", _HEADS | _EXPERTS | _GPT_OSS),
    "deepseek-v3": _pre("DeepseekV3", _LLAMA | _LATENT),
    "jamba": _pre("Jamba", _LLAMA | _JAMBA),
    "qwen3-next": _pre("Qwen3Next", _HEADS | _NEXT),
    "nomic-bert": _post("NomicBert", _BERT, positions="not-added"),
    "xlstm": _pre("xLSTM", _XLSTM | {"qk_dim_factor": 2.0, "v_dim_factor": 2.0}, longest=None),
}

# States are padded to a window, the texts are the second axis, or no module is a layer.
_LED = _BART | {"attention_window": 8, "max_encoder_position_embeddings": 40, "max_decoder_position_embeddings": 40}
_XLNET = {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48, "initializer_range": 0.2}
_XLM = {"emb_dim": 32, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 40, "init_std": 0.2}
PASSED_OTHERWISE: dict[str, Case] = {
    "longformer": _post("Longformer", _PADDED | {"attention_window": 8}, longest=38),
    "led": _post("LED", _LED),
    "xlnet": _post("XLNet", _XLNET, positions="not-added", longest=None),
    "xlm": ("XLM", _XLM, "encoder", None, "block", "added", 40),
    "squeezebert": ("SqueezeBert", _BERT | {"embedding_size": 32}, "encoder", None, "block", "added", 40),
}

CASES = FAMILIES | SHIFTED | GUARDED | PASSED_OTHERWISE

# The module that the state after attention enters, {} being the number of the block.
_BERT_SUM = "encoder.layer.{}.attention.output.LayerNorm"
_LLAMA_SUM = "layers.{}.post_attention_layernorm"
AFTER_ATTENTION = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "camembert", "electra"), _BERT_SUM),
    **dict.fromkeys(("deberta-v2", "deberta-v2, convolution"), _BERT_SUM),
    "distilbert": "transformer.layer.{}.sa_layer_norm",
    "albert": "encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm",
    "albert, two groups": "encoder.albert_layer_groups.{}.albert_layers.0.attention.LayerNorm",
    "albert, two inner": "encoder.albert_layer_groups.0.albert_layers.{}.attention.LayerNorm",
    "mpnet": "encoder.layer.{}.attention.LayerNorm",
    "modernbert": "layers.{}.mlp_norm",
    **dict.fromkeys(("t5", "mt5"), "block.{}.layer.1.layer_norm"),
    "bart": "layers.{}.self_attn_layer_norm",
    **dict.fromkeys(("gpt2", "gpt-neo"), "h.{}.ln_2"),
    "openai-gpt": "h.{}.ln_1",
    "opt": "decoder.layers.{}.final_layer_norm",
    "opt, projected": "decoder.layers.{}.self_attn_layer_norm",
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma", "stablelm"), _LLAMA_SUM),
    **dict.fromkeys(("neox, sequential", "granite"), _LLAMA_SUM),
    **dict.fromkeys(("gemma2", "gemma3"), "layers.{}.pre_feedforward_layernorm"),
    "olmo2": "layers.{}.mlp",
    **dict.fromkeys(("bloom", "falcon, alibi"), "h.{}.post_attention_layernorm"),
}
# Where no module reads that state, as the feed-forward reads the block's input, too: the module that adds to it.
PARALLEL_ATTENTION = {
    "gpt-j": "h.{}.attn",
    "neox, parallel": "layers.{}.attention",
    **dict.fromkeys(("phi", "cohere", "stablelm, parallel"), "layers.{}.self_attn"),
    "falcon": "h.{}.self_attention",
}


PAIRS = ("t5", "mt5", "bart", "led")
"""Encoder–decoders, whose head reads the states of the decoder."""
CAUSAL_ALONE = ("llama, bidirectional", "qwen3, bidirectional", "xlnet")
"""Encoders of which transformers has a causal head, and no other."""


def write_tokenizer(folder: Path, **special: str) -> int:
    """Write a word-level tokenizer with [CLS] … [SEP] framing and return its size."""
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*names, ".", *WORDS])}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special.get("cls_token"):
        framed = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        tokenizer.post_processor = framed
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **special).save_pretrained(
        folder
    )
    return len(names) + 1 + len(WORDS)


def build_family(name: str, folder: Path, **more: Any) -> Path:
    """Save a small random model of a family with its tokenizer."""
    return _build(name, folder, getattr(transformers, f"{CASES[name][0]}Model"), 0, more)


def language_model_class(name: str) -> Any:
    """Return transformers' class of language models of a family's kind."""
    if name in PAIRS:
        return transformers.AutoModelForSeq2SeqLM
    causal = CASES[name][2] == "decoder" or name in CAUSAL_ALONE
    return transformers.AutoModelForCausalLM if causal else transformers.AutoModelForMaskedLM


def build_language_model(name: str, folder: Path, **more: Any) -> Path:
    """Save a small random language model of a family, with its head, and the tokenizer."""
    return _build(name, folder, language_model_class(name).from_config, 1, more)


def _build(name: str, folder: Path, make: Any, seed: int, more: dict[str, Any]) -> Path:
    prefix, options, role, *_ = CASES[name]
    special = {"eos_token": "</s>"}
    if role == "encoder":
        special = {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        size = write_tokenizer(folder, **special)
        torch.manual_seed(seed)
        model = make(getattr(transformers, f"{prefix}Config")(**({"vocab_size": size + 3} | options | more)))
        spread(model)
        model.save_pretrained(folder)
    return folder


def spread(model: Any) -> None:
    """Give norms and biases random weights, too: where they are 1 and 0, mistakes can cancel."""
    for parameter in model.parameters():
        if parameter.dim() == 1:
            with torch.no_grad():
                parameter.add_(torch.randn(parameter.shape) * 0.2)


def repaired(model: Any) -> Any:
    """Return a model with random norms and biases, and numbers wherever its own initialisation left none."""
    spread(model)
    for parameter in model.parameters():
        with torch.no_grad():
            if not parameter.abs().le(1e3).all():
                parameter.normal_(std=0.2)
    return model


def loaded(folder: Path) -> Any:
    """Load the model of a folder as a run does."""
    (checkpoint,) = resolve("m", PathModel(path=folder), folder, folder / "cache", None, offline=True)
    return load(checkpoint, "cpu", offline=True)
