"""Chat templates by name, and which one a data set is rendered with.

Each is the control words of a family of models, written for transformers' renderer: jinja2, with
`{% generation %}` around what the assistant says, which is what is learned.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from ferry_tools.errors import DataError
from ferry_tools.template_syntax import check_syntax

TEMPLATE_LIMIT = 1 << 20  # bytes of a file

# END is <|im_end|> where the vocabulary has it, and else the tokenizer's end token.
CHATML = """\
{%- if tools -%}
{{- '<|im_start|>system\\n' -}}
{%- if messages[0]['role'] == 'system' -%}{{- messages[0]['content'] + '\\n\\n' -}}{%- endif -%}
{{- 'These functions can be called:\\n<tools>\\n' -}}
{%- for tool in tools -%}{{- tool | tojson + '\\n' -}}{%- endfor -%}
{{- '</tools>\\nA call is <tool_call>{"name": ..., "arguments": {...}}</tool_call>.' + END + '\\n' -}}
{%- endif -%}
{%- for message in messages -%}
{%- if tools and loop.first and message['role'] == 'system' -%}
{%- elif message['role'] == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}
{%- generation -%}
{{- message['content'] or '' -}}
{%- for call in message['tool_calls'] or [] -%}
{%- set call = call['function'] or call -%}
{{- '\\n' if message['content'] or not loop.first else '' -}}
{{- '<tool_call>\\n' + {'name': call['name'], 'arguments': call['arguments']} | tojson + '\\n</tool_call>' -}}
{%- endfor -%}
{{- END -}}
{%- endgeneration -%}
{{- '\\n' -}}
{%- else -%}
{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') + END + '\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}
"""

LLAMA3 = """\
{{- bos_token -}}
{%- if tools -%}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nThese functions can be called:\\n' -}}
{%- for tool in tools -%}{{- tool | tojson + '\\n' -}}{%- endfor -%}
{{- 'A call is {"name": ..., "parameters": {...}}.<|eot_id|>' -}}
{%- endif -%}
{%- for message in messages -%}
{%- set role = 'ipython' if message['role'] == 'tool' else message['role'] -%}
{{- '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' -}}
{%- if role == 'assistant' -%}
{%- generation -%}
{{- (message['content'] or '') | trim -}}
{%- for call in message['tool_calls'] or [] -%}
{%- set call = call['function'] or call -%}
{{- {'name': call['name'], 'parameters': call['arguments']} | tojson -}}
{%- endfor -%}
{{- '<|eot_id|>' -}}
{%- endgeneration -%}
{%- else -%}
{{- (message['content'] or '') | trim + '<|eot_id|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}
"""

# Llama 2 and Mistral know turns of user and assistant only; a system's turn goes into the user's.
INST = """\
{%- if tools -%}{{- raise_exception('this template has no tools') -}}{%- endif -%}
{%- set said = namespace(begin=bos_token, system='') -%}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}
{%- set said.system = SYSTEM -%}
{%- elif message['role'] == 'user' -%}
{{- said.begin + '[INST] ' + USER + ' [/INST]' -}}
{%- set said.begin = '' -%}
{%- set said.system = '' -%}
{%- elif message['role'] == 'assistant' and message['content'] -%}
{{- said.begin -}}
{%- generation -%}{{- ' ' + message['content'] | trim + AFTER + eos_token -}}{%- endgeneration -%}
{%- set said.begin = AGAIN -%}
{%- else -%}
{{- raise_exception('this template has turns of system, user and assistant that say something') -}}
{%- endif -%}
{%- endfor -%}
"""


def of_inst(**parts: str) -> str:
    text = INST
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


LLAMA2 = of_inst(
    SYSTEM="'<<SYS>>\\n' + message['content'] + '\\n<</SYS>>\\n\\n'",
    USER="(said.system + message['content']) | trim",
    AFTER="' '",
    AGAIN="bos_token",
)
MISTRAL = of_inst(
    SYSTEM="message['content'] + '\\n\\n'", USER="said.system + message['content']", AFTER="''", AGAIN="''"
)

ZEPHYR = """\
{%- if tools -%}{{- raise_exception('this template has no tools') -}}{%- endif -%}
{%- for message in messages -%}
{{- '<|' + message['role'] + '|>\\n' -}}
{%- if message['role'] == 'assistant' -%}
{%- generation -%}{{- message['content'] + eos_token -}}{%- endgeneration -%}
{%- else -%}
{{- message['content'] + eos_token -}}
{%- endif -%}
{{- '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>\\n' -}}{%- endif -%}
"""

NAMED = {"chatml": CHATML, "llama2": LLAMA2, "llama3": LLAMA3, "mistral": MISTRAL, "zephyr": ZEPHYR}
GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")
CONTROL_WORD = re.compile(r"<\|(?:im_start|im_end|start_header_id|end_header_id|eot_id)\|>")


@dataclass(frozen=True)
class ChatTemplate:
    """A template and where it comes from."""

    text: str
    origin: str  # "chatml", a file's path, or "the tokenizer's own"
    words: tuple[str, ...] = ()  # its control words that are no tokens of the tokenizer

    @property
    def is_marked(self) -> bool:
        """Whether it says itself what the assistant says."""
        return bool(GENERATION.search(self.text))


def named_template(name: str, tokenizer: Tokenizer) -> ChatTemplate:
    end = "'<|im_end|>'" if tokenizer.token_to_id("<|im_end|>") is not None else "eos_token"
    text = NAMED[name].replace("END", end)
    words = sorted({word for word in CONTROL_WORD.findall(text) if tokenizer.token_to_id(word) is None})
    return ChatTemplate(text, name, tuple(words))


def asked_template(asked: str, tokenizer: Tokenizer) -> ChatTemplate:
    """The template that `data.chat_template` names: one of NAMED, or a file."""
    if asked in NAMED:
        return named_template(asked, tokenizer)
    path = Path(asked)
    if not path.is_file():
        raise DataError(
            f"{asked}: no chat template; expected one of {', '.join(NAMED)}, or a file with a jinja template"
        )
    if path.stat().st_size > TEMPLATE_LIMIT:
        raise DataError(f"{asked}: larger than {TEMPLATE_LIMIT >> 20} MiB; expected a jinja template")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{asked}: not UTF-8; expected a jinja template") from None
    check_syntax(asked, text)
    return ChatTemplate(text, asked)
