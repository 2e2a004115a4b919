"""Conversations: rendered by the tokenizer's own template; the assistant's turns are learned."""

import re

from ferry_tools.errors import DataError
from ferry_tools.model_tokenizer import ModelTokenizer

GENERATION_MARKER = re.compile(r"\{%-?\s*generation\s*-?%\}")


def chat_sample(tokens: ModelTokenizer, where: str, messages: list[dict]) -> tuple[list[int], bytes]:
    """Ids of a rendered conversation and their learn flags."""
    try:
        if GENERATION_MARKER.search(tokens.chat.get_chat_template()):
            ids, flags = by_markers(tokens, messages)
        else:
            ids, flags = by_prefixes(tokens, where, messages)
    except DataError:
        raise
    except Exception as error:  # a template is code that came with the model
        raise DataError(f"{where}: the chat template refuses the conversation: {error}") from None
    if not any(flags):
        raise DataError(f"{where}: no assistant turn was found in the rendered conversation")
    ids, flags = end_last_answer(tokens, ids, flags)
    return ids, bytes(flags)


def by_markers(tokens: ModelTokenizer, messages: list[dict]) -> tuple[list[int], list[int]]:
    """The template itself marks what the assistant says."""
    rendered = tokens.chat.apply_chat_template(
        messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    return list(rendered["input_ids"]), list(rendered["assistant_masks"])


def by_prefixes(tokens: ModelTokenizer, where: str, messages: list[dict]) -> tuple[list[int], list[int]]:
    """An assistant's turn is what it adds to the text rendered up to there.

    A template may write an earlier turn differently once others follow; such a turn is not learned.
    """

    def render(count: int, prompt: bool) -> str:
        return tokens.chat.apply_chat_template(messages[:count], tokenize=False, add_generation_prompt=prompt)

    whole = render(len(messages), False)
    spans = []
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        start = render(place, True) if place > 0 else ""
        end = render(place + 1, False)
        if end.startswith(start) and whole.startswith(end):
            spans.append((len(start), len(end)))
        elif place + 1 == len(messages):
            raise DataError(f"{where}: the last turn cannot be found in the rendered conversation")
    # The template has written the begin token already: adding special tokens would double it.
    encoded = tokens.tokenizer.encode(whole, add_special_tokens=False)
    flags = [int(any(a <= begin < b for a, b in spans)) for begin, _ in encoded.offsets]
    return encoded.ids, flags


def end_last_answer(tokens: ModelTokenizer, ids: list[int], flags: list[int]) -> tuple[list[int], list[int]]:
    """Lets every learned span stop at its end token, and gives the last one an end token."""
    flags = list(flags)
    ended = False  # within a learned span, past its end token
    for place, number in enumerate(ids):
        if not flags[place]:
            ended = False
        elif ended:
            flags[place] = 0
        else:
            ended = number == tokens.end_token
    last = max(place for place, flag in enumerate(flags) if flag)
    if ids[last] == tokens.end_token:
        return ids, flags
    after = last + 1  # the template may put the end token outside of what it marks
    if ids[after : after + 1] == [tokens.end_token]:
        flags[after] = 1
        return ids, flags
    return ids[:after] + [tokens.end_token], flags[:after] + [1]
