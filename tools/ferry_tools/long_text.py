"""Encodes texts of any length in pieces: an encoder holds some 180 bytes per character.

Pieces overlap. Where both tell the same tokens at the same characters, several in a row, the first one's
tokens end and the second one's go on: so the ids are those of the whole text, unless a text has no such
place within OVERLAP characters.
"""

from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer

PIECE = 1 << 18  # characters encoded at once
OVERLAP = 1 << 12  # characters of a piece that the next one encodes again
RUN = 16  # equal tokens that make a seam


Token = tuple[int, int, int]  # its id; its first character in the whole text, and the one behind its last


def encode_piece(tokenizer: Tokenizer, text: str, begin: int) -> list[Token]:
    encoded = tokenizer.encode(text, add_special_tokens=False)
    return [(number, begin + a, begin + b) for number, (a, b) in zip(encoded.ids, encoded.offsets, strict=True)]


def seam(left: list[Token], right: list[Token]) -> tuple[int, int]:
    """Where to go over from `left` to `right`; the middle of the overlap is seen best by both."""
    at = {token: place for place, token in reversed(list(enumerate(right)))}
    middle = len(left) // 2
    for i in [*range(middle, len(left) - RUN + 1), *range(min(middle, len(left) - RUN + 1))]:
        j = at.get(left[i])
        if j is not None and left[i : i + RUN] == right[j : j + RUN]:
            return i, j
    end = left[-1][2] if left else 0
    return len(left), next((j for j, token in enumerate(right) if token[1] >= end), len(right))


def encode_pieces(tokenizer: Tokenizer, pieces: Iterable[str]) -> Iterator[list[Token]]:
    """The tokens of a text that comes in pieces, a list per piece."""
    held: list[Token] = []  # tokens within `overlap`, which the next piece decides on
    overlap, begin = "", 0  # the last characters of the text so far, and where they begin
    for piece in pieces:
        text = overlap + piece
        found = encode_piece(tokenizer, text, begin)
        i, j = seam(held, found)
        found = held[:i] + found[j:]
        cut = max(len(text) - OVERLAP, 0)
        keep = next((k for k, token in enumerate(found) if token[1] >= begin + cut), len(found))
        yield found[:keep]
        held, overlap, begin = found[keep:], text[cut:], begin + cut
    yield held


def in_pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))
