"""What is asked before notes are deleted from the index: a vault that is not mounted looks like one whose
notes were all deleted, and must cost nothing.
"""

from __future__ import annotations

from dataclasses import replace

from obsidian_rag.diff import IndexState, Plan
from obsidian_rag.errors import VaultError
from obsidian_rag.models import Failure
from obsidian_rag.vaults import VaultReader

# Losing more than half of an index at once is a vault that is not mounted, far more often than a wish.
MASS_DELETE_SHARE = 0.5
MASS_DELETE_FLOOR = 20

ALLOW = "if the notes are really gone: obsidian-rag index --allow-mass-delete"


def check_mass_delete(plan: Plan, state: IndexState, reader: VaultReader) -> None:
    """Raise VaultError where a vault, or all of them together, would lose most of its notes, or where one of
    several holds no note any more.
    """
    held = {*state.notes, *state.adoptable}
    for vault, listing in reader.listings:
        here = sum(1 for path in held if path.startswith(vault.prefix))
        lost = sum(1 for path in plan.deleted if path.startswith(vault.prefix))
        if lost and not listing.notes and not listing.failures:
            raise VaultError(
                f"There is no note in {vault.place}, of which the index holds {here}; nothing was changed",
                f"Check that it is mounted; {ALLOW}",
            )
        _check_share(lost, here, vault.place)
    _check_share(len(plan.deleted), len(held), ", ".join(vault.place for vault, _ in reader.listings))


def _check_share(lost: int, held: int, where: str) -> None:
    if lost > max(MASS_DELETE_FLOOR, held * MASS_DELETE_SHARE):
        raise VaultError(
            f"{lost} of the {held} notes in the index are not in {where}; nothing was changed",
            "Check that this is the vault and that it is mounted. To index another vault, set DATABASE_URL to"
            f" a database of its own; {ALLOW}",
        )


def spare_empty_folders(plan: Plan, reader: VaultReader) -> Plan:
    """The plan without deleting many notes of a folder that is still there and holds nothing at all: a drive
    inside the vault that is not mounted. The folder is a failure until it is mounted, or removed.
    """
    deleted = plan.deleted
    failures = []
    empty = [vault.prefix + folder for vault, listing in reader.listings for folder in listing.empty_folders]
    for folder in empty:
        gone = [path for path in deleted if path.startswith(f"{folder}/")]
        if len(gone) > MASS_DELETE_FLOOR:
            deleted = tuple(path for path in deleted if not path.startswith(f"{folder}/"))
            failures.append(
                Failure(
                    folder,
                    "walk",
                    f"The folder is empty, and the index holds {len(gone)} notes of it, which stay."
                    " Mount what belongs there. If the notes are really gone, remove the empty folder.",
                )
            )
    return replace(plan, deleted=deleted, failures=(*plan.failures, *failures))
