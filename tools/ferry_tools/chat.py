"""Conversations: rendered by a chat template; the assistant's turns are learned."""

from bisect import bisect_left

from jinja2 import TemplateSyntaxError

from ferry_tools.errors import DataError, RowError
from ferry_tools.model_tokenizer import ModelTokenizer, Span
from ferry_tools.rows import Chat
from ferry_tools.template_limits import BeyondLimits, TooSlow, limits

VARIED = ("Yes?", "no!")  # what a turn might say: texts that begin and end in different characters


def chat_sample(tokens: ModelTokenizer, where: str, chat: Chat) -> tuple[list[int], bytes]:
    """Ids of a rendered conversation and their learn flags."""
    turns_of = marked_turns if tokens.chat_template.is_marked else prefix_turns
    _ = tokens.renderer
    try:
        with limits():
            whole, spans = turns_of(tokens, where, chat)
    except DataError:
        raise
    except TemplateSyntaxError as error:  # no row has anything to do with it
        raise tokens.broken_template(error) from None
    except TooSlow as error:  # every other row would take as long to say so
        raise DataError(f"{where}: the chat template refuses the conversation: {error}") from None
    except Exception as error:  # a template is code that came with the model
        raise RowError(f"{where}: the chat template refuses the conversation: {error}") from None
    # The template has written the begin token already: adding special tokens would double it.
    ids, turns = tokens.encode_with_spans(whole, spans)
    if not turns:
        raise RowError(f"{where}: no assistant turn was found in the rendered conversation")
    return ended_answers(tokens.end_token, ids, turns)


def marked_turns(tokens: ModelTokenizer, _where: str, chat: Chat) -> tuple[str, list[Span]]:
    """The template itself marks what the assistant says."""
    whole, spans = tokens.render(chat.messages, chat.tools)
    if chat.first:
        asked, before = tokens.render(chat.messages[: chat.first], chat.tools)
        if whole.startswith(asked):
            spans = [span for span in spans if span[0] >= len(asked)]
        else:  # a template may write what comes last differently; then its lengths say nothing, and turns are counted
            spans = spans[len(before) :]
    return whole, spans


def prefix_turns(tokens: ModelTokenizer, where: str, chat: Chat) -> tuple[str, list[Span]]:
    """An assistant's turn is what it adds to the text rendered up to there.

    A template may write an earlier turn differently once others follow; such a turn is not learned.
    """
    whole, _ = tokens.render(chat.messages, chat.tools)
    spans = []
    for place in range(chat.first, len(chat.messages)):
        if chat.messages[place]["role"] != "assistant":
            continue
        is_last = place + 1 == len(chat.messages)
        if place > 0:
            start = tokens.render(chat.messages[:place], chat.tools, prompt=True)[0]
        else:
            start = before_first(tokens, chat)
        end = whole if is_last else tokens.render(chat.messages[: place + 1], chat.tools)[0]
        if start is not None and end.startswith(start) and whole.startswith(end):
            spans.append((len(start), len(end)))
        elif is_last:
            raise RowError(
                f"{where}: the last turn cannot be found in the rendered conversation; try another data.chat_template"
            )
    return whole, spans


def before_first(tokens: ModelTokenizer, chat: Chat) -> str | None:
    """What stands before the first turn: few templates write a prompt for an answer where nothing was said."""
    around = around_turn(tokens, chat.messages, chat.tools, 0)
    return around[0] if around else None


def around_turn(
    tokens: ModelTokenizer, messages: list[dict], tools: list[dict] | None, place: int
) -> tuple[str, str] | None:
    """What stands before and behind what the assistant says, whatever that is; None where no template says so."""
    texts = []
    for said in VARIED:
        varied = [*messages[:place], {"role": "assistant", "content": said}, *messages[place + 1 :]]
        try:
            texts.append(tokens.render(varied, tools)[0])
        except (BeyondLimits, MemoryError):
            raise
        except Exception:  # a template is code that came with the model
            return None
    one, other = texts
    before = one[: common(one, other)]
    behind = one[len(one) - common(one[::-1], other[::-1]) :]
    return (before, behind) if one == before + VARIED[0] + behind else None


def common(one: str, other: str) -> int:
    """How many characters both begin with."""
    most = min(len(one), len(other))
    return bisect_left(range(1, most + 1), True, key=lambda length: one[:length] != other[:length])


def ended_answers(end_token: int, ids: list[int], turns: list[Span]) -> tuple[list[int], bytes]:
    """Ids and learn flags: every turn stops at its end token, and the last one has one."""
    flags = bytearray(len(ids))
    last = 0
    for begin, end in turns:
        if end_token in ids[begin:end]:
            end = ids.index(end_token, begin) + 1
        flags[begin:end] = b"\1" * (end - begin)
        last = end
    if ids[last - 1] == end_token:
        return ids, bytes(flags)
    if ids[last : last + 1] == [end_token]:  # the template may put the end token outside of what it marks
        flags[last] = 1
        return ids, bytes(flags)
    return [*ids[:last], end_token], bytes(flags[:last]) + b"\1"
