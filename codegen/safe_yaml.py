"""YAML that people write, read within limits: the one place where such text becomes values.

Without limits a few letters cost a process its life: levels in one another overflow the C stack, a name for values
elsewhere (`*a`) stands for more of them than memory holds, and a number of 100,000 digits takes minutes.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

LEVELS_MAX = 32
NODES_MAX = 200_000
"""Values and names; a generated spec.yaml of the widest table has fewer."""
NUMBER_MAX = 64
"""Characters of a number."""
KEY_NUMBER_MAX = 18
"""Characters of a number that is a name: longer ones can be chosen such that all have one hash."""
TAG_LINES_MAX = 100
"""Lines `%TAG`: each is compared with all before."""
_SHOWN = 40
"""Characters of a value that cannot be read."""
_INT = "tag:yaml.org,2002:int"
_NUMBERS = (_INT, "tag:yaml.org,2002:float")
_OCTAL = re.compile(r"[-+]?0[0-7_]*[1-7][0-7_]*")

if yaml.__with_libyaml__:
    from yaml._yaml import CParser as _Events
else:  # a build of PyYAML without the C library reads the same, more slowly

    class _Events(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):  # type: ignore[no-redef]
        def __init__(self, stream: str) -> None:
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)


class YamlFault(ValueError):
    """A text that is not YAML; `line` counts from 1 and is None where it is not known."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.message = message
        self.line = line


class YamlRefused(YamlFault):
    """It may be YAML, but more than is read of what people write."""


class Loader(Composer, _Events, SafeConstructor, Resolver):
    """Events of the C library, which keeps its own stack, put together here, where levels and values are counted.

    Use `compose` and `load`; a subclass may resolve fewer tags.
    """

    def __init__(self, stream: str) -> None:
        _Events.__init__(self, stream)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self._levels = self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next value with all in it."""
        event: Any = self.peek_event()
        self._nodes += 1
        if isinstance(event, yaml.AliasEvent):
            raise _refused(f"*{event.anchor} stands for values written elsewhere; write them out", event.start_mark)
        if self._levels >= LEVELS_MAX:
            raise _refused(f"values lie more than {LEVELS_MAX} levels deep in one another", event.start_mark)
        if self._nodes > NODES_MAX:
            raise _refused(f"there are more than {NODES_MAX:,} values up to here", event.start_mark)
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """The next single value."""
        node = super().compose_scalar_node(anchor)
        _number_check(node, NUMBER_MAX, _NUMBERS)
        if node.tag in _NUMBERS and not node.style:
            self._as_meant_check(node)
        return node

    def _as_meant_check(self, node: yaml.ScalarNode) -> None:
        """Pass for a number that is the same to people as to YAML 1.1, whose 010 is 8 and whose 1:30 is 90."""
        said = node.value
        how = "octal, since it begins with 0" if _OCTAL.fullmatch(said) else "counted in sixties" if ":" in said else ""
        if how:
            read = self.construct_object(node)
            told = f"{said} is {read} to YAML ({how}); write {read} or what you mean, in quotes where it is a text"
            raise _refused(told, node.start_mark)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """The next mapping."""
        node = super().compose_mapping_node(anchor)
        for key, _ in node.value:
            _number_check(key, KEY_NUMBER_MAX, (_INT,))
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """The value of a node; what is wrong with it is told with its line."""
        try:
            return super().construct_object(node, deep)
        except YamlFault:
            raise
        except ValueError as error:  # such as 2030-02-30
            said = f"{node.value[:_SHOWN]}: " if isinstance(node, yaml.ScalarNode) and node.value else ""
            raise YamlFault(f"not YAML: {said}{error}", node.start_mark.line + 1) from error


def _number_check(node: yaml.Node, most: int, tags: tuple[str, ...]) -> None:
    if node.tag in tags and len(node.value) > most:
        said = f"{node.value[:12]}... is a number of {len(node.value):,} characters; at most {most} are read"
        raise _refused(said, node.start_mark)


def _refused(message: str, mark: Any) -> YamlRefused:
    return YamlRefused(message, mark.line + 1)


def compose(text: str, loader: type[Loader] = Loader) -> yaml.Node | None:
    """The text as nodes, which know their lines; None for an empty text. Raises `YamlFault`, `YamlRefused`."""
    if text.count("%TAG") > TAG_LINES_MAX:
        raise YamlRefused(f"%TAG is there more than {TAG_LINES_MAX} times; write the tags out", None)
    try:
        node: yaml.Node | None = loader(text).get_single_node()
    except YamlRefused:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise _fault(error, text) from error
    return node


def construct(node: yaml.Node | None, loader: type[Loader] = Loader) -> Any:
    """The values of nodes that `compose` made. Raises `YamlFault`."""
    if node is None:
        return None
    try:
        return loader("").construct_document(node)
    except YamlFault:
        raise
    except (yaml.YAMLError, ValueError) as error:
        raise _fault(error) from error
    except (ArithmeticError, LookupError, AttributeError, TypeError) as error:  # whatever `!!bool 3` stumbles over
        raise YamlFault("not YAML: a value does not fit the tag before it", None) from error


def load(text: str, loader: type[Loader] = Loader) -> Any:
    """The text as plain values. Raises `YamlFault`, `YamlRefused`."""
    return construct(compose(text, loader), loader)


def _fault(error: Exception, text: str | None = None) -> YamlFault:
    said = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    line = mark.line if mark else None
    if line is not None and text is not None:
        line = min(line, text.count("\n"))  # the end of a text is in a line of its own to the C library
    return YamlFault(f"not YAML: {said}", None if line is None else line + 1)
