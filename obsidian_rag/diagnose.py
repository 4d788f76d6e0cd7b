"""Why a note is not higher in a search: where each retriever ranks it among all notes, and what is above."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from obsidian_rag.catalog import find_note
from obsidian_rag.config import Vault
from obsidian_rag.counts import count
from obsidian_rag.diagnosis import Diagnosis, Place, Rival, WordUse
from obsidian_rag.errors import NoteNotFound, VaultError
from obsidian_rag.index_reader import IndexReader
from obsidian_rag.link_effects import explain_links, list_named
from obsidian_rag.postgres import Connection
from obsidian_rag.prior_effects import explain_priors, list_priors
from obsidian_rag.search.facts import load_facts
from obsidian_rag.search.filters import find_allowed, find_exclude
from obsidian_rag.search.fusion import Fused, is_certain, order_text, rank_calibrated, score_calibrated
from obsidian_rag.search.keyword import read_words, search_keywords
from obsidian_rag.search.links import explain_hits, search_links
from obsidian_rag.search.pipeline import Prepared, Ranked, prepare, rank_notes
from obsidian_rag.search.priors import Priors
from obsidian_rag.search.query import Filters, Request, apply_settings, classify_intent
from obsidian_rag.search.rerank import MOST_NOTES, deepen
from obsidian_rag.search.retrieval import DEPTH, Retrieved, find_names
from obsidian_rag.search.vector import VectorHit
from obsidian_rag.vault import walk

EVERY = 1_000_000  # notes: more than an index holds
ABOVE = 5  # notes above the target that are told
LITTLE_TRUST = 0.5  # of vectors, under which words decide


NEAREST_OF_ALL = """
SELECT DISTINCT ON (d.file_path) d.file_path, d.chunk_index, 1 - (d.embedding <=> %(vector)s) AS cosine
FROM documents d LEFT JOIN notes n USING (file_path)
WHERE %(allowed)s::int[] IS NULL OR n.id = ANY(%(allowed)s::int[])
ORDER BY d.file_path, d.embedding <=> %(vector)s, d.chunk_index
"""
WORD_USES = """
SELECT w.place::int, count(DISTINCT p.note_id), coalesce(bool_or(p.note_id = %(note)s), FALSE),
       coalesce(bool_or(p.note_id = %(note)s AND p.chunk_index = %(chunk)s), FALSE)
