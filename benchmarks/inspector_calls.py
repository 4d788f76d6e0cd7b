"""Let the MCP inspector call every tool, resource and prompt, and hold each answer against what it must keep.

usage: python benchmarks/inspector_calls.py [--inspector "npx --yes @modelcontextprotocol/inspector"]
           [--vault FOLDER] [--jobs 2]

The calls are those of `tests/agent_calls.py`, right ones and every kind of error, over a vault with notes of
half a megabyte. Each is a run of the inspector's command line, which starts `server.py`, asks for its tools,
calls, and checks the structured content against the tool's schema as a client would. Afterwards the answer is
checked here: its schema once more, its tokens, an error's length and words.

The vault is made in a temporary folder, or in FOLDER, which is kept then. The inspector needs Node.js; its
newest releases need 22 or later.

Prints a table, and what is wrong; exit code 1 where anything is.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from agent_calls import CALLS, LONGEST_ERROR, MOST, AgentCall, find_faults, measure, write_hard_vault  # noqa: E402
from conftest import VaultFolder, Workbench  # noqa: E402
from ollama_double import OllamaDouble  # noqa: E402
from own_postgres import OwnPostgres  # noqa: E402

INSPECTOR = "npx --yes @modelcontextprotocol/inspector"
PATIENCE = 300  # seconds for one call


@dataclass(frozen=True)
class Outcome:
    """What the inspector printed for a call, as a result of JSON-RPC, and what is wrong with it."""

    call: AgentCall
    result: Mapping[str, Any]
    faults: tuple[str, ...]
    seconds: float

    def to_row(self) -> list[str]:
        error = read_error(self.result)
        shown, held = measure(self.result)
        numbers = ["error", f"{len(error)} characters"] if error is not None else [f"{shown:,}", f"{held:,}"]
        return [f"`{self.call.label.replace('`', '´')}`", *numbers, "; ".join(self.faults) or "as it must be"]


class Inspector:
    """The inspector's command line over one index."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        variables = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
        self._command = [*command, "--cli", *variables, sys.executable, str(ROOT / "server.py")]
        self._folder = folder

    def run(self, *arguments: str) -> dict[str, Any]:
        """The result that it prints, {"error": text} for an error of the protocol."""
        done = subprocess.run(
            [*self._command, *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.stdout.strip():
            return dict(json.loads(done.stdout))
        for line in reversed(done.stderr.splitlines()):
            if line.startswith('{"error"'):
                return {"error": json.loads(line)["error"]["message"]}
        raise SystemExit(f"The inspector said nothing that can be read: {done.stderr[-2000:]}")

    def send(self, call: AgentCall) -> dict[str, Any]:
        given = [f"{name}={write_argument(value)}" for name, value in call.arguments.items()]
        if call.kind == "resource":
            return self.run("--method", "resources/read", "--uri", call.name)
        kind, flag = (
            ("prompts/get", "--prompt-args") if call.kind == "prompt" else ("tools/call", "--tool-arg")
        )
        name = "--prompt-name" if call.kind == "prompt" else "--tool-name"
        arguments = [part for argument in given for part in (flag, argument)]
        return self.run("--method", kind, name, call.name, *arguments)


def write_argument(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_error(result: Mapping[str, Any]) -> str | None:
    if result.get("isError"):
        return "\n".join(block["text"] for block in result["content"])
    return result.get("error")


def inspect(inspector: Inspector, jobs: int) -> list[Outcome]:
    """Make all calls, some at once."""
    schemas = {
        tool["name"]: tool["outputSchema"] for tool in inspector.run("--method", "tools/list")["tools"]
    }

    def make(call: AgentCall) -> Outcome:
        started = time.monotonic()
        result = inspector.send(call)
        seconds = time.monotonic() - started
        outcome = Outcome(call, result, tuple(find_faults(call, result, schemas)), seconds)
        print(".", end="", file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(make, CALLS))


def print_table(outcomes: Sequence[Outcome]) -> None:
    print("| call | tokens of Markdown | tokens of the object | |\n|---|---|---|---|")
    for outcome in outcomes:
        print(f"| {' | '.join(outcome.to_row())} |")
    errors = [error for outcome in outcomes if (error := read_error(outcome.result)) is not None]
    sizes = [measure(outcome.result) for outcome in outcomes]
    print(
        f"\n{len(outcomes)} calls, {len(errors)} of them errors,"
        f" {sum(bool(outcome.faults) for outcome in outcomes)} with faults."
        f" Longest error: {max(map(len, errors))} characters (allowed: {LONGEST_ERROR:,})."
        f" Largest answer: {max(map(sum, sizes)):,} tokens with its object (allowed: {MOST:,}),"
        f" {max(shown for shown, _ in sizes):,} without."
        f" {sum(outcome.seconds for outcome in outcomes) / len(outcomes):.1f} s a call, most of it the start"
        " of the inspector and of the server."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--inspector", default=INSPECTOR, help="the command that starts it")
    parser.add_argument("--vault", type=Path, help="where to make the vault, and keep it")
    parser.add_argument("--jobs", type=int, default=2, help="calls at once")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="inspector-"))
    try:
        folder.chmod(0o755)
        root = options.vault.absolute() if options.vault else folder / "vault"
        root.mkdir(parents=True, exist_ok=True)
        with OwnPostgres(folder / "postgres") as postgres, OllamaDouble(dimensions=64) as ollama:
            bench = Workbench(VaultFolder(root), postgres.create_database("inspector"), ollama)
            write_hard_vault(bench.vault.write)
            report = bench.index()
            if report.failures:
                print(f"Notes failed: {report.failures}", file=sys.stderr)
                return 1
            outcomes = inspect(
                Inspector(shlex.split(options.inspector), bench.environment, folder), options.jobs
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(file=sys.stderr)
    print_table(outcomes)
    return 1 if any(outcome.faults for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
