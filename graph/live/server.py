"""The server of `cutegen watch`: a run's, model's or suite's page on this machine alone, and what happens meanwhile."""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from graph.live.feed import NOTHING, SILENCE_S, batches, page
from graph.live.views import ModelView, RunView, SuiteView

HOST = "127.0.0.1"
LOOK_S = 0.25
"""Between looks at a log."""
NAMES = ("127.0.0.1", "localhost")
"""What a browser may call this server: under another name a page from elsewhere would be asking."""
View = RunView | SuiteView | ModelView


class Watching(ThreadingHTTPServer):
    """Serves `view` on loopback; port 0 takes any that is free."""

    daemon_threads = True

    def __init__(self, view: View, port: int = 0) -> None:
        self.view = view
        self.closing = False
        super().__init__((HOST, port), Asked)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def server_close(self) -> None:
        """Streams end with it."""
        self.closing = True
        super().server_close()


class Asked(BaseHTTPRequestHandler):
    """One request. A path names the suite or model, or one of its runs: nothing of it is ever a path of the disk."""

    server: Watching
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The page, its inside, or the stream of what happens."""
        address = urlsplit(self.path)
        view, asked = self._found(address.path)
        named = (self.headers.get("Host") or "").rpartition(":")[0] or self.headers.get("Host")
        if named not in NAMES:
            self._send(403, "This server answers to 127.0.0.1 and localhost alone.", "text/plain")
        elif view is None:
            self._send(404, "There is no such page.", "text/plain")
        elif asked == "events":
            begun = parse_qs(address.query).get("from", ["0"])[0]
            self._stream(view, self.headers.get("Last-Event-ID") or begun)
        elif asked == "body":
            body, at = view.body()
            self._send(200, body, "text/html", at=at)
        else:
            body, at = view.body()
            text, policy = page(view.name, body, at, ended=view.ended, broad=isinstance(view, SuiteView))
            self._send(200, text, "text/html", policy)

    def _found(self, path: str) -> tuple[View | None, str]:
        """The view that a path names, and what of it: "", "body" or "events"."""
        *names, asked = path.removeprefix("/").split("/")
        if asked not in ("", "body", "events"):
            return None, asked
        if not names:
            return self.server.view, asked
        if len(names) > 1 or isinstance(self.server.view, RunView):
            return None, asked
        return self.server.view.run(unquote(names[0])), asked

    def _stream(self, view: View, begun: str) -> None:
        self._head(200, "text/event-stream")
        self.end_headers()
        self.close_connection = True
        spoke = time.monotonic()
        for batch in batches(view.feed(int(begun) if begun.isdecimal() else 0)):
            if not batch and time.monotonic() - spoke > SILENCE_S:
                batch = b": still here\n\n"
            if batch:
                try:
                    self.wfile.write(batch)
                except OSError:  # the reader has gone
                    return
                spoke = time.monotonic()
            if self.server.closing:
                return
            time.sleep(LOOK_S)

    def _send(self, status: int, text: str, kind: str, policy: str = NOTHING, *, at: int = 0) -> None:
        content = text.encode()
        self._head(status, f"{kind}; charset=utf-8", policy)
        self.send_header("X-At", str(at))
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _head(self, status: int, kind: str, policy: str = NOTHING) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Content-Security-Policy", policy)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the library's name)
        """Nothing: a line for every look would hide what the command says."""
