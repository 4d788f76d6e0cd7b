"""A small vault of people, firms, meetings and ideas around a dig in a fen, all invented, whose answers are
in its links: in folders that say what a note is, and the same notes side by side.
"""

from __future__ import annotations

import re

# A title of more words than a name inside a question may have.
ESSAY = "Who founded Fenland Digs and why it took years to pay for the boots of them all"
# By path without `.md`.
DIG = {
    "People/Ilse Brandt": "---\naliases: [Trowel]\n---\nShe founded [[Fenland Digs]] in 2011.\n\n"
    "Before that she studied at [[Silt College]].\n",
    "People/Hamid Rezai": "He founded [[Peat Lens]] in a shed.\n\nHe keeps bees.\n",
    "People/Teodor Vasko": "Invested in [[Fenland Digs]] twice.\n\nAlso an investor of [[Peat Lens]].\n",
    "People/Petra Quill": "# Work\n\nAn early investor of [[Peat Lens]].\n\n# Home\n\nA boat.\n",
    "People/Maren Okafor": "Works at [[Fenland Digs]] as a surveyor.\n",
    "People/Gus Pike": "Saw [[Fenland Digs]] once.\n",
    "People/Osric Bell": "Advises [[Fenland Digs]] on permits.\n",
    "People/Sefa Lund": "She founded [[Mudlark Works]], with no note yet.\n",
    "People/Bram Otto": "He invested in [[Mudlark Works]].\n",
    "Organisations/Fenland Digs": "# Fenland Digs\n\nTrenches, sieves and a van.\n",
    "Organisations/Peat Lens": "# Peat Lens\n\nCameras for wet soil.\n",
    "Organisations/Silt College": "# Silt College\n\nA roof and a stove.\n",
    "Organisations/Causeway Fund": "# Causeway Fund\n\nPays for boots.\n",
    "Meetings/2024-03-02 Trench briefing": "Attendees: [[Maren Okafor]], [[Osric Bell]]\n\n"
    "We discussed [[Stratigraphy]].\n",
    "Meetings/2024-05-20 Causeway pitch": "Attendees: [[Hamid Rezai]], [[Petra Quill]]\n\n"
    "We discussed [[Pollen dating]] with the [[Causeway Fund]].\n",
    "Concepts/Stratigraphy": "Layers, and the order in which they came.\n",
    "Concepts/Pollen dating": "Grains tell. It invested in [[Peat Lens]], and backed [[Peat Lens]].\n",
    "Journal/Rain": "[[Petra Quill]] befriended a heron. [[Osric Bell]] introduced [[Petra Quill]] to it.\n",
    "Journal/Mud": "Boots again. The van is stuck.\n",
    "Journal/Boats": "A punt, hired. The van is dry.\n",
    "Journal/Causeway Fund investors": "A list that is still to be made.\n",
    f"Journal/{ESSAY}": "Later.\n",
}


def flatten(notes: dict[str, str]) -> dict[str, str]:
    """The same notes without folders."""
    return {re.sub(r"^.*/", "", path): text for path, text in notes.items()}
