"""JSON files that come with a model or a data set: one object each."""

import json
from pathlib import Path

from ferry_tools.errors import DataError

LIMIT = 64 << 20  # bytes


def read_json(path: Path) -> dict:
    """An object from a file; {} when there is no such file. Raises DataError for everything else that it may hold."""
    if not path.is_file():
        return {}
    if path.stat().st_size > LIMIT:
        raise DataError(f"{path}: larger than {LIMIT >> 20} MiB; expected a JSON object")
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, numbers of thousands of digits; nested too deep
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path}: expected a JSON object")
    return value
