"""What a search must know of the index as a whole, in one statement."""

from __future__ import annotations

from dataclasses import dataclass

from obsidian_rag.models import Calibration
from obsidian_rag.postgres import Connection
from obsidian_rag.search.bm25 import Totals

# Of an index too small to be measured: half trust, and the cosines of the bundled model.
UNMEASURED = Calibration(g=0.5, cosine_mean=0.2, cosine_spread=0.1)
MOST_CONFIGS = 6

# The configurations are what the indexer recorded; in an index that it has not seen since, what notes say.
FACTS = """
SELECT coalesce(nullif(s.fts_configs, '{}'), ARRAY(
           SELECT fts_config FROM notes WHERE fts_config IS NOT NULL
           GROUP BY fts_config ORDER BY count(*) DESC, fts_config)),
       k.notes, k.chunks, greatest(k.note_length, 1)::float8 / greatest(k.notes, 1),
       greatest(k.chunk_length, 1)::float8 / greatest(k.chunks, 1),
       s.fusion_g, s.cosine_mean, s.cosine_spread
FROM keyword_stats k LEFT JOIN index_settings s ON TRUE
"""


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """The text search configurations of the notes, the commonest first; sizes; and how far vectors are
    trusted.
    """

    configs: tuple[str, ...]
    totals: Totals
    calibration: Calibration


def load_facts(conn: Connection) -> IndexFacts:
    """The facts as they are now, or at the beginning of the transaction."""
    row = conn.execute(FACTS).fetchone()
    if row is None:
        return IndexFacts(("simple",), Totals(0, 0, 1.0, 1.0), UNMEASURED)
    configs, *totals, g, mean, spread = row
    calibration = UNMEASURED if g is None else Calibration(g, mean, spread)
    return IndexFacts(tuple(configs[:MOST_CONFIGS]) or ("simple",), Totals(*totals), calibration)


def list_configs(conn: Connection) -> tuple[str, ...]:
    """The text search configurations of the notes, the commonest first."""
    return load_facts(conn).configs
