"""Every error a caller can meet.

    ObsidianRagError
    ├── SettingsError               a setting is missing or cannot be used
    ├── VaultError                  the vault is missing, unreadable or empty
    ├── NoteError                   one note cannot be read or decoded; the others go on
    ├── DatabaseError
    │   ├── DatabaseUnavailable     nothing answers, wrong password, embedded server will not start
    │   ├── DatabaseUnsuitable      too old, no pgvector, no permission
    │   └── SchemaError             the tables are missing, or newer than this program
    ├── IndexMismatch               the index belongs to another vault, embedder or configuration
    ├── IndexerBusy                 another indexer holds the lock
    ├── EmbedderError               a model failed: the embedder, or one that reranks or rewords a query
    │   ├── EmbedderUnavailable     nothing answers, or it stays overloaded; may pass
    │   ├── ModelMissing            the model is not pulled or not installed
    │   ├── ModelUnsuitable         not a model of this kind, or dimensions that do not fit
    │   └── EmbeddingRejected       one text cannot be embedded (NaN, refused); the others can
    ├── NoteNotFound                no such note; carries the nearest paths
    ├── QueryError                  an argument of a search cannot be used
    └── CallCancelled               nobody waits for the answer any more

A message says what failed, the value, and ends with the mend. Passwords never appear in one.
"""

FIRST_RUN = "Run: obsidian-rag init, or: obsidian-rag index /path/to/vault"
"""The mend where nothing is indexed."""


class ObsidianRagError(Exception):
    """Something obsidian-rag can explain. `str()` is the sentence for the person, `mend` the way out."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(f"{message.rstrip('.')}. {mend}".strip() if mend else message)
        self.message = message
        self.mend = mend


class SettingsError(ObsidianRagError):
    """A setting is missing or cannot be used."""


class VaultError(ObsidianRagError):
    """The vault is missing, unreadable or empty."""


class NoteError(ObsidianRagError):
    """One note cannot be read or decoded."""


class DatabaseError(ObsidianRagError):
    """The database failed."""


class DatabaseUnavailable(DatabaseError):
    """No connection to the database can be had."""


class DatabaseUnsuitable(DatabaseError):
    """The database answers but cannot hold an index."""


class SchemaError(DatabaseError):
    """The tables are missing or newer than this program."""


class IndexMismatch(ObsidianRagError):
    """The index was made for another vault, embedder or text search configuration."""


class IndexerBusy(ObsidianRagError):
    """Another indexer is at work on this database."""


class EmbedderError(ObsidianRagError):
    """A model failed."""


class EmbedderUnavailable(EmbedderError):
    """What runs the model does not answer; it may later."""


class ModelMissing(EmbedderError):
    """The model is not there."""


class ModelUnsuitable(EmbedderError):
    """The model cannot be used for this."""


class EmbeddingRejected(EmbedderError):
    """One text cannot be embedded; others can."""


class NoteNotFound(ObsidianRagError):
    """No note has this path."""

    def __init__(self, message: str, mend: str = "", nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message, mend)
        self.nearest = nearest


class QueryError(ObsidianRagError):
    """An argument of a search cannot be used."""


class CallCancelled(ObsidianRagError):
    """Nobody waits for the answer any more."""
