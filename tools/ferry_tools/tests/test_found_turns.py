"""What is learned of templates that do not mark the assistant's turns, and write more than turns one after the other."""

import pytest
from test_learned_answers import END, conversation, learned_text, like_gpt2, save

from ferry_tools.chat import chat_sample, common
from ferry_tools.errors import RowError
from ferry_tools.model_tokenizer import ModelTokenizer
from ferry_tools.rows import Chat

START = "<|im_start|>"
# As Qwen2.5's: a text of its own where there is no system's turn.
QWEN25 = (
    "{% if messages[0].role != 'system' %}{{ '" + START + "system\\nYou are Qwen.' + eos_token + '\\n' }}{% endif %}"
    "{% for m in messages %}{{ '" + START + "' + m.role + '\\n' + m.content + eos_token + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '" + START + "assistant\\n' }}{% endif %}"
)


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
