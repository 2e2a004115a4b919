"""A small model, made once for all tests, and the command line as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2]
SHARED = TOOLS.parent.parent / "shared" / "data"


@pytest.fixture
def ferry_tools(tmp_path):
    """Runs `python -m ferry_tools` in an empty folder and returns the finished process."""

    def run(*arguments: object) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "ferry_tools", *map(str, arguments)],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(TOOLS), "HF_HUB_OFFLINE": "1"},
            capture_output=True,
            text=True,
        )

    return run


@pytest.fixture(scope="session")
def nano(tmp_path_factory) -> Path:
    """A folder with a nano Llama and its tokenizer."""
    from ferry_tools.make_model import make_model

    folder = tmp_path_factory.mktemp("models") / "nano"
    make_model(folder, "llama", "nano", seed=1, dtype="fp32", corpus=None)
    return folder


@pytest.fixture
def tokens(nano):
    from ferry_tools.model_tokenizer import ModelTokenizer

    return ModelTokenizer.load(nano)


@pytest.fixture
def jsonl(tmp_path):
    """Writes objects or raw lines as a JSONL file."""

    def write(*rows: dict | str, end: str = "\n", name: str = "data.jsonl") -> Path:
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path = tmp_path / name
        path.write_bytes("".join(line + end for line in lines).encode())
        return path

    return write
