"""What is learned of a rendered conversation, beside transformers' own masks and TRL's rule."""

import json
import shutil

import pytest

from ferry_tools.chat import chat_sample
from ferry_tools.errors import DataError, RowError
from ferry_tools.make_tokens import Question, make_token_file
from ferry_tools.mix import Part
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.rows import Chat
from ferry_tools.template_syntax import check_syntax
from ferry_tools.templates import GENERATION, NAMED

TURNS = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "two apples?"},
    {"role": "assistant", "content": "yes."},
    {"role": "user", "content": "and books?\u00e9\U0001f600"},
    {"role": "assistant", "content": "no, \u4e2d."},
]
CALLS = [
    {"role": "user", "content": "1 + 2?"},
    {"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]},
    {"role": "tool", "content": "3"},
    {"role": "assistant", "content": "three"},
]
TOOLS = [{"type": "function", "function": {"name": "add"}}]
WORDS = ["<s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


@pytest.fixture(scope="module")
def folder(nano, tmp_path_factory):
    """nano with the control words of several families."""
    made = tmp_path_factory.mktemp("chat") / "model"
    shutil.copytree(nano, made)
    tokenizer = ModelTokenizer.load(made).tokenizer
    tokenizer.add_special_tokens(WORDS)
    tokenizer.save(str(made / "tokenizer.json"))
    return made


def text(tokens, ids, flags=None) -> str:
    chosen = [i for place, i in enumerate(ids) if flags is None or flags[place]]
    return tokens.tokenizer.decode(chosen, skip_special_tokens=False)


@pytest.mark.parametrize("name", NAMED)
def test_masks_are_those_of_transformers(folder, name):
    tokens = ModelTokenizer.load(folder, name)
    theirs = tokens.chat.apply_chat_template(
        TURNS, chat_template=tokens.chat_template.text, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, flags = chat_sample(tokens, "d:1", Chat(TURNS))
    count = len(theirs["input_ids"]) - theirs["assistant_masks"][::-1].index(1)  # what follows is not predicted
    assert ids[:count] == theirs["input_ids"][:count] and list(flags[:count]) == theirs["assistant_masks"][:count]
    assert ids[flags.rindex(1)] == tokens.end_token


@pytest.mark.parametrize("name", ["chatml", "llama3", "zephyr"])
def test_a_template_without_markers_gives_the_same_turns(folder, tmp_path, name):
    marked = ModelTokenizer.load(folder, name)
    bare = tmp_path / "bare.jinja"
    bare.write_text(GENERATION.sub("", marked.chat_template.text).replace("{%- endgeneration -%}", ""))
    unmarked = ModelTokenizer.load(folder, str(bare))
    assert marked.chat_template.is_marked and not unmarked.chat_template.is_marked
    ids, flags = chat_sample(marked, "d:1", Chat(TURNS))
    others, other_flags = chat_sample(unmarked, "d:1", Chat(TURNS))
    # What a template writes after an answer's end, a newline, counts as the turn's where nothing marks it.
    assert others[: len(ids) - 1] == ids[:-1]
    assert text(unmarked, others, other_flags).replace("\n", "") == text(marked, ids, flags).replace("\n", "")


@pytest.mark.parametrize("name", ["chatml", "llama3"])
def test_a_prompt_of_messages_is_learned_as_trl_does(folder, name):
    """TRL: what the conversation has beyond the prompt with its generation prompt; ours ends at the end of turn."""
    tokens = ModelTokenizer.load(folder, name)
    template = tokens.chat_template.text
    asked = tokens.chat.apply_chat_template(
        TURNS[:-1], chat_template=template, add_generation_prompt=True, return_dict=False
    )
    whole = tokens.chat.apply_chat_template(TURNS, chat_template=template, return_dict=False)
    ids, flags = chat_sample(tokens, "d:1", Chat(TURNS, 4))
    assert ids[: len(asked)] == whole[: len(asked)] == asked and not any(flags[: len(asked)])
    assert flags[len(asked)] == 1 and text(tokens, ids, flags).startswith("no, \u4e2d.")
    assert "yes" not in text(tokens, ids, flags)


@pytest.mark.parametrize("last", ["{{ ' (Why?)' if loop.last else '' }}", "{{ eos_token if loop.last else '' }}"])
def test_a_template_that_writes_the_last_message_differently_loses_no_answer(folder, tmp_path, last):
    """A prompt that was longer by itself than in the conversation hid the first answers behind it."""
    marked = "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}"
    template = "{% for m in messages %}" + marked + "{{ m.content }}{% endif %}" + last + "{% endfor %}"
    (tmp_path / "t.jinja").write_text(template)
    tokens = ModelTokenizer.load(folder, str(tmp_path / "t.jinja"))
    turns = [TURNS[1], TURNS[2], TURNS[3], {"role": "assistant", "content": "b."}, TURNS[1], TURNS[4]]
    for first, learned in ((1, "yes.b.no, \u4e2d."), (3, "b.no, \u4e2d."), (5, "no, \u4e2d.")):
        assert text(tokens, *chat_sample(tokens, "d:1", Chat(turns, first))).removesuffix("<|endoftext|>") == learned


@pytest.mark.parametrize("name", ["chatml", "llama3"])
def test_calls_are_learned_and_their_results_are_not(folder, name):
    tokens = ModelTokenizer.load(folder, name)
    ids, flags = chat_sample(tokens, "d:1", Chat(CALLS, 0, TOOLS))
    learned = text(tokens, ids, flags)
    assert '"name": "add"' in learned and "three" in learned and "3" not in learned
    assert "functions can be called" in text(tokens, ids)


def test_chatml_ends_turns_as_the_vocabulary_can(nano, folder):
    assert "'<|im_end|>'" in ModelTokenizer.load(folder).chat_template.text
    plain = ModelTokenizer.load(nano).chat_template
    assert "eos_token" in plain.text and plain.words == ("<|im_start|>",)


def test_a_conversation_that_a_template_cannot_write_is_a_row_error(folder):
    with pytest.raises(RowError, match="d:1: the chat template refuses the conversation: .*no tools"):
        chat_sample(ModelTokenizer.load(folder, "mistral"), "d:1", Chat(CALLS, 0, TOOLS))


def test_a_template_that_is_neither_name_nor_file_is_refused(folder):
    with pytest.raises(DataError, match="lama3: no chat template; expected one of chatml, llama2, llama3"):
        ModelTokenizer.load(folder, "lama3")


@pytest.mark.parametrize(
    "template, reason",
    [
        ("{{ 'a' * 6000000000 }}", "it takes more than 1024 MiB of memory"),
        ("{{ messages[0].content }}{{ 'a' * 67108864 }}", "it writes .* characters"),
        ("{{ messages[0].content }}{{ '\\ud800' }}", "it writes half of a surrogate pair; expected text"),
    ],
)
def test_a_template_that_takes_too_much_is_a_row_error(folder, tmp_path, template, reason):
    (tmp_path / "t.jinja").write_text(template)
    with pytest.raises(RowError, match=f"d:1: the chat template refuses the conversation: {reason}"):
        chat_sample(ModelTokenizer.load(folder, str(tmp_path / "t.jinja")), "d:1", Chat(TURNS))


@pytest.mark.parametrize(
    "template, where, reason",
    [
        ("{% for m in messages %}\n{{ m.content }\n{% endfor %}", ":2", "unexpected '}'"),
        ("{{ bos_token }}\n\n{% generation %}{{ messages }}", ":3", "Unexpected end of template.*'generation'"),
        ("{% nope %}", ":1", "Encountered unknown tag 'nope'"),
        ("{{ " + "9" * 5000 + " }}", "", "Exceeds the limit .*"),
        ("{{ " + "(" * 5000, "", "maximum recursion depth exceeded"),
    ],
)
def test_a_file_that_is_no_template_is_refused_before_any_row(nano, tmp_path, template, where, reason):
    (tmp_path / "bad.jinja").write_text(template)
    with pytest.raises(DataError, match=f"bad.jinja{where}: not a chat template: {reason}; expected jinja$") as refused:
        ModelTokenizer.load(nano, str(tmp_path / "bad.jinja"))
    assert not isinstance(refused.value, RowError)


def test_a_template_of_unknown_filters_is_no_fault_of_a_row(folder, tmp_path):
    (tmp_path / "bad.jinja").write_text("{{ messages[0].content }}\n{{ messages | nonesuch }}")
    with pytest.raises(DataError, match="bad.jinja:2: not a chat template: No filter named 'nonesuch'") as refused:
        chat_sample(ModelTokenizer.load(folder, str(tmp_path / "bad.jinja")), "d:1", Chat(TURNS))
    assert not isinstance(refused.value, RowError)


def test_the_tokenizers_own_template_is_named_where_it_is_broken(folder, tmp_path):
    model = shutil.copytree(folder, tmp_path / "m")
    (model / "chat_template.jinja").write_text("{{ messages }")
    with pytest.raises(DataError, match="m: the tokenizer's own chat template:1: not a chat template: unexpected '}'"):
        chat_sample(ModelTokenizer.load(model), "d:1", Chat(TURNS))


@pytest.mark.parametrize("name", NAMED)
def test_templates_with_every_tag_that_transformers_knows_are_templates(name):
    check_syntax(name, NAMED[name])
    check_syntax(name, "{% for m in messages %}{% generation %}{% continue %}{%break%}{% endgeneration %}{% endfor %}")


def test_a_broken_template_is_exit_code_2_without_a_word_of_rows(ferry_tools, folder, jsonl, tmp_path):
    (tmp_path / "bad.jinja").write_text("{{ messages[0] }")
    path = jsonl({"messages": TURNS}, "no JSON")
    process = ferry_tools("preview", path, "--model", folder, "--chat-template", "bad.jinja")
    assert process.returncode == 2 and process.stdout == ""
    assert process.stderr == "bad.jinja:1: not a chat template: unexpected '}'; expected jinja\n"


def of_templates(folder, made, templates: dict[str, str], as_files: bool = False) -> ModelTokenizer:
    """A model with several chat templates, as transformers has them: in one file, or in one each."""
    model = shutil.copytree(folder, made)
    settings = json.loads((model / "tokenizer_config.json").read_text())
    if as_files:
        (model / "additional_chat_templates").mkdir()
        for name, template in templates.items():
            place = "chat_template" if name == "default" else f"additional_chat_templates/{name}"
            (model / f"{place}.jinja").write_text(template)
    else:
        settings["chat_template"] = [{"name": name, "template": template} for name, template in templates.items()]
        (model / "tokenizer_config.json").write_text(json.dumps(settings))
    return ModelTokenizer.load(model)


TOOL_USE = "{{ tools | tojson }}{% generation %}{{ messages[-1].content }}{{ eos_token }}{% endgeneration %}"
NO_TOOLS = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"


@pytest.mark.parametrize("as_files", [False, True])
def test_rows_with_tools_take_the_template_for_tools(folder, tmp_path, as_files):
    """As transformers does; one template marks answers here and the other does not."""
    tokens = of_templates(folder, tmp_path / "m", {"tool_use": TOOL_USE, "default": NO_TOOLS}, as_files)
    for tools, turns, learned in ((TOOLS, CALLS, "three"), (None, TURNS, "[assistant]yes.[assistant]no, \u4e2d.")):
        ids, flags = chat_sample(tokens, "d:1", Chat(turns, 0, tools))
        theirs = tokens.chat.apply_chat_template(turns, tools=tools, return_dict=False)
        assert ids[: len(theirs)] == theirs and text(tokens, ids, flags).removesuffix("<|endoftext|>") == learned
    assert tokens.foreign_template is None


def test_templates_of_which_none_is_for_a_conversation_are_named(folder, tmp_path):
    tokens = of_templates(folder, tmp_path / "m", {"rag": NO_TOOLS, "tool_use": TOOL_USE})
    assert "three" in text(tokens, *chat_sample(tokens, "d:1", Chat(CALLS, 0, TOOLS)))
    said = "m: none of its chat templates is for conversations; found rag, tool_use; expected one called default; save"
    with pytest.raises(DataError, match=said):
        chat_sample(tokens, "d:1", Chat(TURNS))
    tokens = of_templates(folder, tmp_path / "n", {"rag": NO_TOOLS})
    with pytest.raises(DataError, match="none of its chat templates is for conversations with tools; found rag; exp"):
        chat_sample(tokens, "d:1", Chat(CALLS, 0, TOOLS))


@pytest.mark.parametrize("as_files", [False, True])
def test_another_template_for_tools_is_another_token_file(folder, tmp_path, jsonl, as_files):
    path, found = jsonl({"messages": CALLS, "tools": TOOLS}), set()
    for name, template in (("a", TOOL_USE), ("b", TOOL_USE + " ")):
        tokens = of_templates(folder, tmp_path / name, {"default": NO_TOOLS, "tool_use": template}, as_files)
        question = Question([Part(path)], tokens.folder, 64)
        found.add(make_token_file(question, tmp_path / "cache")["path"])
    assert len(found) == 2


@pytest.mark.parametrize("marks", ["", "{% generation %}{% endgeneration %}"])
def test_a_template_that_asks_for_today_gives_the_same_tokens_on_every_day(folder, tmp_path, marks):
    (tmp_path / "t.jinja").write_text(
        "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y, %H:%M') }}{% endif %}" + marks + NO_TOOLS
    )
    tokens = ModelTokenizer.load(folder, str(tmp_path / "t.jinja"))
    _ = tokens.renderer
    assert tokens.render(TURNS[:1])[0] == "26 Jul 2024, 00:00[system]Be short."


# As the folders of Llama-2-7b-chat-hf and Mistral-7B-Instruct-v0.2 have them, but for what they refuse.
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}{{ ' ' + message['content'] + eos_token}}{% endif %}"
    "{% endfor %}"
)


@pytest.mark.parametrize("system", [[], [{"role": "system", "content": " Be short. "}]])
@pytest.mark.parametrize("name, theirs", [("llama2", LLAMA2), ("mistral", MISTRAL)])
def test_a_familys_template_writes_what_the_models_own_does(folder, tmp_path, name, theirs, system):
    tokenizer = shutil.copytree(folder, tmp_path / "m")
    settings = json.loads((tokenizer / "tokenizer_config.json").read_text())
    (tokenizer / "tokenizer_config.json").write_text(json.dumps({**settings, "bos_token": "<s>"}))
    tokens = ModelTokenizer.load(tokenizer, name)
    _ = tokens.renderer
    spaces = " \n" if name == "llama2" else ""
    turns = [{**turn, "content": spaces + turn["content"] + spaces} for turn in TURNS[1:]]
    turns = [*(system if name == "llama2" else []), *turns]
    written, spans = tokens.render(turns)
    assert written == tokens.chat.apply_chat_template(turns, chat_template=theirs, tokenize=False)
    assert [written[begin:end].strip() for begin, end in spans] == [
        f"{turn['content'].strip()}{' ' if name == 'llama2' else ''}<|endoftext|>"
        for turn in turns
        if turn["role"] == "assistant"
    ]
    answer = {"role": "assistant", "content": "Hi"}
    assert tokens.render([answer, *turns[-2:]])[0].startswith("<s> Hi")
