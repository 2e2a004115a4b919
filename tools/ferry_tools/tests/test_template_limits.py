"""A chat template is a stranger's code: what it takes is bounded."""

import resource
import signal

import pytest
from ferry_tools import template_limits
from ferry_tools.template_limits import BeyondLimits, bounded, limits
from transformers.utils.chat_template_utils import render_jinja_template

MESSAGES = [{"role": "user", "content": "Hi"}]


def rendered(template: str) -> str:
    with limits():
        return bounded(render_jinja_template(conversations=[MESSAGES], chat_template=template)[0][0])


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'a' * 6000000000 }}",
        "{% for _ in range(90000) %}{{ 'abcdefghij' * 100000 }}{% endfor %}",
    ],
)
def test_a_template_that_takes_all_memory_is_stopped(template):
    with pytest.raises(BeyondLimits, match="it takes more than 1024 MiB of memory"):
        rendered(template)


def test_a_template_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr(template_limits, "SECONDS", 1)
    with pytest.raises(BeyondLimits, match="it runs for more than 1 s"):
        rendered("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")


def test_a_text_of_more_than_64_mi_characters_is_refused():
    with pytest.raises(BeyondLimits, match="it writes 67108865 characters; expected at most 67108864"):
        rendered("{{ 'a' * 67108865 }}")


def test_a_decent_template_leaves_no_limit_behind():
    before = resource.getrlimit(resource.RLIMIT_AS)
    assert rendered("{{ messages[0].content }}") == "Hi"
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0) == signal.getitimer(signal.ITIMER_PROF)
