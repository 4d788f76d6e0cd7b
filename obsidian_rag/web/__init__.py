"""A small local page over the index: search as you type, read a note with its passage marked, see its links.

It only reads, answers on the loopback interface alone, and asks nothing of any network.
"""

from __future__ import annotations

import sys
from functools import partial

from obsidian_rag.config import Settings


def serve_web(settings: Settings, *, port: int, open_browser: bool) -> None:
    """Serve the page until Ctrl-C, SIGTERM or SIGHUP ends it; its address is printed on stdout.

    `port` 0 takes any that is free. Raises SettingsError for a port that cannot be had. Whether the index can
    be read shows in the page, which says what mends it.
    """
    from obsidian_rag.index_reader import IndexReader
    from obsidian_rag.web.app import make_app
    from obsidian_rag.web.server import listen, run_server, show_page

    socket = listen(port)
    url = f"http://127.0.0.1:{socket.getsockname()[1]}/"
    say = partial(print, file=sys.stderr)
    reader = IndexReader(settings, say)
    try:
        print(f"{url} shows the index. Ctrl-C ends it.", flush=True)
        if open_browser:
            show_page(url)
        run_server(make_app(reader, say), socket)
    except KeyboardInterrupt:
        pass
    finally:
        socket.close()
        reader.close()
