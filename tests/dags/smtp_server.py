"""A mail server that keeps what it receives."""

import socketserver
import threading
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


class _Session(socketserver.StreamRequestHandler):
    server: "MailServer"

    def handle(self) -> None:
        self._say("220 ready")
        while line := self.rfile.readline().strip().upper():
            if line.startswith(b"DATA"):
                self._say("354 continue")
                self.server.keep(self._data())
            self._say("221 bye" if line.startswith(b"QUIT") else "250 ok")

    def _data(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class MailServer(socketserver.ThreadingTCPServer):
    """A context: it listens on a free port of this machine until it is left."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[EmailMessage] = []
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def keep(self, text: bytes) -> None:
        found = message_from_bytes(text, policy=policy.default)
        assert isinstance(found, EmailMessage)
        self.mails.append(found)

    def __exit__(self, *_: Any) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()
