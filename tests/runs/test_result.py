"""What a run leaves: a Hugging Face folder that others' loaders take as it is."""

import json
import logging
import shutil

import pytest
import torch
from conftest import Box, ferry, make_model, make_tokens
from ferry_tools.make_model import END, train_tokenizer


@pytest.fixture(scope="module")
def full_box(tmp_path_factory) -> Box:
    """A base model with tokenizer, chat template and generation settings, as the Hub's have them."""
    folder = tmp_path_factory.mktemp("full")
    from transformers import PreTrainedTokenizerFast

    model = make_model(folder / "base", vocab_size=300)
    tokenizer = train_tokenizer(["a few words"], 300)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(model)
    (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    (model / "generation_config.json").write_text('{"temperature": 0.5, "do_sample": true}')
    return Box(folder, model, make_tokens(folder / "data.tokens", 37, 300))


@pytest.fixture(scope="module")
def bf16_run(full_box):
    return full_box.train(
        "bf16", train__steps=2, train__save_every=1, train__precision="bf16", plan={"profile": "estimate"}
    )


def names(folder) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_a_checkpoint_holds_the_base_models_files_and_ferrys_state_apart(full_box, bf16_run):
    state = {"ferry/manifest.json", "ferry/optimizer.safetensors"}
    assert names(bf16_run.checkpoint) == names(full_box.model) | state
    for name in ("chat_template.jinja", "generation_config.json", "tokenizer.json"):
        assert (bf16_run.checkpoint / name).read_bytes() == (full_box.model / name).read_bytes()


def test_the_configuration_tells_the_dtype_that_is_stored(full_box, bf16_run):
    base = json.loads((full_box.model / "config.json").read_text())
    assert base["dtype"] == "float32"
    assert json.loads((bf16_run.checkpoint / "config.json").read_text()) == base | {"dtype": "bfloat16"}


def test_the_last_checkpoint_loads_from_the_runs_folder_without_a_word(bf16_run, caplog):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as words

    words.enable_propagation()
    with caplog.at_level(logging.WARNING):
        model, report = AutoModelForCausalLM.from_pretrained(bf16_run.out / "model", output_loading_info=True)
        tokenizer = AutoTokenizer.from_pretrained(bf16_run.out / "model")
    words.disable_propagation()
    assert [record.getMessage() for record in caplog.records] == []
    assert {name: list(found) for name, found in report.items() if found} == {}
    assert model.dtype == torch.bfloat16
    assert model.generation_config.temperature == 0.5
    assert tokenizer.apply_chat_template([{"content": "hello"}], tokenize=False) == "hello"
    for name, tensor in bf16_run.tensors().items():
        assert torch.equal(model.state_dict()[name], tensor), name


def test_the_runs_folder_moves_with_its_model(bf16_run, tmp_path):
    moved = shutil.copytree(bf16_run.out, tmp_path / "moved", symlinks=True)
    assert (moved / "model").resolve() == (moved / "checkpoints/step-000002").resolve()


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp16"])
def test_an_exported_model_is_the_checkpoint_in_another_type(full_box, bf16_run, dtype, tmp_path):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    done = ferry("export", str(bf16_run.out), str(tmp_path / "model"), "--dtype", dtype)
    assert "step-000002 written to" in done.stdout
    assert names(tmp_path / "model") == names(full_box.model)
    torch_type = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}[dtype]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.dtype == torch_type
    masters = load_file(bf16_run.checkpoint / "ferry/optimizer.safetensors")
    for name, stored in bf16_run.tensors().items():
        expected = stored if dtype == "bf16" else masters[f"{name}.master"].to(torch_type)
        assert torch.equal(model.state_dict()[name], expected), name


def test_a_checkpoint_is_exported_as_it_is_stored(bf16_run, tmp_path):
    from safetensors.torch import load_file

    first = bf16_run.out / "checkpoints/step-000001"
    ferry("export", str(first), str(tmp_path))
    stored, found = (load_file(folder / "model.safetensors") for folder in (first, tmp_path))
    assert set(found) == set(stored)
    assert all(torch.equal(found[name].view(torch.int16), stored[name].view(torch.int16)) for name in stored)
    assert (tmp_path / "config.json").read_bytes() == (first / "config.json").read_bytes()


def test_what_cannot_be_exported_is_said(bf16_run, tmp_path):
    assert "expected a run's folder" in ferry("export", str(tmp_path), str(tmp_path / "out"), expect=2).stderr
    assert "--dtype" in ferry("export", str(bf16_run.out), str(tmp_path / "out"), "--dtype", "int4", expect=2).stderr
    assert "is not empty" in ferry("export", str(bf16_run.out), str(bf16_run.out), expect=2).stderr
