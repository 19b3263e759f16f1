"""Families of models built small with random weights, and what is known of each without asking the program.

The knowledge is from papers and from reading the implementations; nothing of it comes from
``reporter.models``.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    "cat",
    "that",
    "dogs",
    "chase",
    "sleeps",
    "and",
    "a",
    "mouse",
    "runs",
    "while",
    "birds",
    "sing",
    "of",
    "red",
    "green",
    "blue",
    "old",
    "days",
    "in",
    "town",
]
TEXTS = (
    "The cat that dogs chase sleeps.",
    "A mouse runs",
    "birds sing of old red days in town while a cat sleeps",
)

# What is known of each family without asking the program (papers and the facts of each implementation):
# class of the configuration, its options, role, norm placement, own last state, positions, longest input.
Case = tuple[str, dict[str, Any], str, str, str, str, int | None]

_BERT = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
_BERT |= {"max_position_embeddings": 40, "initializer_range": 0.2}
_LLAMA = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
_LLAMA |= {"intermediate_size": 48, "max_position_embeddings": 40, "initializer_range": 0.2}
_GPT2 = {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 40, "initializer_range": 0.2}
_NEOX = {k: v for k, v in _LLAMA.items() if k != "num_key_value_heads"}
_OPT = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "ffn_dim": 48, "init_std": 0.2}
_OPT |= {"max_position_embeddings": 40, "word_embed_proj_dim": 32}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 3,
    "num_heads": 4,
    "feed_forward_proj": "gated-gelu",
}

FAMILIES: dict[str, Case] = {
    "bert": ("Bert", _BERT, "encoder", "post", "block", "added", 40),
    "roberta": ("Roberta", _BERT | {"pad_token_id": 1}, "encoder", "post", "block", "added", 38),
    "xlm-roberta": ("XLMRoberta", _BERT | {"pad_token_id": 1}, "encoder", "post", "block", "added", 38),
    "camembert": ("Camembert", _BERT | {"pad_token_id": 1}, "encoder", "post", "block", "added", 38),
    "distilbert": (
        "DistilBert",
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 40}
        | {"initializer_range": 0.2},
        *("encoder", "post", "block", "added", 40),
    ),
    "albert": ("Albert", _BERT | {"embedding_size": 16}, "encoder", "post", "block", "added", 40),
    "albert, two groups": (
        "Albert",
        _BERT | {"embedding_size": 16, "num_hidden_layers": 4, "num_hidden_groups": 2},
        *("encoder", "post", "block", "added", 40),
    ),
    "albert, two inner": (
        "Albert",
        _BERT | {"embedding_size": 16, "inner_group_num": 2},
        *("encoder", "post", "block", "added", 40),
    ),
    "electra": ("Electra", _BERT | {"embedding_size": 16}, "encoder", "post", "block", "added", 40),
    "deberta-v2": (
        "DebertaV2",
        _BERT
        | {"relative_attention": True, "position_biased_input": False, "pos_att_type": ["p2c", "c2p"]}
        | {"norm_rel_ebd": "layer_norm", "position_buckets": 8, "share_att_key": True},
        *("encoder", "post", "block", "not-added", 40),
    ),
    "deberta-v2, convolution": (
        "DebertaV2",
        _BERT | {"conv_kernel_size": 3, "conv_act": "gelu"},
        *("encoder", "post", "block", "added", 40),
    ),
    "mpnet": ("MPNet", _BERT | {"pad_token_id": 1}, "encoder", "post", "block", "added", 38),
    "modernbert": (
        "ModernBert",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
        | {"max_position_embeddings": 40, "initializer_range": 0.2, "local_attention": 8}
        | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        *("encoder", "pre", "final", "not-added", 40),
    ),
    "t5": ("T5", _T5, "encoder", "pre", "final", "not-added", None),
    "mt5": ("MT5", _T5, "encoder", "pre", "final", "not-added", None),
    "bart": (
        "Bart",
        {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 4}
        | {"decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "init_std": 0.2}
        | {"max_position_embeddings": 40},
        *("encoder", "post", "block", "added", 40),
    ),
    "gpt2": ("GPT2", _GPT2, "decoder", "pre", "final", "added", 40),
    "gpt-neo": (
        "GPTNeo",
        {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
        | {"max_position_embeddings": 40, "initializer_range": 0.2, "window_size": 4},
        *("decoder", "pre", "final", "added", 40),
    ),
    "gpt-j": ("GPTJ", _GPT2 | {"rotary_dim": 4}, "decoder", "pre", "final", "not-added", 40),
    "openai-gpt": ("OpenAIGPT", _GPT2, "decoder", "post", "block", "added", 40),
    "neox, parallel": (
        "GPTNeoX",
        _NEOX | {"use_parallel_residual": True},
        "decoder",
        "pre",
        "final",
        "not-added",
        40,
    ),
    "neox, sequential": (
        "GPTNeoX",
        _NEOX | {"use_parallel_residual": False},
        *("decoder", "pre", "final", "not-added", 40),
    ),
    "opt": ("OPT", _OPT, "decoder", "pre", "final", "added", 40),
    "opt, projected": (
        "OPT",
        _OPT | {"word_embed_proj_dim": 16, "do_layer_norm_before": False},
        *("decoder", "post", "final", "added", 40),
    ),
    "llama": ("Llama", _LLAMA, "decoder", "pre", "final", "not-added", 40),
    "mistral": ("Mistral", _LLAMA | {"sliding_window": 8}, "decoder", "pre", "final", "not-added", 40),
    "qwen2": ("Qwen2", _LLAMA, "decoder", "pre", "final", "not-added", 40),
    "qwen3": ("Qwen3", _LLAMA | {"head_dim": 8}, "decoder", "pre", "final", "not-added", 40),
    "gemma": ("Gemma", _LLAMA | {"head_dim": 8}, "decoder", "pre", "final", "not-added", 40),
    "gemma2": ("Gemma2", _LLAMA | {"head_dim": 8}, "decoder", "sandwich", "final", "not-added", 40),
    "olmo2": ("Olmo2", _LLAMA, "decoder", "inner", "final", "not-added", 40),
    "phi": ("Phi", _LLAMA | {"num_key_value_heads": 4}, "decoder", "pre", "final", "not-added", 40),
    "cohere": (
        "Cohere",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
        | {"intermediate_size": 48, "max_position_embeddings": 40, "initializer_range": 0.2}
        | {"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1},
        *("decoder", "pre", "final", "not-added", 40),
    ),
    "granite": (
        "Granite",
        _LLAMA | {"residual_multiplier": 0.3, "embedding_multiplier": 2.0, "attention_multiplier": 0.5},
        *("decoder", "pre", "final", "not-added", 40),
    ),
    "gemma3": ("Gemma3Text", _LLAMA | {"head_dim": 8}, "decoder", "sandwich", "final", "not-added", 40),
    "stablelm, parallel": (
        "StableLm",
        _LLAMA | {"use_parallel_residual": True},
        *("decoder", "pre", "final", "not-added", 40),
    ),
    "stablelm": ("StableLm", _LLAMA, "decoder", "pre", "final", "not-added", 40),
    "bloom": (
        "Bloom",
        {"hidden_size": 32, "n_layer": 3, "n_head": 4, "initializer_range": 0.2},
        *("decoder", "pre", "final", "not-added", None),
    ),
    "falcon": (
        "Falcon",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "initializer_range": 0.2}
        | {"max_position_embeddings": 40, "alibi": False},
        *("decoder", "pre", "final", "not-added", 40),
    ),
    "falcon, alibi": (
        "Falcon",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "initializer_range": 0.2}
        | {"max_position_embeddings": 40, "alibi": True, "parallel_attn": False},
        *("decoder", "pre", "final", "not-added", 40),
    ),
}

# Each family's own hidden states lack what enters the first block and end with the closed state.
_MAMBA = {"hidden_size": 32, "num_hidden_layers": 3, "state_size": 8, "pad_token_id": 1}
SHIFTED: dict[str, Case] = {
    "mamba": ("Mamba", _MAMBA | {"time_step_rank": 4}, "decoder", "pre", "final", "not-added", None),
    "mamba2": (
        "Mamba2",
        _MAMBA | {"num_heads": 4, "head_dim": 16, "n_groups": 2, "chunk_size": 8},
        *("decoder", "pre", "final", "not-added", None),
    ),
    "falcon-mamba": ("FalconMamba", _MAMBA | {"time_step_rank": 4}, "decoder", "pre", "final", "not-added", None),
    "rwkv": (
        "Rwkv",
        {"hidden_size": 32, "num_hidden_layers": 3, "attention_hidden_size": 32, "context_length": 40}
        | {"rescale_every": 2},
        *("decoder", "pre", "final", "not-added", 40),
    ),
}

_EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_NOT_ADDED = ("final", "not-added", 40)
# What works because blocks are found by following the data, and is to go on doing so.
GUARDED: dict[str, Case] = {
    "last hidden states of their own": (
        "Llama",
        _LLAMA | {"tie_last_hidden_states": False},
        "decoder",
        "pre",
        *_NOT_ADDED,
    ),
    "llama, bidirectional": ("Llama", _LLAMA | {"is_causal": False}, "encoder", "pre", *_NOT_ADDED),
    "qwen3, bidirectional": ("Qwen3", _LLAMA | {"head_dim": 8, "is_causal": False}, "encoder", "pre", *_NOT_ADDED),
    "mixtral": ("Mixtral", _LLAMA | _EXPERTS, "decoder", "pre", *_NOT_ADDED),
    "olmoe": ("Olmoe", _LLAMA | _EXPERTS, "decoder", "pre", *_NOT_ADDED),
    "modernbert-decoder": (
        "ModernBertDecoder",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
        | {"max_position_embeddings": 40, "local_attention": 8, "pad_token_id": 0, "bos_token_id": 1}
        | {"eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
        *("decoder", "pre", *_NOT_ADDED),
    ),
    "eurobert": (
        "EuroBert",
        _LLAMA | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "mask_token_id": 4},
        *("encoder", "pre", *_NOT_ADDED),
    ),
    "gpt-oss": (
        "GptOss",
        _LLAMA
        | _EXPERTS
        | {"head_dim": 8, "sliding_window": 8, "rope_parameters": {"rope_type": "default"}}
        | {"pad_token_id": 1, "eos_token_id": 2},
        *("decoder", "pre", *_NOT_ADDED),
    ),
    "deepseek-v3": (
        "DeepseekV3",
        _LLAMA
        | {"num_key_value_heads": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
        | {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "qk_nope_head_dim": 8}
        | {"moe_intermediate_size": 16, "first_k_dense_replace": 1, "n_shared_experts": 1},
        *("decoder", "pre", *_NOT_ADDED),
    ),
    "jamba": (
        "Jamba",
        _LLAMA
        | {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1}
        | {"num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 8, "mamba_d_conv": 4, "mamba_expand": 2},
        *("decoder", "pre", *_NOT_ADDED),
    ),
    "qwen3-next": (
        "Qwen3Next",
        _LLAMA
        | _EXPERTS
        | {"num_hidden_layers": 4, "head_dim": 8, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
        | {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "shared_expert_intermediate_size": 16},
        *("decoder", "pre", *_NOT_ADDED),
    ),
    "nomic-bert": ("NomicBert", _BERT, "encoder", "post", "block", "not-added", 40),
    "xlstm": (
        "xLSTM",
        {"hidden_size": 32, "num_hidden_layers": 3, "num_blocks": 3, "num_heads": 4, "chunk_size": 8}
        | {"qk_dim_factor": 2.0, "v_dim_factor": 2.0},
        *("decoder", "pre", "final", "not-added", None),
    ),
}

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


HEADLESS = {"t5", "mt5", "bart"}
"""Encoders of encoder–decoders, whose head reads the states of the decoder."""


def write_tokenizer(folder: Path, **special: str) -> int:
    """Write a word-level tokenizer with [CLS] … [SEP] framing and return its size."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate([*names, ".", *WORDS])}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if special.get("cls_token"):
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", **special).save_pretrained(folder)
    return len(names) + 1 + len(WORDS)


