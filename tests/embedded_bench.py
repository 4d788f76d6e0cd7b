"""An index in an embedded server of its own, used by programs in other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
from ollama_double import OllamaDouble
from raw_server import ROOT

from obsidian_rag import embedded_home, embedded_keeper


@dataclass(frozen=True)
class EmbeddedBench:
    """A small vault whose index lies in the embedded server of `home`."""

    vault: Path
    home: Path
    ollama: OllamaDouble

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        return kept | {
            "VAULT_PATH": str(self.vault),
            "OBSIDIAN_RAG_DATA": str(self.home),
            "OLLAMA_URL": self.ollama.url,
            "XDG_CONFIG_HOME": str(self.vault.parent / "config"),
        }

    @property
    def data(self) -> Path:
        return embedded_home.locate(embedded_home.canonical(self.home)).data

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """`obsidian-rag …` in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "obsidian_rag", *arguments],
            env=self.environment | {"PYTHONPATH": str(ROOT)},
            cwd=cwd or self.vault,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def server_process(self) -> psutil.Process | None:
        """The living PostgreSQL, if there is one."""
        return embedded_keeper.postmaster(self.data)

    def kill_server(self) -> None:
        """SIGKILL to PostgreSQL and its keeper, as a machine out of memory may do."""
        server = self.server_process()
        assert server is not None
        keeper = server.parent()
        server.send_signal(signal.SIGKILL)
        if keeper is not None and "embedded_keeper" in " ".join(keeper.cmdline()):
            keeper.send_signal(signal.SIGKILL)
        server.wait(60)


def make_embedded_bench(folder: Path, ollama: OllamaDouble) -> EmbeddedBench:
    """Write a vault of three notes and index it."""
    bench = EmbeddedBench(folder / "vault", folder / "data", ollama)
    bench.vault.mkdir()
    (bench.vault / "A.md").write_text("# Alpha\n\nTo [[B]] and [[Nowhere]].\n")
    (bench.vault / "B.md").write_text("# Beta\n\nWords.\n")
    done = bench.run("index")
    assert done.returncode == 0, done.stderr
    return bench