FROM unnest(%(places)s::int[], %(lexemes)s::text[]) AS w (place, lexeme) LEFT JOIN postings p USING (lexeme)
GROUP BY w.place ORDER BY w.place
"""
BEST_CHUNK = """
SELECT chunk_index, coalesce(heading_path, '') AS heading_path, start_line, end_line
FROM documents WHERE file_path = %s AND chunk_index = %s
"""


def diagnose_target(
    reader: IndexReader, request: Request, target: str, vaults: Sequence[Vault] = ()
) -> Diagnosis:
    """Why the note `target` is where it is for a request. A note that the index lacks is a finding, not an
    error. Raises EmbedderError in vector mode, QueryError for a path that is none.
    """
    request = apply_settings(request, reader.settings)
    try:
        file_path = reader.run(lambda conn: find_note(conn, target))
    except NoteNotFound as exc:
        absence = str(exc)
        findings = reader.run(lambda conn: _explain_absence(conn, target, vaults) or (absence,))
        intent = request.intent or classify_intent(request.query)
        return Diagnosis(
            request.query, target, request.mode, intent, request.limit, indexed=False, findings=findings
        )
    return reader.run_prepared(
        lambda: prepare(reader, request), lambda conn, prepared: _diagnose(conn, request, file_path, prepared)
    )


def _diagnose(conn: Connection, request: Request, target: str, prepared: Prepared) -> Diagnosis:
    ranked = rank_notes(conn, request, prepared)
    fused, allowed, retrieved = ranked.fused, ranked.allowed, ranked.retrieved
    deep = _retrieve_all(conn, request, prepared, allowed, retrieved)
    places = _find_places(target, request, retrieved, deep) | _find_later_places(target, ranked)
    chunk = conn.execute(BEST_CHUNK, (target, deep.best_chunk(target))).fetchone()
    best_chunk = (
        dict(zip(("chunk_index", "heading_path", "start_line", "end_line"), chunk, strict=True))
        if chunk
        else None
    )
    words = _find_words(conn, request, target, deep.best_chunk(target))
    rank = next((place for place, note in enumerate(fused, 1) if note.file_path == target), None)
    above = fused[: rank - 1] if rank else fused
    told = [target, *(note.file_path for note in above[:ABOVE])]
    ways = explain_hits(conn, [hit for path in told if (hit := deep.links.find(path))])
    rivals = tuple(
        Rival(
            note.file_path,
            place,
            round(note.score, 6),
            note.ranks,
            _explain_rival(note, target, deep, places, ranked.priors),
            ways.get(note.file_path, ()),
        )
        for place, note in enumerate(above[:ABOVE], 1)
    )
    diagnosis = Diagnosis(
        query=request.query,
        target=target,
        mode=request.mode,
        intent=ranked.intent,
        limit=request.limit,
        indexed=True,
        rank=rank,
        score=round(fused[rank - 1].score, 6) if rank else None,
        g=retrieved.calibration.g,
        retrievers=places,
        words=words,
        best_chunk=best_chunk,
        above=rivals,
        priors=list_priors(target, ranked, request.limit),
        named=list_named(deep.links),
        linked_by=ways.get(target, ()),
        notices=ranked.notices,
    )
    depth = DEPTH * deepen(request, prepared.reranker).limit
    retrieved = replace(retrieved, links=deep.links)
    findings = _find_reasons(conn, request, diagnosis, allowed, retrieved, depth)
    return replace(diagnosis, findings=findings + explain_priors(request, target, ranked))


def _retrieve_all(
    conn: Connection,
    request: Request,
    prepared: Prepared,
    allowed: Sequence[int] | None,
    retrieved: Retrieved,
) -> Retrieved:
    """What the retrievers would give if they were asked for every note."""
    near: list[VectorHit] = []
    if prepared.vector is not None:
        values = {"vector": prepared.vector, "allowed": None if allowed is None else list(allowed)}
        near = [VectorHit(*row) for row in conn.execute(NEAREST_OF_ALL, values).fetchall()]
        near.sort(key=lambda hit: (-hit.cosine, hit.file_path))
    keyword, names = retrieved.keyword, retrieved.names
    if request.mode != "vector" and "keyword" not in request.without:
        facts = load_facts(conn)
        keyword = search_keywords(conn, facts, request.query, EVERY, allowed=allowed, without=request.without)
    if request.mode != "vector" and "names" not in request.without:
        names = find_names(conn, request.query, EVERY, keyword, allowed)
    links = retrieved.links
    if prepared.question is not None:
        order = order_text(retrieved, request)
        links = search_links(conn, prepared.question, prepared.table, EVERY, order, allowed)
    cosines = {hit.file_path: hit for hit in near}
    return replace(retrieved, vector=near, keyword=keyword, names=names, cosines=cosines, links=links)


def _find_places(target: str, request: Request, retrieved: Retrieved, deep: Retrieved) -> dict[str, Place]:
    places = {}
    if deep.has_vector:
        near = deep.cosines.get(target)
        places["vector"] = _place(
            target,
            [hit.file_path for hit in deep.vector],
            [hit.file_path for hit in retrieved.vector],
            near.cosine if near else None,
        )
    if request.mode == "vector":
        return places
    words = deep.keyword.find(target)
    places["keyword"] = _place(
        target,
        [hit.file_path for hit in deep.keyword.hits],
        [hit.file_path for hit in retrieved.keyword.hits],
        words.score if words else None,
    )
    if deep.has_vector and "calibration" not in request.without:
        places["text"] = _place(
            target, rank_calibrated(deep), rank_calibrated(retrieved), score_calibrated(deep).get(target)
        )
    name = deep.find_name(target)
    places["names"] = _place(
        target,
        [hit.file_path for hit in deep.names],
        [hit.file_path for hit in retrieved.names],
        None,
        f"{name.match}: {name.name}" if name else "",
    )
    if deep.links.order:
        listed = [] if is_certain(retrieved) else retrieved.links.order
        places["links"] = _place(target, deep.links.order, listed, None)
    if deep.dated:
        places["dates"] = _place(target, deep.dated, retrieved.dated, None)
    return places


def _find_later_places(target: str, ranked: Ranked) -> dict[str, Place]:
    """Where the variants of the query and the reranker have the note; nothing of a stage that is off."""
    places = {}
    ranks = next((note.ranks for note in ranked.fused if note.file_path == target), {})
    variants = [
        (query, _place(target, paths, paths, None))
        for query, paths in zip(ranked.expansion.queries, ranked.expansion.lists, strict=True)
    ]
    if variants:
        found = len(set().union(*ranked.expansion.lists))
        detail = "; ".join(f"{query}: {place.rank or 'none'}" for query, place in variants)
        places["expansion"] = Place(ranks.get("expansion"), None, found, "expansion" in ranks, detail)
    scores = ranked.reranked.scores
    if scores:
        score = round(scores[target], 4) if target in scores else None
        places["rerank"] = Place(ranks.get("rerank"), score, len(scores), "rerank" in ranks)
    return places


def _place(
    target: str, every: Sequence[str], listed: Sequence[str], score: float | None, detail: str = ""
) -> Place:
    rank = every.index(target) + 1 if target in every else None
    return Place(rank, None if score is None else round(score, 4), len(every), target in listed, detail)


def _find_words(conn: Connection, request: Request, target: str, chunk: int) -> tuple[WordUse, ...]:
    if request.mode == "vector":
        return ()
    words = read_words(conn, request.query)
    note = conn.execute("SELECT id FROM notes WHERE file_path = %s", (target,)).fetchone()
    asked = [(place, lexeme) for place, word in enumerate(words.values()) for lexeme in word.lexemes]
    values = {
        "note": note[0] if note else None,
        "chunk": chunk,
        "places": [place for place, _ in asked],
        "lexemes": [lexeme for _, lexeme in asked],
    }
    spelled = list(words)
    return tuple(
        WordUse(spelled[place], in_note, in_chunk, notes)
        for place, notes, in_note, in_chunk in conn.execute(WORD_USES, values).fetchall()
    )


def _explain_rival(
    note: Fused, target: str, deep: Retrieved, places: dict[str, Place], priors: Priors
) -> str:
    """By which list, and under which factor, a note stands above the target."""
    prior = priors.get(note.file_path)
    factor = f"; {replace(prior, links=0)}" if prior and prior.factor != 1 else ""
    return _explain_list(note, target, deep, places) + factor


def _explain_list(note: Fused, target: str, deep: Retrieved, places: dict[str, Place]) -> str:
    name = deep.find_name(note.file_path)
    own = places.get("names")
    if name and not (own and own.rank):
        return f"the query is its name ({name.match}: {name.name})"
    better = [
        f"{name} {note.ranks[name]} against {place.rank or 'none'}"
        for name, place in places.items()
        if name in note.ranks and (place.rank is None or note.ranks[name] < place.rank)
    ]
    return ", ".join(better) if better else "the sum over the lists"


def _find_reasons(
    conn: Connection,
    request: Request,
    found: Diagnosis,
    allowed: Sequence[int] | None,
    retrieved: Retrieved,
    depth: int,
) -> tuple[str, ...]:
    """What keeps the note from being first, and what would help; the retrievers looked `depth` notes deep."""
    exclude = find_exclude(found.target, request.excludes)
    hidden = (f"SEARCH_EXCLUDES hides it: {exclude}. --include-excluded shows it.",) if exclude else ()
    excluded = hidden + _explain_filters(conn, request.filters, found.target, allowed)
    if excluded:
        return excluded
    if found.best_chunk is None and found.rank != 1:
        return ("The note holds no text; only its name or an alias can find it.",)
    if found.rank == 1:
        return ("It is the first result.",)
    reasons = []
    if found.rank is None:
        reasons.append(
            f"No retriever has it among its first {depth} notes, so it is not in the answer at all."
        )
    elif found.rank > request.limit:
        reasons.append(f"It is result {found.rank}; a limit of {found.rank} would show it.")
    else:
        reasons.append(f"It is result {found.rank}.")
    reasons += _explain_words(found, retrieved)
    reasons += _explain_vectors(found)
    reasons += _explain_rerank(found)
    if not is_certain(retrieved):
        reasons += explain_links(found.target, retrieved.links)
    return tuple(reasons)


def _explain_words(found: Diagnosis, retrieved: Retrieved) -> list[str]:
    reasons = []
    held = [use.word for use in found.words if use.in_note]
    lacking = [use for use in found.words if not use.in_note]
    keyword = found.retrievers.get("keyword")
    if keyword and keyword.rank is None and held and not retrieved.keyword.loosened:
        reasons.append("It holds words of the query, but the quotes, OR or -words of the query leave it out.")
    if lacking:
        told = ", ".join(
            f"{use.word} (in {count(use.notes, 'other note')})" if use.notes else f"{use.word} (in no note)"
            for use in lacking
        )
        reasons.append(
            f"It lacks these words of the query: {told}. As an alias or in its text they would help."
        )
    elif found.words and not all(use.in_chunk for use in found.words):
        reasons.append("It holds every word of the query, but no single passage of it does.")
    names = found.retrievers.get("names")
    if names and names.rank is None and found.target not in retrieved.links.named:
        reasons.append(
            "Its title and aliases are not what the query says; asked by one of them it comes first."
        )
    return reasons


def _explain_vectors(found: Diagnosis) -> list[str]:
    place = found.retrievers.get("vector")
    if place is None:
        return ["It was ranked without vectors."] if found.mode == "hybrid" else []
    reasons = []
    if place.rank and not place.fused:
        reasons.append(f"By nearness it is note {place.rank} of {place.found}: further down than is looked.")
    if found.mode == "hybrid" and found.g is not None and found.g < LITTLE_TRUST:
        reasons.append(
            f"Vectors count little in this index (g = {found.g:g}): the model knows its notes badly."
        )
    return reasons


def _explain_rerank(found: Diagnosis) -> list[str]:
    place = found.retrievers.get("rerank")
    if place is None:
        return []
    if place.rank is None:
        return [f"The reranker reads the first {MOST_NOTES} notes only, and it is not among them."]
    return [f"The reranker puts its best passage in place {place.rank} of the {place.found} that it read."]


def _explain_filters(
    conn: Connection, filters: Filters, target: str, allowed: Sequence[int] | None
) -> tuple[str, ...]:
    row = conn.execute("SELECT id FROM notes WHERE file_path = %s", (target,)).fetchone()
    if allowed is None or row is None or row[0] in allowed:
        return ()
    single = [
        (f"it is not in the folder {filters.folder}", Filters(folder=filters.folder)),
        *((f"it has no tag {tag}", Filters(tags=(tag,))) for tag in filters.tags),
        *((f"its property {k} is not {v}", Filters(properties=((k, v),))) for k, v in filters.properties),
        (f"its day is before {filters.after}", Filters(after=filters.after)),
        (f"its day is after {filters.before}", Filters(before=filters.before)),
    ]
    return tuple(
        f"The filters leave it out: {reason}."
        for reason, alone in single
        if alone and row[0] not in (find_allowed(conn, alone) or ())
    )


def _explain_absence(conn: Connection, target: str, vaults: Sequence[Vault]) -> tuple[str, ...]:
    """Why a note is not in the index: it failed, it is left out, or it is new."""
    reasons = [
        f"The last run could not index {path} ({stage}): {error}"
        for path, stage, error in conn.execute(
            "SELECT file_path, stage, error FROM failures WHERE file_path IN (%s, %s)",
            (target, f"{target}.md"),
        ).fetchall()
    ]
    for vault in vaults:
        try:
            notes = walk(vault.root).notes
        except VaultError as error:
            reasons.append(str(error))
            continue
        for file in notes:
            if vault.prefix + file.path not in (target, f"{target}.md"):
                continue
            if file.excluded:
                reasons.append('The vault\'s own setting "Excluded files" leaves it out.')
            elif not reasons:
                reasons.append("The file is in the vault but not in the index. Run: obsidian-rag index")
    return tuple(reasons)
