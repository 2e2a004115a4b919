"""Encodes texts of any length in pieces: an encoder holds some 180 bytes per character.

Pieces overlap. Where both tell the same tokens at the same characters, several in a row, the first one's
tokens end and the second one's go on: so the ids are those of the whole text, unless a text has no such
place within OVERLAP characters. Its characters are all there then too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tokenizers import Tokenizer

PIECE = 1 << 18  # characters encoded at once
OVERLAP = 1 << 12  # characters of a piece that the next one encodes again
RUN = 16  # equal tokens that make a seam


Token = tuple[int, int, int]  # its id; its first character in the whole text, and the one behind its last


@dataclass(frozen=True)
class Piece:
    """A piece with the characters before it that the one before has too."""

    text: str
    begin: int  # its first character in the whole text


def overlapping(pieces: Iterable[str]) -> Iterator[Piece]:
    overlap, begin = "", 0
    for piece in pieces:
        text = overlap + piece
        yield Piece(text, begin)
        cut = max(len(text) - OVERLAP, 0)
        overlap, begin = text[cut:], begin + cut


def encode_piece(tokenizer: Tokenizer, piece: Piece) -> tuple[Piece, list[Token]]:
    encoded = tokenizer.encode(piece.text, add_special_tokens=False)
    begin = piece.begin
    return piece, [(number, begin + a, begin + b) for number, (a, b) in zip(encoded.ids, encoded.offsets, strict=True)]


def seam(left: list[Token], right: list[Token]) -> tuple[int, int] | None:
    """Where to go over from `left` to `right`; the middle of the overlap is seen best by both. None: nowhere."""
    at = {token: place for place, token in reversed(list(enumerate(right)))}
    middle = len(left) // 2
    for i in [*range(middle, len(left) - RUN + 1), *range(min(middle, len(left) - RUN + 1))]:
        j = at.get(left[i])
        if j is not None and left[i : i + RUN] == right[j : j + RUN]:
            return i, j
    return None


def bridged(tokenizer: Tokenizer, left: list[Token], piece: Piece, right: list[Token]) -> list[Token]:
    """All of `left`, then what follows of the piece whose tokens are `right`.

    A token of `right` may have characters before and behind where `left` ends: those behind are encoded by themselves.
    """
    if not left:
        return right
    end = left[-1][2]
    follows = (j for j, (_, begin, _) in enumerate(right) if begin >= end and (j == 0 or right[j - 1][2] <= begin))
    j = next(follows, len(right))
    until = right[j][1] if j < len(right) else piece.begin + len(piece.text)
    _, between = encode_piece(tokenizer, Piece(piece.text[end - piece.begin : until - piece.begin], end))
    return left + between + right[j:]


def joined(tokenizer: Tokenizer, encoded: Iterable[tuple[Piece, list[Token]]]) -> Iterator[list[Token]]:
    """The tokens of a text of which encoded pieces come one after the other, a list per piece."""
    held: list[Token] = []  # those that the next piece, which has their characters too, decides on
    for piece, right in encoded:
        place = seam(held, right)
        found = held[: place[0]] + right[place[1] :] if place else bridged(tokenizer, held, piece, right)
        next_begin = piece.begin + max(len(piece.text) - OVERLAP, 0)
        keep = next((k for k, token in enumerate(found) if token[1] >= next_begin), len(found))
        yield found[:keep]
        held = found[keep:]
    yield held


def encode_pieces(tokenizer: Tokenizer, pieces: Iterable[str]) -> Iterator[list[Token]]:
    """The tokens of a text that comes in pieces, a list per piece."""
    return joined(tokenizer, (encode_piece(tokenizer, piece) for piece in overlapping(pieces)))


def in_pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))
