"""The tokenizer of a model's folder, by Hugging Face tokenizers; templates by transformers."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain
from operator import itemgetter
from pathlib import Path

from jinja2 import TemplateSyntaxError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ferry_tools.added_tokens import add_tokens_of, token_text
from ferry_tools.errors import DataError
from ferry_tools.git_lfs import refuse_git_lfs_pointer
from ferry_tools.json_file import read_json
from ferry_tools.long_text import PIECE, encode_pieces, in_pieces
from ferry_tools.template_limits import bounded
from ferry_tools.template_syntax import broken
from ferry_tools.templates import ChatTemplate, asked_template, named_template

Span = tuple[int, int]  # of characters or of tokens: from, to

OWN_TEMPLATE = "the tokenizer's own"
ANY_TEXT = "The quick brown fox jumps over 12 lazy dogs."

# What templates that ask for today are told, so that a run goes on with the same tokens on another day. Llama 3.1's
# says this one where it cannot ask.
TODAY = datetime(2024, 7, 26)

# Everything that decides how text becomes ids; their bytes are part of a token file's hash.
FILES = [
    "tokenizer.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "additional_chat_templates/tool_use.jinja",
]

# In a tokenizer.json, and the default of byte-level BPE: a token would have no spaces among its characters, so that a
# turn that ends in one would lose it.
TRIMS_SPACES = re.compile(r'("trim_offsets"\s*:\s*)true')


def load_tokenizer(folder: Path) -> Tokenizer:
    """Loads tokenizer.json, or the byte-level BPE of vocab.json and merges.txt."""
    whole = (folder / "tokenizer.json").is_file()
    for name in ("tokenizer.json",) if whole else ("vocab.json", "merges.txt"):
        if (folder / name).is_file():
            refuse_git_lfs_pointer(folder / name)
    try:
        if whole:
            written = (folder / "tokenizer.json").read_text(encoding="utf-8")
            tokenizer = Tokenizer.from_str(TRIMS_SPACES.sub(r"\1false", written))
            tokenizer.no_truncation()
            tokenizer.no_padding()
            return tokenizer
        vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
        if vocabulary.is_file() and merges.is_file():
            tokenizer = Tokenizer(models.BPE.from_file(str(vocabulary), str(merges)))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
            if tokenizer.token_to_id("<|endoftext|>") is not None:
                tokenizer.add_special_tokens(["<|endoftext|>"])
            return tokenizer
    except Exception as error:  # tokenizers raises bare Exception for whatever it cannot read
        raise DataError(f"{folder}: its tokenizer cannot be read: {error}") from None
    raise DataError(f"{folder}: no tokenizer; expected tokenizer.json, or vocab.json and merges.txt")


def find_end_token(folder: Path, tokenizer: Tokenizer) -> int:
    """The id that ends an answer: the tokenizer's own word first, then the model's."""
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        text = token_text(read_json(folder / name).get("eos_token"))
        if text is None:
            continue
        number = tokenizer.token_to_id(text)
        if number is None:
            raise DataError(f"{folder / name}: eos_token {text!r} is not in the vocabulary")
        return number
    for name in ("generation_config.json", "config.json"):
        number = read_json(folder / name).get("eos_token_id")
        number = number[0] if isinstance(number, list) and number else number
        if isinstance(number, int):
            if tokenizer.id_to_token(number) is None:
                raise DataError(f"{folder / name}: eos_token_id {number} is not in the vocabulary")
            return number
    number = tokenizer.token_to_id("<|endoftext|>")
    if number is None:
        raise DataError(f"{folder}: no end token; expected eos_token in tokenizer_config.json")
    return number


def model_vocabulary(folder: Path) -> int | None:
    """How many ids a model has, where its configuration says so."""
    size = read_json(folder / "config.json").get("vocab_size")
    return size if isinstance(size, int) else None


@dataclass
class ModelTokenizer:
    """A tokenizer with what training needs to know: where samples begin and end, how turns are written."""

    folder: Path
    tokenizer: Tokenizer
    end_token: int
    asked_template: ChatTemplate | None = None  # none: the tokenizer's own, or ChatML

    @classmethod
    def load(cls, folder: Path, chat_template: str | None = None) -> "ModelTokenizer":
        """`chat_template` is a name or a file."""
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; expected a model's folder")
        tokenizer = load_tokenizer(folder)
        add_tokens_of(folder, tokenizer)
        if not tokenizer.encode(ANY_TEXT, add_special_tokens=False).ids:
            raise DataError(
                f"{folder}: its tokenizer makes no tokens of text; its vocabulary was lost when it was saved, so "
                "copy the tokenizer's files from the model that it belongs to"
            )
        asked = None if chat_template is None else asked_template(chat_template, tokenizer)
        return cls(folder, tokenizer, find_end_token(folder, tokenizer), asked)

    @cached_property
    def begin_tokens(self) -> list[int]:
        """What the tokenizer puts in front of a text, such as <s>; without the end token."""
        return [i for i in self.tokenizer.encode("").ids if i != self.end_token]

    @cached_property
    def vocabulary(self) -> int:
        """One more than the largest id."""
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def model_vocabulary(self) -> int | None:
        """How many ids the model has, by its configuration."""
        return model_vocabulary(self.folder)

    @cached_property
    def chat(self):
        """transformers' tokenizer, which knows the folder's template and special tokens."""
        from transformers import AutoTokenizer  # takes seconds, and only conversations need it

        try:
            return AutoTokenizer.from_pretrained(self.folder, local_files_only=True, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.folder}: its tokenizer cannot be loaded: {error}") from None

    @cached_property
    def chat_template(self) -> ChatTemplate:
        """The template that was asked for, the tokenizer's own, or ChatML."""
        return self._template(None)

    @cached_property
    def tool_template(self) -> ChatTemplate:
        """The same for conversations with tools, for which a tokenizer may have one of its own, `tool_use`."""
        return self._template([])

    def template_for(self, tools: list[dict] | None) -> ChatTemplate:
        return self.tool_template if tools else self.chat_template

    def _template(self, tools: list[dict] | None) -> ChatTemplate:
        if self.asked_template:
            return self.asked_template
        if not self.chat.chat_template:
            return named_template("chatml", self.tokenizer)
        try:
            return ChatTemplate(self.chat.get_chat_template(tools=tools), OWN_TEMPLATE)
        except ValueError:  # of several none is meant for this
            kind = "conversations" if tools is None else "conversations with tools"
            raise DataError(
                f"{self.folder}: none of its chat templates is for {kind}; found {', '.join(self.chat.chat_template)}; "
                "expected one called default; save the one that is meant as a file, and name that as data.chat_template"
            ) from None

    @property
    def foreign_template(self) -> ChatTemplate | None:
        """The template that conversations were rendered with, unless it is the tokenizer's own or there were none."""
        # cached_property's: not there before they are needed
        used = [self.__dict__[name] for name in ("chat_template", "tool_template") if name in self.__dict__]
        return next((template for template in used if template.origin != OWN_TEMPLATE), None)

    @cached_property
    def renderer(self) -> Callable:
        """transformers' renderer, with TODAY: loaded, so that a template's limits count what it takes alone."""
        from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

        special = self.chat.special_tokens_map

        def render(chat_template: str, **arguments):
            # It keeps compiled templates, and takes no functions for them.
            _compile_jinja_template(chat_template).environment.globals["strftime_now"] = today
            return render_jinja_template(chat_template=chat_template, **special, **arguments)

        return render

    def render(
        self, messages: list[dict], tools: list[dict] | None = None, prompt: bool = False
    ) -> tuple[str, list[Span]]:
        """A conversation as text, and what the template marks of it; `prompt`: up to the next answer.

        Call it within template_limits.limits(), after `renderer` and the template are there.
        """
        template = self.template_for(tools)
        texts, spans = self.renderer(
            conversations=[messages],
            tools=tools,
            chat_template=template.text,
            return_assistant_tokens_mask=template.is_marked,
            add_generation_prompt=prompt,
        )
        return bounded(texts[0]), [tuple(span) for span in spans[0]] if spans else []

    def broken_template(self, template: ChatTemplate, error: TemplateSyntaxError) -> DataError:
        """What jinja2 says of the template when it is first rendered, such as a filter that it does not know."""
        own = template.origin == OWN_TEMPLATE
        where = f"{self.folder}: {OWN_TEMPLATE} chat template" if own else template.origin
        return broken(f"{where}:{error.lineno}", error)

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Ids of each text, without special tokens added."""
        if any(len(text) > PIECE for text in texts):
            pieces = (encode_pieces(self.tokenizer, in_pieces(text)) for text in texts)
            return [[number for tokens in of_text for number, _, _ in tokens] for of_text in pieces]
        encoded = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [item.ids for item in encoded]

    def encode_with_spans(self, text: str, spans: list[Span]) -> tuple[list[int], list[Span]]:
        """Ids of a text, without special tokens added, and which tokens have characters of each span.

        Spans of characters are ascending; those without tokens are left out.
        """
        if len(text) <= PIECE:
            encoded = self.tokenizer.encode(text, add_special_tokens=False)
            ids, places = encoded.ids, encoded.offsets
        else:
            placed = list(chain.from_iterable(encode_pieces(self.tokenizer, in_pieces(text))))
            ids, places = [number for number, _, _ in placed], [(begin, end) for _, begin, end in placed]
        found = [tokens_of(places, span) for span in spans]
        return ids, [(first, last) for first, last in found if first < last]


def today(form: str) -> str:
    return TODAY.strftime(form)


def tokens_of(places: list[Span], span: Span) -> Span:
    """The tokens that have characters of a span, by the characters of each token, which ascend.

    Several tokens may have the same character, the bytes of an emoji, and all of them are meant.
    """
    begin, end = span
    return bisect_right(places, begin, key=itemgetter(1)), bisect_left(places, end, key=itemgetter(0))
