"""Alpaca's rows: an instruction with its output, alone or as the last turn of a conversation (LLaMA-Factory)."""

from ferry_tools.errors import RowError
from ferry_tools.strings import string_of

ALPACA = "Below is an instruction that describes a task."
ALPACA_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further context."
)
ALPACA_END = " Write a response that appropriately completes the request.\n\n"

BEFORE_INSTRUCTION = ("system", "history")  # what may come before the instruction of a conversation


def alpaca_prompt(where: str, value: dict) -> str:
    """The prompt that Stanford Alpaca was trained with."""
    for key in BEFORE_INSTRUCTION:
        if value.get(key):
            raise RowError(
                f"{where}: '{key}' beside instruction and output, which the first row does not have; give that row "
                f"an empty '{key}', and all rows are conversations"
            )
    instruction, given = asked_of(where, value)
    start = (ALPACA_WITH_INPUT if given else ALPACA) + ALPACA_END
    middle = f"### Instruction:\n{instruction}\n\n"
    return start + middle + (f"### Input:\n{given}\n\n" if given else "") + "### Response:\n"


def alpaca_messages(where: str, value: dict) -> list[dict]:
    """The turns of a row, as LLaMA-Factory reads them: its history, then the instruction with its input."""
    messages = []
    for asked, answered in history_of(where, value.get("history")):
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]
    messages.append({"role": "user", "content": "\n".join(filter(None, asked_of(where, value)))})
    messages.append({"role": "assistant", "content": string_of(where, value, "output")})
    return messages


def asked_of(where: str, value: dict) -> tuple[str, str]:
    """Instruction and input; `input` may be missing, null or empty."""
    return string_of(where, value, "instruction"), string_of(where, value, "input") if value.get("input") else ""


def history_of(where: str, history: object) -> list[tuple[str, str]]:
    """Earlier turns as (instruction, response). Raises RowError that names the pair."""
    if not history:
        return []
    if not isinstance(history, list):
        raise RowError(f"{where}: 'history' is {type(history).__name__}; expected a list of [instruction, response]")
    pairs = []
    for number, pair in enumerate(history, 1):
        at = f"{where}: pair {number} of 'history'"
        if not isinstance(pair, list) or len(pair) != 2:
            found = f"a list of {len(pair)}" if isinstance(pair, list) else type(pair).__name__
            raise RowError(f"{at}: expected [instruction, response]; found {found}")
        said = dict(zip(("instruction", "response"), pair, strict=True))
        pairs.append((string_of(at, said, "instruction"), string_of(at, said, "response")))
    return pairs
