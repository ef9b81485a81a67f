"""Redo logs over a real proxy, the copied file: what it serves and refuses, and a stager with lost connections, damaged
data and kills."""

import ast
import base64
import http.client
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.redo import blocks, proxy
from sluice.redo.stager import Archive, Entry, Limits, LogDamaged, NotPacked, ProxyClient, ProxyRefuses, Stager, unpack
from tests.airflow_home import ROOT
from tests.errors import raises_code
from tests.examples import examples
from tests.scenarios.stream.online_log import OnlineLog
from tests.scenarios.stream.test_redo_network import free_port
from tests.unit import redo_vectors

PROXY = ROOT / "plugins" / "sluice" / "redo" / "proxy.py"
TOKEN = "0123456789abcdef0123"
RESETLOGS = 1_224_959_854


def log_of(sequence: int, count: int, thread: int = 1, *, following: int | None = 9_000) -> bytes:
    """A redo log; without `following` it is being written, in a file with ten more blocks."""
    chance = random.Random(sequence)
    made = [blocks.block(number, sequence, chance.randbytes(480)) for number in range(2, count)]
    header = blocks.LogHeader(thread, sequence, RESETLOGS, 8_000, following, count if following else None)
    rest = [] if following else [blocks.block(number, sequence - 3, b"old") for number in range(count, count + 10)]
    return b"".join([blocks.first_block(512, count - 1), blocks.header_block(header), *made, *rest])


