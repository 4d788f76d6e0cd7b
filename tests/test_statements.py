"""SQL is written, never put together from values: what is executed can be told from the source alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import obsidian_rag

PACKAGE = Path(obsidian_rag.__file__).parent
EXECUTING = ("execute", "executemany", "copy", "stream")
# Quoted by psycopg, whatever they hold.
QUOTING = ("sql.Identifier", "sql.Literal", "sql.Placeholder")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Module:
    """A module's source: its constants, and where it has names from."""

    tree: ast.Module
    constants: dict[str, list[ast.expr]]
    imported: dict[str, tuple[str, str]]


def read_module(source: str) -> Module:
    tree = ast.parse(source)
    constants: dict[str, list[ast.expr]] = {}
    imported: dict[str, tuple[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {a.asname or a.name: (node.module, a.name) for a in node.names}
        for name, value in list_bindings(node):
            constants.setdefault(name, []).append(value)
    return Module(tree, constants, imported)


def list_bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a statement gives a value, with the value; of a loop what it goes through."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr | ast.For | ast.comprehension):
        targets = [node.target]
    value = node.iter if isinstance(node, ast.For | ast.comprehension) else getattr(node, "value", None)
    for target in targets:
        for name in ast.walk(target):
            if isinstance(name, ast.Name) and value is not None:
                yield name.id, value


def load_modules() -> dict[str, Module]:
    modules = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = read_module(file.read_text("utf-8"))
    return modules


class Reading:
    """Tells whether an expression of a function is text that stands in the source."""

    def __init__(self, modules: dict[str, Module], module: Module, function: ast.AST | None) -> None:
        self._modules = modules
        self._module = module
        self._local: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function) if function else ():
            for name, value in list_bindings(node):
                self._local.setdefault(name, []).append(value)

    def is_fixed(self, node: ast.expr) -> bool:
        """Constants, constants inside of constants, and what psycopg quotes; one of several of these."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str | int)
        if isinstance(node, ast.JoinedStr):
            parts = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            return all(
                isinstance(part, ast.Name) and part.id.isupper() and self.is_fixed(part) for part in parts
            )
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self.is_fixed(node.left) and self.is_fixed(node.right)
        if isinstance(node, ast.IfExp):
            return self.is_fixed(node.body) and self.is_fixed(node.orelse)
        if isinstance(node, ast.Tuple | ast.List):
            return all(self.is_fixed(element) for element in node.elts)
        if isinstance(node, ast.Call):
            return ast.unparse(node.func) in QUOTING or self.is_composed(node)
        return isinstance(node, ast.Name) and self._follow(node, Reading.is_fixed)

    def is_composed(self, node: ast.expr) -> bool:
        """`sql.SQL(…)`, and what is made of it by `format` and `join`, which quote what they are given."""
        if isinstance(node, ast.Name):
            return self._follow(node, Reading.is_composed)
        if isinstance(node, ast.IfExp):
            return self.is_composed(node.body) and self.is_composed(node.orelse)
        if not isinstance(node, ast.Call):
            return False
        if ast.unparse(node.func) == "sql.SQL":
            return len(node.args) == 1 and self.is_fixed(node.args[0])
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("format", "join")
            and self.is_composed(node.func.value)
        )

    def _follow(self, name: ast.Name, rule: object) -> bool:
        """Whether all that a name can mean obeys a rule; a parameter may mean anything."""
        assert callable(rule)
        if name.id in self._local:
            return all(rule(self, value) for value in self._local[name.id])
        if name.id in self._module.constants:
            reading = Reading(self._modules, self._module, None)
            return all(rule(reading, value) for value in self._module.constants[name.id])
        module, original = self._module.imported.get(name.id, ("", ""))
        if module not in self._modules:
            return False
        there = Reading(self._modules, self._modules[module], None)
        return bool(rule(there, ast.Name(original)))


def list_statements(module: Module) -> Iterator[tuple[ast.expr, ast.AST | None]]:
    """What is executed, or made SQL, with the function that does it."""
    waiting: list[tuple[ast.AST, ast.AST | None]] = [(module.tree, None)]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, FUNCTIONS) and function is None:
            function = node
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func)
            if called == "sql.SQL" or (isinstance(node.func, ast.Attribute) and node.func.attr in EXECUTING):
                yield node.args[0], function


FROM_FILES = {("obsidian_rag.migrate", "migration.text"), ("obsidian_rag.index_builds", "statement")}


def find_built(modules: dict[str, Module]) -> list[str]:
    """The places of statements that are not fixed. Migrations and schema.sql are files of the program."""
    return [
        f"{name}:{statement.lineno}: {ast.unparse(statement)}"
        for name, module in modules.items()
        for statement, function in list_statements(module)
        if not Reading(modules, module, function).is_fixed(statement)
        and (name, ast.unparse(statement)) not in FROM_FILES
    ]


def test_no_statement_is_built_from_values() -> None:
    modules = load_modules()
    assert sum(1 for module in modules.values() for _ in list_statements(module)) > 100
    assert find_built(modules) == []


@pytest.mark.parametrize(
    "source",
    [
        'def f(conn, x):\n    conn.execute(f"SELECT {x}")',
        'def f(conn, x):\n    conn.execute(f"SELECT {X}")',
        'def f(conn, x):\n    conn.execute("SELECT %s" % x)',
        'def f(conn, x):\n    conn.execute("SELECT " + x)',
        'def f(conn, x):\n    conn.execute("SELECT {}".format(x))',
        'S = "SELECT {}"\ndef f(conn, x):\n    conn.execute(S.format(x))',
        "def f(conn, x):\n    conn.execute(x)",
        'def f(conn, x):\n    s = "SELECT 1"\n    s += x\n    conn.execute(s)',
        'def f(conn, x):\n    s = "SELECT 1" if x else f"SELECT {x}"\n    conn.execute(s)',
        "def f(conn, rows):\n    for s in rows:\n        conn.execute(s)",
        'def f(conn, x):\n    conn.execute(sql.SQL(x).format("a"))',
        'def f(conn, x):\n    conn.execute(sql.SQL(f"SELECT {x}"))',
        'def f(conn, x):\n    conn.execute(sql.SQL("SELECT {}").format(sql.SQL(x)))',
        'def f(conn, x):\n    with conn.copy("COPY t FROM " + x):\n        pass',
        'X = input()\ndef f(conn):\n    conn.execute(f"SELECT {X}")',
        'from obsidian_rag.own import X\ndef f(conn):\n    conn.execute(X)',
        'def f(conn, migration):\n    conn.execute(migration.text)',
    ],
)  # fmt: skip
def test_a_statement_built_from_values_is_found(source: str) -> None:
    own = read_module("from os import environ\nX = environ['X']")
    assert len(find_built({"obsidian_rag.own": own, "obsidian_rag.test": read_module(source)})) >= 1


@pytest.mark.parametrize(
    "source",
    [
        'def f(conn, x):\n    conn.execute("SELECT %s", (x,))',
        'A = "a"\nS = f"SELECT {A}"\ndef f(conn, x):\n    conn.execute(S if x else A, (x,))',
        'ALL = (("name", "SELECT 1"),)\ndef f(conn):\n    for what, s in ALL:\n        conn.execute(s)',
        'S = sql.SQL("SELECT {}")\ndef f(conn, x):\n    conn.execute(S.format(sql.Identifier(x)))',
        'def f(conn, x):\n    s = sql.SQL("SELECT {}").format(x)\n    conn.execute(sql.SQL("EXPLAIN ") + s)',
        "from obsidian_rag.own import X\ndef f(conn):\n    conn.execute(X)",
    ],
)
def test_a_statement_that_stands_in_the_source_is_not(source: str) -> None:
    own = read_module('X = "SELECT 1"')
    assert find_built({"obsidian_rag.own": own, "obsidian_rag.test": read_module(source)}) == []
