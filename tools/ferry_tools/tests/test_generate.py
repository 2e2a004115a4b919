"""What `generate` says of a model that is damaged."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from ferry_tools.errors import DataError
from ferry_tools.generate import generate

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1b4f0e98\nsize 12345\n"


@pytest.fixture
def model(nano, tmp_path):
    return shutil.copytree(nano, tmp_path / "m")


@pytest.mark.parametrize("length", [0, 7, 100, 1 << 20])
def test_weights_that_were_cut_cannot_be_loaded(model, length):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:length])
    with pytest.raises(DataError, match="m/model.safetensors: cannot be loaded: Error while deserializing header"):
        generate(model, "Ada has", 2)


def test_a_damaged_model_is_exit_code_2(ferry_tools, model):
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    process = ferry_tools("generate", model, "--prompt", "Ada has")
    assert process.returncode == 2 and process.stdout == ""
    assert process.stderr.startswith(f"{weights}: cannot be loaded: ") and "Traceback" not in process.stderr


def test_a_tensor_that_is_missing_is_told(model):
    weights = load_file(model / "model.safetensors")
    del weights["model.layers.0.mlp.up_proj.weight"]
    save_file(weights, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataError, match="tensor 'model.layers.0.mlp.up_proj.weight' is missing, 1 in all"):
        generate(model, "Ada has", 2)


def test_a_git_lfs_pointer_in_place_of_weights_is_told(model):
    (model / "model.safetensors").write_bytes(POINTER)
    with pytest.raises(DataError, match="m/model.safetensors: a Git LFS pointer, not the file .*\n  try: git lfs pull"):
        generate(model, "Ada has", 2)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"hidden_act": "none such"}, "KeyError: 'none such'"),
        ({"num_attention_heads": 0}, "ZeroDivisionError: "),
        ({"vocab_size": 100}, "RuntimeError: "),
        ({"model_type": "none such"}, "The checkpoint you are trying to load has model type `none such`"),
    ],
)
def test_a_configuration_of_another_model_cannot_be_loaded(model, changes, reason):
    file = model / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(DataError, match=f"m: cannot be loaded: {reason}"):
        generate(model, "Ada has", 2)


@pytest.mark.parametrize("number", [torch.nan, torch.inf])
def test_logits_that_are_not_numbers_are_no_empty_answer(ferry_tools, model, number):
    weights = load_file(model / "model.safetensors")
    weights["model.norm.weight"][3] = number
    weights["model.norm.weight"][4] = -number  # infinities alone need not make NaN
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    process = ferry_tools("generate", model, "--prompt", "Ada has")
    assert process.returncode == 2 and process.stdout == ""
    assert "m: the logits are NaN, so there is no answer: tensor 'model.norm.weight' is not finite" in process.stderr
