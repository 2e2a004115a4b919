"""Tokens that a model's folder names beside its vocabulary, added as transformers adds them."""

from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from ferry_tools.errors import DataError
from ferry_tools.json_file import read_json

FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def token_text(value: object) -> str | None:
    """A special token as configurations write it: a string or {"content": string}."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def add_tokens_of(folder: Path, tokenizer: Tokenizer) -> None:
    """Adds what `added_tokens_decoder` of tokenizer_config.json names, or without that added_tokens.json.

    Raises DataError where a token would get another id than it has there: the model's row for it is not that one.
    """
    settings = read_json(folder / "tokenizer_config.json")
    held = tokenizer.get_added_tokens_decoder()
    if isinstance(settings.get("added_tokens_decoder"), dict):
        source = folder / "tokenizer_config.json"
        wanted = decoder_tokens(source, settings["added_tokens_decoder"])
    else:
        source = folder / "added_tokens.json"
        specials = special_texts(settings) | special_texts(read_json(folder / "special_tokens_map.json"))
        wanted = {number: token for number, token in plain_tokens(source, specials).items() if number not in held}
    known = {repr(token) for token in held.values()}
    missing = [(number, token) for number, token in sorted(wanted.items()) if repr(token) not in known]
    new = [(number, token.content) for number, token in missing if tokenizer.token_to_id(token.content) is None]
    tokenizer.add_tokens([token for _, token in missing])
    for number, text in new:
        if (found := tokenizer.token_to_id(text)) != number:
            raise DataError(
                f"{source}: the token {text!r} has the id {number} there, and would be {found} behind the others of "
                "the tokenizer; expected a folder whose files belong together"
            )


def decoder_tokens(file: Path, written: dict) -> dict[int, AddedToken]:
    found = {}
    for number, value in written.items():
        text = token_text(value)
        if not number.isdecimal() or not text:
            raise DataError(f"{file}: 'added_tokens_decoder' has {number[:20]!r}; expected tokens by their ids")
        flags = {key: bool(value[key]) for key in FLAGS if key in value} if isinstance(value, dict) else {}
        found[int(number)] = AddedToken(text, **flags)
    return found


def plain_tokens(file: Path, specials: set[str | None]) -> dict[int, AddedToken]:
    """Those of added_tokens.json, which says nothing but their ids."""
    found = {}
    for text, number in read_json(file).items():
        if not isinstance(number, int) or not text:
            raise DataError(f"{file}: {text[:20]!r} has no id; expected ids by their tokens")
        special = text in specials
        found[number] = AddedToken(text, lstrip=False, rstrip=False, normalized=not special, special=special)
    return found


def special_texts(settings: dict) -> set[str | None]:
    more = settings.get("extra_special_tokens")
    values = [settings.get(name) for name in NAMED] + (more if isinstance(more, list) else [])
    return {token_text(value) for value in values}
