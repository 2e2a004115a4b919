"""Conversations as data sets write them."""

import json

import pytest

from ferry_tools.errors import RowError
from ferry_tools.rows import Chat, Completion, detect_keys, row_of

CALL = {"name": "add", "arguments": {"a": 1}}
ALPACA = {"instruction": "i", "output": "o"}
NULL = {"role": "assistant", "content": None}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {}}}]


def row(value: dict):
    return row_of("d:1", value, detect_keys("d:1", value, None))


def user(text: str) -> dict:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict:
    return {"role": "assistant", "content": text}


def test_sharegpt_becomes_roles():
    turns = [("system", "s"), ("human", "u"), ("gpt", "a"), ("tool", "t"), ("observation", "o"), ("model", "b")]
    found = row({"conversations": [{"from": who, "value": text} for who, text in turns]})
    assert [(turn["role"], turn["content"]) for turn in found.messages] == [
        ("system", "s"), ("user", "u"), ("assistant", "a"), ("tool", "t"), ("tool", "o"), ("assistant", "b"),
    ]  # fmt: skip


def test_a_system_column_comes_first_and_tools_may_be_a_text():
    turns = [{"from": "human", "value": "u"}, {"from": "gpt", "value": "a"}]
    found = row({"conversations": turns, "system": "s", "tools": "[{\"name\": \"f\"}]"})
    assert found == Chat([{"role": "system", "content": "s"}, user("u"), assistant("a")], 0, [{"name": "f"}])


def test_a_function_call_of_sharegpt_is_a_call():
    call = '{"name": "add", "arguments": {"a": 1}}'
    as_text = json.dumps({**CALL, "arguments": json.dumps(CALL["arguments"])})  # as OpenAI writes them
    for value, count in ((call, 1), (as_text, 1), (f"[{call}, {as_text}]", 2)):
        turns = [{"from": "human", "value": "u"}, {"from": "function_call", "value": value}]
        last = row({"conversations": turns}).messages[-1]
        assert last == {"role": "assistant", "tool_calls": [{"type": "function", "function": CALL}] * count}


