"""A repository that was cloned without its large files."""

import json
import shutil

import pytest
from conftest import TOOLS

from ferry_tools.errors import DataError
from ferry_tools.git_lfs import refuse_git_lfs_pointer
from ferry_tools.records import Records

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1b4f0e98\nsize 12345\n"


@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.txt", "x.parquet", "x.jsonl.gz", "x.tokens"])
def test_a_pointer_in_place_of_data_is_told_as_training_tells_it(ferry_tools, nano, tmp_path, name):
    (tmp_path / name).write_bytes(POINTER)
    process = ferry_tools("preview", name, "--model", nano)
    assert process.returncode == 2 and process.stdout == ""
    words = "a Git LFS pointer, not the file that it stands for"
    assert process.stderr == f"{name}: {words}\n  try: git lfs pull, in its folder\n"
    assert words in (TOOLS.parent / "src" / "base" / "input_file.h").read_text()


def test_a_pointer_in_place_of_a_tokenizer_is_told(ferry_tools, nano, jsonl, tmp_path):
    model = shutil.copytree(nano, tmp_path / "m")
    (model / "tokenizer.json").write_bytes(POINTER)
    process = ferry_tools("preview", jsonl({"text": "Ada"}), "--model", "m")
    assert process.returncode == 2 and process.stderr.startswith("m/tokenizer.json: a Git LFS pointer")


def test_a_pointer_in_place_of_a_file_of_datasets_is_told(tmp_path):
    (tmp_path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "x.arrow"}]}))
    (tmp_path / "x.arrow").write_bytes(POINTER)
    with pytest.raises(DataError, match="x.arrow: a Git LFS pointer"):
        list(Records(tmp_path))


@pytest.mark.parametrize("content", [b"", POINTER[:20], b"a text of the version\n", POINTER + bytes(1024)])
def test_other_files_are_no_pointers(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    refuse_git_lfs_pointer(tmp_path / "x")
