"""The section `redo`: how the redo logs of an Oracle master are read."""

from dataclasses import dataclass
from typing import Self

from sluice.configuration.section import Options, Section, option
from sluice.configuration.values import absolute, flag, listed, matching, number, seconds, text, texts, whole

_PROGRAM = "name the program of OpenLogReplicator 1.9.0, e.g. /opt/OpenLogReplicator/OpenLogReplicator"
_SCHEMA = "name the schema checkpoint with which capture begins, e.g. /srv/redo/shop/SHOP-chkpt-2266634.json"
_THREADS = "write V$THREAD.THREAD#, e.g. 1, 2, or all"
_SCNS = "write the SCNs where the slaves are, as the apply says them, separated by commas"
_threads = listed(_THREADS, matching("all|0*[1-9][0-9]*", "is no redo thread", _THREADS))
_scns = listed(_SCNS, matching("[0-9]+", "is no SCN", _SCNS))
_zone = matching(r"[+-](0\d|1[0-4]):[0-5]\d", "is no zone", "write the master's offset, e.g. +08:00")


@dataclass(frozen=True)
class RedoOptions(Options):
    """How the redo logs of an Oracle master are read (`capture: redo`)."""

    program: str = option("", absolute(_PROGRAM))
    """The program of OpenLogReplicator 1.9.0, which is installed separately."""
    schema: str = option("", absolute(_SCHEMA))
    """The schema checkpoint at whose SCN the capture begins."""
    threads: tuple[str, ...] = option(("1",), _threads)
    """Redo threads, `V$THREAD.THREAD#`; `all`: those of which there is redo, also later ones."""
    logs: str | None = option(None, absolute("name a folder, from / on"))
    """The folder of archived logs: in it a folder `<resetlogs>_<thread>`, and in that a folder a day. Default: `logs`
    at the location."""
    proxy: str | None = option(None, text("write http://host:9527 or https://host:9527"))
    """A redo proxy on the master's side, from which logs are fetched into `logs`; None: another program brings them."""
    archived: tuple[str, ...] = option((), texts("write folders of the proxy's machine, separated by commas"))
    """With `proxy`: the folders on its machine with the logs of all threads."""
    token_file: str | None = option(None, absolute("name a file with the proxy's token, from / on"))
    """With `proxy`: the file with its token."""
    proxy_authority: str | None = option(None, absolute("name a file with the certificate of the authority, from / on"))
    """With `proxy` and https: an authority for its certificate, in addition to those that the system trusts."""
    proxy_connect: float = option(5.0, seconds(0.1, 600))
    """With `proxy`: seconds to connect."""
    proxy_read: float = option(30.0, seconds(0.1, 3_600))
    """With `proxy`: seconds to wait for more of an answer."""
    proxy_tries: int = option(5, whole(1, 100))
    """With `proxy`: how often a request is sent before the stager pauses for 5 seconds."""
    proxy_pause: float = option(0.5, seconds(0, 600))
    """With `proxy`: seconds between two of these."""
    work: str | None = option(None, absolute("name a folder of this machine, from / on"))
    """The folder of the programs' checkpoints and logs. Default: `work` at the location."""
    host_timezone: str = option("+00:00", _zone)
    """The time zone of the master's machine, whose clock gives the times in redo."""
    first_port: int = option(27100, whole(1024, 64000))
    """The program of thread n listens on this port plus n, on the loopback."""
    metrics_port: int | None = option(None, whole(1024, 64000))
    """The port of a program's metrics is this one plus n, if it is built with them; None: no metrics."""
    memory_mb: int = option(1024, whole(64, 1_000_000))
    """Memory that one program may use for redo and transactions."""
    checkpoint_seconds: int = option(600, whole(1, 86_400))
    """Seconds between two copies of its checkpoints in Redis."""
    lease: float = option(10.0, seconds(1, 3_600))
    """Seconds after which a standby takes over from a dead supervisor."""
    silent_minutes: float = option(15.0, number(0.01, 10_000, "minutes"))
    """How long a thread may be silent while transactions of others wait for it."""
    conn_id: str | None = option(None, text("name a connection to the master, e.g. shop_oracle"))
    """A connection to the master, for its list of archived logs; None: no list."""
    lost_minutes: float = option(60.0, number(0, 1_000_000, "minutes"))
    """How long a lost log may be restored before the slaves become INCONSISTENT."""
    exact_names: bool = option(False, flag)
    """Names in capitals stay so on the slaves; otherwise they become lower case."""
    ends_at: tuple[str, ...] = option((), _scns)
    """The stream ends a transaction at each of these SCNs: for slaves that got their changes from triggers until
    then."""

    @property
    def every_thread(self) -> bool:
        return "all" in self.threads

    def checked(self, section: Section) -> Self:
        section.need("program", _PROGRAM)
        if self.every_thread and len(self.threads) > 1:
            section.wrong("names all threads, and some of them", _THREADS, "threads")
        section.need("schema", _SCHEMA)
        of_proxy = [name for name in ("archived", "token_file") if section.has(name)]
        if section.has("proxy") and len(of_proxy) < 2:
            section.wrong("needs archived and token_file", "say where its logs are, and its token's file", "proxy")
        if not section.has("proxy"):
            of_client = ("proxy_connect", "proxy_read", "proxy_tries", "proxy_pause")
            of_proxy += [name for name in of_client if section.has(name)]
            if of_proxy:
                section.wrong("means nothing without proxy", "take it out, or add proxy", *of_proxy)
        return self
