"""How psycopg writes and reads vectors: pgvector's adapters, made once for each type of a database."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import psycopg
from pgvector import HalfVector, Vector
from pgvector.psycopg.halfvec import (
    HalfVectorBinaryDumper,
    HalfVectorBinaryLoader,
    HalfVectorDumper,
    HalfVectorLoader,
)
from pgvector.psycopg.vector import VectorBinaryDumper, VectorBinaryLoader, VectorDumper, VectorLoader
from psycopg.adapt import Dumper
from psycopg.types import TypeInfo

# A type, what is written as it, and by what: the last of the dumpers is used where a statement says neither.
ADAPTERS: tuple[tuple[str, tuple[type | str, ...], tuple[type[Dumper], ...], tuple[type[Any], ...]], ...] = (
    (
        "vector",
        (Vector, "numpy.ndarray"),
        (VectorDumper, VectorBinaryDumper),
        (VectorLoader, VectorBinaryLoader),
    ),
    (
        "halfvec",
        (HalfVector,),
        (HalfVectorDumper, HalfVectorBinaryDumper),
        (HalfVectorLoader, HalfVectorBinaryLoader),
    ),
)


def register_vectors(conn: psycopg.Connection[Any]) -> None:
    """Let a connection write and read vectors, where its database has them.

    As `pgvector.psycopg.register_vector` does; that makes classes for each connection, and psycopg keeps
    every class it was ever given: 20 KB for each connection of a server that runs for weeks.
    """
    for name, written, dumpers, loaders in ADAPTERS:
        info = TypeInfo.fetch(conn, name)
        if info is None:
            continue
        info.register(conn)
        for dumper in dumpers:
            for kind in written:
                conn.adapters.register_dumper(kind, _bind(dumper, info.oid))
        for loader in loaders:
            conn.adapters.register_loader(info.oid, loader)


@lru_cache(maxsize=64)  # the types of one database are four; another number after its extension was made anew
def _bind(dumper: type[Dumper], oid: int) -> type[Dumper]:
    """The dumper for a type's number, which differs from database to database."""
    return type(dumper.__name__, (dumper,), {"oid": oid})
