"""Reads the rows of a file, whatever its format: JSONL, a JSON array, CSV (each also packed by gzip), Parquet,
a folder of `datasets`.

A row that cannot be read is a record too, one that says why, so that whoever counts rows may skip it.
Memory holds a few rows at a time, and no row larger than ROW_LIMIT.
"""

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ferry_tools.errors import DataError, RowError
from ferry_tools.git_lfs import refuse_git_lfs_pointer
from ferry_tools.json_file import read_json
from ferry_tools.packed_file import format_of, opened

BOM = b"\xef\xbb\xbf"
ROW_LIMIT = 16 << 20  # bytes: more tokens than the longest data.sequence, of 1,048,576, has
ROWS_AT_ONCE = 1024  # of a columnar file
JSON_PIECE = 1 << 20  # characters of an array read at once
TEXT_PIECE = 1 << 18  # bytes of a plain text read at once
OBJECTS = ("tools", "tool_calls")  # of a row, whose keys are the author's
SPACES = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True)
class Record:
    """A row as it was found."""

    where: str  # "data.jsonl:17", or "data.csv: row 17" where rows are not lines
    value: bytes | dict | RowError  # a line of JSON, a row that was parsed already, or why there is none


class Records:
    """The records of a file, in order. `fraction` of the file has been read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fraction = 0.0

    def __iter__(self) -> Iterator[Record]:
        number = 0
        for number, record in enumerate(self._read(), 1):
            yield record
        if number == 0:
            raise DataError(f"{self.path}: empty; expected rows")

    def _read(self) -> Iterator[Record]:
        if self.path.is_dir():
            return self._arrow_folder()
        form = format_of(self.path)
        if form == ".csv":
            return self._csv()
        if form == ".parquet":
            return self._parquet()
        return self._json_array() if starts_an_array(self.path) else self._lines()

    def _lines(self) -> Iterator[Record]:
        """One JSON object per line; the last newline may be missing, and empty lines behind it are none."""
        with opened(self.path) as file:
            number, empty = 0, 0
            while line := file.content.readline(ROW_LIMIT + 1):
                number += 1
                if not line.removeprefix(BOM).strip() and len(line) <= ROW_LIMIT:
                    empty += 1
                    continue
                for earlier in range(number - empty, number):
                    yield Record(f"{self.path}:{earlier}", b"\n")
                where, empty = f"{self.path}:{number}", 0
                value: bytes | RowError = line.removeprefix(BOM) if number == 1 else line
                if len(line) > ROW_LIMIT:
                    value = too_long(where)
                while len(line) > ROW_LIMIT and not line.endswith(b"\n"):
                    line = file.content.readline(ROW_LIMIT + 1) or b"\n"
                self.fraction = file.fraction
                yield Record(where, value)

    def _json_array(self) -> Iterator[Record]:
        """`[{...}, {...}]`, object by object: the whole of it may be larger than memory."""
        with opened(self.path) as file, io.TextIOWrapper(file.content, encoding="utf-8-sig") as text:
            try:
                for number, value in enumerate(array_items(text, self.path), 1):
                    where = f"{self.path}: row {number}"
                    self.fraction = file.fraction
                    yield Record(where, value if isinstance(value, dict) else not_an_object(where, value))
            except UnicodeDecodeError as error:
                raise DataError(f"{self.path}: not UTF-8: found 0x{error.object[error.start]:02x}") from None

    def _csv(self) -> Iterator[Record]:
        """A header, then a row per record; every value is a text."""
        csv.field_size_limit(ROW_LIMIT)
        with opened(self.path) as file:
            text = io.TextIOWrapper(file.content, encoding="utf-8-sig", errors="surrogateescape", newline="")
            reader = csv.reader(text, strict=True)
            try:
                header = next(reader, [])
                refuse_repeated_columns(self.path, header)
                for number, fields in enumerate((fields for fields in reader if fields), 1):
                    self.fraction = file.fraction
                    where = f"{self.path}: row {number}"
                    yield Record(where, csv_row(where, header, fields))
            except csv.Error as error:
                raise DataError(f"{self.path}:{reader.line_num}: not CSV: {error}") from None

    def _parquet(self) -> Iterator[Record]:
        import pyarrow
        import pyarrow.parquet

        try:
            with pyarrow.parquet.ParquetFile(self.path, memory_map=True) as file:
                batches = file.iter_batches(batch_size=ROWS_AT_ONCE, use_threads=False)
                yield from self._columns(batches, file.metadata.num_rows, 0)
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{self.path}: not a Parquet file that can be read: {error}") from None

    def _arrow_folder(self) -> Iterator[Record]:
        """What `save_to_disk` of `datasets` writes: streams of Arrow batches, named in state.json."""
        import pyarrow

        names = arrow_files(self.path)
        first = 0
        for place, name in enumerate(names):
            try:
                with pyarrow.memory_map(str(self.path / name)) as mapped, pyarrow.ipc.open_stream(mapped) as file:
                    for record in self._columns(file, 0, first):
                        self.fraction = place / len(names)
                        first += 1
                        yield record
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise DataError(f"{self.path / name}: cannot be read: {error}") from None

    def _columns(self, batches, rows: int, first: int) -> Iterator[Record]:
        """The rows of columnar batches; the first one has the number `first` + 1."""
        number = first
        for batch in batches:
            batch.validate(full=True)  # a damaged one may point outside of itself
            for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                for value in batch.slice(start, ROWS_AT_ONCE).to_pylist():
                    number += 1
                    self.fraction = number / rows if rows else self.fraction
                    yield Record(f"{self.path}: row {number}", without_others_keys(value))


class PlainText:
    """The text of a file in pieces, CRLF as a newline. `fraction` of the file has been read.

    Raises DataError that names the line of what is no text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fraction = 0.0

    def __iter__(self) -> Iterator[str]:
        line, held, is_empty = 1, b"", True
        with opened(self.path) as file:
            while piece := file.content.read(TEXT_PIECE):
                is_empty = False
                self.fraction = file.fraction
                held += piece
                text = self._decoded(held, line)
                if text.endswith("\r"):  # a newline may follow
                    text = text[:-1]
                if "\0" in text:
                    line += text[: text.index("\0")].count("\n")
                    raise DataError(f"{self.path}:{line}: a NUL byte; expected text")
                line += text.count("\n")
                held = held[len(text.encode()) :]
                yield text.replace("\r\n", "\n")
        if is_empty:
            raise DataError(f"{self.path}: empty; expected text")
        if held not in (b"", b"\r"):
            raise DataError(f"{self.path}:{line}: not UTF-8: found 0x{held[0]:02x}")
        yield held.decode()

    def _decoded(self, data: bytes, line: int) -> str:
        """All of `data` but a character that is not there as a whole."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and error.start > len(data) - 4:
                return data[: error.start].decode()
            line += data[: error.start].count(b"\n")
            raise DataError(f"{self.path}:{line}: not UTF-8: found 0x{data[error.start]:02x}") from None


def without_others_keys(value: object, is_schema: bool = False) -> object:
    """A row of columns, in whose tools and calls no key is null.

    A column has one type, which gives each of these objects the keys of all, null where another row has them.
    """
    if isinstance(value, dict):
        return {
            key: without_others_keys(item, is_schema or key in OBJECTS)
            for key, item in value.items()
            if not (is_schema and item is None)
        }
    return [without_others_keys(item, is_schema) for item in value] if isinstance(value, list) else value


def too_long(where: str) -> RowError:
    return RowError(f"{where}: longer than {ROW_LIMIT >> 20} MiB, the most that a row may have; split it")


def not_an_object(where: str, value: object) -> RowError:
    return RowError(f"{where}: expected a JSON object, found {type(value).__name__}")


def starts_an_array(path: Path) -> bool:
    with opened(path) as file:
        return file.content.read(4096).removeprefix(BOM).lstrip()[:1] == b"["


def array_items(file: io.TextIOBase, path: Path) -> Iterator[object]:
    """Yields the items of a JSON array. Raises DataError where it is not one."""
    decoder = json.JSONDecoder(object_pairs_hook=unique_keys)
    text, number, more = file.read(JSON_PIECE), 0, True
    place = text.index("[") + 1
    while True:
        place = SPACES.match(text, place).end()
        if text[place : place + 1] == "]":
            refuse_more(file, text[place + 1 :], path)
            return
        try:
            value, place = decoder.raw_decode(text, item_start(text, place, number, path))
            number += 1
            yield value
            continue
        except json.JSONDecodeError as error:
            reason = error.msg
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}: row {number + 1}: not usable JSON: {error}") from None
        if len(text) - place > ROW_LIMIT:
            raise DataError(str(too_long(f"{path}: row {number + 1}")))
        piece = file.read(max(JSON_PIECE, len(text) - place)) if more else ""
        if not piece:
            raise DataError(f"{path}: row {number + 1}: not JSON: {reason}; the array does not end")
        text, place, more = text[place:] + piece, 0, bool(piece)


def item_start(text: str, place: int, number: int, path: Path) -> int:
    """Where the item behind `number` others begins: at `place` stands the comma between them, if it was read yet."""
    if number == 0:
        return place
    found = text[place : place + 1]
    if found not in (",", ""):
        raise DataError(f"{path}: behind row {number}: not JSON: expected a comma, found {found!r}")
    place = SPACES.match(text, place + 1).end()
    if text[place : place + 1] == "]":
        raise DataError(f"{path}: behind row {number}: not JSON: a comma, and no row behind it; remove the comma")
    return place


def refuse_more(file: io.TextIOBase, text: str, path: Path) -> None:
    """Nothing but white space may stand behind an array: what does would be left out without a word."""
    while not text.strip():
        text = file.read(JSON_PIECE)
        if not text:
            return
    raise DataError(f"{path}: not JSON: {text.strip()[:20]!r} stands behind the array's end; expected one array")


def unique_keys(pairs: list[tuple[str, object]]) -> dict:
    """A JSON object as a dict. Raises ValueError when a key appears twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key '{twice}' appears twice")
    return found


