"""The models that the kit trains, with random weights and tokens."""

import json
import math
import random
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Shape:
    """A model with random weights, and how it is trained."""

    name: str
    kind: str  # "llama" or "qwen2"
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    sequence: int
    micro_batches: int
    micro_batch_size: int
    steps: int
    budget: str  # of the capped run
    plenty: str  # of the uncapped one


GPU_SHAPES = [
    Shape("llama-1.5b", "llama", 2048, 5632, 28, 16, 8, 32000, 2048, 4, 2, 10, "24 GiB", "64 GiB"),
    Shape("llama-3b", "llama", 2560, 8704, 32, 20, 4, 32000, 2048, 4, 2, 8, "24 GiB", "64 GiB"),
    Shape("qwen2.5-7b", "qwen2", 3584, 18944, 28, 28, 4, 152064, 2048, 4, 2, 6, "24 GiB", "120 GiB"),
]
# 0.51 billion parameters, whose 5.8 GiB of states pass a drive in seconds.
GPU_DRIVES = replace(GPU_SHAPES[0], name="llama-drives", layers=8, steps=6, budget="4 GiB")
# Its states are more than a GPU's context and kernels leave of a GiB.
GPU_LOSSES = Shape("llama-losses", "llama", 384, 1024, 16, 6, 3, 4096, 32, 2, 2, 200, "1 GiB", "2 GiB")
SIM_SHAPES = [
    Shape("llama-sim", "llama", 64, 128, 4, 4, 2, 256, 32, 4, 2, 6, "600 KiB", "1 GiB"),
]


def sizes(shape: Shape) -> list[tuple[str, tuple[int, ...]]]:
    """Every parameter by its name in the checkpoint."""
    head = shape.hidden // shape.heads
    kv = shape.kv_heads * head
    found: list[tuple[str, tuple[int, ...]]] = [("model.embed_tokens.weight", (shape.vocabulary, shape.hidden))]
    for layer in range(shape.layers):
        at = f"model.layers.{layer}."
        rows = {"q": shape.hidden, "k": kv, "v": kv}
        found.append((at + "input_layernorm.weight", (shape.hidden,)))
        for name, out in rows.items():
            found.append((at + f"self_attn.{name}_proj.weight", (out, shape.hidden)))
            if shape.kind == "qwen2":
                found.append((at + f"self_attn.{name}_proj.bias", (out,)))
        found.append((at + "self_attn.o_proj.weight", (shape.hidden, shape.hidden)))
        found.append((at + "post_attention_layernorm.weight", (shape.hidden,)))
        for name in ("gate", "up"):
            found.append((at + f"mlp.{name}_proj.weight", (shape.intermediate, shape.hidden)))
        found.append((at + "mlp.down_proj.weight", (shape.hidden, shape.intermediate)))
    return [*found, ("model.norm.weight", (shape.hidden,)), ("lm_head.weight", (shape.vocabulary, shape.hidden))]


def parameters(shape: Shape) -> int:
    return sum(math.prod(size) for _, size in sizes(shape))


def write_model(shape: Shape, folder: Path, where: str) -> None:
    """config.json and model.safetensors in bf16, one tensor after the other: 7B needs no memory for all of them.

    `where`: the torch device that draws the weights; a GPU takes a hundredth of a processor's time.
    """
    import torch

    if (folder / "config.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    header, begin = {}, 0
    for name, size in sizes(shape):
        end = begin + 2 * math.prod(size)
        header[name] = {"dtype": "BF16", "shape": size, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    generator = torch.Generator(where).manual_seed(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, size in sizes(shape):
            values = torch.empty(size, device=where)
            values.fill_(1.0) if "norm" in name else values.normal_(0, 0.02, generator=generator)
            if name.endswith("bias"):
                values.zero_()
            file.write(memoryview(values.bfloat16().view(torch.uint8).flatten().cpu().numpy()))
    config = {
        "architectures": ["Qwen2ForCausalLM" if shape.kind == "qwen2" else "LlamaForCausalLM"],
        "model_type": shape.kind,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def write_tokens(shape: Shape, file: Path, rows: int) -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    from ferry_tools import token_file
    from ferry_tools.samples import Sample

    if file.exists():
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    pick = random.Random(1)
    learned = b"\1" * shape.sequence
    samples = [Sample([pick.randrange(shape.vocabulary) for _ in range(shape.sequence)], learned) for _ in range(rows)]
    token_file.write(file, shape.vocabulary, shape.vocabulary - 1, b"\2" * 32, samples)
