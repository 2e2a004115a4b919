"""Whether a text is a chat template at all: jinja2 with the tags that transformers' renderer knows."""

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser

from ferry_tools.errors import DataError


class Generation(Extension):
    """`{% generation %}` and its end, around what the assistant says; transformers has its own for rendering."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def check_syntax(path: str, text: str) -> None:
    """Raises DataError that names file and line. Nothing of the template is computed: that takes limits."""
    try:
        Environment(extensions=[Generation, loopcontrols], trim_blocks=True, lstrip_blocks=True).parse(text)
    except TemplateSyntaxError as error:
        raise broken(f"{path}:{error.lineno}", error) from None
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits; nested too deep
        raise broken(path, error) from None


def broken(where: str, error: Exception) -> DataError:
    reason = error.message if isinstance(error, TemplateSyntaxError) else str(error)  # str adds lines of the template
    return DataError(f"{where}: not a chat template: {reason.rstrip('.')}; expected jinja")
