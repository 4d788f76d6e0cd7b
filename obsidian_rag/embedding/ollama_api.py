"""Ollama's HTTP API, as far as it is needed here: one request, and what its answer means.

An answer that is not what was asked for becomes a `Fault` with a kind; what to do about it is decided in
`ollama.py` and `text_model.py`.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from obsidian_rag.config import mask_password
from obsidian_rag.counts import count
from obsidian_rag.errors import SettingsError

if TYPE_CHECKING:
    import httpx

DEFAULT_URL = "http://localhost:11434"

# What people paste after the host although it is not part of the address.
_API_PATH = re.compile(r"/(api(/embed|/embeddings|/generate|/chat|/tags|/version)?|v1(/embeddings)?)$")

_TOO_LONG = re.compile(
    r"input (length )?(exceeds|is too (long|large))|exceeds? (the |maximum )?context", re.IGNORECASE
)
_NAN = re.compile(r"\bNaN\b|unsupported value|[+-]Inf\b", re.IGNORECASE)
_NOT_EMBEDDING = re.compile(
    r"not support embed|embeddings? (is |are )?(currently )?not (implemented|supported)", re.I
)
_NO_MODEL = re.compile(r"model .*not found|no such model|try pulling it", re.IGNORECASE)
_DYING = re.compile(
    r"\bEOF\b|runner process|connection (reset|refused)|broken pipe|llama.*terminated", re.IGNORECASE
)


class Kind(Enum):
    """What went wrong, by what can be done about it."""

    UNREACHABLE = "unreachable"  # nothing answers: may pass
    BUSY = "busy"  # 503, 429: may pass
    BROKEN = "broken"  # died or hung up over this request: may pass, or one text is the cause
    SLOW = "slow"  # no answer in time: fewer texts at once may help
    GARBLED = "garbled"  # an answer that is not what was asked for
    NOT_OLLAMA = "not ollama"  # a web page, a redirect, no such path
    TOO_LONG = "too long"  # one text exceeds the context
    NAN = "nan"  # the model answered NaN for one text
    REFUSED = "refused"  # any other 4xx
    NO_MODEL = "no model"
    NOT_EMBEDDING = "not an embedding model"
    FORBIDDEN = "forbidden"  # 401, 403


class Fault(Exception):
    """A request that brought nothing. Never leaves this package."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True, slots=True)
class Address:
    """Where Ollama is. `url` has no password and no slash at its end; `shown` is for messages."""

    url: str
    shown: str
    loopback: bool
    user: str = ""
    password: str = field(default="", repr=False)


def read_address(written: str | None) -> Address:
    """What people write for OLLAMA_URL, by the rules of Ollama's own OLLAMA_HOST.

    Without a scheme the port is 11434; 0.0.0.0 and [::] are where a server listens and mean this machine.
    Raises SettingsError.
    """
    text = (written or "").strip().strip("\"'").strip() or DEFAULT_URL
    bare = "://" not in text
    try:
        parts = urlsplit(f"http://{text}" if bare else text)
        port = parts.port
    except ValueError as error:
        # The library's words quote what stands in the place of the port, a part of a password perhaps.
        raise _bad_url(text, "its port or its host cannot be read") from error
    if re.search(r"\s", parts.netloc):
        raise _bad_url(text, "there is a blank in it")
    if parts.scheme not in ("http", "https"):
        raise _bad_url(text, "it is neither http nor https")
    host = _client_host(parts.hostname or "")
    if not re.fullmatch(r"[^\s/\\@]+", host):
        raise _bad_url(text, "it has no host")
    if port is None and bare:
        port = 11434
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc += f":{port}"
    path = _API_PATH.sub("", re.sub(r"/{2,}", "/", parts.path).rstrip("/"))
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    hidden = f"{user}:***@" if password else f"{user}@" if user else ""
    return Address(
        url=f"{parts.scheme}://{netloc}{path}",
        shown=f"{parts.scheme}://{hidden}{netloc}{path}",
        loopback=_is_loopback(host),
        user=user,
        password=password,
    )


def _client_host(host: str) -> str:
    return {"": "localhost", "0.0.0.0": "127.0.0.1", "::": "::1", "*": "localhost"}.get(host, host)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _bad_url(text: str, why: str) -> SettingsError:
    bare = "://" not in text
    shown = mask_password(f"http://{text}" if bare else text).removeprefix("http://" if bare else "")
    return SettingsError(f"OLLAMA_URL={shown} cannot be used: {why}", "Write it as http://localhost:11434")