def refuse_repeated_columns(path: Path, header: list[str]) -> None:
    """One of two columns of a name would be lost; those without a name, as of `a,b,,`, are never asked for."""
    for name, count in Counter(header).items():
        if name and count > 1:
            raise DataError(f"{path}: the header has the column '{name}' twice; rename or remove one of them")


def csv_row(where: str, header: list[str], fields: list[str]) -> dict | RowError:
    if len(fields) != len(header):
        return RowError(f"{where}: {len(fields)} values; expected {len(header)}, as the header has")
    if any("\udc80" <= c <= "\udcff" for field in fields for c in field):
        return RowError(f"{where}: not UTF-8; save the file as UTF-8")
    return dict(zip(header, fields, strict=True))


def arrow_files(folder: Path) -> list[str]:
    """The data files of a folder that `save_to_disk` wrote."""
    if (folder / "dataset_dict.json").is_file():
        splits = read_json(folder / "dataset_dict.json").get("splits")
        splits = splits if isinstance(splits, list) else []
        raise DataError(
            f"{folder}: a data set of several splits; name one: "
            + ", ".join(str(folder / str(split)) for split in splits)
        )
    if not (folder / "state.json").is_file():
        raise DataError(f"{folder}: a folder without state.json; expected a file, or what save_to_disk wrote")
    state = read_json(folder / "state.json")
    try:
        names = [str(file["filename"]) for file in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise DataError(f"{folder / 'state.json'}: not what save_to_disk writes: {error!r}") from None
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise DataError(f"{folder}: rows chosen by indices; save it again with a newer `datasets`")
    if any(Path(name).name != name for name in names):
        raise DataError(f"{folder / 'state.json'}: names a file outside of its folder")
    if missing := [name for name in names if not os.path.isfile(folder / name)]:  # also of names that none can have
        raise DataError(f"{folder / missing[0][:200]}: no such file, which state.json names")
    for name in names:
        refuse_git_lfs_pointer(folder / name)
    return names
