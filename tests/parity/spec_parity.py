"""Holds ModelSpec against transformers: parameter names and shapes, in both styles of config.json.

Every family that ferry has must be among the compared models.

Usage: spec_parity.py PARITY_PROGRAM
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import models


def ask_ferry(*command: str | Path) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr}")
    return done.stdout.splitlines()


def as_transformers_4(config: dict) -> dict:
    """The same configuration as transformers 4 wrote it."""
    old = {key: value for key, value in config.items() if key not in ("rope_parameters", "dtype")}
    old["torch_dtype"] = config.get("dtype")
    rope = dict(config.get("rope_parameters") or {})
    old["rope_theta"] = rope.pop("rope_theta", 10000.0)
    kind = rope.pop("rope_type", "default")
    old["rope_scaling"] = {"type": kind, **rope} if kind != "default" else None
    return old


def problems(program: str, directory: Path) -> list[str]:
    configurations = models.configurations()
    compared = {config.model_type for config in configurations.values()}
    found = [
        f"{family}: no model of this family is in models.py"
        for family in ask_ferry(program, "families")
        if family not in compared
    ]
    for name, config in configurations.items():
        tied = config.tie_word_embeddings
        state = models.build(config, seed=1).state_dict()
        expected = {
            " ".join([key, *map(str, tensor.shape)])
            for key, tensor in state.items()
            if not (tied and key == "lm_head.weight")
        }
        config.save_pretrained(directory)
        file = directory / "config.json"
        new = ask_ferry(program, "parameters", directory)
        file.write_text(json.dumps(as_transformers_4(json.loads(file.read_text()))))
        old = ask_ferry(program, "parameters", directory)
        if set(new[1:]) != expected or len(new) != len(expected) + 1:
            found.append(f"{name}: differs in {sorted(set(new[1:]) ^ expected)}")
        if new != old:
            found.append(f"{name}: the two styles of config.json are read as {new[0]} and {old[0]}")
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        result = problems(sys.argv[1], Path(folder))
    print("\n".join(result) or "every configuration is read as transformers means it")
    sys.exit(bool(result))
