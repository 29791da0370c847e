"""Yaml as a tree that remembers its lines, so that an error can name the place.

Safe by construction: only plain scalars, lists and mappings are built, anchors are shared instead of copied (a few
lines of nested anchors cannot fill the memory), and size and depth are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cloudrl.errors import UserError

MAX_DEPTH = 12
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_TRUE, _FALSE = {"true", "yes", "on"}, {"false", "no", "off"}
_NULL = {"", "~", "null"}


@dataclass
class Tree:
    """One value: a mapping, a list or a scalar, and where it stands."""

    file: str
    line: int
    key: str = ""  # dotted, for messages
    items: dict[str, Tree] | None = None  # of a mapping
    rows: list[Tree] | None = None  # of a list
    text: str = ""  # of a scalar, as written
    quoted: bool = False
    key_lines: dict[str, int] = field(default_factory=dict)

    def error(self, message: str) -> UserError:
        """The one line that names file, line and key."""
        place = f"{self.file}, line {self.line}: "
        return UserError(one_line(place + (f"{self.key}: " if self.key else "") + message))

    def named(self, key: str) -> Tree:
        """The same value under another dotted name: an anchor is reached by several."""
        return Tree(self.file, self.line, key, self.items, self.rows, self.text, self.quoted, self.key_lines)

    def children(self) -> Iterator[tuple[str, Tree]]:
        """Key and value of a mapping; the values know their full name and the line of their key."""
        for key, child in self.mapping().items():
            named = child.named(f"{self.key}.{key}" if self.key else key)
            named.line = self.key_lines.get(key, child.line)
            yield key, named

    # ---- what it is; each raises the error that says what it should be -----------------------------------------
    @property
    def is_null(self) -> bool:
        return self.is_scalar and not self.quoted and self.text.lower() in _NULL

    @property
    def is_scalar(self) -> bool:
        return self.items is None and self.rows is None

    def mapping(self) -> dict[str, Tree]:
        if self.items is None:
            raise self.error(f"must be a mapping (key: value), not {self.shown()}")
        return self.items

    def string(self) -> str:
        if not self.is_scalar or self.is_null:
            raise self.error(f"must be text, not {self.shown()}")
        return self.text

    def boolean(self) -> bool:
        word = self.text.lower()
        if not self.is_scalar or self.quoted or word not in _TRUE | _FALSE:
            raise self.error(f"must be true or false, not {self.shown()}")
        return word in _TRUE

    def is_boolean(self) -> bool:
        return self.is_scalar and not self.quoted and self.text.lower() in _TRUE | _FALSE

    def number(self) -> float:
        try:
            value = float(self.text) if self.is_scalar and not self.quoted else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            cure = "; remove the quotes" if self.quoted else ""
            raise self.error(f"must be a number, not {self.shown()}{cure}")
        return value

    def whole(self) -> int:
        value = self.number()
        if value != int(value):
            raise self.error(f"must be a whole number, not {self.shown()}")
        return int(value)

    def shown(self) -> str:
        """The value as a person may read it in a message: short, on one line."""
        if self.items is not None:
            return "a mapping"
        if self.rows is not None:
            return "a list"
        return "nothing" if self.is_null else quote(self.text)


def quote(text: str, most: int = 40) -> str:
    """Text in quotes on one line, shortened."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def read_limited(path: Path, shown_as: str, most: int, cure: str) -> bytes:
    """The bytes of a file of at most `most` bytes. Raises UserError."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise UserError(one_line(f"{shown_as}: cannot be read: {error.strerror or error}")) from error
    if len(data) > most:
        raise UserError(one_line(f"{shown_as}: is larger than {most // 1_000_000} MB; {cure}"))
    return data


def decode(data: bytes, shown_as: str) -> str:
    """UTF-8 text, with or without a byte order mark. Raises UserError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        message = f"{shown_as}, line {line}: is not UTF-8 text; save the file as UTF-8"
        raise UserError(one_line(message)) from error


def parse_tree(text: str, shown_as: str) -> Tree:
    """The tree of a yaml text. Raises UserError, one line, for anything that is not a sound yaml document."""
    try:
        _check_depth(text, shown_as)
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        reason = ", ".join(part for part in (error.context, error.problem) if part)
        raise UserError(f"{shown_as}{line}: not valid yaml: {one_line(reason)}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{shown_as}: not valid yaml: {one_line(getattr(error, 'reason', error))}") from error
    if root is None:
        return Tree(shown_as, 1)
    return _Builder(shown_as).build(root)


def one_line(value: object) -> str:
    """Any text without line breaks."""
    return " ".join(str(value).split())


def _check_depth(text: str, shown_as: str) -> None:
    """Refuse deep nesting before anything recursive sees it."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1
                raise UserError(
                    f"{shown_as}, line {line}: nested deeper than {MAX_DEPTH} levels; an estate needs 5"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _Builder:
    """yaml nodes -> Tree, each node once."""

    def __init__(self, shown_as: str) -> None:
        self.file = shown_as
        self.done: dict[int, Tree] = {}
        self.open: set[int] = set()

    def build(self, node: Any) -> Tree:
        if id(node) in self.done:
            return self.done[id(node)]
        tree = Tree(self.file, node.start_mark.line + 1)
        if id(node) in self.open:
            raise tree.error("an anchor contains itself; remove the alias")
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, tree)
        elif isinstance(node, yaml.SequenceNode):
            tree.rows = [self.build(child) for child in node.value]
        else:
            tree.text, tree.quoted = node.value, bool(node.style)
        if node.tag.startswith("!") or node.tag.startswith("tag:yaml.org,2002:python"):
            raise tree.error(f"tag {quote(node.tag)}: an estate has no tags; remove it")
        self.open.discard(id(node))
        self.done[id(node)] = tree
        return tree

    def _mapping(self, node: Any, tree: Tree) -> None:
        tree.items = {}
        merged: dict[str, Tree] = {}
        merged_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise Tree(self.file, line).error("a key must be text, not a list or a mapping")
            value = self.build(value_node)
            if key_node.tag == _MERGE:
                for source in value.rows if value.rows is not None else [value]:
                    for name, child in source.mapping().items():
                        merged.setdefault(name, child)  # the first of several wins, as yaml says
                        merged_lines.setdefault(name, source.key_lines[name])
                continue
            name = key_node.value
            if name in tree.items:
                first = tree.key_lines[name]
                raise Tree(self.file, line).error(
                    f"{quote(name)} is written twice, first on line {first}; keep one"
                )
            tree.items[name] = value
            tree.key_lines[name] = line
        for name, child in merged.items():
            if name not in tree.items:
                tree.items[name] = child
                tree.key_lines[name] = merged_lines[name]
