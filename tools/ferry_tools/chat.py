"""Conversations: rendered by a chat template; the assistant's turns are learned."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

from jinja2 import TemplateSyntaxError

from ferry_tools.errors import DataError, RowError
from ferry_tools.model_tokenizer import ModelTokenizer, Span
from ferry_tools.rows import Chat
from ferry_tools.template_limits import BeyondLimits, TooSlow, limits

ANSWER = {"role": "assistant", "content": "Ferry-looks-for-this."}  # what nobody else says
LOST = "assistant's turns cannot be found in what the chat template makes of their conversations: they are not learned"
UNASKED = (
    "assistant's turns do not follow the chat template's prompt for an answer, which ends in more, such as <think>: "
    "the model learns to answer without that"
)
OF_TURNS = (LOST, UNASKED)  # what may be told of turns


@dataclass
class Rendered:
    """A conversation as text."""

    text: str
    spans: list[Span] = field(default_factory=list)  # what is learned of it
    told: Counter[str] = field(default_factory=Counter)  # how many turns a person should know of, by what is to be said


def chat_sample(
    tokens: ModelTokenizer, where: str, chat: Chat, told: Counter[str] | None = None
) -> tuple[list[int], bytes]:
    """Ids of a rendered conversation and their learn flags; `told` counts what a person should know of it."""
    template, _ = tokens.template_for(chat.tools), tokens.renderer
    turns_of = marked_turns if template.is_marked else prefix_turns
    try:
        with limits():
            rendered = turns_of(tokens, where, chat)
    except DataError:
        raise
    except TemplateSyntaxError as error:  # no row has anything to do with it
        raise tokens.broken_template(template, error) from None
    except TooSlow as error:  # every other row would take as long to say so
        raise DataError(f"{where}: the chat template refuses the conversation: {error}") from None
    except Exception as error:  # a template is code that came with the model
        raise RowError(f"{where}: the chat template refuses the conversation: {error}") from None
    # The template has written the begin token already: adding special tokens would double it.
    ids, turns = tokens.encode_with_spans(rendered.text, rendered.spans)
    if not turns:
        raise RowError(f"{where}: no assistant turn was found in the rendered conversation")
    if told is not None:
        told.update(rendered.told)
    return ended_answers(tokens.end_token, ids, turns)


class TurnFinder:
    """Finds turns in a conversation rendered by a template that does not mark them.

    A template may write an earlier turn differently once others follow, as Qwen3's does, which leaves out how it was
    thought: what is looked for stands in the whole.
    """

    def __init__(self, tokens: ModelTokenizer, chat: Chat) -> None:
        self.tokens, self.messages, self.tools = tokens, chat.messages, chat.tools
        self.last = len(chat.messages) - 1
        self.unasked: set[int] = set()  # turns that stand behind the beginning of the prompt for them
        self.latest: tuple[int, tuple[str, str] | None] = (-1, None)  # the turn last looked around, and what was found
        self.whole = self.rendered(chat.messages)

    def rendered(self, messages: list[dict], prompt: bool = False) -> str:
        return self.tokens.render(messages, self.tools, prompt)[0]

    def tried(self, messages: list[dict], prompt: bool = False) -> str | None:
        """None where the template refuses what is not the row's conversation."""
        try:
            return self.rendered(messages, prompt)
        except (BeyondLimits, MemoryError):
            raise
        except Exception:  # a template is code that came with the model
            return None

    def span(self, place: int) -> Span | None:
        """The assistant's turn at `place`, from behind the prompt for it to where the next one begins."""
        begin, end = self.begin(place), self.end(place)
        return (begin, end) if begin is not None and end is not None and begin <= end else None

    def begin(self, place: int) -> int | None:
        start = self.tried(self.messages[:place], prompt=True) if place > 0 else None
        if start is not None and self.whole.startswith(start):
            return len(start)
        around = self.around_turn(place)
        if around is None or not self.whole.startswith(around[0]):
            return None
        before, (prompt, own) = around[0], self.opening
        if start is not None and start.startswith(before):
            self.unasked.add(place)
        if prompt and before.endswith(prompt + own):
            return len(before) - len(own)
        # Few templates write a prompt for an answer where nothing was said.
        return len(before) if place == 0 or (prompt and before.endswith(prompt)) else None

    @cached_property
    def opening(self) -> tuple[str, str]:
        """The prompt for an answer, and what the template writes as the beginning of one whatever it says.

        Of a prompt that ends in more than any answer begins with, a <think> that is only for answers to come, what
        answers stand behind.
        """
        question = [{"role": "user", "content": "?"}]
        around = self.around([*question, ANSWER], 1)
        if around is None:
            return "", ""
        asked, start = self.tried(question), self.tried(question, prompt=True)
        if asked is None or start is None or not start.startswith(asked) or not around[0].startswith(asked):
            return "", ""
        if start.startswith(around[0]):
            return around[0].removeprefix(asked), ""
        return (start.removeprefix(asked), around[0].removeprefix(start)) if around[0].startswith(start) else ("", "")

    def end(self, place: int) -> int | None:
        if place == self.last:
            return len(self.whole)
        end = self.tried(self.messages[: place + 1])
        if end is not None and self.whole.startswith(end):
            return len(end)
        around = self.around_turn(place)
        if around is None or self.behind_answers is None or not self.whole.endswith(around[1]):
            return None
        return len(self.whole) - len(around[1]) + self.ending(around[1], self.behind_answers)

    def ending(self, behind: str, behind_last: str) -> int:
        """How much of what stands behind an answer is its own, as behind the last one: as a whole, or an end token."""
        if behind.startswith(behind_last):
            return len(behind_last)
        shared = behind[: common(behind, behind_last)]
        end = self.tokens.tokenizer.id_to_token(self.tokens.end_token)
        return shared.index(end) + len(end) if end in shared else 0

    @cached_property
    def behind_answers(self) -> str | None:
        """What the template writes behind an answer that nothing follows."""
        place = max(place for place, turn in enumerate(self.messages) if turn["role"] == "assistant")
        around = self.around(self.messages[: place + 1], place)
        return around[1] if around else None

    def around_turn(self, place: int) -> tuple[str, str] | None:
        """around() in the row's conversation, rendered once for where the turn begins and where it ends."""
        if self.latest[0] != place:
            self.latest = (place, self.around(self.messages, place))
        return self.latest[1]

    def around(self, messages: list[dict], place: int) -> tuple[str, str] | None:
        """What stands before and behind what the assistant says at `place`, whatever that is; None where it is not
        written once, as it is."""
        parts = (self.tried([*messages[:place], ANSWER, *messages[place + 1 :]]) or "").split(ANSWER["content"])
        return (parts[0], parts[1]) if len(parts) == 2 else None


