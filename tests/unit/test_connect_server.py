"""The way of clients to Spark Connect over TLS, without Spark: an echo stands for its server."""

import asyncio
import ssl
from pathlib import Path

import pytest

from spark_jobs import connect_server
from tests.authority import Authority


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
        if data.endswith(b"end"):
            break
    writer.close()


async def carried(sent: bytes, server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[bytes, str | None]:
    """What comes back to a client over TLS until the server ends the connection, and the protocol."""
    inner = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = inner.sockets[0].getsockname()[1]
    outer = await asyncio.start_server(lambda r, w: connect_server.carry(r, w, port), "127.0.0.1", 0, ssl=server)
    async with inner, outer:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", outer.sockets[0].getsockname()[1], ssl=client, server_hostname="spark-connect"
        )
        writer.write(sent)
        back = await asyncio.wait_for(reader.read(-1), 60)
        protocol = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        writer.close()
    return back, protocol


def test_bytes_reach_the_server_and_come_back_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "databases")
    server = connect_server.context(*authority.certify("spark-connect"))
    client = ssl.create_default_context(cafile=authority.file)
    client.set_alpn_protocols(["h2"])
    sent = bytes(range(256)) * 20_000 + b"end"
    back, protocol = asyncio.run(carried(sent, server, client))
    assert back == sent
    assert protocol == "h2", "gRPC refuses a server without it"


def test_a_client_that_trusts_another_authority_sends_nothing(tmp_path: Path) -> None:
    server = connect_server.context(*Authority(tmp_path, "databases").certify("spark-connect"))
    client = ssl.create_default_context(cafile=Authority(tmp_path, "others").file)
    with pytest.raises(ssl.SSLCertVerificationError):
        asyncio.run(carried(b"token end", server, client))


def test_without_its_server_a_client_is_turned_away_at_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "databases")
    server = connect_server.context(*authority.certify("spark-connect"))
    client = ssl.create_default_context(cafile=authority.file)

    async def refused() -> bytes:
        # Nothing listens on port 1 of this machine.
        outer = await asyncio.start_server(lambda r, w: connect_server.carry(r, w, 1), "127.0.0.1", 0, ssl=server)
        async with outer:
            port = outer.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=client, server_hostname="spark-connect"
            )
            try:
                return await asyncio.wait_for(reader.read(-1), 60)
            finally:
                writer.close()

    assert asyncio.run(refused()) == b""
