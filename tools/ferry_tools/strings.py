"""Texts of a row, checked."""

from ferry_tools.errors import RowError


def found_keys(value: dict) -> str:
    return ", ".join(map(str, value)) or "no keys"


def string_of(where: str, value: dict, key: str) -> str:
    """The string under `key`. Raises RowError when it is something else."""
    text = value[key]
    if not isinstance(text, str):
        raise RowError(f"{where}: '{key}' is {type(text).__name__}; expected a string")
    if "\0" in text:
        raise RowError(f"{where}: '{key}' holds a NUL character; expected text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RowError(f"{where}: '{key}' holds half of a surrogate pair; expected text") from None
    return text
