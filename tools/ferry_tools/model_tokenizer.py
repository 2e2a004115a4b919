"""The tokenizer of a model's folder, by Hugging Face tokenizers; templates by transformers."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ferry_tools.errors import DataError

# Everything that decides how text becomes ids; their bytes are part of a token file's hash.
FILES = [
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
]


def read_json(path: Path) -> dict:
    """An object from a file; {} when there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object")
    return value


def load_tokenizer(folder: Path) -> Tokenizer:
    """Loads tokenizer.json, or the byte-level BPE of vocab.json and merges.txt."""
    try:
        if (folder / "tokenizer.json").is_file():
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return tokenizer
        vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
        if vocabulary.is_file() and merges.is_file():
            tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
            if tokenizer.token_to_id("<|endoftext|>") is not None:
                tokenizer.add_special_tokens(["<|endoftext|>"])
            return tokenizer
    except Exception as error:  # tokenizers raises bare Exception for whatever it cannot read
        raise DataError(f"{folder}: its tokenizer cannot be read: {error}") from None
    raise DataError(f"{folder}: no tokenizer; expected tokenizer.json, or vocab.json and merges.txt")


def token_text(value: object) -> str | None:
    """A special token as configurations write it: a string or {"content": string}."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def find_end_token(folder: Path, tokenizer: Tokenizer) -> int:
    """The id that ends an answer: the tokenizer's own word first, then the model's."""
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        text = token_text(read_json(folder / name).get("eos_token"))
        if text is None:
            continue
        number = tokenizer.token_to_id(text)
        if number is None:
            raise DataError(f"{folder / name}: eos_token {text!r} is not in the vocabulary")
        return number
    for name in ("generation_config.json", "config.json"):
        number = read_json(folder / name).get("eos_token_id")
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int):
            if tokenizer.id_to_token(number) is None:
                raise DataError(f"{folder / name}: eos_token_id {number} is not in the vocabulary")
            return number
    number = tokenizer.token_to_id("<|endoftext|>")
    if number is None:
        raise DataError(f"{folder}: no end token; expected eos_token in tokenizer_config.json")
    return number


@dataclass
class ModelTokenizer:
    """A tokenizer with what training needs to know: where samples begin and end."""

    folder: Path
    tokenizer: Tokenizer
    end_token: int

    @classmethod
    def load(cls, folder: Path) -> "ModelTokenizer":
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; expected a model's folder")
        tokenizer = load_tokenizer(folder)
        return cls(folder, tokenizer, find_end_token(folder, tokenizer))

    @cached_property
    def begin_tokens(self) -> list[int]:
        """What the tokenizer puts in front of a text, such as <s>; without the end token."""
        return [i for i in self.tokenizer.encode("").ids if i != self.end_token]

    @cached_property
    def vocabulary(self) -> int:
        """One more than the largest id."""
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def chat(self):
        """transformers' tokenizer, which renders the template in a sandbox."""
        from transformers import AutoTokenizer  # takes seconds, and only conversations need it

        loaded = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        if not loaded.chat_template:
            raise DataError(f"{self.folder}: no chat template, which rows with 'messages' need")
        return loaded

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text, without special tokens added."""
        encoded = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [item.ids for item in encoded]
