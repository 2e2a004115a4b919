"""Which tokens are learned."""

import json
import shutil

import pytest

from ferry_tools import records
from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.make_tokens import Question, rules_of
from ferry_tools.records import PlainText, Records
from ferry_tools.long_text import encode_pieces
from ferry_tools.samples import Sample, plain_text_samples

TURNS = [
    {"role": "user", "content": "two apples?"},
    {"role": "assistant", "content": "yes."},
    {"role": "user", "content": "and books?"},
    {"role": "assistant", "content": "no."},
]
PLAIN_TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% if m.role == 'assistant' %}{{ eos_token }}"
    "{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
MARKED_TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}]{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{{ '\n' }}{% endfor %}"
)


def samples(tokens, path, text_key=None, sequence=1024) -> list[Sample]:
    """The samples of a file; the first row that cannot be used is raised."""
    if path.suffix == ".txt":
        groups = list(plain_text_samples(tokens, encode_pieces(tokens.tokenizer, PlainText(path)), sequence))
    else:
        rules, rows = rules_of(Question([], path, sequence, text_key), tokens, iter(Records(path)))
        groups = [rules.samples_of(rows)]
    made = []
    for group in groups:
        for error in group.refused:
            raise error
        begin = 0
        for length in group.lengths:
            end = begin + length
            made.append(Sample(group.ids[begin:end].tolist(), bytes(group.learned[begin:end])))
            begin = end
    return made


def learned_text(tokens, sample):
    ids = [i for i, flag in zip(sample.ids, sample.learned, strict=True) if flag]
    return tokens.tokenizer.decode(ids, skip_special_tokens=False)


def whole_text(tokens, sample):
    return tokens.tokenizer.decode(sample.ids, skip_special_tokens=False)


def test_a_text_is_learned_with_its_end_token(tokens, jsonl):
    (sample,) = samples(tokens, jsonl({"text": "Ada has 12 apples."}))
    assert learned_text(tokens, sample) == "Ada has 12 apples.<|endoftext|>"
    assert set(sample.learned) == {1}


def test_only_the_completion_is_learned(tokens, jsonl):
    (sample,) = samples(tokens, jsonl({"question": "1 + 2?", "answer": "#### 3"}))
    assert whole_text(tokens, sample) == "1 + 2?\n#### 3<|endoftext|>"
    assert learned_text(tokens, sample) == "#### 3<|endoftext|>"


def test_an_end_token_that_is_there_is_not_doubled(tokens, jsonl):
    (sample,) = samples(tokens, jsonl({"prompt": "a", "completion": "b<|endoftext|>"}))
    assert learned_text(tokens, sample) == "b<|endoftext|>"


def test_a_token_across_the_border_is_split_there(tokens, jsonl):
    """' apples' is one token, but the model is given ' app' and has to say 'les'."""
    (sample,) = samples(tokens, jsonl({"prompt": "Ada has app", "completion": "les"}))
    assert learned_text(tokens, sample) == "les<|endoftext|>"
    alone = tokens.encode_all(["Ada has app"])[0]
    assert sample.ids[: len(alone)] == alone


def test_ids_are_those_of_transformers(tokens, nano):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(nano, local_files_only=True)
    for text in ["Ada has 12 apples.\n", "", " x\t\u00e9\u4e2d\U0001f600", "<|endoftext|>a"]:
        assert tokens.encode_all([text])[0] == theirs(text, add_special_tokens=False)["input_ids"]
    assert tokens.end_token == theirs.eos_token_id


def test_a_begin_token_of_the_tokenizer_comes_first_and_is_not_learned(nano, tmp_path, jsonl):
    from tokenizers import processors

    folder = tmp_path / "begin"
    shutil.copytree(nano, folder)
    loaded = ModelTokenizer.load(folder).tokenizer
    loaded.add_special_tokens(["<s>"])
    begin = loaded.token_to_id("<s>")
    loaded.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    loaded.save(str(folder / "tokenizer.json"))
    tokens = ModelTokenizer.load(folder)
    for row in ({"prompt": "1", "completion": "2"}, {"prompt": "<s>1", "completion": "2"}):
        (sample,) = samples(tokens, jsonl(row))
        assert whole_text(tokens, sample) == "<s>12<|endoftext|>"
        assert list(sample.learned) == [0, 0, 1, 1]


@pytest.mark.parametrize("template", [PLAIN_TEMPLATE, MARKED_TEMPLATE])
def test_the_assistants_turns_are_learned_up_to_their_end_tokens(nano, tmp_path, jsonl, template):
    folder = tmp_path / "chat"
    shutil.copytree(nano, folder)
    (folder / "chat_template.jinja").write_text(template)
    tokens = ModelTokenizer.load(folder)
    (sample,) = samples(tokens, jsonl({"messages": TURNS}))
    assert learned_text(tokens, sample) == "yes.<|endoftext|>no.<|endoftext|>"
    assert whole_text(tokens, sample).startswith("[user]two apples?\n[assistant]yes.")


