"""`preview`: what a training set looks like to the model."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy

from ferry_tools import token_file
from ferry_tools.chat import OF_TURNS
from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import ModelTokenizer, model_vocabulary
from ferry_tools.samples import Sample
from ferry_tools.token_file import TokenSet

BAR = 40  # characters of the longest bar
SAMPLES_AT_ONCE = 4096


def text_up_to(tokens: ModelTokenizer, sample: Sample, place: int) -> str:
    return tokens.tokenizer.decode(list(sample.ids[:place]), skip_special_tokens=False)


def marked(tokens: ModelTokenizer, sample: Sample, sequence: int) -> str:
    """The sample as text, with [brackets] around what is learned and white space made visible."""
    end = min(len(sample.ids), sequence)
    flags = sample.learned
    borders = [0, *(place for place in range(1, end) if flags[place] != flags[place - 1]), end]
    parts, before = [], ""
    for begin, until in zip(borders, borders[1:], strict=False):
        text = text_up_to(tokens, sample, until)
        shown = text[len(before) :] if text.startswith(before) else text
        parts.append(f"[{shown}]" if flags[begin] else shown)
        before = text
    line = "".join(parts).replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    rest = len(sample.ids) - end
    return line + (f" ... cut here: {rest} tokens more" if rest else "")


def histogram(lengths: numpy.ndarray, sequence: int) -> list[str]:
    """How many samples have which length, in powers of two."""
    counts = Counter((length - 1).bit_length() for length in lengths.tolist())
    most = max(counts.values())
    lines = []
    for power in range(min(counts), max(counts) + 1):
        low, high = (2 ** (power - 1) + 1 if power else 1), 2**power
        bar = "#" * round(BAR * counts[power] / most)
        beyond = "  beyond data.sequence" if low > sequence else ""
        lines.append(f"  {low:>6} - {high:<6} {counts[power]:>8} {bar}{beyond}")
    return lines


@dataclass
class Look:
    """Counts of samples, but for the first three."""

    kept: int = 0  # tokens that fit into data.sequence
    tokens: int = 0
    epoch_kept: int = 0  # of the samples that are trained on
    epoch_learned: int = 0  # of those within data.sequence
    cut: int = 0
    nothing_learned: int = 0  # within data.sequence
    cut_answers: int = 0  # their end token lies behind the cut
    endless: int = 0  # with a prompt, and no end token that is learned
    ends: int = 0  # with an end token that is learned
    empty: int = 0  # nothing is learned but the end token
    duplicates: int = 0  # of an earlier sample


def look_at(found: TokenSet, sequence: int, held_out: int = 0) -> Look:
    """Looks at all samples; the last ones are held out, and an epoch is of the others."""
    look = Look()
    trained = len(found.offsets) - 1 - held_out
    known: set[int] = set()
    for first in range(0, len(found.offsets) - 1, SAMPLES_AT_ONCE):
        offsets = found.offsets[first : first + SAMPLES_AT_ONCE + 1]
        starts, lengths = offsets[:-1] - offsets[0], numpy.diff(offsets)
        ids = found.ids[offsets[0] : offsets[-1]]
        flags = found.learned[offsets[0] : offsets[-1]].astype(bool)
        place = numpy.arange(len(ids)) - numpy.repeat(starts, lengths)

        def per_sample(of_tokens: numpy.ndarray, starts: numpy.ndarray = starts) -> numpy.ndarray:
            return numpy.add.reduceat(of_tokens.astype("i8"), starts)

        learned = per_sample(flags)
        seen = per_sample(flags & (place >= 1) & (place < sequence))
        ends = per_sample(flags & (ids == found.end_token))
        ends_seen = per_sample(flags & (ids == found.end_token) & (place < sequence))
        kept = numpy.minimum(lengths, sequence)
        look.kept += int(kept.sum())
        look.tokens += int(lengths.sum())
        look.epoch_kept += int(kept[: max(trained - first, 0)].sum())
        look.epoch_learned += int(seen[: max(trained - first, 0)].sum())
        look.cut += int((lengths > sequence).sum())
        look.nothing_learned += int((seen == 0).sum())
        look.cut_answers += int(((seen > 0) & (ends > 0) & (ends_seen == 0)).sum())
        look.endless += int(((ends == 0) & (learned < lengths)).sum())
        look.ends += int((ends > 0).sum())
        look.empty += int(((learned == 1) & (ends == 1)).sum())
        for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            known.add(hash(found.ids[begin:end].tobytes()))
    look.duplicates = len(found.offsets) - 1 - len(known)
    return look


def refuse_foreign(found: TokenSet, path: Path, model: Path) -> None:
    """Ids that the model does not have, by its configuration: training refuses them, too."""
    known = model_vocabulary(model)
    if known is not None and found.vocabulary > known:
        raise DataError(
            f"{path}: vocabulary of {found.vocabulary} ids, the model's has {known}; "
            "tokenise with the model's own tokenizer"
        )


def refuse_endless(look: Look, found: TokenSet, path: Path) -> None:
    """A model that never sees the end token learned never stops."""
    if look.ends == 0:
        end_token = "none" if found.end_token == token_file.NO_TOKEN else f"id {found.end_token}"
        raise DataError(
            f"{path}: no answer ends in the end token ({end_token}), so the model would "
            "never learn to stop; tokenise it with `tokenize`, which adds it"
        )


def warnings(look: Look, samples: int, sequence: int, repeats: bool) -> list[str]:
    """What is probably not meant. With `repeats` rows come several times on purpose."""
    lost = look.tokens - look.kept
    cases = [
        (look.cut, f"longer than data.sequence = {sequence} and cut; {lost / look.tokens:.1%} of all tokens are lost"),
        (look.nothing_learned, "nothing learned: their answers lie behind the cut, or they have none"),
        (look.cut_answers, "an answer that is cut before its end token: nothing there teaches to stop"),
        (look.endless, "an answer without an end token: the model learns to go on"),
        (look.empty, "an empty answer: the end token is all that is learned"),
        (0 if repeats else look.duplicates, "the same tokens as an earlier sample: duplicates"),
    ]
    return [f"  {count:>8,} samples ({count / samples:.1%}): {what}" for count, what in cases if count]


def epoch(look: Look, samples: int, held_out: int, sequence: int) -> str:
    """What is trained on in one pass over the samples that are not held out."""
    of_them = f", {held_out:,} of them held out for evaluation" if held_out else ""
    positions = (samples - held_out) * sequence
    return (
        f"{samples:,} samples{of_them}; per epoch {look.epoch_kept:,} tokens, {look.epoch_learned:,} of them learned, "
        f"{positions:,} positions without packing ({look.epoch_kept / positions:.0%} used)"
    )


def preview(
    path: Path, model: Path, sequence: int, count: int, repeats: bool, held_out: int = 0, notes: Iterable[str] = ()
) -> str:
    """The report; `notes` were made with the file.

    Raises DataError when no answer ends in the end token, or the file is not one for the model.
    """
    found = token_file.read(path)
    refuse_foreign(found, path, model)
    look = look_at(found, sequence, held_out)
    refuse_endless(look, found, path)
    tokens = ModelTokenizer.load(model)
    samples = len(found.offsets) - 1
    lines = []
    for number in range(min(count, samples)):
        sample = found.sample(number)
        lines += [f"sample {number}: {len(sample.ids)} tokens, [learned]"]
        lines += [f"  {marked(tokens, sample, sequence)}", ""]
    lines += ["lengths in tokens"] + histogram(numpy.diff(found.offsets), sequence)
    lines += ["", epoch(look, samples, held_out, sequence)]
    of_turns = [f"  {note}" for note in notes if note.endswith(OF_TURNS)]
    if found_wrong := warnings(look, samples, sequence, repeats) + of_turns:
        lines += ["", "LOOK AT THESE"] + found_wrong
    return "\n".join(lines)
