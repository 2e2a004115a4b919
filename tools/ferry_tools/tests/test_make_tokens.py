"""A data set becomes a token file: rows that cannot be used, several processes, what is said meanwhile."""

import errno
import io
import json
import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from ferry_tools import long_text, make_tokens, processes, records, template_limits, token_file
from ferry_tools.errors import DataError
from ferry_tools.make_tokens import Question, make_token_file
from ferry_tools.mix import Part
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.preview import preview
from ferry_tools.progress import Progress

CHAT = [{"role": "user", "content": "Ada?"}, {"role": "assistant", "content": "Ada has 3 apples."}]


@pytest.fixture
def make(nano, tmp_path):
    def run(*paths: Path, **settings) -> dict:
        question = Question([Part(path) for path in paths], nano, 64, **settings)
        return make_token_file(question, tmp_path / "cache")

    return run


def test_several_processes_make_what_one_makes(make, jsonl, tmp_path, monkeypatch):
    rows = [{"messages": [*CHAT[:1], {"role": "assistant", "content": f"{n} apples"}]} for n in range(700)]
    rows[300] = {"messages": []}
    path = jsonl(*rows)
    files = []
    for count in (1, 3):
        monkeypatch.setattr(make_tokens, "cores", lambda count=count: count)
        made = Path(make(path, skips=True)["path"])
        files.append(made.read_bytes())
        made.unlink()
    assert files[0] == files[1]
    assert token_file.HEADER.unpack(files[0][:80])[5] == 699


def test_several_processes_make_of_a_text_what_one_makes(make, tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    path.write_text("".join(f"{n} apples and {n * n} pears.\n" for n in range(3000)))
    monkeypatch.setattr(records, "TEXT_PIECE", 10_000)
    monkeypatch.setattr(long_text, "OVERLAP", 300)
    files = []
    for count in (1, 3):
        monkeypatch.setattr(make_tokens, "cores", lambda count=count: count)
        made = Path(make(path)["path"])
        files.append(made.read_bytes())
        made.unlink()
    assert files[0] == files[1] and len(files[0]) > 100_000


def test_no_more_processes_than_allowed_are_started(make, jsonl, monkeypatch):
    monkeypatch.setattr(make_tokens, "cores", lambda: 3)
    monkeypatch.setattr(processes, "start", lambda _rules, count, _group: pytest.fail(f"{count} were started"))
    make(jsonl(*[{"text": str(n)} for n in range(600)]), processes=1)


@pytest.mark.parametrize("skips", [False, True])
def test_a_template_without_end_is_told_with_the_first_conversation(make, jsonl, tmp_path, monkeypatch, skips):
    monkeypatch.setattr(template_limits, "SECONDS", 1)
    template = tmp_path / "endless.jinja"
    template.write_text("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
    before = time.process_time()
    with pytest.raises(DataError, match=r":1: the chat template refuses the conversation: it runs for more than 1 s"):
        make(jsonl(*[{"messages": CHAT} for _ in range(50)]), chat_template=str(template), skips=skips)
    assert time.process_time() - before < 10


def test_what_is_no_file_in_the_cache_is_made_again(make, jsonl):
    path = jsonl({"text": "1"})
    made = Path(make(path)["path"])
    kept = made.read_bytes()
    made.unlink()
    os.mkfifo(made)
    assert Path(make(path)["path"]).read_bytes() == kept


def test_a_worker_that_is_killed_is_told(make, jsonl, monkeypatch):
    """As the kernel does when memory is short: the rows of one that is gone are not waited for."""
    monkeypatch.setattr(make_tokens, "cores", lambda: 2)
    parent = os.getpid()
    encode = ModelTokenizer.encode_all
    monkeypatch.setattr(
        ModelTokenizer,
        "encode_all",
        lambda self, texts: encode(self, texts) if os.getpid() == parent else os.kill(os.getpid(), signal.SIGKILL),
    )
    with pytest.raises(OSError, match="a process that tokenised was killed; by the kernel when memory is short"):
        make(jsonl(*[{"text": str(n)} for n in range(1000)]))


@pytest.mark.parametrize("started", [0, 1])
def test_a_worker_that_cannot_be_started_is_told_and_none_is_left(make, jsonl, monkeypatch, started):
    """As where a limit on processes is reached."""
    monkeypatch.setattr(make_tokens, "cores", lambda: 3)
    fork, left = os.fork, [started]

    def limited() -> int:
        if not left[0]:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        left[0] -= 1
        return fork()

    monkeypatch.setattr(os, "fork", limited)
    said = "cannot start 3 processes to tokenise with: Resource temporarily unavailable; see the .*ulimit -u"
    with pytest.raises(OSError, match=said):
        make(jsonl(*[{"text": str(n)} for n in range(1000)]))
    assert multiprocessing.active_children() == []


def test_a_tokenizers_own_code_is_neither_run_nor_asked_about(nano, jsonl, tmp_path, monkeypatch):
    """A conversation is rendered by transformers, which would import it."""
    folder = shutil.copytree(nano, tmp_path / "base")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Mine", "auto_map": {"AutoTokenizer": ["mine.Mine", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w').close()")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("somebody was asked"))
    question = Question([Part(jsonl({"messages": CHAT}))], folder, 64)
    with pytest.raises(DataError, match="its tokenizer cannot be loaded: .* contains custom code"):
        make_token_file(question, tmp_path / "cache")
    assert not (tmp_path / "was-run").exists()