def test_a_template_without_end_token_gets_one(nano, tmp_path, jsonl):
    folder = tmp_path / "chat"
    shutil.copytree(nano, folder)
    (folder / "chat_template.jinja").write_text(PLAIN_TEMPLATE.replace("{{ eos_token }}", ""))
    tokens = ModelTokenizer.load(folder)
    (sample,) = samples(tokens, jsonl({"messages": TURNS}))
    assert learned_text(tokens, sample).endswith("no.\n<|endoftext|>")


def test_a_template_that_refuses_is_an_error_with_its_line(nano, tmp_path, jsonl):
    folder = tmp_path / "chat"
    shutil.copytree(nano, folder)
    (folder / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    tokens = ModelTokenizer.load(folder)
    with pytest.raises(DataError, match="data.jsonl:1: .*roles must alternate"):
        samples(tokens, jsonl({"messages": TURNS}))


def test_a_tokenizer_without_template_gets_chatml(tokens, jsonl):
    (sample,) = samples(tokens, jsonl({"messages": TURNS}))
    first = "<|im_start|>user\ntwo apples?<|endoftext|>\n<|im_start|>assistant\nyes."
    assert whole_text(tokens, sample).startswith(first)
    assert learned_text(tokens, sample) == "yes.<|endoftext|>no.<|endoftext|>"


def test_plain_text_is_cut_into_sequences(tokens, tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"1\r\n2 " * 50)
    made = samples(tokens, path, sequence=16)
    assert [len(sample.ids) for sample in made[:-1]] == [16] * (len(made) - 1)
    assert "".join(whole_text(tokens, sample) for sample in made) == "1\n2 " * 50 + "<|endoftext|>"


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 18])
def test_a_plain_text_in_pieces_is_the_whole(tmp_path, monkeypatch, piece):
    monkeypatch.setattr(records, "TEXT_PIECE", piece)
    (tmp_path / "x.txt").write_bytes("a\r\n\u00e9\U0001f600\r\r\n\u4e2d\r".encode())
    text = PlainText(tmp_path / "x.txt")
    assert "".join(text) == "a\n\u00e9\U0001f600\r\n\u4e2d\r" and text.fraction == 1


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "x.txt: empty; expected text"),
        (b"a\nb\xffc", "x.txt:2: not UTF-8: found 0xff"),
        (b"a\nb\xe4\xb8", "x.txt:2: not UTF-8: found 0xe4"),
        (b"a\n\nb\0", "x.txt:3: a NUL byte; expected text"),
    ],
)
def test_what_is_no_text_is_named_with_its_line(tmp_path, monkeypatch, data, message):
    monkeypatch.setattr(records, "TEXT_PIECE", 2)
    (tmp_path / "x.txt").write_bytes(data)
    with pytest.raises(DataError, match=message):
        list(PlainText(tmp_path / "x.txt"))


def test_vocab_and_merges_make_a_byte_level_bpe(tokens, nano, tmp_path, jsonl):
    folder = tmp_path / "old"
    folder.mkdir()
    model = json.loads((nano / "tokenizer.json").read_text())["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    old = ModelTokenizer.load(folder)
    path = jsonl({"text": "Ada buys some apples."})
    assert samples(old, path)[0].ids == samples(tokens, path)[0].ids


def test_a_folder_without_tokenizer_says_what_was_expected(tmp_path):
    with pytest.raises(DataError, match="expected tokenizer.json, or vocab.json and merges.txt"):
        ModelTokenizer.load(tmp_path)


@pytest.mark.parametrize("sequence", [8, 24, 64])
def test_the_documented_labels_give_the_loss_of_transformers(tokens, nano, jsonl, sequence):
    """docs/formats/data.md: cut, padded on the right, labels shifted, -100 where nothing is learned."""
    import torch
    from transformers import AutoModelForCausalLM

    (sample,) = samples(tokens, jsonl({"question": "Ada?", "answer": "Ada has 2 + 3 = 5.\n#### 5"}))
    ids = sample.ids[:sequence]
    flags = sample.learned[:sequence]
    padding = sequence - len(ids)
    labels = [i if flag else -100 for i, flag in zip(ids[1:], flags[1:], strict=True)] + [-100] * (
        1 + padding
    )
    ids = torch.tensor([ids + [tokens.end_token] * padding])
    theirs = torch.tensor([[i if flag else -100 for i, flag in zip(sample.ids, sample.learned, strict=True)]])
    model = AutoModelForCausalLM.from_pretrained(nano, local_files_only=True, dtype=torch.float64)
    with torch.no_grad():
        logits = model(ids).logits[0].float()  # as transformers does before the loss
        ours = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
        loss = model(torch.tensor([sample.ids[:sequence]]), labels=theirs[:, :sequence]).loss
    torch.testing.assert_close(ours, loss, rtol=1e-6, atol=1e-6)
