"""The state of one run of the indexer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from obsidian_rag.config import Settings
from obsidian_rag.embedding import Embedder, EmbeddingModel
from obsidian_rag.models import Failure, RunReport, make_storable
from obsidian_rag.postgres import Connection
from obsidian_rag.progress import Progress
from obsidian_rag.relations import Table
from obsidian_rag.vaults import VaultReader


@dataclass(frozen=True, slots=True)
class Options:
    """What a run may do.

    `full` reads and parses every note again; vectors of unchanged text stay. `reembed` makes all vectors anew
    with the embedder of the settings, `drop_reembedding` gives up one that is not finished.
    `allow_mass_delete` accepts that most indexed notes are gone, or that another vault takes the index over.
    """

    full: bool = False
    dry_run: bool = False
    allow_mass_delete: bool = False
    reembed: bool = False
    drop_reembedding: bool = False


@dataclass(slots=True)
class Run:
    """What a run works with, its counts so far, and the embedder once it is needed.

    `recorded` is the model whose vectors the index holds, None where none is recorded yet.
    """

    conn: Connection
    settings: Settings
    options: Options
    reader: VaultReader
    progress: Progress
    fts_config: str
    available_configs: frozenset[str]
    recorded: EmbeddingModel | None
    table: Table
    embedder: Embedder | None = None
    links_changed: bool = False  # of notes that were written or deleted
    report: RunReport = field(default_factory=lambda: RunReport(None, "ok"))

    def count(self, **steps: int) -> None:
        """Raise counters of the report."""
        raised = {name: getattr(self.report, name) + n for name, n in steps.items()}
        self.report = replace(self.report, **raised)

    def fail(self, *failures: Failure) -> None:
        """Record notes that are not in the index as they are on disk."""
        clean = (Failure(make_storable(f.file_path), f.stage, make_storable(f.error)) for f in failures)
        self.report = replace(self.report, failures=(*self.report.failures, *clean))

    def warn(self, *texts: str) -> None:
        """Record what the person should know although nothing is lost."""
        self.report = replace(self.report, warnings=(*self.report.warnings, *map(make_storable, texts)))

    def close(self) -> None:
        """Give back what the embedder holds."""
        if self.embedder is not None:
            self.embedder.close()
            self.embedder = None
