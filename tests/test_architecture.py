"""The package's own rules: which module may import which, how long one may be, who reads the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import obsidian_rag

PACKAGE = Path(obsidian_rag.__file__).parent
MODULES = {
    ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
MOST_LINES = 400

# From the ground up: a module imports none of a higher layer. Those not named here stand on the highest layer
# of what they import.
LAYERS = [
    {"errors", "models"},
    {"config", "vault", "notes", "chunks", "links", "embedding"},
    {"postgres"},
    {"migrate", "store", "search", "graph", "catalog"},
    {"indexing", "mcp_server", "mcp_tools"},
    {"cli"},
]
INDEXER = {"indexing", "intake", "provenance", "reembedding", "diff", "linking", "run", "vaults", "vault"}
SERVER = {"mcp_server", "mcp_tools", "stdio", "index_reader"}
# `main()` of the launchers' modules calls the command line, which knows both; it is imported there, late.
LATE = {("indexing", "cli"), ("mcp_server", "cli")}


def list_imports(module: str, *, late: bool) -> Iterator[str]:
    """The modules of the package that one imports; with `late`, also inside functions."""
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    nodes = ast.walk(tree) if late else iter(_list_early(tree))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("obsidian_rag"):
            base = node.module.removeprefix("obsidian_rag").lstrip(".")
            for alias in node.names:
                longer = f"{base}.{alias.name}".lstrip(".")
                yield longer if longer in MODULES else base
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("obsidian_rag."):
                    yield alias.name.removeprefix("obsidian_rag.")


def _list_early(node: ast.AST) -> list[ast.AST]:
    """Nodes outside functions and outside `if TYPE_CHECKING`."""
    found: list[ast.AST] = []
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not is_typing:
            found += [child, *_list_early(child)]
    return found


def reach(start: str, *, late: bool) -> set[str]:
    """Everything a module imports, directly or not."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        module = waiting.pop()
        for found in list_imports(module, late=late):
            if found and found not in seen and (module, found) not in LATE:
                seen.add(found)
                waiting.append(found)
    return seen


def top(module: str) -> str:
    return module.split(".")[0]


def test_imports_are_seen_at_all() -> None:
    assert "config" in reach("indexing", late=False)
    assert "embedded_index" in reach("postgres", late=True)


def test_imports_point_one_way() -> None:
    level = {name: height for height, names in enumerate(LAYERS) for name in names}
    assert set(level) <= {top(module) for module in MODULES}
    wrong = [
        f"{module} imports {found}"
        for module in MODULES
        if top(module) in level
        for found in reach(module, late=False)
        if level.get(top(found), 0) > level[top(module)]
    ]
    assert wrong == []


def test_modules_do_not_import_one_another_in_a_circle() -> None:
    circles = [module for module in MODULES if module in reach(module, late=False)]
    assert circles == []


def test_the_indexer_never_imports_the_server_nor_the_server_the_indexer() -> None:
    for start in ("indexing", "intake", "provenance"):
        assert {top(m) for m in reach(start, late=True)} & SERVER == set(), start
    for start in ("mcp_server", "mcp_tools", "index_reader"):
        assert {top(m) for m in reach(start, late=True)} & INDEXER == set(), start


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    lengths = {module: len(file.read_text("utf-8").splitlines()) for module, file in MODULES.items()}
    assert {module: lines for module, lines in lengths.items() if lines > MOST_LINES} == {}


def test_only_the_configuration_reads_the_environment() -> None:
    """The command line hands it over; programs that are started get a copy."""
    allowed = {
        "cli.care",
        "cli.completions",
        "cli.start",
        "command_frame",
        "psql",
        "mcp_server",
        "embedded",
        "embedded_home",
        "embedded_keeper",
        "embedding.telemetry",
    }
    readers = {
        module
        for module, file in MODULES.items()
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert readers <= allowed
