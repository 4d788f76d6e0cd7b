"""The arguments of the tools, as their schemas describe them.

Bounds and choices are told in the schema and checked by what does the work: its errors say what to pass
instead.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from obsidian_rag import schemas

Query = Annotated[str, Field(description='Words, a question, "a quoted phrase", -without')]
Limit = Annotated[
    int,
    Field(description="How many notes", json_schema_extra={"minimum": 1, "maximum": schemas.MOST_RESULTS}),
]
ModeName = Annotated[
    str,
    Field(
        description="hybrid fits nearly always; keyword for exact words; vector for meaning",
        json_schema_extra={"enum": list(schemas.MODES)},
    ),
]
Folder = Annotated[str | None, Field(description="Only notes in this folder or below it")]
Tags = Annotated[
    list[str] | None, Field(description="Only notes with all these tags; a tag includes those nested in it")
]
Properties = Annotated[
    list[str] | None, Field(description='Only notes with these properties, as "key=value"')
]
After = Annotated[str | None, Field(description="Only notes of this day or later, as 2025-09-30")]
Before = Annotated[str | None, Field(description="Only notes of this day or earlier")]
IntentName = Annotated[
    str | None,
    Field(
        description="What is asked for; best left out, it is told from the query",
        json_schema_extra={"enum": [*schemas.INTENTS, None]},
    ),
]
Boosts = Annotated[
    list[str] | None,
    Field(description='Folders to favour or to put back in this search, as "folder=1.5" or "folder=0.7"'),
]
WithExcluded = Annotated[bool, Field(description="Also search what the person's settings leave out")]
NotePath = Annotated[
    str,
    Field(
        description="A note's path, as search_notes gives it; a title, an alias, a [[link]] or the end of a"
        " path does too, if only one note has it"
    ),
]
Depth = Annotated[
    int, Field(description="Links to follow", json_schema_extra={"minimum": 1, "maximum": schemas.MOST_HOPS})
]
MaxTokens = Annotated[
    int,
    Field(
        description=f"About how long the answer may be, {schemas.LEAST_TOKENS} to {schemas.MOST_TOKENS}; what"
        " is left out is said",
        json_schema_extra={"minimum": schemas.LEAST_TOKENS, "maximum": schemas.MOST_TOKENS},
    ),
]
HeadingName = Annotated[
    str | None,
    Field(
        description='Only this section, with those below it: a heading, a heading path "Pool > Size", or the'
        " ^id of a block in it; file_path may name it too: Pool#Size"
    ),
]
Offset = Annotated[
    int,
    Field(
        description="Where to read on: the next_offset of the page before, in characters of the note",
        json_schema_extra={"minimum": 0},
    ),
]
WithContent = Annotated[bool, Field(description="Add the first 500 characters of each note")]
Relation = Annotated[
    list[str] | str | None,
    Field(description="Only links of these relations, as the answers name them: founded, author"),
]
WayName = Annotated[
    str,
    Field(
        description="out: only to what each note links to; in: only to what links to it",
        json_schema_extra={"enum": list(schemas.DIRECTIONS)},
    ),
]
