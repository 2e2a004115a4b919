"""Every byte of an answer is learned, and of what is around it only what shares a token with it."""

import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from test_long_text import sentencepiece_like
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from ferry_tools import long_text, model_tokenizer
from ferry_tools.chat import chat_sample
from ferry_tools.errors import RowError
from ferry_tools.make_model import END
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.rows import Chat

BEGIN = "<|im_start|>"
PARTY = "\U0001f389"
# As byte-level BPE writes bytes: two of an emoji, a space before them, spaces, newlines, letters, e acute, CJK.
MERGES = [
    "\u00f0 \u0141", "\u0120 \u00f0\u0141", "\u0120 \u0120", "\u010a \u010a", "a b", "\u0120 a", "\u00c3 \u00a9",
    "\u00e4 \u00bd",
]  # fmt: skip
# Pieces that are several tokens, that share tokens with their neighbours, or that are half of a character as shown.
PIECES = [
    "a", "Great job", "1", ".", " ", "  ", "\n", "\t", "\u00a0", "A:", "U:", "\u00e9", "e\u0301", "\u0301", "\u200d",
    PARTY, f" {PARTY}", "\u4f60\u597d", "\u597d", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\ufffd", "\ufeff",
]  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A template that writes an assistant's turn as `before`, the answer, `inside` (learned too) and `outside`."""

    before: str
    inside: str
    outside: str
    marked: bool

    @property
    def template(self) -> str:
        begin, end = ("{% generation %}", "{% endgeneration %}") if self.marked else ("", "")
        answer = f"{{{{ m.content }}}}{{{{ {self.inside!r} }}}}"
        return (
            f"{{% for m in messages %}}{{% if m.role == 'assistant' %}}{{{{ {self.before!r} }}}}{begin}{answer}{end}"
            f"{{{{ {self.outside!r} }}}}{{% else %}}{{{{ 'U: ' + m.content + '\\n' }}}}{{% endif %}}{{% endfor %}}"
            f"{{% if add_generation_prompt %}}{{{{ {self.before!r} }}}}{{% endif %}}"
        )

    def written(self, turns: list[dict]) -> tuple[bytes, list[tuple[int, int]]]:
        """The conversation, and where in it what is learned begins and ends; empty turns are none."""
        text, spans = b"", []
        for turn in turns:
            if turn["role"] == "user":
                text += f"U: {turn['content']}\n".encode()
                continue
            begin = len(text + self.before.encode())
            learned = turn["content"] + self.inside + ("" if self.marked else self.outside)
            learned = learned[: learned.index(END) + len(END)] if END in learned else learned
            text += (self.before + turn["content"] + self.inside + self.outside).encode()
            spans += [(begin, begin + len(learned.encode()))] if learned else []
        return text, spans


FORMS = {
    "marked, end token outside": Form("A: ", "", END, marked=True),
    "marked between special tokens": Form(BEGIN, "", END, marked=True),
    "marked, end token inside": Form("A: ", END, "\n", marked=True),
    "marked, nothing behind": Form("A: ", "", "", marked=True),
    "nothing behind": Form("A: ", "", "", marked=False),
    "a newline behind": Form("A:\n", "", "\n", marked=False),
    "end token and newline behind": Form(BEGIN, END, "\n", marked=False),
}


def like_gpt2() -> Tokenizer:
    """A byte-level BPE with a token of a space and half of an emoji, as GPT-2's."""
    pairs = [tuple(pair.split()) for pair in MERGES]
    words = [END, BEGIN, *sorted(pre_tokenizers.ByteLevel.alphabet()), *map("".join, pairs)]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END, BEGIN])
    assert tokenizer.encode(f" {PARTY}").offsets == [(0, 2), (1, 2), (1, 2)]
    return tokenizer


def save(tokenizer: Tokenizer, folder: Path) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save(like_gpt2(), tmp_path_factory.mktemp("answers") / "model")


def of_form(folder, tmp_path, form: Form) -> ModelTokenizer:
    (tmp_path / "t.jinja").write_text(form.template)
    return ModelTokenizer.load(folder, str(tmp_path / "t.jinja"))


def conversation(*texts: str) -> list[dict]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


def learned_text(tokens: ModelTokenizer, sample) -> str:
    return tokens.tokenizer.decode([i for i, flag in zip(*sample) if flag], skip_special_tokens=False)


def bytes_of(tokenizer: Tokenizer, ids: list[int]) -> list[tuple[int, int]]:
    """Where the bytes of each token are: a byte-level BPE writes every byte as a character of its own."""
    special = tokenizer.get_added_tokens_decoder()
    ends = [0]
    for number in ids:
        word = tokenizer.id_to_token(number)
        ends.append(ends[-1] + len(word.encode() if number in special else word))
    return list(pairwise(ends))


