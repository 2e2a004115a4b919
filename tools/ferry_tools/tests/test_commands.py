"""The command line: its last lines, its exit codes, its files."""

import json
from pathlib import Path

import pytest
from conftest import SHARED

from ferry_tools import token_file
from ferry_tools.samples import Sample

ROW = {"question": "1 + 2?", "answer": "#### 3"}


def last_object(process) -> dict:
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def test_a_token_file_is_made_once_and_again_when_an_input_changes(ferry_tools, nano, jsonl):
    path = jsonl(ROW, ROW)
    first = last_object(ferry_tools("tokenize", path, "--model", nano))
    again = last_object(ferry_tools("tokenize", path, "--model", nano))
    assert not first["cached"] and again == {**first, "cached": True}
    assert first["samples"] == 2 and first["end_token"] == 0
    samples = token_file.read(Path(first["path"])).samples
    assert sum(len(s.ids) for s in samples) == first["tokens"]
    assert sum(sum(s.learned) for s in samples) == first["learned"]
    assert max(len(s.ids) for s in samples) == first["longest"]
    jsonl(ROW)
    other = last_object(ferry_tools("tokenize", path, "--model", nano))
    assert other["path"] != first["path"] and other["samples"] == 1


def test_a_bad_row_is_exit_code_2_and_leaves_no_file(ferry_tools, nano, jsonl, tmp_path):
    path = jsonl(ROW, {"question": "q"})
    process = ferry_tools("tokenize", path, "--model", nano, "--cache", tmp_path / "cache")
    assert process.returncode == 2
    assert process.stderr.startswith(f"{path}:2: 'answer' is missing")
    assert process.stdout == "" and not list((tmp_path / "cache").glob("*"))


def test_a_folder_that_cannot_be_written_is_exit_code_3(ferry_tools, nano, jsonl, tmp_path):
    (tmp_path / "file").write_text("in the way")
    process = ferry_tools("tokenize", jsonl(ROW), "--model", nano, "--cache", tmp_path / "file")
    assert process.returncode == 3 and str(tmp_path / "file") in process.stderr


def test_a_token_file_reads_as_it_was_written(tmp_path):
    samples = [Sample([5, 6, 7], b"\0\1\1"), Sample([1], b"\0")]
    path = tmp_path / "x.tokens"
    token_file.write(path, 8, 0, bytes(range(32)), samples)
    found = token_file.read(path)
    assert found.samples == samples
    assert (found.vocabulary, found.end_token, found.source_hash) == (8, 0, bytes(range(32)))


def test_the_worked_example_of_the_format_page_is_right(tmp_path):
    """docs/formats/tokens.md shows these bytes."""
    path = tmp_path / "x.tokens"
    token_file.write(path, 8, 2, bytes(32), [Sample([5, 7, 2], b"\0\1\1"), Sample([3, 2], b"\0\1")])
    page = (Path(__file__).parents[3] / "docs" / "formats" / "tokens.md").read_text()
    shown = [line[6:].split("  ")[0] for line in page.splitlines() if line[:4].isdigit()]
    assert bytes.fromhex(" ".join(shown)) == path.read_bytes()


def test_preview_marks_what_is_learned(ferry_tools, nano, jsonl):
    process = ferry_tools("preview", jsonl(ROW), "--model", nano, "--sequence", 64)
    assert process.returncode == 0, process.stderr
    assert "1 + 2?\\n[#### 3<|endoftext|>]" in process.stdout
    assert "1 samples; per epoch" in process.stdout


def test_preview_refuses_a_set_without_end_tokens(ferry_tools, nano, tmp_path):
    path = tmp_path / "x.tokens"
    token_file.write(path, 8, 0, bytes(32), [Sample([5, 6, 7], b"\0\1\1")])
    process = ferry_tools("preview", path, "--model", nano)
    assert process.returncode == 2 and "no answer ends in the end token" in process.stderr


def test_made_data_depends_on_the_seed_only(ferry_tools, tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        assert ferry_tools("make-data", tmp_path / name, "--rows", 20, "--seed", seed).returncode == 0
    a, b, c = [(tmp_path / name).read_text() for name in "abc"]
    assert a == b != c
    rows = [json.loads(line) for line in a.splitlines()]
    assert len(rows) == 20 and all("#### " in row["answer"] for row in rows)


def test_init_makes_what_transformers_loads_and_generate_continues_a_chat_with_a_run(ferry_tools, tmp_path):
    from ferry_tools.generate import generate

    made = last_object(ferry_tools("init", "run/model", "--arch", "qwen3", "--dtype", "bf16"))
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (tmp_path / "run/model").iterdir()}
    assert modes["model.safetensors"] == modes["config.json"], "others may read what they may read of the rest"
    assert 3_000_000 < made["parameters"] < 6_000_000
    for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "run" / "model" / name).is_file()
    process = ferry_tools("generate", "run", "--chat", "--system=Be short.", "--prompt=Ada has", "--max-new-tokens", 8)
    assert process.returncode == 0, process.stderr
    answer, *others = [
        generate(tmp_path / "run", "Ada has", 8, chat, system)
        for chat, system in ((True, "Be short."), (True, None), (False, None))
    ]
    assert process.stdout == answer + "\n" and answer not in others
    again = ferry_tools("init", "run/model", "--arch", "qwen3")
    assert again.returncode == 2 and "holds a model already" in again.stderr


def test_equal_seeds_make_equal_models(nano, tmp_path):
    from ferry_tools.make_model import make_model

    make_model(tmp_path / "again", "llama", "nano", seed=1, dtype="fp32", corpus=None)
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (nano / name).read_bytes()


@pytest.mark.parametrize("arch", ["mistral", "qwen2", "gpt2"])
def test_every_architecture_has_a_nano_model(arch, tmp_path):
    from ferry_tools.make_model import make_model

    made = make_model(tmp_path / arch, arch, "nano", seed=1, dtype="fp32", corpus=None)
    assert 3_000_000 < made["parameters"] < 6_000_000


GSM8K = SHARED / "gsm8k" / "train.jsonl"


@pytest.mark.skipif(not GSM8K.is_file(), reason="GSM8K is not here")
def test_gsm8k_is_tokenised_with_its_answers_learned(ferry_tools, nano):
    made = last_object(ferry_tools("tokenize", GSM8K, "--model", nano))
    assert made["samples"] == 7473
    found = token_file.read(Path(made["path"]))
    assert all(s.ids[-1] == 0 and s.learned[-1] and not s.learned[0] for s in found.samples)


def test_the_order_of_an_epoch_is_the_one_the_format_page_shows():
    """src/data/batches_test.cc holds the same numbers."""
    page = (Path(__file__).parents[3] / "docs" / "formats" / "data.md").read_text()
    names: dict = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    assert names["epoch_order"](8, 1, 0) == [1, 3, 5, 2, 0, 6, 7, 4]
    assert names["epoch_order"](8, 1, 1) == [0, 7, 6, 3, 2, 4, 1, 5]
    assert names["epoch_order"](0, 1, 0) == []
