"""Models are read by several threads, a part of a large tensor each, into DRAM and onto devices."""

import ctypes
import os
import shutil
from pathlib import Path

import pytest
from conftest import make_model, make_tokens

WORDS = 20_000  # times 64: five parts
PLACES = {"dram": {"strategy": "mobius", "plan__without": "homes,blocks"}, "device": {"strategy": "resident"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return make_model(tmp_path_factory.mktemp("large") / "model", vocab_size=WORDS, num_hidden_layers=1)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> Path:
    return make_tokens(tmp_path_factory.mktemp("rows") / "rows.tokens", 6, vocabulary=WORDS)


@pytest.mark.parametrize("place", PLACES)
def test_every_part_arrives(box, model, tokens, place):
    import torch
    from safetensors.torch import load_file

    still = {"optim__lr": 1e-30, "optim__weight_decay": 0}  # no update moves a weight
    run = box.train(f"loads-{place}", model=str(model), data__train=str(tokens), train__steps=1, **still, **PLACES[place])
    saved = load_file(run.out / "checkpoints" / "step-000001" / "model.safetensors")
    for name, weight in load_file(model / "model.safetensors").items():
        assert torch.equal(saved[name], weight), name


def test_a_tied_head_that_differs_in_its_last_row_is_refused(box, tokens, tmp_path):
    """A start looks at the beginning alone, so it is loading that finds it."""
    from safetensors.torch import load_file, save_file

    tied = make_model(tmp_path / "tied", vocab_size=WORDS, num_hidden_layers=1, tie_word_embeddings=True)
    weights = load_file(tied / "model.safetensors")
    head = weights["model.embed_tokens.weight"].clone()
    for last, expect in ((0.0, 0), (1.0, 2)):
        head[-1, -1] += last
        save_file(weights | {"lm_head.weight": head}, tied / "model.safetensors", {"format": "pt"})
        job = {"model": str(tied), "data__train": str(tokens), "train__steps": 1}
        run = box.train(f"tied-{expect}", expect=expect, **job)
        assert ("'lm_head.weight' differs from 'model.embed_tokens.weight'" in run.text) == (expect == 2)


def test_tensors_that_are_none_of_the_models_are_told(box, model, tokens, tmp_path):
    import torch
    from safetensors.torch import load_file, save_file

    more = shutil.copytree(model, tmp_path / "more")
    weights = load_file(more / "model.safetensors")
    save_file(weights | {"v_head.weight": torch.ones(1)}, more / "model.safetensors", {"format": "pt"})
    run = box.train("more", model=str(more), data__train=str(tokens), train__steps=1)
    said = f'warning: {more}/model.safetensors: no weights of the model, left out: 1 tensor, "v_head.weight"'
    assert said in run.text


@pytest.mark.parametrize("place", PLACES)
def test_of_several_bad_values_the_first_is_named(box, model, tokens, tmp_path, place):
    from safetensors.torch import load_file, save_file

    damaged = shutil.copytree(model, tmp_path / "damaged")
    weights = load_file(damaged / "model.safetensors")
    for row in (19_000, 9_000, 15_000):
        weights["model.embed_tokens.weight"][row, 7] = float("inf")
    save_file(weights, damaged / "model.safetensors", {"format": "pt"})
    run = box.train(f"bad-{place}", model=str(damaged), data__train=str(tokens), expect=2, **PLACES[place])
    assert "tensor 'model.embed_tokens.weight' is inf at [9000, 7]; expected finite numbers" in run.text


def test_a_token_file_is_read_and_hashed_once(box, tmp_path):
    """It may be large. Each of both programs looks at its first bytes and at its header before."""
    opened, closed, size = 0x20, 0x10, 16  # of an event of inotify, without a name
    system = ctypes.CDLL(None, use_errno=True)
    events = system.inotify_init1(os.O_NONBLOCK)
    tokens = shutil.copy(box.tokens, tmp_path / "data.tokens")
    assert system.inotify_add_watch(events, os.fsencode(tokens), opened | closed) >= 0
    box.train("read-once", data__train=str(tokens), data__eval_fraction=0.5, train__steps=1)
    told = os.read(events, 1 << 16)
    os.close(events)
    masks = [int.from_bytes(told[at + 4 : at + 8], "little") for at in range(0, len(told), size)]
    assert masks.count(opened) == 2 * 2 + 1
