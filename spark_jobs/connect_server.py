"""A Spark Connect server of a cluster, for clients on other machines: `python -m spark_jobs.connect_server MASTER`.

Spark Connect has no TLS of its own, and clients send a token only over TLS or to `localhost`. So the server listens on
the loopback address, and this process carries connections from the network to it, over TLS. It ends when the server
ends, and its supervisor starts both again.
"""

import argparse
import asyncio
import contextlib
import signal
import socket
import ssl
import sys
from pathlib import Path

from spark_jobs.server import ConnectServer

INNER_PORT = 15003
LOOK_SECONDS = 1.0


def context(certificate: Path, key: Path) -> ssl.SSLContext:
    """For gRPC, which is HTTP/2."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(certificate, key)
    return context


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
        await target.drain()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    """Carries one connection to `port` of this machine, until either side ends it."""
    with contextlib.suppress(OSError, ssl.SSLError):
        there, here = await asyncio.open_connection("127.0.0.1", port)
        ways = [asyncio.create_task(_copy(reader, here)), asyncio.create_task(_copy(there, writer))]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        here.close()
    writer.close()


async def serve(server: ConnectServer, port: int, tls: ssl.SSLContext) -> int:
    """Runs the server until it ends, or this process is told to; returns the exit status."""
    server.prepare()
    child = server.spawn(sys.stdout.buffer, dies=True)
    ends = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ends.set)
    async with await asyncio.start_server(lambda r, w: carry(r, w, server.port), "0.0.0.0", port, ssl=tls):  # noqa: S104
        while child.poll() is None and not ends.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ends.wait(), LOOK_SECONDS)
        server.stop()
    return 0 if ends.is_set() else child.returncode or 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.connect_server", description=__doc__)
    parser.add_argument("master", help="spark://host:port, or another master that spark-submit knows")
    parser.add_argument("--folder", type=Path, required=True, help="for its settings and scratch space")
    parser.add_argument("--token", type=Path, required=True, help="a file with the token of its clients")
    parser.add_argument("--port", type=int, default=15002, help="for clients, over TLS (default %(default)s)")
    parser.add_argument("--certificate", type=Path, required=True)
    parser.add_argument("--key", type=Path, required=True)
    parser.add_argument("--ui-port", type=int, help="Spark's pages, on the loopback address (default: none)")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    options = parser.parse_args()
    conf = {
        # Executors call the driver, which listens on the loopback address unless it is told otherwise.
        "spark.driver.host": socket.gethostname(),
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104
        # No client sends files, so all clients share the executors' Python workers.
        "spark.sql.artifact.isolation.enabled": "false",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
        **dict(setting.split("=", 1) for setting in options.conf),
    }
    server = ConnectServer(
        options.folder,
        options.master,
        conf,
        port=INNER_PORT,
        token=options.token.read_text().strip(),
        ui_port=options.ui_port,
    )
    return asyncio.run(serve(server, options.port, context(options.certificate, options.key)))


if __name__ == "__main__":
    sys.exit(main())
