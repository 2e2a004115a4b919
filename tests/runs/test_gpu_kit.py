"""The kit that proves and measures ferry on a GPU (scripts/gpu/run), rehearsed on a simulated one."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = Path(os.environ.get("FERRY_PROGRAM", ROOT / "build/release/ferry")).parent


def kit(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [ROOT / "scripts/gpu/run", folder, "--device", "sim", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_rehearsal_trains_keeps_its_parts_and_tells_what_does_not_hold(tmp_path: Path) -> None:
    asked = ["--build", str(BUILD), "--part", "build", "--part", "losses"]
    done = kit(tmp_path, *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / "results.json").read_text())
    losses = results["losses"]
    assert losses["holds"] and losses["worst_difference"] == 0
    assert len(losses["device"]) == 20 and losses["device"][-1] < losses["device"][0]
    assert "| losses | | | | | yes |" in (tmp_path / "results.md").read_text()

    # What is done is not done again; a check that does not hold is the exit status.
    part = tmp_path / "parts/losses.json"
    part.write_text(json.dumps({**losses, "holds": False}))
    done = kit(tmp_path, *asked)
    assert done.returncode == 1
    assert "== losses" not in done.stdout and "| losses | | | | | **no** |" in done.stdout


def test_a_rehearsal_trains_from_a_drive_beside_the_device(tmp_path: Path) -> None:
    done = kit(tmp_path, "--build", str(BUILD), "--part", "drives")
    assert done.returncode == 0, done.stdout + done.stderr
    drives = json.loads((tmp_path / "results.json").read_text())["drives"]
    assert drives["holds"] and drives["worst_difference"] == 0
    (moved,) = drives["from_drive"]["drives"].values()
    steps = drives["shape"]["steps"]
    assert moved["measured"]["written"] == steps * moved["predicted_per_step"]["written"] > 0


def test_a_part_without_what_it_needs_says_so(tmp_path: Path) -> None:
    done = kit(tmp_path, "--build", str(tmp_path), "--part", "build")
    assert done.returncode == 3
    assert f"{tmp_path} has no program ferry" in done.stderr
    done = kit(tmp_path, "--build", str(BUILD), "--part", "logical-devices")
    assert done.returncode == 3
    assert "part train-llama-sim was not done" in done.stderr
