"""What an index was made with: its vaults, its embedder, its text search configuration.

Settings that ask for something else are an error with its mend. Nothing is ever mixed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from obsidian_rag import keywords, ledger, store, vector_column
from obsidian_rag.config import Settings, is_folder
from obsidian_rag.counts import count
from obsidian_rag.embedding import Embedder, EmbeddingModel, check_recorded, open_embedder
from obsidian_rag.errors import IndexMismatch, SettingsError
from obsidian_rag.languages import AUTO
from obsidian_rag.postgres import Connection
from obsidian_rag.run import Options, Run

DEFAULT_FTS_CONFIG = AUTO
PROBE = "A short text, to see that the embedder works."


def check_settings(
    conn: Connection, settings: Settings, options: Options, row: ledger.IndexSettings | None
) -> str:
    """Raise IndexMismatch where the settings do not fit the index; return the text search configuration.

    Asks nobody but the database.
    """
    fts_config = _choose_fts_config(conn, settings, options, row)
    if row is not None and not options.allow_mass_delete:
        check_vaults(settings, row)
    recorded = ledger.recorded_model(row)
    if recorded is not None and not options.reembed:
        begun = ledger.load_reembedding(conn)
        check_recorded(recorded, settings.embedder, settings.embed_model, begun.model if begun else None)
        present = vector_column.vector_dimensions(conn)
        if present != recorded.dimensions:
            raise IndexMismatch(
                f"The index is recorded as made with {recorded}, but its vectors have {present} dimensions",
                "Somebody changed the table documents. Embed every note again: obsidian-rag index --reembed",
            )
    return fts_config


def _choose_fts_config(
    conn: Connection, settings: Settings, options: Options, row: ledger.IndexSettings | None
) -> str:
    wanted = settings.fts_config or (row.fts_config if row else DEFAULT_FTS_CONFIG)
    if wanted != AUTO and wanted not in keywords.list_configs(conn):
        raise SettingsError(
            f"The database has no text search configuration {wanted!r} (FTS_CONFIG)",
            "`auto` finds each note's own, `simple` fits every language. List all with:"
            " obsidian-rag psql -- -c '\\dF'",
        )
    if row and row.fts_config != wanted and not options.full:
        raise IndexMismatch(
            f"The index was made with FTS_CONFIG={row.fts_config}, now it is {wanted}",
            f"Set FTS_CONFIG={row.fts_config}, or make the keyword data anew: obsidian-rag index --full",
        )
    return wanted


def check_vaults(settings: Settings, row: ledger.IndexSettings) -> None:
    """Raise IndexMismatch where the index holds another vault, which it must not lose because this one is
    named. A vault that is gone may have moved.
    """
    others = [
        place
        for place in row.vaults
        if is_folder(Path(place)) and not any(vault.is_at(place) for vault in settings.vaults)
    ]
    if others:
        named = [vault.place for vault in settings.vaults]
        together = os.pathsep.join(dict.fromkeys([*row.vaults, *named]))
        raise IndexMismatch(
            f"This database holds the index of {', '.join(others)}, and {', '.join(named)} would replace it;"
            " nothing was changed",
            "Set DATABASE_URL to another database for this vault, or index both in one with"
            f" VAULT_PATH={together}. To replace it: obsidian-rag index --allow-mass-delete",
        )


def take_fts_config(run: Run, row: ledger.IndexSettings | None) -> None:
    """Bring the keyword data to the run's configuration: all of it where that changed, else what is missing.

    A change is recorded in the same transaction, so that no two configurations are ever mixed.
    """
    if row is None or row.fts_config == run.fts_config:
        filled = keywords.refresh_keywords(run.conn, run.fts_config, everything=False)
        if filled:
            run.progress.say(f"Keyword data of {count(filled, 'note')} made anew for this version.")
        return
    with run.conn.transaction():
        rebuilt = keywords.refresh_keywords(run.conn, run.fts_config, everything=True)
        ledger.save_settings_row(run.conn, replace(row, fts_config=run.fts_config))
    run.progress.say(f"Keyword data of {count(rebuilt, 'note')} made anew with FTS_CONFIG={run.fts_config}.")


def use_embedder(run: Run) -> Embedder:
    """The embedder, opened at its first use; its vectors fit the index, which records whose they are."""
    if run.embedder is not None:
        return run.embedder
    run.embedder = open_model(run, run.settings.embedder, run.settings.embed_model, run.recorded)
    if run.recorded is None:
        _take_model(run, run.embedder.model)
    return run.embedder


def tell_unused_address(run: Run) -> None:
    """Say that an address of Ollama is of no use where the index was made with the bundled model.

    Who chose the local model by EMBEDDER or EMBED_MODEL knows.
    """
    settings, recorded = run.settings, run.recorded
    if run.options.reembed or recorded is None or recorded.provider != "local":
        return
    if settings.ollama_url_is_set and settings.embedder == "auto" and settings.embed_model is None:
        run.progress.say(
            f"OLLAMA_URL is not used: the index was made with the bundled model {recorded.name}."
            " To embed every note again with Ollama: obsidian-rag index --reembed"
        )


def tell_reembedding(run: Run) -> None:
    """Warn of a re-embedding that was begun and is not finished."""
    begun = None if run.options.reembed else ledger.load_reembedding(run.conn)
    if begun is not None:
        run.warn(f"{begun}. {ledger.GO_ON}")


def open_model(
    run: Run, embedder: str, model: str | None, recorded: EmbeddingModel | None = None
) -> Embedder:
    """An embedder by EMBEDDER and EMBED_MODEL; it must be the `recorded` one where that is given."""
    begun = ledger.load_reembedding(run.conn) if recorded else None
    return open_embedder(
        embedder=embedder,
        model=model,
        ollama_url=run.settings.ollama_url,
        ollama_url_is_set=run.settings.ollama_url_is_set,
        recorded=recorded,
        coming=begun.model if begun else None,
        say=run.progress.say,
    )


def _take_model(run: Run, model: EmbeddingModel) -> None:
    """Record the model of an index that has none: empty ones take its dimensions, others must have them."""
    present = vector_column.vector_dimensions(run.conn)
    holds_chunks = store.has_chunks(run.conn)
    if holds_chunks and present != model.dimensions:
        raise IndexMismatch(
            f"The index holds vectors of {present} dimensions, {model.name} gives {model.dimensions}",
            "Set EMBEDDER and EMBED_MODEL to the model that made them, or embed every note again:"
            " obsidian-rag index --reembed",
        )
    begun = ledger.load_reembedding(run.conn)
    if holds_chunks and begun is not None:
        raise IndexMismatch(f"It is not known whose vectors the index holds. {begun}", ledger.GO_ON)
    if holds_chunks:
        text = f"The vectors found in the database are taken to be those of {model.name}; this is recorded."
        run.progress.say(text)
        run.warn(text)
    with run.conn.transaction():
        if present != model.dimensions:
            vector_column.set_dimensions(run.conn, model.dimensions)
        record_model(run, model)


def record_model(run: Run, model: EmbeddingModel) -> None:
    """Record whose vectors the index holds."""
    row = ledger.load_settings_row(run.conn)
    ledger.save_settings_row(
        run.conn,
        ledger.IndexSettings(
            row.vaults if row else (),
            row.fts_config if row else run.fts_config,
            model.provider,
            model.name,
            model.dimensions,
            model.window,
        ),
    )
    run.recorded = model


def record_vaults(run: Run) -> None:
    """Record which vaults the index holds, once it is sure that they are to be in it."""
    row = ledger.load_settings_row(run.conn)
    places = tuple(vault.place for vault in run.settings.vaults)
    if row is not None and row.vaults != places:
        ledger.save_settings_row(run.conn, replace(row, vaults=places))
