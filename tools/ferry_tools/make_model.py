"""`init`: a Hugging Face folder with random weights and a small tokenizer, made offline."""

import os
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ferry_tools.errors import DataError
from ferry_tools.make_data import problems

END = "<|endoftext|>"
ARCHITECTURES = ["llama", "mistral", "qwen2", "qwen3", "gpt2"]
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


@dataclass(frozen=True)
class Preset:
    """Sizes; all but head counts are multiples of 64."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    positions: int


# nano: layers of about equal size, and an embedding no larger than half a layer, so that a budget
# of a few layers is a small part of the model.
PRESETS = {
    "nano": Preset(192, 512, 10, 6, 2, 512, 512),
    "tiny": Preset(512, 1408, 12, 8, 4, 1024, 1024),
    "small": Preset(768, 2048, 16, 12, 4, 4096, 2048),
}


def train_tokenizer(corpus: list[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE that writes every digit as a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def built_in_corpus() -> list[str]:
    return [row["question"] + "\n" + row["answer"] for row in problems(2000, 0)]


def read_corpus(path: Path) -> list[str]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected text to train the tokenizer on")
    return path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)


def llama_like(preset: Preset, end: int) -> dict:
    """Settings that the Llama family shares."""
    return {
        "vocab_size": preset.vocabulary,
        "hidden_size": preset.hidden,
        "intermediate_size": preset.intermediate,
        "num_hidden_layers": preset.layers,
        "num_attention_heads": preset.heads,
        "num_key_value_heads": preset.kv_heads,
        "head_dim": preset.hidden // preset.heads,
        "max_position_embeddings": preset.positions,
        "tie_word_embeddings": False,
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": None,
    }


def configuration(arch: str, preset: Preset, end: int):
    """transformers' configuration of the architecture at the preset's sizes."""
    import transformers

    if arch == "gpt2":
        return transformers.GPT2Config(
            vocab_size=preset.vocabulary,
            n_positions=preset.positions,
            n_embd=preset.hidden,
            n_layer=preset.layers,
            n_head=preset.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=end,
            eos_token_id=end,
        )
    settings = llama_like(preset, end)
    if arch == "mistral":
        return transformers.MistralConfig(**settings, sliding_window=None)
    if arch == "qwen2":
        settings.pop("head_dim")
        return transformers.Qwen2Config(**settings)
    if arch == "qwen3":
        return transformers.Qwen3Config(**settings)
    return transformers.LlamaConfig(**settings)


def give_usual_mode(folder: Path) -> None:
    """safetensors leaves its files to their owner alone, whatever the process's mask says."""
    mask = os.umask(0)
    os.umask(mask)
    for file in folder.iterdir():
        file.chmod(0o666 & ~mask)


def make_model(folder: Path, arch: str, preset_name: str, seed: int, dtype: str, corpus: Path | None) -> dict:
    """Writes the folder and returns what it holds. Equal arguments give equal files."""
    if (folder / "config.json").exists():
        raise DataError(f"{folder}: holds a model already; name another folder or remove it")
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()

    preset = PRESETS[preset_name]
    texts = read_corpus(corpus) if corpus else built_in_corpus()
    tokenizer = train_tokenizer(texts, preset.vocabulary)
    torch.manual_seed(seed)
    config = configuration(arch, preset, tokenizer.token_to_id(END))
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model = model.to(getattr(torch, DTYPES[dtype]))
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=preset.positions,
    ).save_pretrained(folder)
    give_usual_mode(folder)
    return {
        "path": str(folder.resolve()),
        "arch": arch,
        "preset": preset_name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "vocabulary": tokenizer.get_vocab_size(),
    }
