"""A small local page over the index: search as you type, read a note with its passage marked, see its links.

It only reads, answers on the loopback interface alone, and asks nothing of any network.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from obsidian_rag.config import Settings
from obsidian_rag.errors import ObsidianRagError
from obsidian_rag.program import show_message

if TYPE_CHECKING:
    from obsidian_rag.postgres import Connection


def serve_web(settings: Settings, *, port: int, open_browser: bool) -> None:
    """Serve the page until Ctrl-C, SIGTERM or SIGHUP ends it; its address is printed on stdout.

    `port` 0 takes any that is free. Raises SettingsError for a port that cannot be had. An index that
    cannot be read is no reason to end, since it may be made meanwhile: that is said, here and in the page.
    """
    from obsidian_rag.catalog import EMPTY
    from obsidian_rag.index_reader import IndexReader
    from obsidian_rag.web.app import make_app
    from obsidian_rag.web.server import listen, run_server, show_page

    socket = listen(port)
    url = f"http://127.0.0.1:{socket.getsockname()[1]}/"
    reader = IndexReader(settings, _say)
    try:
        print(f"{url} shows the index. Ctrl-C ends it.", flush=True)
        try:
            if not reader.run(_holds_notes):
                _say(". ".join(EMPTY))
        except ObsidianRagError as exc:
            _say(str(exc))
        if open_browser:
            show_page(url)
        run_server(make_app(reader, _say), socket)
    except KeyboardInterrupt:
        pass
    finally:
        socket.close()
        reader.close()


def _say(text: str) -> None:
    print(show_message(text), file=sys.stderr, flush=True)


def _holds_notes(conn: Connection) -> bool:
    return conn.execute("SELECT EXISTS (SELECT FROM notes)").fetchone() == (True,)