def marked_turns(tokens: ModelTokenizer, where: str, chat: Chat) -> Rendered:
    """The template itself marks what the assistant says."""
    whole, spans = tokens.render(chat.messages, chat.tools)
    if chat.first:
        asked, before = tokens.render(chat.messages[: chat.first], chat.tools)
        if whole.startswith(asked):
            spans = [span for span in spans if span[0] >= len(asked)]
        else:  # a template may write what comes last differently; then its lengths say nothing, and turns are counted
            spans = spans[len(before) :]
    for place in chat.answers:
        if not chat.learns(place):
            spans = without_turn(TurnFinder(tokens, chat), where, place, spans)
    return Rendered(whole, spans)


def without_turn(found: TurnFinder, where: str, place: int, spans: list[Span]) -> list[Span]:
    """The spans that are not of this turn."""
    turn = found.span(place)
    if turn is None:
        raise RowError(
            f"{where}: turn {place + 1}, of the weight 0, cannot be found in the rendered conversation; "
            "try another data.chat_template"
        )
    return [(begin, end) for begin, end in spans if end <= turn[0] or begin >= turn[1]]


def prefix_turns(tokens: ModelTokenizer, where: str, chat: Chat) -> Rendered:
    """An assistant's turn is what it adds to the text rendered up to there."""
    found = TurnFinder(tokens, chat)
    rendered = Rendered(found.whole)
    for place in filter(chat.learns, chat.answers):
        if span := found.span(place):
            rendered.spans.append(span)
        elif place == found.last:
            raise RowError(
                f"{where}: the last turn cannot be found in the rendered conversation; try another data.chat_template"
            )
        else:
            rendered.told[LOST] += 1
    if found.unasked:
        rendered.told[UNASKED] = len(found.unasked)
    return rendered


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