class OllamaClient:
    """One Ollama server. Safe to use from several threads."""

    def __init__(self, address: Address) -> None:
        import httpx

        self.address = address
        self._http = httpx.Client(
            base_url=address.url,
            auth=(address.user, address.password) if address.user or address.password else None,
            # HTTP_PROXY is meant for other machines; through it, this one cannot be reached.
            trust_env=not address.loopback,
            follow_redirects=False,
            # Reading the certificates takes longer than a query; plain http never asks for them.
            verify=address.url.startswith("https:"),
        )

    def close(self) -> None:
        self._http.close()

    def version(self, timeout: float = 3.0) -> str:
        """The server's version. Raises Fault."""
        answer = self._ask("GET", "/api/version", None, timeout)
        if not isinstance(answer.get("version"), str):
            raise Fault(Kind.NOT_OLLAMA, "it answers, but not as Ollama does")
        return str(answer["version"])

    def show(self, model: str, timeout: float = 30.0) -> dict[str, Any]:
        """What the server knows of a model. Raises Fault, with NO_MODEL where it has none of that name."""
        return self._ask("POST", "/api/show", {"model": model, "name": model}, timeout)

    def tags(self, timeout: float = 30.0) -> list[str]:
        """The models that are pulled. Raises Fault."""
        answer = self._ask("GET", "/api/tags", None, timeout)
        models = answer.get("models") or []
        return [str(item.get("name") or item.get("model")) for item in models if isinstance(item, dict)]

    def embed(
        self, model: str, texts: list[str], *, window: int, dimensions: int | None, timeout: float
    ) -> list[Any]:
        """The raw vectors, as many as texts. Raises Fault."""
        body: dict[str, Any] = {
            "model": model,
            "input": texts,
            "truncate": False,
            "options": {"num_ctx": window},
        }
        if dimensions is not None:
            body["dimensions"] = dimensions
        vectors = self._ask("POST", "/api/embed", body, timeout).get("embeddings")
        if not isinstance(vectors, list):
            raise Fault(Kind.GARBLED, "the answer holds no vectors")
        if len(vectors) != len(texts):
            raise Fault(
                Kind.GARBLED, f"{count(len(vectors), 'vector')} came back for {count(len(texts), 'text')}"
            )
        return vectors

    def generate(
        self, model: str, prompt: str, *, system: str, form: dict[str, Any], most_tokens: int, timeout: float
    ) -> str:
        """The text that a model writes, in the form of a JSON schema; the likeliest one. Raises Fault."""
        body = {
            "model": model,
            "system": system,
            "prompt": prompt,
            "format": form,
            "stream": False,
            "think": False,  # a model that thinks first takes many times as long
            "options": {"temperature": 0, "num_predict": most_tokens},
        }
        text = self._ask("POST", "/api/generate", body, timeout).get("response")
        if not isinstance(text, str):
            raise Fault(Kind.GARBLED, "the answer holds no text")
        return text

    def load(self, model: str, timeout: float) -> None:
        """Have the server load a text model; without a prompt nothing is written. Raises Fault."""
        self._ask("POST", "/api/generate", {"model": model, "stream": False}, timeout)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        import httpx

        limits = httpx.Timeout(timeout, connect=min(timeout, 5.0))
        try:
            answer = self._http.request(method, path, json=body, timeout=limits)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            raise Fault(Kind.UNREACHABLE, _say(error)) from error
        except httpx.TimeoutException as error:
            raise Fault(Kind.SLOW, f"no answer within {timeout:.0f} seconds") from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise Fault(Kind.BROKEN, f"the connection broke ({_say(error)})") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Fault(Kind.NOT_OLLAMA, _say(error)) from error
        return _read_answer(answer, path)


def _read_answer(answer: httpx.Response, path: str) -> dict[str, Any]:
    status = answer.status_code
    try:
        value = json.loads(answer.content)
    except ValueError:
        value = None
    if status == 200:
        if isinstance(value, dict) and "error" not in value:
            return value
        if isinstance(value, dict):
            raise Fault(_kind_of(500, str(value["error"])), str(value["error"]))
        kind = Kind.NOT_OLLAMA if _is_page(answer) else Kind.GARBLED
        raise Fault(kind, f"{_what(answer)} came back from {path} instead of JSON")
    if isinstance(value, dict) and value.get("error"):
        raise Fault(_kind_of(status, str(value["error"])), f"{status}: {_brief(str(value['error']))}")
    if status in (401, 403):
        raise Fault(Kind.FORBIDDEN, f"{status} from {path}")
    if status in (429, 502, 503, 504):
        raise Fault(Kind.BUSY, f"{status} from {path}")
    if status == 413:
        raise Fault(Kind.TOO_LONG, f"413 from {path}: the request is too large")
    if 300 <= status < 400:
        raise Fault(Kind.NOT_OLLAMA, f"it redirects to {answer.headers.get('location', 'another address')}")
    if status in (404, 405):
        raise Fault(Kind.NOT_OLLAMA, f"it knows no {path}")
    if status >= 500:
        raise Fault(Kind.BROKEN, f"{status} from {path}")
    raise Fault(Kind.REFUSED, f"{status} from {path}")


def _kind_of(status: int, text: str) -> Kind:
    """The kind of an error that Ollama put into words. Wording before status: statuses changed over time."""
    if _TOO_LONG.search(text) or status == 413:
        return Kind.TOO_LONG
    if _NOT_EMBEDDING.search(text) or status == 501:
        return Kind.NOT_EMBEDDING
    if _NO_MODEL.search(text):
        return Kind.NO_MODEL
    if status in (401, 403):
        return Kind.FORBIDDEN
    if status in (429, 502, 503, 504) or "server busy" in text.lower():
        return Kind.BUSY
    if _NAN.search(text):
        return Kind.NAN
    if status >= 500 or _DYING.search(text):
        return Kind.BROKEN
    return Kind.NO_MODEL if status == 404 else Kind.REFUSED


def _is_page(answer: httpx.Response) -> bool:
    return "html" in answer.headers.get("content-type", "") or answer.content.lstrip()[:1] == b"<"


def _what(answer: httpx.Response) -> str:
    return "a web page" if _is_page(answer) else f"{len(answer.content)} bytes of no known form"


def _say(error: Exception) -> str:
    return _brief(str(error)) or type(error).__name__


def _brief(text: str, most: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