def expected(tokens: ModelTokenizer, text: bytes, spans: list[tuple[int, int]]) -> tuple[list[int], bytes]:
    """docs/formats/data.md, by bytes."""
    ids = tokens.tokenizer.encode(text.decode()).ids
    places = bytes_of(tokens.tokenizer, ids)
    flags = [any(a < end and b > begin for begin, end in spans) for a, b in places]
    last = len(flags) - flags[::-1].index(True)
    if ids[last - 1] != tokens.end_token:
        if ids[last : last + 1] != [tokens.end_token]:
            ids, flags = [*ids[:last], tokens.end_token], flags[: last + 1]
        flags[last:] = [True, *flags[last + 1 :]]
    return ids, bytes(flags)


ANSWERS = [f"Great job {PARTY}", f"{PARTY} yes", PARTY, "\u4f60\u597d\u5417", "caf\u00e9", "e\u0301", "abc", "a space "]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("form", [FORMS["marked between special tokens"], FORMS["end token and newline behind"]])
def test_an_answer_that_ends_in_several_bytes_is_learned_whole(folder, tmp_path, form, answer):
    """The first byte of an answer's last character was learned, and the end token behind it."""
    tokens = of_form(folder, tmp_path, form)
    sample = chat_sample(tokens, "d:1", Chat(conversation("Hi", answer, PARTY, answer)))
    between = END if form.inside else ""  # what a template does not mark is not learned, but at the very end
    assert learned_text(tokens, sample) == answer + between + answer + END


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_behind_which_nothing_is_written_is_learned_whole(folder, tmp_path, answer):
    tokens = of_form(folder, tmp_path, FORMS["nothing behind"])
    sample = chat_sample(tokens, "d:1", Chat(conversation("Hi", answer)))
    assert learned_text(tokens, sample).removeprefix(" ") == answer + END


@pytest.mark.parametrize("name", FORMS)
def test_of_any_conversation_the_tokens_with_bytes_of_answers_are_learned(folder, tmp_path, name):
    form, seed = FORMS[name], 7
    tokens, draw = of_form(folder, tmp_path, form), random.Random(seed)
    for _ in range(150):
        texts = ["".join(draw.choices(PIECES, k=draw.choice([0, 1, 1, 2, 4]))) for _ in range(2 * draw.randint(1, 3))]
        turns = conversation(*texts)
        text, spans = form.written(turns)
        if spans:
            ids, flags = chat_sample(tokens, "d:1", Chat(turns))
            assert (ids, flags) == expected(tokens, text, spans), (seed, texts)
        else:
            with pytest.raises(RowError, match="no assistant turn was found"):
                chat_sample(tokens, "d:1", Chat(turns))


def test_a_tokenizer_that_trims_spaces_loses_none_of_an_answer(tmp_path):
    """trim_offsets is the default of tokenizers' byte-level BPE."""
    trims = like_gpt2()
    trims.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True)])
    tokens = of_form(save(trims, tmp_path / "model"), tmp_path, FORMS["marked between special tokens"])
    for answer in (" two spaces  ", " ", "\n"):
        assert learned_text(tokens, chat_sample(tokens, "d:1", Chat(conversation("Hi", answer)))) == answer + END


def test_all_bytes_of_a_character_are_learned_of_a_sentencepiece_tokenizer_too(tokens):
    tokens.tokenizer = sentencepiece_like()
    text = f"hi {PARTY} \u4f60"
    assert [tokens.encode_with_spans(text, [(place, place + 1)])[1] for place in (3, 5)] == [[(4, 8)], [(9, 12)]]


def test_of_a_long_text_a_character_of_several_tokens_is_learned_whole(folder, monkeypatch):
    tokens = ModelTokenizer.load(folder)
    text = f"Great job {PARTY}{PARTY}\n\u4f60\u597d A: " * 100
    spans = [(place, place + 1) for place, letter in enumerate(text) if letter == PARTY]
    short = tokens.encode_with_spans(text, spans)
    monkeypatch.setattr(model_tokenizer, "PIECE", 500)
    monkeypatch.setattr(long_text, "PIECE", 500)
    monkeypatch.setattr(long_text, "OVERLAP", 150)
    assert tokens.encode_with_spans(text, spans) == short
    assert all(tokens.tokenizer.decode(short[0][a:b]).strip() == PARTY for a, b in short[1])