def build_family(name: str, folder: Path, **more: Any) -> Path:
    """Save a small random model of a family with its tokenizer."""
    import torch
    import transformers

    prefix, options, role, *_ = (FAMILIES | SHIFTED | GUARDED)[name]
    special = (
        {"cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "mask_token": "<mask>"}
        if role == "encoder"
        else {"eos_token": "</s>"}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        size = write_tokenizer(folder, **special)
        config = getattr(transformers, f"{prefix}Config")(**({"vocab_size": size + 3} | options | more))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = getattr(transformers, f"{prefix}Model")(config)
            spread(model)
        model.save_pretrained(folder)
    return folder


def language_model_class(name: str) -> Any:
    """Return transformers' class of language models of a family's kind."""
    import transformers

    decoder = FAMILIES[name][2] == "decoder"
    return transformers.AutoModelForCausalLM if decoder else transformers.AutoModelForMaskedLM


def build_language_model(name: str, folder: Path, **more: Any) -> Path:
    """Save a small random language model of a family, with its head, beside what ``build_family`` writes."""
    import torch
    from transformers import AutoConfig

    build_family(name, folder, **more)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        model = language_model_class(name).from_config(AutoConfig.from_pretrained(folder))
        spread(model)
        model.save_pretrained(folder)
    return folder


def spread(model: Any) -> None:
    """Give norms and biases random weights, too: where they are 1 and 0, mistakes can cancel."""
    import torch

    for parameter in model.parameters():
        if parameter.dim() == 1:
            with torch.no_grad():
                parameter.add_(torch.randn(parameter.shape) * 0.2)
