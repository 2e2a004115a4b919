"""`preview`: what a training set looks like to the model."""

from collections import Counter
from pathlib import Path

from ferry_tools import token_file
from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.samples import Sample
from ferry_tools.token_file import TokenSet

BAR = 40  # characters of the longest bar


def visible(tokens: ModelTokenizer, number: int) -> str:
    """A token's text with white space made visible."""
    if number == tokens.end_token:
        return tokens.tokenizer.id_to_token(number) or "<end>"
    text = tokens.tokenizer.decode([number], skip_special_tokens=False)
    if text == "\ufffd" or not text:
        text = tokens.tokenizer.id_to_token(number) or f"<{number}>"
    return text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def marked(tokens: ModelTokenizer, sample: Sample, sequence: int) -> str:
    """The sample with | between tokens and [brackets] around what is learned."""
    parts, learning = [], 0
    for place, (number, flag) in enumerate(zip(sample.ids, sample.learned, strict=True)):
        if place == sequence:
            parts.append("]" * learning + f" ... cut here: {len(sample.ids) - sequence} tokens more")
            return "".join(parts)
        border = "[" if flag and not learning else "]" if learning and not flag else "|"
        parts.append(border if place or border != "|" else "")
        parts.append(visible(tokens, number))
        learning = flag
    return "".join(parts) + "]" * learning


def histogram(found: TokenSet, sequence: int) -> list[str]:
    """How many samples have which length, in powers of two."""
    counts = Counter((len(sample.ids) - 1).bit_length() for sample in found.samples)
    most = max(counts.values())
    lines = []
    for power in range(min(counts), max(counts) + 1):
        low, high = (2 ** (power - 1) + 1 if power else 1), 2**power
        bar = "#" * round(BAR * counts[power] / most)
        beyond = "  beyond data.sequence" if low > sequence else ""
        lines.append(f"  {low:>6} - {high:<6} {counts[power]:>8} {bar}{beyond}")
    return lines


def refuse_endless(found: TokenSet, path: Path) -> None:
    """A model that never sees the end token learned never stops."""
    ends = any(
        number == found.end_token and flag
        for sample in found.samples
        for number, flag in zip(sample.ids, sample.learned, strict=True)
    )
    if not ends:
        raise DataError(
            f"{path}: no answer ends in the end token (id {found.end_token}), so the model would "
            "never learn to stop; tokenise it with `tokenize`, which adds it"
        )


def preview(path: Path, model: Path, sequence: int, count: int) -> str:
    """The report. Raises DataError when no answer ends in the end token."""
    found = token_file.read(path)
    refuse_endless(found, path)
    tokens = ModelTokenizer.load(model)
    kept = sum(min(len(sample.ids), sequence) for sample in found.samples)
    predicted = sum(sum(sample.learned[1:sequence]) for sample in found.samples)
    cut = sum(len(sample.ids) > sequence for sample in found.samples)
    positions = len(found.samples) * sequence
    lines = []
    for number, sample in enumerate(found.samples[:count]):
        lines += [f"sample {number}: {len(sample.ids)} tokens, [learned]"]
        lines += [f"  {marked(tokens, sample, sequence)}", ""]
    lines += ["lengths in tokens"] + histogram(found, sequence)
    lines += [
        "",
        f"{len(found.samples)} samples; per epoch {kept} tokens, {predicted} of them learned, "
        f"{positions} positions without packing ({kept / positions:.0%} used)",
        f"{cut} samples ({cut / len(found.samples):.1%}) are longer than data.sequence = {sequence} "
        "and are cut",
    ]
    return "\n".join(lines)
