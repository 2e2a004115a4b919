"""What a preview says of a set that is not what was meant."""

import json
import os

import pytest
import torch

from ferry_tools import token_file
from ferry_tools.errors import DataError
from ferry_tools.generate import generate, model_folder, on_accelerator, prompt_ids, turn_end
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.preview import look_at, marked, preview
from ferry_tools.samples import Sample

ANSWER = Sample([5, 6, 7, 0], b"\0\0\1\1")


def test_what_is_probably_not_meant_is_counted(tmp_path):
    path = tmp_path / "x.tokens"
    samples = [
        ANSWER,
        ANSWER,  # a duplicate
        Sample([5, 6, 7, 7, 8], b"\0\0\1\1\1"),  # no end, one token cut
        Sample([5, 6, 0], b"\0\0\1"),  # an empty answer
        Sample([5, 6, 7, 8, 9, 0], b"\0\0\0\1\1\1"),  # cut before its end
        Sample([5, 6, 7, 9, 9, 0], b"\0\0\0\0\1\1"),  # learns behind the cut
    ]
    token_file.write(path, 10, 0, bytes(32), samples)
    look = look_at(token_file.read(path), 4)
    assert (look.kept, look.tokens, look.epoch_learned, look.cut) == (23, 28, 8, 3)
    assert (look.nothing_learned, look.cut_answers, look.endless, look.empty, look.duplicates) == (1, 1, 1, 1, 1)


def test_a_preview_is_loud_about_it(nano, tmp_path):
    path = tmp_path / "x.tokens"
    token_file.write(path, 512, 0, bytes(32), [ANSWER] * 3 + [Sample([5] * 9 + [0], b"\0" * 8 + b"\1\1")])
    said = preview(path, nano, 4, 3, repeats=False)
    assert "LOOK AT THESE" in said
    assert "1 samples (25.0%): longer than data.sequence = 4 and cut; 27.3% of all tokens are lost" in said
    assert "1 samples (25.0%): nothing learned" in said
    assert "2 samples (50.0%): the same tokens as an earlier sample" in said
    assert "same tokens" not in preview(path, nano, 16, 3, repeats=True)


@pytest.mark.parametrize("at_once", [4096, 3, 2])
def test_an_epoch_is_of_the_samples_that_are_not_held_out(nano, tmp_path, monkeypatch, at_once):
    monkeypatch.setattr("ferry_tools.preview.SAMPLES_AT_ONCE", at_once)
    path = tmp_path / "x.tokens"
    token_file.write(path, 512, 0, bytes(32), [Sample([5, n, 0], b"\0\1\1") for n in range(1, 5)] + [ANSWER] * 2)
    said = preview(path, nano, 8, 1, repeats=False, held_out=2)
    assert "6 samples, 2 of them held out for evaluation; per epoch 12 tokens, 8 of them learned, 32 positions" in said
    assert "1 samples (16.7%): the same tokens" in said, "all samples are looked at"
    assert "6 samples; per epoch 20 tokens, 12 of them learned, 48 positions" in preview(path, nano, 8, 1, False)


def test_a_preview_holds_out_what_training_does(ferry_tools, nano, jsonl):
    path = jsonl(*({"prompt": f"{n} + 1?", "completion": "so"} for n in range(10)))
    process = ferry_tools("preview", path, "--model", nano, "--held-out", 0.25)
    assert "10 samples, 2 of them held out for evaluation; per epoch" in process.stdout, process.stderr
    refused = ferry_tools("preview", path, "--model", nano, "--held-out", 1)
    assert refused.returncode == 2 and "expected a part below 1, found 1" in refused.stderr


def test_a_set_as_meant_is_shown_without_warning(nano, tmp_path):
    token_file.write(tmp_path / "x.tokens", 512, 0, bytes(32), [ANSWER])
    assert "LOOK" not in preview(tmp_path / "x.tokens", nano, 16, 1, repeats=False)