@contextmanager
def proxy_of(folder: Path, *arguments: str) -> Iterator[int]:
    """A copy of the file without anything beside it serves `folder`: its port."""
    port = free_port()
    copy = folder.parent / "redo_proxy.py"
    shutil.copy(PROXY, copy)
    command = [sys.executable, "-I", "-S", str(copy), "--root", str(folder), "--port", str(port), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == f"serving {folder} on 127.0.0.1:{port}\n"  # type: ignore[union-attr]
            yield port
        finally:
            process.terminate()
            assert process.wait(30) == 0


def token_file(folder: Path) -> Path:
    token = folder.parent / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    return token


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder that a proxy serves, and its address."""
    folder = tmp_path_factory.mktemp("parent") / "served"
    folder.mkdir()
    with proxy_of(folder, "--token-file", str(token_file(folder))) as port:
        yield folder, f"http://127.0.0.1:{port}"


def client(served: tuple[Path, str], token: str = TOKEN) -> ProxyClient:
    return ProxyClient(served[1], token)


def asked(served: tuple[Path, str], query: str, token: str = TOKEN) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(served[1].removeprefix("http://"))
    connection.request("GET", f"/file?{query}", headers={"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def encoded(path: str | Path) -> str:
    return quote(base64.b64encode(os.fsencode(path)).decode(), safe="")


def test_a_file_is_read_in_any_pieces(served: tuple[Path, str]) -> None:
    file = served[0] / "a b'ü.dbf"
    raw = log_of(7, 40)
    file.write_bytes(raw)
    status, body = asked(served, f"type=attr&filePath={encoded(file)}")
    assert status == 200
    assert json.loads(body) | {"modified": 0} == {"size": len(raw), "blockSize": 512, "modified": 0}
    assert asked(served, f"type=read&filePath={encoded(file)}&startOffset=10&length=2000") == (200, raw[10:2010])
    assert asked(served, f"type=read&filePath={encoded(file)}&startOffset={len(raw)}&length=9") == (200, b"")
    reader = client(served)
    assert reader.size(str(file)) == len(raw)
    assert b"".join(reader.read(str(file), at, 3_001) for at in range(0, len(raw), 3_001)) == raw
    assert Entry(file.name, len(raw)) in reader.files(str(served[0]))


def test_paths_outside_of_the_root_are_refused(served: tuple[Path, str]) -> None:
    folder = served[0]
    secret = folder.parent / "secret"
    secret.write_text("x")
    (folder / "link").symlink_to(secret)
    (folder / "links").symlink_to(folder.parent)
    beside = folder.parent / f"{folder.name}_beside"
    beside.mkdir(exist_ok=True)
    (beside / "f").write_text("x")
    os.mkfifo(folder / "pipe")
    outside = [
        secret,
        folder / ".." / "secret",
        folder / "link",
        folder / "links" / "secret",
        beside / "f",
        "/etc/passwd",
    ]
    for path in outside:
        status, body = asked(served, f"type=read&filePath={encoded(path)}&startOffset=0&length=1")
        assert status == 403, path
        assert b"root" in body
    for query, wanted in [
        (f"type=read&filePath={encoded(folder / 'none')}&startOffset=0&length=1", 404),
        (f"type=read&filePath={encoded(folder / 'pipe')}&startOffset=0&length=1", 400),
        (f"type=read&filePath={encoded(folder)}&startOffset=0&length=1", 400),
        (f"type=read&filePath={encoded('relative')}&startOffset=0&length=1", 400),
        (f"type=attr&filePath={encoded(folder / 'link')}", 403),
        (f"type=list&filePath={encoded(folder / 'links')}", 403),
        (f"type=write&filePath={encoded(folder / 'link')}", 400),
        ("type=read&filePath=%21%21&startOffset=0&length=1", 400),
        (f"type=read&filePath={quote(base64.b64encode(b'/a' + bytes(1)).decode())}&startOffset=0&length=1", 400),
    ]:
        assert asked(served, query)[0] == wanted, query
    file = folder / "some"
    file.write_bytes(b"12345")
    for numbers in (
        "startOffset=-1&length=1",
        "startOffset=0&length=99999999999",
        "length=1",
        "startOffset=0&length=x",
    ):
        assert asked(served, f"type=read&filePath={encoded(file)}&{numbers}")[0] == 400, numbers
    assert asked(served, f"type=read&filePath={encoded(file)}&startOffset=6&length=1")[0] == 416
    for token in ("", "wrong", TOKEN[:-1], TOKEN + "0"):
        assert asked(served, f"type=attr&filePath={encoded(file)}", token)[0] == 401
    with pytest.raises(ProxyRefuses, match="the token is missing or wrong"):
        client(served, "wrong").size(str(file))
    (folder / "pipe").unlink()


@pytest.mark.long
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from([bytes(512), bytes(1024), b"\x01" * 512, b"a" * 100, bytes(7)]), max_size=12))
def test_empty_blocks_do_not_travel(parts: list[bytes]) -> None:
    data = b"".join(parts)
    packed = proxy.pack(data)
    if packed is None:
        assert bytes(512) not in [data[at : at + 512] for at in range(0, len(data), 512)]
    else:
        assert unpack(packed, len(data)) == data
    nothing = proxy.pack(bytes(1 << 20))
    assert nothing is not None
    assert len(nothing) < 100
    with pytest.raises(NotPacked):
        unpack(nothing, (1 << 20) - 1)


def test_a_proxy_that_is_not_safe_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = tmp_path / "token"
    token.write_text("short")

    def refusal(*more: str, root: str = str(tmp_path), port: int = 1) -> str:
        who = [] if "--without-token" in more else ["--token-file", str(token)]
        assert proxy.main(["--root", root, "--port", str(port), *who, *more]) == 2
        return capsys.readouterr().err

    assert "unencrypted" in refusal("--host", "0.0.0.0")
    assert "no folder" in refusal(root="/none")
    assert "can be read by other accounts" in refusal()
    token.chmod(0o600)
    assert "16 characters" in refusal()
    token.write_text(TOKEN)
    assert "not given" in refusal("--certificate", str(token))
    assert "is no PEM" in refusal("--certificate", str(token), "--key", str(token))
    assert "No such file" in refusal("--certificate", "/none", "--key", str(token))
    assert "everybody" in refusal("--without-token", "--host", "0.0.0.0", "--certificate", "c", "--key", "k")
    assert "cannot be written" in refusal("--log", "/none/log")
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert "in use" in refusal(port=other.getsockname()[1])
    assert "no port" in refusal(port=99_999)


def test_the_file_is_python_3_6() -> None:
    """Its syntax; names of newer releases of the standard library are looked for by hand, with vermin."""
    ast.parse(PROXY.read_text(), feature_version=(3, 6))


def test_on_the_loopback_curl_needs_no_token(tmp_path: Path) -> None:
    folder = tmp_path / "arch"
    folder.mkdir()
    # In base64 the name has a plus sign and padding, which curl sends as they are.
    file = folder / "o>>1~~.arc"
    file.write_bytes(log_of(7, 40))
    name = base64.b64encode(os.fsencode(file)).decode()
    with proxy_of(folder, "--without-token") as port:

        def curl(*data: str) -> bytes:
            options = [each for parameter in data for each in ("-d", parameter)]
            address = f"http://127.0.0.1:{port}/file"
            return subprocess.run(["curl", "-sSG", *options, address], check=True, capture_output=True).stdout

        assert json.loads(curl("type=attr", f"filePath={name}"))["size"] == 40 * 512
        read = ("type=read", f"filePath={name}", "startOffset=0", "length=10")
        assert curl(*read) == log_of(7, 40)[:10]


def test_each_request_is_traced_without_the_token(tmp_path: Path) -> None:
    folder, log = tmp_path / "arch", tmp_path / "proxy.log"
    folder.mkdir()
    (folder / "1_7.arc").write_bytes(log_of(7, 40))
    with proxy_of(folder, "--token-file", str(token_file(folder)), "--trace", "--log", str(log)) as port:
        reader = ProxyClient(f"http://127.0.0.1:{port}", TOKEN)
        reader.read(str(folder / "1_7.arc"), 512, 1024)
        with pytest.raises(ProxyRefuses):
            reader.size("/etc/passwd\n2026 forged")
        with pytest.raises(ProxyRefuses):
            ProxyClient(f"http://127.0.0.1:{port}", "wrong" * 4).size("/etc/passwd")
    lines = log.read_text().splitlines()
    assert len(lines) == 3, "a line for each request, whatever its path holds"
    # In any order: each request has a thread, which writes its line once the answer is sent.
    for told in (f"'read {folder}/1_7.arc 512 1024': 1024 bytes", "the token is missing or wrong"):
        assert sum(told in line for line in lines) == 1
    assert TOKEN not in log.read_text() and "wrongwrong" not in log.read_text()


def test_a_small_answer_is_small(served: tuple[Path, str]) -> None:
    (served[0] / "small").write_bytes(b"12345")
    with socket.create_connection(("127.0.0.1", int(served[1].rpartition(":")[2]))) as connection:
        path = encoded(served[0] / "small")
        query = f"/file?type=read&filePath={path}&startOffset=0&length=5"
        connection.sendall(
            f"GET {query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.endswith(b"\r\n\r\n12345")
    assert len(answer) < 80


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST /file HTTP/1.1\r\nContent-Length: 5\r\n\r\n12345",
        b"GET /file HTTP/9.9\r\n\r\n",
        b"GET /file?" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /file HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /other HTTP/1.1\r\nConnection: close\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n",
        b"GET /file HTTP/1.1\r\nConnection: close\r\nAuthorization: \xff\xfe\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
    ],
    ids=["no HTTP", "POST", "version", "long line", "many headers", "other path", "token no UTF-8", "TLS"],
)
def test_what_is_no_request_is_refused_and_harms_nobody(sent: bytes, served: tuple[Path, str]) -> None:
    (served[0] / "f").write_bytes(b"12345")
    before = client(served)
    assert before.size(str(served[0] / "f")) == 5
    with socket.create_connection(("127.0.0.1", int(served[1].rpartition(":")[2])), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        try:
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except ConnectionResetError:
            answer = b""  # What the proxy did not read of a long line.
    assert b" 200" not in answer[:20]
    assert b"Traceback" not in answer
    assert before.size(str(served[0] / "f")) == 5


def test_silent_clients_keep_nobody_waiting(tmp_path: Path) -> None:
    folder = tmp_path / "arch"
    folder.mkdir()
    (folder / "f").write_bytes(b"12345")
    token = ("--token-file", str(token_file(folder)))
    with proxy_of(folder, *token, "--idle-seconds", "0.5") as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(64)]
        reader = ProxyClient(f"http://127.0.0.1:{port}", TOKEN, limits=Limits(tries=60, pause_seconds=0.25))
        assert reader.size(str(folder / "f")) == 5
        for each in silent:
            each.close()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, Path]]:
    """A folder that a proxy serves over TLS, its address, and the certificate of the authority that signed its own."""
    folder = tmp_path_factory.mktemp("encrypted") / "arch"
    folder.mkdir()
    key, certificate, token = folder.parent / "tls.key", folder.parent / "tls.pem", folder.parent / "tls.token"
    made = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(made.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(made, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    key.write_bytes(made.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    certificate.write_bytes(signed.public_bytes(pem))
    token.write_text(TOKEN)
    token.chmod(0o600)
    tls = ("--certificate", str(certificate), "--key", str(key))
    with proxy_of(folder, "--token-file", str(token), *tls) as port:
        yield folder, f"https://127.0.0.1:{port}", certificate


def test_over_tls_only_who_is_trusted_is_asked(encrypted: tuple[Path, str, Path]) -> None:
    at_once = Limits(pause_seconds=0)
    folder, address, authority = encrypted
    (folder / "f").write_bytes(b"12345")
    assert ProxyClient(address, TOKEN, authority).read(str(folder / "f"), 1, 3) == b"234"
    with raises_code("proxy-unreachable", match="certificate verify failed"):
        ProxyClient(address, TOKEN, limits=at_once).size(str(folder / "f"))
    with raises_code("proxy-unreachable"):
        ProxyClient(address.replace("https", "http"), TOKEN, limits=at_once).size(str(folder / "f"))


def test_logs_of_a_thread_are_staged_whole_and_freed(served: tuple[Path, str], tmp_path: Path) -> None:
    there = served[0] / "arch"
    there.mkdir()
    for sequence in (5, 6):
        (there / f"o1_mf_1_{sequence}_x_.arc").write_bytes(log_of(sequence, 700))
        (there / f"o1_mf_2_{sequence}_x_.arc").write_bytes(log_of(sequence, 9, thread=2))
    (there / "1_4.arc").write_bytes(log_of(4, 9, following=8_000))
    (there / "control.ctl").write_bytes(b"none")
    (there / "2026_11_24").mkdir()
    (there / "o1_mf_1_6_x_.arc").rename(there / "2026_11_24" / "o1_mf_1_6_x_.arc")
    (there / "elsewhere").symlink_to(there / "2026_11_24")
    stager = Stager(Archive(client(served), [str(there)]), tmp_path, 1, RESETLOGS, since=8_000, piece=20_480)
    assert stager.turn() == 2
    assert stager.staged() == [5, 6], "what ended before the beginning is not wanted"
    assert stager.file(5).read_bytes() == log_of(5, 700)
    assert stager.turn() == 0
    assert stager.free(6) == [5]
    assert stager.turn() == 0, "what nobody needs any more does not come again"
    assert stager.staged() == [6]


def test_a_log_that_is_being_written_is_followed(served: tuple[Path, str], tmp_path: Path) -> None:
    there = served[0] / "online"
    there.mkdir()
    whole = log_of(8, 300)
    fetched: list[int] = []

    class Counted(ProxyClient):
        def read(self, path: str, offset: int, length: int) -> bytes:
            data = super().read(path, offset, length)
            fetched.append(len(data))
            return data

    stager = Stager(Archive(Counted(served[1], TOKEN), [str(there)]), tmp_path, 1, RESETLOGS)
    for count in (50, 51, 299):
        (there / "redo01.log").write_bytes(log_of(8, count, following=None))
        assert stager.turn() == 0
    # It is archived under another name, and its place is used again.
    (there / "redo01.log").write_bytes(log_of(9, 20, following=None))
    (there / "1_8.arc").write_bytes(whole)
    fetched.clear()
    assert stager.turn() == 1
    assert stager.file(8).read_bytes() == whole
    assert sum(fetched) < 80_000, "only what was missing came"


class Lies:
    """A source whose pieces are damaged, cut off or refused."""

    def __init__(self, raw: bytes, wrong: Callable[[int, bytes], bytes]):
        self.raw, self.wrong, self.reads = raw, wrong, 0

    def files(self, folder: str) -> list[Entry]:
        return [Entry("1_5.arc", len(self.raw))]

    def read(self, path: str, offset: int, length: int) -> bytes:
        self.reads += 1
        return self.wrong(offset, self.raw[offset : offset + length])


def test_a_damaged_block_is_noticed_and_fetched_again(tmp_path: Path) -> None:
    raw = log_of(5, 200)

    def flip(offset: int, data: bytes) -> bytes:
        return data[:100] + bytes([data[100] ^ 1]) + data[101:] if offset > 60_000 else data

    lies = Lies(raw, flip)
    stager = Stager(Archive(lies, ["/a"]), tmp_path, 1, RESETLOGS, piece=20_480)
    with pytest.raises(LogDamaged, match="restore it there with RMAN"):
        stager.turn()
    assert stager.staged() == []
    lies.wrong, lies.reads = (lambda offset, data: data), 0
    assert stager.turn() == 1
    assert stager.file(5).read_bytes() == raw
    assert lies.reads < 5, "the good pieces were kept"


def test_one_good_copy_of_a_log_is_enough(served: tuple[Path, str], tmp_path: Path) -> None:
    """One folder is unreadable, another has a damaged copy; the reason why a log cannot be fetched is reported."""
    raw, logs, copies = log_of(5, 200), served[0] / "a_logs", served[0] / "copies"
    for folder in (logs, copies):
        folder.mkdir()
    (logs / "1_5.arc").write_bytes(raw[:60_000] + b"x" + raw[60_001:])
    (logs / "1_6.arc").write_bytes(log_of(6, 9))
    stager = Stager(Archive(client(served), ["/none", str(logs), str(copies)]), tmp_path, 1, RESETLOGS)
    with pytest.raises(LogDamaged, match="1_5"):
        stager.turn()
    assert stager.staged() == [6]
    (copies / "o1_mf_1_5_x_.arc").write_bytes(raw)
    with pytest.raises(ProxyRefuses, match="/none"):
        stager.turn()
    assert stager.staged() == [5, 6]
    assert stager.file(5).read_bytes() == raw


@pytest.mark.parametrize("left", [0, 100, 5_000, 20_480 * 2 + 7])
def test_a_stager_that_was_killed_goes_on_behind_what_is_good(left: int, tmp_path: Path) -> None:
    raw = log_of(5, 200)
    part = tmp_path / "staged" / f".1_5_{RESETLOGS}.arc.part"
    part.parent.mkdir()
    part.write_bytes(raw[: max(0, left - 300)] + os.urandom(min(left, 300)))
    stager = Stager(Archive(Lies(raw, lambda offset, data: data), ["/a"]), tmp_path, 1, RESETLOGS, piece=20_480)
    assert stager.turn() == 1
    assert stager.file(5).read_bytes() == raw


def test_a_proxy_that_is_away_is_waited_for() -> None:
    with raises_code("proxy-unreachable", match="does not answer"):
        ProxyClient(f"http://127.0.0.1:{free_port()}", TOKEN, limits=Limits(pause_seconds=0)).size("/a")


def test_real_logs_are_staged_as_they_are(served: tuple[Path, str], tmp_path: Path) -> None:
    source = redo_vectors.required() / "redo"
    there = served[0] / "real"
    shutil.copytree(source, there)
    stager = Stager(Archive(client(served), [str(there)]), tmp_path, 1, RESETLOGS)
    assert stager.turn() == 2
    assert stager.file(15).read_bytes() == (source / "arch1_15_1224959854.dbf").read_bytes()


@pytest.mark.parametrize("sequence", [15, 16])
def test_a_real_log_is_followed_while_another_process_writes_it(
    sequence: int, served: tuple[Path, str], tmp_path: Path
) -> None:
    source = redo_vectors.required() / "redo"
    whole = source / f"arch1_{sequence}_{RESETLOGS}.dbf"
    there = served[0] / f"groups{sequence}"
    there.mkdir()
    stager = Stager(Archive(client(served), [str(there)]), tmp_path, 1, RESETLOGS)
    part, sizes = tmp_path / "staged" / f".1_{sequence}_{RESETLOGS}.arc.part", [0]
    with OnlineLog(
        whole, there / "redo01.log", (source / f"arch1_{31 - sequence}_{RESETLOGS}.dbf").read_bytes()
    ) as log:
        while log.write_on():
            assert stager.turn() == 0, "a look while it writes"
            log.await_written()
            assert stager.turn() == 0
            sizes.append(part.stat().st_size)
        assert stager.staged() == []
        log.complete()
    assert stager.turn() == 1
    assert stager.file(sequence).read_bytes() == whole.read_bytes()
    assert sizes == sorted(sizes) and len(set(sizes)) > 4, "it grew while it was written"
    assert sizes[-1] == whole.stat().st_size
