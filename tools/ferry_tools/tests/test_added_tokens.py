"""Tokens beside a tokenizer's own file are those of transformers."""

import json
import shutil

import pytest
from transformers import AutoTokenizer

from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import ModelTokenizer

TEXTS = ["<u>Ada has<b> 12 <u> apples. ", "a<b>b <b> b", "<u>", "<pad>x</s>", "no < u >"]
FLAGS = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}


@pytest.fixture
def folder(nano, tmp_path):
    """nano without what is said of its tokenizer beside tokenizer.json."""
    made = tmp_path / "model"
    made.mkdir()
    for name in ("tokenizer.json", "config.json"):
        shutil.copy(nano / name, made)
    return made


def without_tokenizer_json(folder) -> None:
    """As GPT-2's first tokenizers: vocab.json and merges.txt."""
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    (folder / "tokenizer.json").unlink()


def size(folder) -> int:
    return ModelTokenizer.load(folder).vocabulary


def name_beside(folder, way: str, tokens: dict[int, tuple[str, dict]]) -> None:
    """Names tokens, by their ids and with their flags, in one of the two files."""
    settings = {"eos_token": "<|endoftext|>"}
    if way == "added_tokens_decoder":
        settings[way] = {str(number): {"content": text, **FLAGS, **flags} for number, (text, flags) in tokens.items()}
    else:
        (folder / way).write_text(json.dumps({text: number for number, (text, _) in tokens.items()}))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.mark.parametrize("way", ["added_tokens_decoder", "added_tokens.json"])
@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("flags", [{}, {"lstrip": True, "rstrip": True}, {"special": False, "normalized": True}])
def test_tokens_beside_a_tokenizer_are_those_of_transformers(folder, way, old, flags):
    first = size(folder)
    if old:
        without_tokenizer_json(folder)
    letter = ModelTokenizer.load(folder).tokenizer.token_to_id("b")  # of the vocabulary, and found first from now on
    name_beside(folder, way, {first + 1: ("<b>", flags), first: ("<u>", {}), letter: ("b", {})})
    theirs, ours = AutoTokenizer.from_pretrained(folder, local_files_only=True), ModelTokenizer.load(folder)
    assert ours.tokenizer.token_to_id("<b>") == first + 1 and ours.vocabulary == len(theirs)
    for text in TEXTS:
        assert ours.encode_all([text])[0] == theirs(text, add_special_tokens=False)["input_ids"], text


def test_a_token_that_is_there_already_stays_where_it_is(folder):
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    own = ModelTokenizer.load(folder).tokenizer.get_added_tokens_decoder()
    name_beside(folder, "added_tokens_decoder", {number: (token.content, {}) for number, token in own.items()})
    assert ModelTokenizer.load(folder).tokenizer.get_added_tokens_decoder() == own


@pytest.mark.parametrize("way", ["added_tokens_decoder", "added_tokens.json"])
def test_a_token_that_would_get_another_id_is_refused(folder, way):
    first = size(folder)
    name_beside(folder, way, {first + 7: ("<b>", {})})
    file = "tokenizer_config.json" if way == "added_tokens_decoder" else way
    said = f"{file}: the token '<b>' has the id {first + 7} there, and would be {first} behind the others of the tok"
    with pytest.raises(DataError, match=said):
        ModelTokenizer.load(folder)


@pytest.mark.parametrize(
    "file, value, said",
    [
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": {"content": "<b>"}}}, "has 'x'; expected tokens by t"),
        ("tokenizer_config.json", {"added_tokens_decoder": {"7": {"content": 3}}}, "has '7'; expected tokens by their"),
        ("added_tokens.json", {"<b>": [7]}, "'<b>' has no id; expected ids by their tokens"),
    ],
)
def test_what_are_no_tokens_is_told(folder, file, value, said):
    (folder / file).write_text(json.dumps(value))
    with pytest.raises(DataError, match=f"{file}: .*{said}"):
        ModelTokenizer.load(folder)
