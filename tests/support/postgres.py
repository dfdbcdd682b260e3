"""A real PostgreSQL for the tests: found or installed, started with a password, stopped at the end of the run."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import system_packages

_PACKAGES = Path("/usr/lib/postgresql")
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Postgres:
    """One database of a running server; it is UTF8 and sorts text by a language, not by bytes."""

    port: int
    password: str = field(repr=False)
    pid: int = 0
    database: str = "postgres"

    @property
    def uri(self) -> str:
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{self.database}"

    def connect(self) -> Any:
        import adbc_driver_postgresql.dbapi

        return adbc_driver_postgresql.dbapi.connect(self.uri, autocommit=True)

    def run(self, *statements: str) -> None:
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """Fails, not skips, where PostgreSQL can neither be found nor installed."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def postgres(postgres_server: Postgres, request: pytest.FixtureRequest) -> Postgres:
    """An empty database for each file of tests: names that one file uses are free in every other."""
    database: str = request.module.__name__.rpartition(".")[2]
    postgres_server.run(f"CREATE DATABASE {database}")
    return replace(postgres_server, database=database)


@contextlib.contextmanager
def running_postgres() -> Iterator[Postgres]:
    """A server in a temporary directory, for as long as the block lasts. Raises RuntimeError if it does not start."""
    binaries = _binaries()
    directory = Path(tempfile.mkdtemp(prefix="headrace_pg_", dir="/tmp"))
    owner = _owner()
    password = secrets.token_hex(12)
    try:
        (directory / "password").write_text(password)
        if owner:
            shutil.chown(directory, owner, owner)
            shutil.chown(directory / "password", owner, owner)
        data = directory / "data"
        _initialise(binaries, data, directory / "password", owner)
        port = _free_port()
        with open(directory / "log", "wb") as log:
            command = [str(binaries / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port)]
            command += ["-k", str(directory), "-c", "fsync=off", "-c", "full_page_writes=off"]
            server = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, **owner_arguments(owner))
        try:
            _await(server, binaries, port, directory / "log")
            yield Postgres(port, password, server.pid)
        finally:
            server.send_signal(signal.SIGINT)  # "fast shutdown": open connections are ended
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def owner_arguments(owner: str | None) -> dict[str, Any]:
    return {} if owner is None else {"user": owner, "group": owner, "extra_groups": []}


def _owner() -> str | None:
    """PostgreSQL refuses to run as root; its Debian package has a user of its own."""
    return "postgres" if os.geteuid() == 0 else None


def _binaries() -> Path:
    for install in (False, True):
        if install:
            system_packages.install("postgresql")
        found = [path.parent for path in _PACKAGES.glob("*/bin/initdb")]
        if found:
            return max(found, key=lambda path: float(path.parent.name))
    raise RuntimeError(f"no PostgreSQL under {_PACKAGES} although apt-get installed the package 'postgresql'")


def _initialise(binaries: Path, data: Path, password: Path, owner: str | None) -> None:
    """With a locale of the system's that is not C, or else ICU's (whose libc part stays C.UTF-8)."""
    command = [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", f"--pwfile={password}", "-A", "md5"]
    command += ["-E", "UTF8", "--no-sync"]  # md5: scram costs each of the many connections 4096 rounds
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    local = next((name for name in known if "utf8" in name.lower() and not name.startswith("C.")), None)
    icu = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]
    done = subprocess.run(
        [*command, *([f"--locale={local}"] if local else icu)],
        capture_output=True,
        text=True,
        cwd=data.parent,
        **owner_arguments(owner),
    )
    if done.returncode:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


def _await(server: subprocess.Popen[bytes], binaries: Path, port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    ask = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(ask).returncode:
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