def test_a_turn_that_calls_tools_may_have_null_content_and_arguments_as_text():
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}, "index": None}
    calling = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer = {"role": "tool", "content": None, "tool_call_id": "1", "name": None}
    found = row({"messages": [user("u"), calling, answer, assistant("a")], "tools": TOOLS})
    assert found.messages[1:3] == [
        {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": CALL}]},
        {"role": "tool", "tool_call_id": "1"},
    ]
    assert found.tools == TOOLS


def test_content_in_parts_of_text_is_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert row({"messages": [user("u"), {"role": "assistant", "content": parts}]}).messages[1] == assistant("ab")


def test_prompts_as_messages_are_not_learned():
    value = {"prompt": [user("u"), assistant("a"), user("v")], "completion": [assistant("b")]}
    assert row(value) == Chat([user("u"), assistant("a"), user("v"), assistant("b")], 3)
    assert row({**value, "system": "s"}).first == 4
    assert row({"prompt": "p", "completion": "c"}) == Completion("p", "c")


def test_a_weight_says_whether_an_answer_is_learned():
    """OpenAI's `weight`; what it says of other turns is nothing."""
    turns = [{**user("u"), "weight": 3}, {**assistant("a"), "weight": 0}, {**assistant("b"), "weight": 1.0}]
    found = row({"messages": turns})
    assert found.messages[1:] == [{**assistant("a"), "weight": 0}, assistant("b")]
    assert [found.learns(place) for place in found.answers] == [False, True]
    sharegpt = [{"from": "gpt", "value": "a", "weight": 0}, {"from": "gpt", "value": "b", "weight": None}]
    assert row({"conversations": sharegpt}).messages == found.messages[1:]


def test_a_list_per_key_is_a_list_of_turns():
    turns = [user("u"), assistant("a")]
    lists = {"role": ["user", "assistant"], "content": ["u", "a"], "tool_calls": None}
    assert row({"messages": lists}) == Chat(turns)
    assert row({"conversations": {"from": ["human", "gpt"], "value": ["u", "a"]}}) == Chat(turns)
    asked, answered = ({name: [turn[name]] for name in turn} for turn in turns)
    assert row({"prompt": asked, "completion": answered}) == Chat(turns, 1)


@pytest.mark.parametrize(
    "value, message",
    [
        ({"messages": [user("u")]}, "no turn has the role assistant (ShareGPT: gpt): nothing to learn"),
        ({"messages": [user("u"), NULL]}, "turn 2 of 'messages': expected role and content, or from and value; found"),
        ({"messages": [user("u"), NULL]}, "content is null"),
        ({"messages": [user("u"), {"role": "assistant", "content": 3}]}, "turn 2 of 'messages': 'content' is int"),
        (
            {"messages": [user("u"), assistant("a"), {"role": "Assitant", "content": "b"}]},
            "turn 3 of 'messages': the role 'Assitant' is not known; did you mean 'assistant'?",
        ),
        ({"messages": [{**assistant("a"), "weight": 0.5}]}, "turn 1 of 'messages': 'weight' is 0.5; expected 0, not"),
        ({"messages": [{**assistant("a"), "weight": True}]}, "turn 1 of 'messages': 'weight' is True; expected 0"),
        ({"messages": [{**assistant("a"), "weight": "0"}]}, "'weight' is 0; expected 0, not learned, or 1"),
        ({"messages": [user("u"), {**assistant("a"), "weight": 0}]}, "every turn of the assistant has the weight 0: n"),
        ({"messages": [{"speaker": "x"}]}, "expected role and content, or from and value; found speaker"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "a part of its content is no text"),
        ({"conversations": [{"from": "bard", "value": "x"}]}, "'bard' is not known; expected one of system, human"),
        ({"conversations": [{"from": "function_call", "value": "add"}]}, "no JSON object with name and arguments"),
        ({"conversations": {"from": ["gpt", "gpt"], "value": ["a"]}}, "differ in length: 2 of from, 1 of value"),
        ({"conversations": {"from": "gpt", "value": "a"}}, "not a list of turns, nor a list for each of from, value"),
        ({"conversations": {"from": [], "value": []}}, "'conversations' is empty; expected at least one turn"),
        ({"conversations": {}}, "'conversations' is empty; expected at least one turn"),
        ({"conversations": {"from": ["gpt"], "value": [3]}}, "turn 1 of 'conversations': 'value' is int"),
        ({"conversations": "x"}, "'conversations' is not a list of turns"),
        ({"prompt": [user("u")], "completion": "x"}, "'prompt' is list and 'completion' is str; expected two texts"),
        ({"prompt": [user("u")], "completion": [user("u")]}, "no turn has the role assistant"),
        ({"messages": [user("u"), assistant("a")], "tools": {"a": 1}}, "'tools' is dict; expected a list of JSON"),
        ({**ALPACA, "history": "a"}, "'history' is str; expected a list of [instruction, response]"),
        ({**ALPACA, "history": [["a"]]}, "pair 1 of 'history': expected [instruction, response]; found a list of 1"),
        ({**ALPACA, "history": [["a", "b"], "c"]}, "pair 2 of 'history': expected [instruction, response]; found str"),
        ({**ALPACA, "history": [["a", 3]]}, "pair 1 of 'history': 'response' is int; expected a string"),
        ({**ALPACA, "system": 3}, "'system' is int; expected a string"),
        ({**ALPACA, "history": [], "instruction": 3}, "'instruction' is int; expected a string"),
    ],
)
def test_what_is_wrong_names_the_turn(value, message):
    with pytest.raises(RowError) as error:
        row(value)
    assert str(error.value).startswith("d:1: ") and message in str(error.value)


def test_a_role_that_is_like_no_other_is_the_templates_to_know():
    turns = [user("u"), {"role": "ipython", "content": "3"}, assistant("a")]
    assert row({"messages": turns}) == Chat(turns)


def test_a_history_that_only_later_rows_have_is_refused():
    with pytest.raises(RowError, match="d:2: 'history' beside instruction and output, which the first row does not"):
        row_of("d:2", {**ALPACA, "history": [["a", "b"]]}, detect_keys("d:1", ALPACA, None))
