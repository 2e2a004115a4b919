"""The one error that a person can repair; the command line prints its text and exits with 2."""


class DataError(Exception):
    """The text names file and line, what is wrong, what was expected and what was found."""
