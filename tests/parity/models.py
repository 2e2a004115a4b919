"""The models that ferry is held against: small, with random weights, made by transformers offline.

They are chosen so that every switch of a configuration is on in one and off in another: grouped
keys, tied heads, padding, biases, norms on queries and keys, rope scalings, heads wider than their share.
"""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

transformers.logging.set_verbosity_error()  # the special tokens lie outside the tiny vocabularies

SIZES = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=176,
    vocab_size=307, max_position_embeddings=128, pad_token_id=None,
)  # fmt: skip
GPT2_SIZES = dict(
    n_embd=64, n_layer=2, n_head=4, vocab_size=307, n_positions=128,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip
LLAMA3_ROPE = dict(
    rope_type="llama3", rope_theta=1000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=64,
)  # fmt: skip
LINEAR_ROPE = dict(rope_type="linear", rope_theta=10000.0, factor=4.0)


def configurations() -> dict[str, transformers.PreTrainedConfig]:
    """Name -> configuration of every model that is compared."""
    t = transformers
    return {
        "gpt2 tied": t.GPT2Config(**GPT2_SIZES),
        "gpt2 untied": t.GPT2Config(**GPT2_SIZES, n_inner=96, tie_word_embeddings=False),
        "llama mha untied": t.LlamaConfig(**SIZES),
        "llama gqa tied": t.LlamaConfig(
            **SIZES, num_key_value_heads=2, tie_word_embeddings=True),
        "llama 3 rope": t.LlamaConfig(
            **SIZES, num_key_value_heads=1, rope_parameters=LLAMA3_ROPE),
        "llama linear rope": t.LlamaConfig(**SIZES, rope_parameters=LINEAR_ROPE),
        "llama biased": t.LlamaConfig(
            **SIZES, num_key_value_heads=2, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
        "mistral gqa": t.MistralConfig(
            **SIZES, num_key_value_heads=2, head_dim=24, sliding_window=64),
        "qwen2": t.Qwen2Config(**SIZES, num_key_value_heads=2, tie_word_embeddings=True),
        "qwen3": t.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=32),
        "qwen3 biased": t.Qwen3Config(
            **SIZES, num_key_value_heads=4, head_dim=16, attention_bias=True,
            tie_word_embeddings=True),
        "mistral padded": t.MistralConfig(**SIZES | {"pad_token_id": 7}, num_key_value_heads=2),
        "qwen2 padded tied": t.Qwen2Config(
            **SIZES | {"pad_token_id": 7}, num_key_value_heads=2, tie_word_embeddings=True),
    }  # fmt: skip


def build(config: transformers.PreTrainedConfig, seed: int) -> transformers.PreTrainedModel:
    """The model with weights that leave nothing trivially right: no zero bias, no unit norm."""
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.normal_(0.0, 0.2).add_(0.0 if name.endswith("bias") else 1.0)
            else:
                parameter.normal_(0.0, parameter.shape[1] ** -0.5)
    return model.train()


def write_raw(path: Path, tensor: torch.Tensor) -> None:
    """The tensor's bytes, as parity_program reads them."""
    path.write_bytes(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())


def write_model(directory: Path, model: transformers.PreTrainedModel) -> None:
    """config.json and one raw file per parameter; a tied one is written once."""
    model.config.save_pretrained(directory)
    for name, parameter in model.named_parameters():
        write_raw(directory / f"{name}.raw", parameter)
