"""What stands between servers and what they talk to, and does not pass everything on.

`FaultyStore` speaks HTTP in front of an object store; `Wire` passes bytes of connections on, and
cuts some.
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


class FaultyStore:
    """An object store that is there, gone or slow, refuses some requests, or answers wrongly after
    it did what was asked."""

    MODES = ("well", "gone", "slow", "refuses", "lies")

    def __init__(self, behind: str) -> None:
        self.mode = "well"
        # How long a request is held while it is slow; in how many of them there is a fault.
        self.delay_s, self.one_in = 1.0, 10
        # How long a put whose answer gets lost stays without one.
        self.silence_s = 2.0
        # Requests that were meddled with.
        self.faults = 0
        self._chance, self._lock = random.Random(1), threading.Lock()
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Answers are sent at once.
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def handle_one_request(self) -> None:
                with suppress(OSError):
                    super().handle_one_request()

            def pass_on(self) -> None:
                store.answer(self, urlsplit(behind).netloc)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = pass_on

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Takes no more connections."""
        self._server.shutdown()
        self._server.server_close()

    def _falls(self) -> bool:
        with self._lock:
            falls = self._chance.randrange(self.one_in) == 0
            self.faults += falls
            return falls

    def answer(self, asked: BaseHTTPRequestHandler, behind: str) -> None:
        """Answers one request as the mode is."""
        mode = self.mode
        body = asked.rfile.read(int(asked.headers.get("content-length") or 0))
        if mode == "gone":
            self.faults += 1
            asked.close_connection = True
            return
        if mode == "slow":
            self.faults += 1
            time.sleep(self.delay_s)
        if mode == "refuses" and self._falls():
            tell(asked, 503, {}, b"")
            return
        link = http.client.HTTPConnection(behind, timeout=60)
        try:
            link.request(asked.command, asked.path, body, dict(asked.headers.items()))
            found = link.getresponse()
            text = found.read()
        finally:
            link.close()
        if mode == "lies" and asked.command == "PUT" and found.status < 300 and self._falls():
            if self.faults % 2:
                tell(asked, 500, {}, b"")
            else:
                time.sleep(self.silence_s)
                asked.close_connection = True
            return
        tell(asked, found.status, dict(found.getheaders()), text)


def tell(asked: BaseHTTPRequestHandler, status: int, headers: dict[str, str], text: bytes) -> None:
    """Sends an answer."""
    asked.send_response_only(status)
    head = asked.command == "HEAD"
    for name, value in headers.items():
        if name.lower() not in ("connection", "transfer-encoding", "content-length"):
            asked.send_header(name, value)
    length = {name.lower(): value for name, value in headers.items()}.get("content-length")
    asked.send_header("content-length", length if head and length else str(len(text)))
    asked.end_headers()
    if not head:
        asked.wfile.write(text)


class Wire:
    """Passes connections on to an address. While it is faulty, one in so many pieces is lost,
    and with it the connection, as TCP loses what it cannot deliver."""

    def __init__(self, to: tuple[str, int], one_in: int, seed: int) -> None:
        self.to, self.one_in, self.faulty, self.cuts = to, one_in, False, 0
        self._chance = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Takes no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self.to, timeout=2)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                for ends in [(near, far), (far, near)]:
                    for end in ends:
                        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                if self.faulty and self._chance.randrange(self.one_in) == 0:
                    self.cuts += 1
                    break
                sink.sendall(piece)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
