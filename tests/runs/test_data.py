"""Data as other tools have it goes through preview and training by its file's name alone."""

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import FERRY, Box, add_tokenizer, ferry

QUESTIONS = [f"{n} + 1?" for n in range(12)]


@pytest.fixture(scope="session")
def chat_box(box, tmp_path_factory) -> Box:
    """The tiny model with a tokenizer of single characters, and chats that it is to learn."""
    folder = tmp_path_factory.mktemp("data")
    shutil.copytree(box.model, folder / "base")
    add_tokenizer(folder / "base")
    chats = [
        {"conversations": [{"from": "human", "value": asked}, {"from": "gpt", "value": str(n + 1)}]}
        for n, asked in enumerate(QUESTIONS)
    ]
    broken = {"conversations": [{"from": "human", "value": "?"}]}
    (folder / "chat.json").write_text(json.dumps([*chats, broken]))
    with (folder / "more.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("prompt", "completion"), *((asked, "so") for asked in QUESTIONS)])
    return Box(folder, folder / "base", folder / "chat.json")


def weighted(chat_box: Box) -> dict:
    return {
        "data__train": {str(chat_box.tokens): 2, str(chat_box.folder / "more.csv"): 0.5},
        "data__on_error": "skip", "data__sequence": 64, "data__eval_fraction": 0.25, "data__chat_template": "zephyr",
    }  # fmt: skip


def test_files_with_weights_are_trained_on_and_bad_rows_are_told(chat_box, monkeypatch):
    monkeypatch.chdir(chat_box.folder)
    changes = {**weighted(chat_box), "train__steps": 2, "train__eval_every": 1}
    run = chat_box.train("weighted", **changes, plan__profile="estimate")
    assert len(run.losses) == 2
    assert "1 rows skipped (data.on_error: skip)" in run.text
    assert "chat.json: row 13: no turn has the role assistant" in run.text
    mixed = next((Path(os.environ["FERRY_CACHE"]) / "tokens").glob("mixed-*.tokens"))
    from ferry_tools import token_file

    # Of 12 and 12 rows 3 each are held out; of the others the first file's come twice, half of the second's once.
    assert token_file.read_counts(mixed).samples == 2 * 9 + 4 + 6
    assert "<|assistant|>" in (run.checkpoint / "chat_template.jinja").read_text()
    stopped = chat_box.train("stopped", **changes | {"data__on_error": "stop"}, plan__profile="estimate", expect=2)
    assert "chat.json: row 13: no turn has the role assistant" in stopped.text


def test_a_preview_needs_no_job(chat_box, monkeypatch):
    monkeypatch.chdir(chat_box.folder)
    done = ferry("data", "preview", "more.csv", "--model", "base", "data.sequence=8", "--samples", "1")
    assert "0 + 1?[so] ... cut here: 1 tokens more" in done.stdout and "12 samples" in done.stdout
    assert "LOOK AT THESE" in done.stdout and "longer than data.sequence = 8 and cut" in done.stdout
    (chat_box.folder / "job.yaml").write_text(json.dumps(chat_box.job("preview", **weighted(chat_box))))
    of_job = ferry("data", "preview", "job.yaml", "data.train=more.csv")
    assert "0 + 1?[so<end>]" in of_job.stdout and "LOOK AT THESE" not in of_job.stdout
    (chat_box.folder / "empty.yaml").write_text("model: base")
    said = ferry("data", "preview", "empty.yaml", expect=2).stderr
    assert "a preview needs 'model' and 'data.train'" in said and "--model DIR" in said


def test_data_that_is_not_there_is_refused_before_anything_is_planned(chat_box):
    (chat_box.folder / "empty").mkdir()
    for changes, said in (
        ({"data__train": [str(chat_box.tokens), str(chat_box.folder / "gone.csv")]}, "gone.csv"),
        ({"data__train": {str(chat_box.folder / "empty"): 2}}, "a folder without state.json; expected a file, or what"),
        ({"data__chat_template": "mine.jinja"}, "mine.jinja"),
    ):
        refused = chat_box.train("absent", **changes, plan__profile="estimate", expect=2)
        assert said in refused.text and "strategy" not in refused.text and not list(refused.out.glob("plan"))


def test_a_row_that_is_of_no_use_is_told_before_anything_is_measured(chat_box):
    refused = chat_box.train("wrong-row", data__sequence=64, expect=2)
    assert "chat.json: row 13: no turn has the role assistant" in refused.text
    assert "measuring" not in refused.text and "strategy" not in refused.text


def test_rows_without_anything_to_learn_are_told_by_their_file(chat_box):
    chats = chat_box.folder / "chat.json"
    short = {"data__on_error": "skip", "data__sequence": 8, "data__chat_template": "zephyr"}
    learn = chat_box.train("cut", **short, expect=2)
    held = chat_box.train("held", **short, data__train=str(chat_box.tokens), data__eval=str(chats), train__eval_every=1,
                          expect=2)  # fmt: skip
    for run, key in ((learn, "data.train"), (held, "data.eval")):
        assert f"'{key}' ({chats}): nothing to learn: no sample has a learned token" in run.text
        assert "measuring" not in run.text and "planning" not in run.text


def test_a_preview_that_nobody_reads_on_ends_without_a_word(chat_box, monkeypatch):
    monkeypatch.chdir(chat_box.folder)
    command = [FERRY, "data", "preview", "more.csv", "--model", "base", "data.sequence=64"]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writing)
    assert done.returncode == 141 and "Broken pipe" not in done.stderr


def test_a_name_that_begins_with_a_dash_is_a_file(chat_box, monkeypatch):
    monkeypatch.chdir(chat_box.folder)
    shutil.copy("more.csv", "--weights.csv")
    done = ferry("data", "preview", "--model", "base", "--", "--weights.csv", "data.sequence=16")
    assert "12 samples" in done.stdout
