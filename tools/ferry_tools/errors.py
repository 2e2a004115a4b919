"""The errors that a person can repair; the command line prints their text and exits with 2."""


class DataError(Exception):
    """The text names file and line, what is wrong, what was expected and what was found."""


class RowError(DataError):
    """One row is of no use; the rows beside it may be (`data.on_error: skip`)."""
