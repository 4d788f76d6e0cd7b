"""What stands before every answer: who may ask, and what a browser may do with what it gets."""

from __future__ import annotations

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Of any port: one that is forwarded here has another number.
_LOCAL = re.compile(r"(?:localhost|127\.0\.0\.1)(?::\d{1,5})?", re.IGNORECASE)
# A page runs its own files alone, and reaches nothing but this server. Notes are shown by its script, which
# could not make a script of them even by a fault.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses what does not come from this page or the address bar, and gives every answer its HEADERS.

    A name that a stranger's page had resolved to this machine stands in `Host`; what another site's page asks
    is told by `Sec-Fetch-Site`. Nothing but reading is answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = _refuse(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)


def _refuse(scope: Scope) -> PlainTextResponse | None:
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not _LOCAL.fullmatch(hosts[0]):
        return PlainTextResponse(
            "This page is for this machine only. Open it as http://localhost or http://127.0.0.1, with its"
            " port.",
            421,
        )
    if scope["method"] not in ("GET", "HEAD"):
        return PlainTextResponse("This page only reads.", 405, {"Allow": "GET, HEAD"})
    is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not is_visit:
        return PlainTextResponse("Another site's page may not ask this one.", 403)
    return None