def test_a_tokenizer_that_lost_its_vocabulary_is_told(nano, tmp_path):
    """As transformers 5 saves one that it was given by the arguments of earlier versions."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(DataError, match="its tokenizer makes no tokens of text; its vocabulary was lost"):
        ModelTokenizer.load(tmp_path)


def test_the_first_bad_row_stops_whoever_meets_it(make, jsonl, monkeypatch):
    monkeypatch.setattr(make_tokens, "cores", lambda: 2)
    rows = [{"text": str(n)} for n in range(2000)]
    rows[1500] = rows[900] = {"test": "x"}
    with pytest.raises(DataError, match=r"data.jsonl:901: 'text' is missing; expected keys text .*; found test"):
        make(jsonl(*rows))


def test_the_first_of_several_bad_rows_is_named_whatever_is_wrong_with_it(make, jsonl):
    refused = {"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "{{"}]}
    path = jsonl({"messages": CHAT}, refused, {"messages": 3})
    template = path.with_suffix(".jinja")
    refuse = "{% if m.content == '{{' %}{{ raise_exception('no') }}{% endif %}"
    template.write_text("{% for m in messages %}" + refuse + "{{ m.content }}{% endfor %}")
    said = r"data.jsonl:2: the chat template refuses the conversation: no\n  try: data.on_error=skip leaves out such rows"
    with pytest.raises(DataError, match=said):
        make(path, chat_template=str(template))


def test_bad_rows_are_skipped_named_and_counted_each_time(make, jsonl, capsys):
    path = jsonl("{", *[{"text": "a"} if n % 2 else {"text": n} for n in range(20)])
    made = make(path, skips=True)
    first = capsys.readouterr().err
    assert made["samples"] == 10
    assert f"{path}: 11 rows skipped (data.on_error: skip)" in first
    assert f"  {path}:1: not JSON at column 2" in first and "  and 6 more" in first
    assert make(path, skips=True)["cached"]
    assert "11 rows skipped" in capsys.readouterr().err
    with pytest.raises(DataError, match=":1: not JSON"):
        make(path)


def test_a_file_without_a_row_that_can_be_used_is_refused_even_when_skipping(make, jsonl):
    with pytest.raises(DataError, match="none of the first 2 rows can be used; the first: .*:1: not JSON"):
        make(jsonl("{", "["), skips=True)
    with pytest.raises(DataError, match="none of 2 rows can be used; the first: .*:1: 'text' is int"):
        make(jsonl({"text": 1}, {"text": 2}), skips=True)


def test_a_template_that_was_not_asked_for_is_told(make, jsonl, capsys):
    path = jsonl({"messages": CHAT})
    made = make(path)
    assert "<|im_start|>assistant" in Path(made["chat_template"]).read_text() and make(path) == {**made, "cached": True}
    said = capsys.readouterr().err
    assert "the tokenizer has no chat template; data.chat_template: chatml is used" in said
    assert "<|im_start|> of chat template chatml are no tokens of this tokenizer" in said
    make(path, chat_template="zephyr")
    assert "has no chat template" not in capsys.readouterr().err


def test_the_tokenizers_own_template_is_not_told(nano, tmp_path, jsonl, capsys):
    folder = tmp_path / "model"
    shutil.copytree(nano, folder)
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    made = make_token_file(Question([Part(jsonl({"messages": CHAT}))], folder, 64), tmp_path / "cache")
    assert made["chat_template"] is None and "template" not in capsys.readouterr().err


def test_everything_that_changes_tokens_makes_another_file(make, jsonl, tmp_path):
    path = jsonl({"messages": CHAT, "text": "t"})
    template = tmp_path / "t.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    first = [make(path, **settings)["path"] for settings in (
        {}, {"skips": True}, {"chat_template": "zephyr"}, {"chat_template": str(template)}, {"text_key": "text"},
    )]  # fmt: skip
    template.write_text("{% for m in messages %}{{ m.content }}.{% endfor %}")
    first.append(make(path, chat_template=str(template))["path"])
    assert len(set(first)) == 6


def test_an_id_that_the_model_lacks_is_refused_only_where_a_sample_holds_it(nano, tmp_path, jsonl):
    """Llama 2's tokenizer of some sets of files has <pad>, 32000, and its model 32,000 ids."""
    folder = shutil.copytree(nano, tmp_path / "padded")
    tokenizer = ModelTokenizer.load(folder).tokenizer
    tokenizer.add_special_tokens(["<pad>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    size = tokenizer.token_to_id("<pad>")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": size}))

    def preview_of(*texts: str) -> tuple[int, str]:
        path = jsonl(*({"text": text} for text in texts))
        made = make_token_file(Question([Part(path)], folder, 64), tmp_path / "cache")
        return made["vocabulary"], preview(Path(made["path"]), folder, 64, 1, repeats=False)

    assert preview_of("Ada has 12", "apples")[0] == size
    with pytest.raises(DataError, match=f"vocabulary of {size + 1} ids, the model's has {size}; tokenise with the mod"):
        preview_of("Ada has 12", "apples<pad>")
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": size + 100}))
    assert preview_of("Ada has 12", "apples<pad>")[0] == size + 1 == preview_of("Ada")[0]


