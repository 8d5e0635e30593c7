"""A PostgreSQL server of its own in a temporary folder: durable, and gone at the end."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

# All else is as PostgreSQL comes.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_connections": "200",
}
START_S = STOP_S = 60


class ServerError(Exception):
    """The server could not be started or asked."""


def version_of(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.parent.name.split(".") if part.isdigit())


def find_programs() -> Path:
    """The folder of the server's programs: the one named, pg_config's, or Debian's newest."""
    candidates = [Path(named)] if (named := os.environ.get("STOKEHOLD_PG_BIN")) else []
    if shutil.which("pg_config"):
        answer = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        candidates.append(Path(answer.stdout.strip()))
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    candidates += sorted(debian, key=version_of, reverse=True)
    for folder in candidates:
        if all((folder / name).exists() for name in ("initdb", "postgres", "psql")):
            return folder
    raise ServerError("no PostgreSQL server programs were found: run scripts/setup postgres")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """Use it in a `with`: leaving ends the server and removes its folder, whatever happened."""

    def __init__(self, parent: str | None = None, log=print):
        self.programs = find_programs()
        self.parent = parent
        self.log = log
        self.port = free_port()
        self.password = secrets.token_hex(16)
        self.process: subprocess.Popen | None = None
        self.folder: Path | None = None
        # initdb refuses to work for root.
        self.owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None

    def __enter__(self) -> "Server":
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception) -> None:
        # A second Ctrl-C waits until this is done, so that nothing is left behind.
        words = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, words)
        try:
            self._end()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _end(self) -> None:
        if self.process and self.process.poll() is None:
            # A fast shutdown; an immediate one if that takes too long.
            for word, patience_s in ((signal.SIGINT, STOP_S), (signal.SIGQUIT, STOP_S)):
                self.process.send_signal(word)
                try:
                    self.process.wait(patience_s)
                    break
                except subprocess.TimeoutExpired:
                    continue
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def _as_owner(self) -> dict:
        if not self.owner:
            return {}
        return {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []}

    def _start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="peers-", dir=self.parent))
        secret = self.folder / "password"
        secret.write_text(self.password)
        if self.owner:
            for path in (self.folder, secret):
                os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
        data = self.folder / "data"
        # Passwords by md5, on a server that nobody else reaches: the key derivation of scram costs
        # milliseconds a connection, which would count against systems that open many.
        initdb = subprocess.run(
            [self.programs / "initdb", "-D", data, "-U", "postgres", "--auth=md5",
             f"--pwfile={secret}", "-E", "UTF8", "--locale=C.UTF-8"],
            capture_output=True, text=True, cwd="/", **self._as_owner())
        if initdb.returncode:
            raise ServerError(f"initdb failed: {initdb.stderr.strip()}")
        options = SETTINGS | {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "logging_collector": "off",
        }
        with open(self.folder / "log", "wb") as server_log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", data,
                 *(f"--{name}={value}" for name, value in options.items())],
                stdin=subprocess.DEVNULL, stdout=server_log, stderr=server_log, cwd="/",
                # Ctrl-C is for us; we end the server when its work has ended.
                start_new_session=True, **self._as_owner())
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + START_S
        while True:
            if self.process.poll() is not None:
                raise ServerError(f"PostgreSQL did not start: {self.tail()}")
            try:
                self.ask("select 1")
                return
            except ServerError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def tail(self, lines: int = 5) -> str:
        """The end of the server's log."""
        text = (self.folder / "log").read_text(errors="replace")
        return " | ".join(text.splitlines()[-lines:])

    def environment(self) -> Mapping[str, str]:
        return {"PGPASSWORD": self.password, "PGHOST": str(self.folder), "PGPORT": str(self.port),
                "PGUSER": "postgres"}

    def ask(self, statement: str, database: str = "postgres") -> str:
        """Runs one statement over the socket; gives its answer as text."""
        answer = subprocess.run(
            [self.programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", database,
             "-c", statement],
            env=os.environ | self.environment(), capture_output=True, text=True)
        if answer.returncode:
            raise ServerError(f"`{statement}` failed: {answer.stderr.strip()}")
        return answer.stdout.strip()

    def url(self, database: str) -> str:
        """How every system reaches a database, all by the same way."""
        return f"postgres://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """A fresh database, on a server that has nothing left to write."""
        self.ask(f"create database {database}")
        self.ask("checkpoint")
        return self.url(database)

    def drop(self, database: str) -> None:
        self.ask(f"drop database if exists {database} with (force)")