def test_spans_are_shown_as_text(tokens):
    """Bytes of a character that are tokens of their own are no glyphs."""
    ids = tokens.encode_all(["Ada \u4e2d\u6587\n", "\u00e9 has\t3"])
    sample = Sample(ids[0] + ids[1], bytes(len(ids[0])) + b"\1" * len(ids[1]))
    assert marked(tokens, sample, 64) == "Ada \u4e2d\u6587\\n[\u00e9 has\\t3]"
    assert marked(tokens, sample, len(ids[0])) == f"Ada \u4e2d\u6587\\n ... cut here: {len(ids[1])} tokens more"


def test_a_chats_prompt_ends_where_the_answer_begins(nano, tmp_path):
    tokens = ModelTokenizer.load(nano)
    text = tokens.tokenizer.decode(prompt_ids(tokens, "Ada?", True, "Be short."), skip_special_tokens=False)
    assert text == (
        "<|im_start|>system\nBe short.<|endoftext|>\n<|im_start|>user\nAda?<|endoftext|>\n<|im_start|>assistant\n"
    )
    assert turn_end(tokens) == [tokens.end_token]
    assert prompt_ids(tokens, "Ada?", False, None) == tokens.tokenizer.encode("Ada?").ids


@pytest.mark.parametrize(
    "template, found",
    [
        ("{% for m in messages %}{{ m.content }}<|endoftext|>{% endfor %}", True),
        ("{% for m in messages %}{{ m.role }}{% endfor %}", False),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", False),
    ],
)
def test_a_template_that_writes_no_answer_has_no_end_of_turns(nano, tmp_path, template, found):
    (tmp_path / "x.jinja").write_text(template)
    tokens = ModelTokenizer.load(nano, str(tmp_path / "x.jinja"))
    assert turn_end(tokens) == ([tokens.end_token] if found else [])


def test_a_template_that_refuses_an_answer_is_told(nano, tmp_path):
    (tmp_path / "x.jinja").write_text("{{ messages[0].content }}{{ messages[1].thoughts.text }}")
    tokens = ModelTokenizer.load(nano, str(tmp_path / "x.jinja"))
    with pytest.raises(DataError, match="the chat template refuses the conversation: 'dict object' has no attribute"):
        turn_end(tokens)


def test_generate_takes_a_runs_folder(nano, tmp_path):
    """The newest checkpoint, and the finished model once it is there."""
    saved = tmp_path / "run" / "checkpoints"
    saved.mkdir(parents=True)
    for name in ("step-000100", "step-000020"):
        os.symlink(nano, saved / name)
    (saved / "step-000300.tmp").mkdir()
    (saved / "step-000300.tmp" / "config.json").write_text(json.dumps({}))
    assert model_folder(tmp_path / "run").name == "step-000100"
    assert isinstance(generate(tmp_path / "run", "Ada has", 2, chat=True), str)
    os.symlink(nano, tmp_path / "run" / "model")
    assert model_folder(tmp_path / "run") == tmp_path / "run" / "model"
    with pytest.raises(DataError, match="expected a model's folder, or a run's with a checkpoint"):
        model_folder(tmp_path)


class Model:
    """Says where it was sent; a GPU of no memory refuses it."""

    def __init__(self, fits: bool) -> None:
        self.fits = fits
        self.device = torch.device("cpu")

    def to(self, device) -> "Model":
        if torch.device(device).type != "cpu" and not self.fits:
            raise torch.OutOfMemoryError("no memory")
        self.device = torch.device(device)
        return self


def test_a_model_runs_on_the_accelerator_that_torch_sees_and_that_holds_it(monkeypatch, capsys):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda"))
    assert on_accelerator(Model(fits=True)).device.type == "cuda"
    assert on_accelerator(Model(fits=False)).device.type == "cpu"
    assert "the model does not fit on cuda; it runs on the CPU" in capsys.readouterr().err
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)
    assert on_accelerator(Model(fits=True)).device.type == "cpu"
