"""`tokenize`: a token file for (source, tokenizer, settings), made once and found again by hash."""

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from ferry_tools import token_file
from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import FILES, ModelTokenizer
from ferry_tools.samples import read_samples

# Part of every hash: raised when the rules of samples.py or chat.py change what a file holds.
RULES_VERSION = 1


@dataclass(frozen=True)
class Source:
    """What is to be tokenised and how."""

    path: Path  # .jsonl or .txt
    model: Path
    text_key: str | None
    sequence: int  # where a .txt is cut; nothing else depends on it


def input_hash(source: Source, tokens: ModelTokenizer) -> bytes:
    """SHA-256 of everything that decides the token file's contents."""
    settings = {
        "format": token_file.VERSION,
        "rules": RULES_VERSION,
        "text_key": source.text_key,
        "sequence": source.sequence if source.path.suffix == ".txt" else None,
        "end_token": tokens.end_token,
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    parts = [source.path] + [source.model / name for name in FILES]
    for path in parts:
        data = path.read_bytes() if path.is_file() else b""
        digest.update(struct.pack("<Q", len(data)))
        digest.update(data)
    return digest.digest()


def summary(path: Path, cached: bool) -> dict:
    """What the engine is told: the last line on standard output."""
    found = token_file.read_counts(path)
    return {
        "path": str(path.resolve()),
        "samples": found.samples,
        "tokens": found.tokens,
        "learned": found.learned,
        "longest": found.longest,
        "vocabulary": found.vocabulary,
        "end_token": found.end_token,
        "cached": cached,
    }


def make_token_file(source: Source, cache: Path) -> dict:
    """Makes the token file in `cache` unless it is there, and returns its summary."""
    if not source.path.is_file():
        raise DataError(f"{source.path}: no such file; expected JSONL or plain text")
    if source.path.suffix == ".tokens":
        return summary(source.path, True)
    tokens = ModelTokenizer.load(source.model)
    key = input_hash(source, tokens)
    path = cache / f"{source.path.stem}-{key.hex()[:16]}.tokens"
    if path.is_file():
        return summary(path, True)
    samples = read_samples(tokens, source.path, source.text_key, source.sequence)
    token_file.write(path, tokens.vocabulary, tokens.end_token, key, samples)
    return summary(path, False)
