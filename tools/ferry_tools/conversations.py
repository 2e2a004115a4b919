"""Conversations as data sets write them, brought to the form that chat templates take.

OpenAI's turns are {role, content}, ShareGPT's {from, value}. Older sets hold a list per key in place of turns.
"""

import json
from difflib import get_close_matches

from ferry_tools.errors import RowError
from ferry_tools.strings import found_keys, string_of

# Who speaks in ShareGPT's data sets, as roles.
SPEAKERS = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
}
ROLES = ("system", "user", "assistant")
SLIP = 0.8  # what is so like one of ROLES was meant to be it; other names are the template's to know
CALL = "function_call"  # ShareGPT: an assistant's turn whose value is a call as JSON


def messages_of(where: str, key: str, turns: object) -> list[dict]:
    """The turns under `key` as messages. Raises RowError that names the turn."""
    if isinstance(turns, dict):
        turns = turns_of_lists(where, key, turns)
    if not isinstance(turns, list):
        raise RowError(f"{where}: '{key}' is not a list of turns")
    if not turns:
        raise RowError(f"{where}: '{key}' is empty; expected at least one turn")
    messages = []
    for number, turn in enumerate(turns, 1):
        at = f"{where}: turn {number} of '{key}'"
        if isinstance(turn, dict) and "role" in turn:
            messages.append(message_of_openai(at, turn))
        elif isinstance(turn, dict) and "from" in turn and "value" in turn:
            messages.append(message_of_sharegpt(at, turn))
        else:
            found = found_keys(turn) if isinstance(turn, dict) else type(turn).__name__
            raise RowError(f"{at}: expected role and content, or from and value; found {found}")
        if messages[-1]["role"] == "assistant":
            set_weight(at, messages[-1], turn.get("weight"))
    return messages


def set_weight(at: str, message: dict, weight: object) -> None:
    """OpenAI's mark of an answer that is not learned, a weight of 0: it stays in the message, 1 says nothing."""
    message.pop("weight", None)
    if weight is None:
        return
    if isinstance(weight, bool) or weight not in (0, 1):
        raise RowError(f"{at}: 'weight' is {str(weight)[:20]}; expected 0, not learned, or 1")
    if weight == 0:
        message["weight"] = 0


def turns_of_lists(where: str, key: str, lists: dict) -> list[dict]:
    """The turns of a list per key, {"from": [...], "value": [...]}: what a Sequence of `datasets` holds."""
    given = {name: values for name, values in lists.items() if values is not None}
    if any(not isinstance(values, list) for values in given.values()):
        raise RowError(f"{where}: '{key}' is not a list of turns, nor a list for each of {found_keys(lists)}")
    lengths = ", ".join(f"{len(values)} of {name}" for name, values in given.items())
    if len({len(values) for values in given.values()}) > 1:
        raise RowError(f"{where}: the lists of '{key}' differ in length: {lengths}; expected one of each per turn")
    return [dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True)]


def message_of_openai(at: str, turn: dict) -> dict:
    """The turn without what is null; only one that calls tools, or answers a call, may say nothing."""
    message = {key: value for key, value in turn.items() if value is not None}
    silent = bool(message.get("tool_calls")) or message.get("role") == "tool"
    if "role" not in message or ("content" not in message and not silent):
        null = [key for key in ("role", "content") if key in turn and turn[key] is None]
        found = found_keys(turn) + (f"; {' and '.join(null)} is null" if null else "")
        raise RowError(f"{at}: expected role and content, or from and value; found {found}")
    role = string_of(at, message, "role")
    if role not in ROLES and (meant := get_close_matches(role.lower(), ROLES, 1, SLIP)):
        raise RowError(f"{at}: the role '{role}' is not known; did you mean '{meant[0]}'?")
    if isinstance(message.get("content"), list):
        message["content"] = joined_parts(at, message["content"])
    if "content" in message:
        string_of(at, message, "content")
    if message.get("tool_calls"):
        message["tool_calls"] = calls_of(at, message["tool_calls"])
    return message


def joined_parts(at: str, parts: list) -> str:
    """A content in parts, which all have to be texts."""
    if any(not isinstance(part, dict) or part.get("type") != "text" for part in parts):
        raise RowError(f"{at}: a part of its content is no text, which is all that ferry's models read")
    return "".join(string_of(at, part, "text") if "text" in part else "" for part in parts)


def calls_of(at: str, calls: object) -> list[dict]:
    """Calls of tools; arguments that OpenAI writes as JSON in a text become an object."""
    if not isinstance(calls, list) or any(not isinstance(call, dict) for call in calls):
        raise RowError(f"{at}: 'tool_calls' is not a list of objects")
    made = []
    for call in calls:
        call = {key: value for key, value in call.items() if value is not None}
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            call["function"] = {**function, "arguments": parsed(function["arguments"])}
        made.append(call)
    return made


def parsed(text: str) -> object:
    """What a text of JSON says; the text itself when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def message_of_sharegpt(at: str, turn: dict) -> dict:
    speaker = string_of(at, turn, "from")
    value = string_of(at, turn, "value")
    if speaker == CALL:
        calls = parsed(value)
        calls = calls if isinstance(calls, list) else [calls]
        if any(not isinstance(call, dict) or "name" not in call for call in calls):
            raise RowError(f"{at}: the value of {CALL} is no JSON object with name and arguments")
        calls = [{"type": "function", "function": call} for call in calls]
        return {"role": "assistant", "tool_calls": calls_of(at, calls)}
    if speaker not in SPEAKERS:
        known = ", ".join([*SPEAKERS, CALL])
        raise RowError(f"{at}: from '{speaker}' is not known; expected one of {known}")
    return {"role": SPEAKERS[speaker], "content": value}


def tools_of(where: str, value: dict) -> list[dict] | None:
    """The tools that a row offers: a list of JSON schemas, or that list as a text."""
    tools = value.get("tools")
    if isinstance(tools, str):
        tools = parsed(tools) if tools.strip() else None
    if not tools:
        return None
    if not isinstance(tools, list) or any(not isinstance(tool, dict) for tool in tools):
        raise RowError(f"{where}: 'tools' is {type(tools).__name__}; expected a list of JSON schemas")
    return tools
