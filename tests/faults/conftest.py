"""The boxes of tests/runs, and the seed of random tests."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

# tests/runs/conftest.py under another name: this file is a `conftest` too.
_runs = importlib.util.spec_from_file_location("boxes", Path(__file__).parents[1] / "runs" / "conftest.py")
sys.path.insert(0, str(Path(__file__).parents[1]))  # control_group.py
sys.modules["boxes"] = importlib.util.module_from_spec(_runs)
_runs.loader.exec_module(sys.modules["boxes"])

from boxes import *  # noqa: E402, F403


@pytest.fixture(scope="session")
def seed() -> int:
    """Of all random choices; a failure shows it, since it is part of the test's arguments."""
    return int(os.environ.get("FERRY_FUZZ_SEED", 1))
