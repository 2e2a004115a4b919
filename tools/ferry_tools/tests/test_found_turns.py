"""What is learned of templates that do not mark the assistant's turns, and write more than one turn after the other."""

import json
import random
import shutil
from collections import Counter

import pytest
from test_learned_answers import (
    END,
    FORMS,
    PIECES,
    conversation,
    expected,
    learned_text,
    like_gpt2,
    of_form,
    save,
)

from ferry_tools.chat import LOST, UNASKED, chat_sample, common
from ferry_tools.errors import RowError
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.rows import Chat, row_of

START = "<|im_start|>"
# As Qwen2.5's: a text of its own where there is no system's turn.
QWEN25 = (
    "{% if messages[0].role != 'system' %}{{ '" + START + "system\\nYou are Qwen.' + eos_token + '\\n' }}{% endif %}"
    "{% for m in messages %}{{ '" + START + "' + m.role + '\\n' + m.content + eos_token + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + START + "assistant\\n' }}{% endif %}"
)

# As Qwen3's: thinking is written in answers behind the last question only, and in the last of those even if there is
# none.
QWEN3 = """\
{%- set asked = namespace(last=messages | length - 1, found=false) %}
{%- for m in messages[::-1] %}
    {%- if not asked.found and m.role == 'user' and not m.content.startswith('<tool_response>') %}
        {%- set asked.found = true %}
        {%- set asked.last = messages | length - 1 - loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set said = m.content or '' %}
    {%- if m.role == 'assistant' %}
        {%- set thought = m.reasoning_content or '' %}
        {%- if '</think>' in said %}
            {%- set thought = said.split('</think>')[0].split('<think>')[-1].strip('\n') %}
            {%- set said = said.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' }}
        {%- if loop.index0 > asked.last and (loop.last or thought) %}
            {{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + said.lstrip('\n') }}
        {%- else %}
            {{- said }}
        {%- endif %}
        {%- for call in m.tool_calls or [] %}
            {{- '\n' if said or not loop.first else '' }}
            {{- '<tool_call>\n' + call.function | tojson + '\n</tool_call>' }}
        {%- endfor %}
        {{- eos_token + '\n' }}
    {%- elif m.role == 'tool' %}
        {{- '<|im_start|>user' if loop.first or messages[loop.index0 - 1].role != 'tool' else '' }}
        {{- '\n<tool_response>\n' + said + '\n</tool_response>' }}
        {{- eos_token + '\n' if loop.last or messages[loop.index0 + 1].role != 'tool' else '' }}
    {%- else %}
        {{- '<|im_start|>' + m.role + '\n' + said + eos_token + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""


def as_qwen3(turns: list[dict]) -> tuple[bytes, list[tuple[int, int]]]:
    """What QWEN3 makes of turns, in Python, and where in it the assistant speaks, without the end token."""
    asked = max((n for n, turn in enumerate(turns) if turn["role"] == "user"), default=len(turns) - 1)
    text, spans = b"", []
    for n, turn in enumerate(turns):
        said, role, last = turn.get("content", ""), turn["role"], n + 1 == len(turns)
        if role == "tool":
            text += b"" if n and turns[n - 1]["role"] == "tool" else f"{START}user".encode()
            text += f"\n<tool_response>\n{said}\n</tool_response>".encode()
            text += b"" if not last and turns[n + 1]["role"] == "tool" else f"{END}\n".encode()
            continue
        text += f"{START}{role}\n".encode()
        begin = len(text)
        thought = turn.get("reasoning_content", "")
        if role == "assistant" and "</think>" in said:
            thought, said = (part.strip("\n") for part in said.removeprefix("<think>").split("</think>"))
        if role == "assistant" and n > asked and (last or thought):
            text += f"<think>\n{thought}\n</think>\n\n".encode()
        calls = [json.dumps(call["function"], ensure_ascii=False) for call in turn.get("tool_calls", [])]
        calls = [f"<tool_call>\n{call}\n</tool_call>" for call in calls]
        text += "\n".join(([said] if said or not calls else []) + calls).encode()
        text += f"{END}\n".encode()
        spans += [(begin, len(text) - 1)] if role == "assistant" else []
    return text, spans


def drawn_turns(draw: random.Random) -> list[dict]:
    """A conversation of any order; what is said neither begins nor ends in the white space that QWEN3 trims."""
    turns = []
    for role in draw.choices(["user", "assistant", "tool"], [3, 5, 2], k=draw.randint(1, 8)):
        turn = {"role": role, "content": "x" + "".join(draw.choices(PIECES, k=draw.randint(0, 3))) + "x"}
        if role == "assistant" and draw.random() < 0.3:
            turn["content"] = draw.choice(["", turn["content"]])
            calls = [{"name": "f", "arguments": {"a": text}} for text in draw.choices(PIECES, k=draw.randint(1, 2))]
            turn["tool_calls"] = [{"type": "function", "function": call} for call in calls]
        if role == "assistant" and draw.random() < 0.2:
            turn["reasoning_content"] = "hm"
        elif role == "assistant" and draw.random() < 0.2:
            turn["content"] = f"<think>\nso{draw.choice(PIECES)}so\n</think>\n\n{turn['content']}"
        turns.append(turn)
    return [*draw.choice([[], [{"role": "system", "content": "s"}]]), *turns, {"role": "assistant", "content": "end"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save(like_gpt2(), tmp_path_factory.mktemp("turns") / "model")


@pytest.fixture
def of_template(folder, tmp_path):
    def load(text: str) -> ModelTokenizer:
        (tmp_path / "t.jinja").write_text(text)
        return ModelTokenizer.load(folder, str(tmp_path / "t.jinja"))

    return load


def greeting(*texts: str) -> list[dict]:
    """A conversation that the assistant begins."""
    return conversation("", *texts)[1:]


@pytest.mark.parametrize("texts", [["Hello?"], ["Hello?", "Hi", "Fine"], ["", "Hi", "Fine"], ["Hello?", "Hi"]])
@pytest.mark.parametrize("system", [[], [{"role": "system", "content": "Be short."}]])
def test_an_answer_at_the_beginning_is_learned_without_the_templates_own_text(of_template, system, texts):
    tokens = of_template(QWEN25)
    ids, flags = chat_sample(tokens, "d:1", Chat([*system, *greeting(*texts)]))
    assert learned_text(tokens, (ids, flags)) == "".join(said + END for said in texts[::2])
    theirs = tokens.chat.apply_chat_template(
        [*system, *greeting(*texts)], chat_template=tokens.chat_template.text, return_dict=False
    )
    assert ids == theirs


def test_an_answer_that_a_template_does_not_write_where_it_is_said_is_refused(of_template):
    tokens = of_template("{{ messages | length }}{% for m in messages[1:] %}{{ m.content }}{% endfor %}")
    with pytest.raises(RowError, match="d:1: the last turn cannot be found .*; try another data.chat_template"):
        chat_sample(tokens, "d:1", Chat(greeting("Hello?")))


@pytest.mark.parametrize("one, other, length", [("", "a", 0), ("a", "a", 1), ("ab", "ac", 1), ("abc", "ab", 2)])
def test_what_texts_have_in_common(one, other, length):
    assert common(one, other) == common(other, one) == length


def test_of_any_conversation_as_qwen3_writes_it_every_answer_is_learned(of_template):
    tokens, seed = of_template(QWEN3), 11
    draw = random.Random(seed)
    for _ in range(400):
        turns, told = drawn_turns(draw), Counter()
        ids, flags = chat_sample(tokens, "d:1", Chat(turns), told)
        assert (ids, flags) == expected(tokens, *as_qwen3(turns)), (seed, turns)
        assert not told
        theirs = tokens.chat.apply_chat_template(turns, chat_template=tokens.chat_template.text, return_dict=False)
        assert ids == theirs


@pytest.mark.parametrize(
    "behind, behind_last, learned",
    [
        ("\\n", "\\n", "a\nb\n"),
        ("\\n", "\\n\\n", "ab\n\n"),
        ("<s>", "</s>", "ab</s>"),
        (END + "\\n", END, f"a{END}b"),
        (END + "1", END + "2", f"a{END}b"),
    ],
)
def test_what_is_behind_an_answer_is_its_own_where_it_is_behind_the_last_too(of_template, behind, behind_last, learned):
    tokens = of_template(
        "{% for m in messages %}{{ 'A:' if m.role == 'assistant' else 'U:' }}"
        "{{ ' ' if loop.last and m.role == 'assistant' else '' }}{{ m.content }}"
        f"{{{{ '' if m.role == 'user' else '{behind_last}' if loop.last else '{behind}' }}}}{{% endfor %}}"
        "{% if add_generation_prompt %}A:{% endif %}"
    )
    sample = chat_sample(tokens, "d:1", Chat(conversation("u", "a", "v", "b")))
    assert learned_text(tokens, sample) == learned.replace("b", " b") + ("" if learned.endswith(END) else END)


DROPS = (
    "{% for m in messages %}{% if m.role == 'user' or loop.last %}{{ m.role }}: {{ m.content }}\n{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def test_turns_that_a_template_leaves_out_are_told_and_shown_in_a_preview(folder, tmp_path, jsonl, ferry_tools):
    model = shutil.copytree(folder, tmp_path / "drops")
    (model / "chat_template.jinja").write_text(DROPS)
    rows = [{"messages": conversation("u", str(n), "v", "b", "w", "c")} for n in range(3)]
    for _ in range(2):  # made, and found again
        process = ferry_tools("preview", jsonl(*rows), "--model", model)
        told = f"{tmp_path / 'data.jsonl'}: 6 {LOST}"
        assert process.returncode == 0 and told in process.stderr.splitlines()
        assert f"  {told}" in process.stdout[process.stdout.index("LOOK AT THESE") :].splitlines()


def weighed(turns: list[dict], weights: list[int | None]) -> list[dict]:
    """Turns whose answers have these weights; None: they have none."""
    given = iter(weights)
    return [
        turn if turn["role"] == "user" or (weight := next(given)) is None else {**turn, "weight": weight}
        for turn in turns
    ]


@pytest.mark.parametrize("name", FORMS)
def test_answers_of_the_weight_0_are_not_learned(folder, tmp_path, name):
    form, seed = FORMS[name], 5
    tokens, draw = of_form(folder, tmp_path, form), random.Random(seed)
    for _ in range(60):
        texts = ["x" + "".join(draw.choices(PIECES, k=2)) for _ in range(2 * draw.randint(1, 4))]
        turns = conversation(*texts)
        weights = [draw.choice([0, 1, 1.0, None]) for _ in texts[1::2]]
        text, spans = form.written(turns)
        spans = [span for span, weight in zip(spans, weights, strict=True) if weight != 0]
        if spans:
            chat = row_of("d:1", {"messages": weighed(turns, weights)}, ("messages",))
            ids, flags = chat_sample(tokens, "d:1", chat)
            assert (ids, flags) == expected(tokens, text, spans), (seed, texts, weights)


def test_an_answer_of_the_weight_0_that_cannot_be_found_is_refused(of_template):
    tokens = of_template(
        "{{ messages[-1].content }}{% for m in messages %}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    with pytest.raises(RowError, match="d:1: turn 2, of the weight 0, cannot be found in the rendered conversation"):
        chat_sample(tokens, "d:1", Chat(weighed(conversation("u", "a", "v", "b"), [0, 1])))


# As DeepSeek-R1's: answers lose their thinking, and the prompt for one asks for it.
R1 = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ '<U>' + m.content }}{% else %}"
    "{{ '<A>' + m.content.split('</think>')[-1] + eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<A><think>\\n' }}{% endif %}"
)


def test_answers_are_learned_where_the_prompt_for_one_ends_in_more(of_template):
    tokens, told = of_template(R1), Counter()
    turns = conversation("u", "a", "v <A><think>\n", "<think>\nb\n</think>c", "", "")
    ids, flags = chat_sample(tokens, "d:1", Chat(turns), told)
    assert ids == tokens.chat.apply_chat_template(turns, chat_template=R1, return_dict=False)
    assert learned_text(tokens, (ids, flags)) == f"a{END}c{END}{END}"
    assert told == {UNASKED: 3}


def test_a_text_that_only_the_prompt_for_an_answer_has_is_not_lost_in_silence(of_template):
    """As some of Mistral's: what the system says is written into the last message, if that is the user's."""
    tokens = of_template(
        "{% for m in messages[1:] %}{% if m.role == 'user' %}[INST]{{ messages[0].content if loop.last else '' }}"
        "{{ m.content }}[/INST]{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    )
    turns = [{"role": "system", "content": "Be short."}, *conversation("u", "a", "v", "b")]
    with pytest.raises(RowError, match="the last turn cannot be found in the rendered conversation"):
        chat_sample(tokens, "d:1", Chat(turns))
