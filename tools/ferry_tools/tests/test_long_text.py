"""A text encoded in pieces has the ids of the whole."""

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ferry_tools import long_text, model_tokenizer, records
from ferry_tools.long_text import encode_piece, encode_pieces
from ferry_tools.make_data import problems
from ferry_tools.records import PlainText
from ferry_tools.samples import plain_text_samples

TEXT = "".join(f"{row['question']}\n\n  {row['answer']}\r\n\u00e9\U0001f600\t" for row in problems(300, 5))


def sentencepiece_like() -> Tokenizer:
    """Llama 2's kind: a mark at the start, no words, bytes for what is unknown."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Metaspace()
    bytes_ = [f"<0x{number:02X}>" for number in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=["<unk>", *bytes_], show_progress=False)
    tokenizer.train_from_iterator((line for row in problems(300, 5) for line in row["answer"].split(" ")), trainer)
    return tokenizer


def llama3_like(nano: Tokenizer) -> Tokenizer:
    """Words by a pattern that takes newlines with what stands before them."""
    copy = Tokenizer.from_str(nano.to_str())
    pattern = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    split = pre_tokenizers.Split(__import__("tokenizers").Regex(pattern), "isolated")
    copy.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    return copy


@pytest.mark.parametrize("kind", ["gpt2", "llama3", "sentencepiece"])
@pytest.mark.parametrize("size", [997, 1024, 5000])
def test_pieces_have_the_ids_of_the_whole(tokens, kind, size, monkeypatch):
    monkeypatch.setattr(long_text, "OVERLAP", 300)
    made = {"gpt2": lambda: tokens.tokenizer, "llama3": lambda: llama3_like(tokens.tokenizer)}
    tokenizer = made.get(kind, sentencepiece_like)()
    pieces = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    found = [token for piece in encode_pieces(tokenizer, pieces) for token in piece]
    whole = tokenizer.encode(TEXT, add_special_tokens=False)
    assert [number for number, _, _ in found] == whole.ids
    assert [(begin, end) for _, begin, end in found] == whole.offsets


def test_spans_of_a_long_text_are_those_of_a_short_one(tokens, monkeypatch):
    spans = [(0, 10), (500, 1700), (9000, 9001)]
    short = tokens.encode_with_spans(TEXT, spans)
    monkeypatch.setattr(model_tokenizer, "PIECE", 1000)
    monkeypatch.setattr(long_text, "PIECE", 1000)
    monkeypatch.setattr(long_text, "OVERLAP", 300)
    assert tokens.encode_with_spans(TEXT, spans) == short


def test_no_more_than_a_piece_is_encoded_at_once(tokens, tmp_path, monkeypatch):
    """A text of 30 MB took 5.4 GB, a row of 50 MB 6 GB: an encoder holds 180 bytes per character."""
    sizes = []

    def watched(tokenizer, piece):
        sizes.append(len(piece.text))
        return encode_piece(tokenizer, piece)

    monkeypatch.setattr(long_text, "encode_piece", watched)
    monkeypatch.setattr(long_text, "PIECE", 1000)
    monkeypatch.setattr(model_tokenizer, "PIECE", 1000)
    monkeypatch.setattr(records, "TEXT_PIECE", 1000)
    monkeypatch.setattr(long_text, "OVERLAP", 300)
    (tmp_path / "x.txt").write_bytes(TEXT.encode())
    text = encode_pieces(tokens.tokenizer, PlainText(tmp_path / "x.txt"))
    made = list(plain_text_samples(tokens, text, 64))
    ids = tokens.encode_all([TEXT, "short"])
    assert 0 < max(sizes) <= 1300 and len(sizes) > 2 * len(TEXT) / 1300
    assert tokens.tokenizer.decode(ids[0], skip_special_tokens=False) == TEXT
    of_file = [number for part in made for number in part.ids]
    assert of_file == [*tokens.tokenizer.encode(TEXT.replace("\r\n", "\n")).ids, tokens.end_token]


def test_a_text_without_seam_is_cut_where_its_pieces_end(tokens):
    """One word, larger than the overlap: no two pieces can agree on where its tokens begin."""
    pieces = ["ab" * 40_000] * 3
    ids = [number for piece in encode_pieces(tokens.tokenizer, pieces) for number, _, _ in piece]
    assert tokens.tokenizer.decode(ids) == "".join(pieces)


def threes() -> Tokenizer:
    """Digits by threes, as Llama 3's, from where a number begins."""
    alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    pairs = [("1", "1"), ("11", "1"), ("\u00f0", "\u0141"), ("\u0120", "\u00f0\u0141")]
    words = {"".join(pair): len(alphabet) + number for number, pair in enumerate(pairs)}
    tokenizer = Tokenizer(models.BPE({**alphabet, **words}, pairs))
    tokenizer.decoder = decoders.ByteLevel()
    return llama3_like(tokenizer)


@pytest.mark.parametrize("overlap", [4, 17, 50])
@pytest.mark.parametrize("size", [7, 10, 62, 128])
def test_no_character_is_lost_where_pieces_have_no_seam(monkeypatch, overlap, size):
    """Of a number of thousands of digits the token across a piece's end was left out."""
    monkeypatch.setattr(long_text, "OVERLAP", overlap)
    tokenizer = threes()
    for begin in ("", "a", "ab"):
        text = (begin + "1" * 200 + " \U0001f389" * 9 + "\u4f60\r\n") * 3
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        ids = [number for piece in encode_pieces(tokenizer, pieces) for number, _, _ in piece]
        assert tokenizer.decode(ids) == text