def test_files_of_unlike_formats_are_learned_from_together(make, jsonl, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([{"text": "a"}, {"text": "b"}]))
    (tmp_path / "b.csv").write_text("prompt,completion\n1,2\n")
    made = make(tmp_path / "a.json", tmp_path / "b.csv", jsonl({"messages": CHAT}), held_out=0.5)
    assert made["samples"] == 4 and made["held_out"] == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


LATER = "tokenising x: 300 rows, 25 rows/s, 25%, 36 s left"
END = "tokenised x: 400 rows, 29 rows/s, 9 tokens in 14 s"
FIRST = "tokenising x: 100 rows, 50 rows/s, 12%, 14 s left"


@pytest.mark.parametrize(
    "stream, said",
    [
        (io.StringIO(), [LATER, END]),
        (Terminal(), ["", *(f"\033[K{line}" for line in ("tokenising x", FIRST, LATER, END))]),
    ],
)
def test_progress_is_rewritten_on_a_terminal_and_rare_elsewhere(stream, said):
    now = iter([0.0, 2.0, 12.0, 14.0])
    progress = Progress("x", stream, lambda: next(now))
    progress.add(100, 0.125)
    progress.add(200, 0.25)
    progress.rows += 100
    progress.done(9)
    assert stream.getvalue().replace("\r", "\n").splitlines() == said


def test_progress_keeps_to_the_width_of_a_terminal(monkeypatch):
    class Narrow(Terminal):
        def fileno(self) -> int:
            return 2

    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((40, 20)))
    stream, now = Narrow(), iter([0.0, 2.0, 14.0])
    progress = Progress("a-file-with-a-rather-long-name.jsonl", stream, lambda: next(now))
    progress.add(100, 0.125)
    progress.done(9)
    first, line, end = stream.getvalue().split("\r\033[K")[1:]
    assert first == line
    assert line == "tokenising a-file-with-a-rather-long-n…" and len(line) == 39
    assert end == "tokenised a-file-with-a-rather-long-name.jsonl: 100 rows, 7 rows/s, 9 tokens in 14 s\n"
