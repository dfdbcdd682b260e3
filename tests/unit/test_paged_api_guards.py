"""PagedApi and services that mean no good, or make mistakes: redirects, parameters, circles, bombs, slow answers."""

from __future__ import annotations

import datetime
import gzip
import ipaddress
import json
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import certifi
import httpx
import pyarrow as pa
import pytest
import zstandard
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import headrace as hr
from headrace.arrow.sources import batch_iterator, close_sources

SCHEMA = pa.schema([("id", pa.int64())])
SECRETS = {"X-Api-Key": "sesame-1", "PRIVATE-TOKEN": "sesame-2", "Authorization": "sesame-3", "Cookie": "a=sesame-4"}
ONE_ROW = json.dumps([{"id": 1}]).encode()


class Request(BaseHTTPRequestHandler):
    """One request: the service's ``respond`` answers it."""

    server: Service
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append((urlsplit(self.path).path, parse_qsl(urlsplit(self.path).query, True)))
        self.server.headers.append(dict(self.headers.items()))
        self.server.respond(self)

    def answer(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.asked: list[tuple[str, list[tuple[str, str]]]] = []
        self.headers: list[dict[str, str]] = []
        self.respond: Callable[[Request], None] = lambda request: request.answer(ONE_ROW)
        self.scheme = "http"

    def url(self, path: str = "rows") -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Of a client that has gone: quiet."""


@pytest.fixture
def serve() -> Iterator[Callable[..., Service]]:
    started: list[tuple[Service, threading.Thread]] = []

    def start(identity: tuple[Path, Path] | None = None) -> Service:
        service = Service()
        if identity is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(*identity)
            service.socket = tls.wrap_socket(service.socket, server_side=True)
            service.scheme = "https"
        thread = threading.Thread(target=service.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        started.append((service, thread))
        return service

    yield start
    for service, thread in started:
        service.shutdown()
        service.server_close()
        thread.join()


@pytest.fixture
def service(serve: Callable[..., Service]) -> Service:
    return serve()


def read(url: str, filters: tuple[hr.Expr, ...] = (), **options: Any) -> list[int]:
    options = {"paging": hr.ByPage(rows=10), "back_off_s": 0.01, "attempts": 1, "at_once": 1, **options}
    plan = hr.PagedApi(url, SCHEMA, **options).scan(hr.ScanRequest(SCHEMA, ("id",), filters))
    source = plan.execute(0)
    batches = batch_iterator(source, "execute")
    try:
        return [row["id"] for batch in batches for row in batch.to_pylist()]
    finally:
        close_sources(batches, source)


def once(body: bytes, **headers: str) -> Callable[[Request], None]:
    """The body for the first page, and no rows for those after it."""

    def respond(request: Request) -> None:
        first = ("page", "1") in request.server.asked[-1][1]
        request.answer(body, **headers) if first else request.answer(b"[]")

    return respond


# --- redirects -------------------------------------------------------------------------------------------


def redirecting(target: str, status: int = 302) -> Callable[[Request], None]:
    return lambda request: request.answer(b"", status, Location=target, Set_Cookie="session=sesame-5")


def told(service: Service) -> str:
    return str(service.headers)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_to_another_origin_goes_without_the_users_headers(serve: Callable[..., Service], status: int) -> None:
    home, elsewhere = serve(), serve()
    elsewhere.respond = once(ONE_ROW)
    home.respond = lambda request: redirecting(f"{elsewhere.url()}?{urlsplit(request.path).query}", status)(request)
    assert read(home.url(), headers=SECRETS) == [1]
    assert all(value in told(home) for value in SECRETS.values())
    assert elsewhere.asked
    assert "sesame" not in told(elsewhere)


def test_redirect_that_comes_back_goes_without_the_users_headers_too(serve: Callable[..., Service]) -> None:
    home, elsewhere = serve(), serve()
    elsewhere.respond = redirecting(home.url("back"))
    home.respond = lambda request: (
        request.answer(b"[]") if request.path == "/back" else redirecting(elsewhere.url())(request)
    )
    assert read(home.url(), headers=SECRETS) == []
    assert "sesame-1" in str(home.headers[0])
    assert [path for path, _ in home.asked] == ["/rows", "/back"]
    assert "sesame" not in str(home.headers[1])


def test_redirect_within_the_service_keeps_the_headers(service: Service) -> None:
    service.respond = lambda request: (
        once(ONE_ROW)(request)
        if request.path.startswith("/new")
        else redirecting(f"/new?{urlsplit(request.path).query}")(request)
    )
    assert read(service.url(), headers=SECRETS) == [1]
    assert all("sesame-1" in str(headers) for headers in service.headers)


def test_redirects_without_an_end_are_an_error(service: Service) -> None:
    service.respond = redirecting("/rows")
    with pytest.raises(httpx.TooManyRedirects, match="more than 10 times"):
        read(service.url(), attempts=3)
    assert len(service.asked) == 10


@pytest.mark.parametrize("target", ["ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_redirect_to_another_protocol_is_refused(service: Service, target: str) -> None:
    service.respond = redirecting(target)
    with pytest.raises(ValueError, match=r"redirects from http to (ftp|file), which is not followed"):
        read(service.url(), attempts=3)
    assert len(service.asked) == 1


def loopback_identity(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).add_extension(address, critical=False)
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    certificate = builder.not_valid_after(now + datetime.timedelta(days=1)).sign(key, hashes.SHA256())
    pem, private = directory / "service.pem", directory / "service.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return pem, private


def test_redirect_from_https_to_http_is_refused(
    serve: Callable[..., Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = loopback_identity(tmp_path)
    monkeypatch.setattr(certifi, "where", lambda: str(identity[0]))
    safe, plain = serve(identity), serve()
    safe.respond = once(ONE_ROW)
    assert read(safe.url(), headers=SECRETS) == [1]
    safe.respond = redirecting(plain.url())
    with pytest.raises(ValueError, match="from https to http, which is not followed"):
        read(safe.url(), headers=SECRETS)
    assert plain.asked == []


# --- parameters ------------------------------------------------------------------------------------------


def test_query_of_the_url_is_sent_with_every_request(service: Service) -> None:
    service.respond = once(ONE_ROW)
    read(service.url("rows?tenant=5&tag=a&tag=b%26&flag"), parameters={"lang": "de"})
    assert [query for _, query in service.asked] == [
        [("tenant", "5"), ("tag", "a"), ("tag", "b&"), ("flag", ""), ("lang", "de"), ("page", page), ("per_page", "10")]
        for page in ("1", "2")
    ]
    table = hr.PagedApi(service.url("rows?tenant=5"), SCHEMA, parameters={"lang": "de"})
    assert table.scan(hr.ScanRequest(SCHEMA, ("id",))).describe().endswith("/rows?tenant=5&lang=de")


@pytest.mark.parametrize(
    ("query", "options", "who"),
    [
        ("?tenant=5", {"parameters": {"tenant": "6"}}, "the query of the url and parameters="),
        ("?page=5", {}, "the query of the url and paging="),
        ("?tenant=5", {"filters": [hr.ApiFilter("tenant", "id")]}, "the query of the url and filters="),
        ("", {"parameters": {"per_page": "5"}}, "parameters= and paging="),
        ("", {"parameters": {"tenant": "5"}, "filters": [hr.ApiFilter("tenant", "id")]}, "parameters= and filters="),
        ("", {"filters": [hr.ApiFilter("page", "id")]}, "paging= and filters="),
        ("", {"filters": [hr.ApiFilter("limit", "id")], "paging": hr.ByOffset()}, "paging= and filters="),
        ("", {"filters": [hr.ApiFilter("cursor", "id")], "paging": hr.ByCursor()}, "paging= and filters="),
        ("?n=1", {"paging": hr.ByCursor(size_parameter="n")}, "the query of the url and paging="),
    ],
)
def test_query_parameter_that_two_would_give_is_refused(query: str, options: dict[str, Any], who: str) -> None:
    with pytest.raises(ValueError, match=who):
        hr.PagedApi("http://service/rows" + query, SCHEMA, **options)


def test_filter_declared_twice_for_one_parameter_is_no_conflict() -> None:
    hr.PagedApi("http://s", SCHEMA, filters=[hr.ApiFilter("since", "id", ">="), hr.ApiFilter("since", "id", ">")])


@pytest.mark.parametrize("url", ["http://ann:sesame@service/rows", "https://sesame@service", "service/rows", "ftp://x"])
def test_url_with_a_password_or_of_another_protocol_is_refused_unseen(url: str) -> None:
    with pytest.raises(ValueError, match="belong in headers=") as caught:
        hr.PagedApi(url, SCHEMA)
    assert "sesame" not in str(caught.value)


# --- circles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("circle", "pages"), [(["b"], 2), (["b", "c", "d", "b"], 5), (["b", "c", "c"], 4)])
def test_cursor_that_comes_again_is_an_error(service: Service, circle: list[str], pages: int) -> None:
    following = dict(zip(["", *circle], [*circle, circle[-1]], strict=True))

    def respond(request: Request) -> None:
        cursor = dict(request.server.asked[-1][1]).get("cursor", "")
        request.answer(json.dumps({"items": [{"id": 1}], "next": following[cursor]}).encode())

    service.respond = respond
    with pytest.raises(ValueError, match=f"cursor '{circle[-1]}' came a second time"):
        read(service.url(), rows="items", paging=hr.ByCursor())
    assert len(service.asked) <= pages


# --- sizes -----------------------------------------------------------------------------------------------


def raw_deflate(body: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(body) + deflater.flush()


ENCODED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "x-gzip": ("x-gzip", gzip.compress),
    "two members": ("GZIP", lambda body: gzip.compress(body[:20]) + gzip.compress(body[20:])),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "identity": ("identity", bytes),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encoded_answer_is_read(service: Service, name: str) -> None:
    encoding, encode = ENCODED[name]
    rows = json.dumps([{"id": i, "text": "x" * 1000} for i in range(9)]).encode()
    service.respond = once(encode(rows), Content_Encoding=encoding)
    assert read(service.url()) == list(range(9))
    assert service.headers[0]["Accept-Encoding"] == "gzip, deflate"


@pytest.mark.parametrize("name", ENCODED)
def test_encoded_answer_beyond_the_limit_is_given_up(service: Service, name: str) -> None:
    encoding, encode = ENCODED[name]
    service.respond = once(encode(b"[" + b" " * 3_000_000 + b"]"), Content_Encoding=encoding)
    with pytest.raises(ValueError, match="more than 2,000,000 bytes; max_page_bytes= allows more"):
        read(service.url(), max_page_bytes=2_000_000, attempts=3)
    assert len(service.asked) == 1
    service.asked.clear()
    assert read(service.url(), max_page_bytes=3_000_002) == []


def test_bomb_is_decoded_no_further_than_the_limit(service: Service) -> None:
    bomb = gzip.compress(bytes(1 << 20)) * 2000  # two gigabytes
    assert len(bomb) < 4 << 20
    service.respond = once(bomb, Content_Encoding="gzip")
    started = time.process_time()
    with pytest.raises(ValueError, match="more than 67,108,864 bytes"):
        read(service.url())
    assert time.process_time() - started < 3


@pytest.mark.parametrize(
    ("encoding", "body"),
    [("zstd", zstandard.compress(ONE_ROW)), ("br", b"\x0b\x02\x80[]\x03"), ("gzip, gzip", b""), ("x", b"")],
    ids=["zstd", "br", "twice", "unknown"],
)
def test_encoding_that_was_not_asked_for_is_refused(service: Service, encoding: str, body: bytes) -> None:
    service.respond = once(body, Content_Encoding=encoding)
    with pytest.raises(ValueError, match=f"encoded as '{encoding}', although only gzip, deflate"):
        read(service.url())


@pytest.mark.parametrize(
    ("encoding", "body", "words"),
    [
        ("gzip", gzip.compress(ONE_ROW)[:-4], "ends too soon"),
        ("gzip", gzip.compress(ONE_ROW) + b"junk", "damaged"),
        ("gzip", ONE_ROW, "damaged"),
        ("deflate", b"\xff" * 20, "damaged"),
        ("deflate", zlib.compress(ONE_ROW)[:-2], "ends too soon"),
        ("deflate", zlib.compress(ONE_ROW) + b"junk", "bytes after the end"),
    ],
    ids=["gzip cut", "gzip and junk", "not gzip", "not deflate", "deflate cut", "deflate and junk"],
)
def test_encoded_answer_that_is_cut_or_damaged_is_an_error(
    service: Service, encoding: str, body: bytes, words: str
) -> None:
    service.respond = once(body, Content_Encoding=encoding)
    with pytest.raises(ValueError, match=words):
        read(service.url())


def test_answer_shorter_than_announced_is_an_error(service: Service) -> None:
    def respond(request: Request) -> None:
        request.answer(ONE_ROW, Content_Length="1000")
        request.close_connection = True

    service.respond = respond
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        read(service.url(), attempts=2)
    assert len(service.asked) == 2


def test_answer_longer_than_announced_is_no_short_result(service: Service) -> None:
    service.respond = once(ONE_ROW, Content_Length=str(len(ONE_ROW) - 2))
    with pytest.raises(ValueError, match=r"Expecting|delimiter"):
        read(service.url())


def test_answer_without_a_length_is_read_to_its_end_and_no_further_than_the_limit(service: Service) -> None:
    def respond(request: Request) -> None:
        request.close_connection = True
        request.send_response(200)
        request.end_headers()
        request.wfile.write(ONE_ROW if ("page", "1") in request.server.asked[-1][1] else b"[]")

    service.respond = respond
    assert read(service.url()) == [1]

    def without_end(request: Request) -> None:
        request.send_response(200)
        request.end_headers()
        while True:  # until the client hangs up
            request.wfile.write(bytes(1 << 16))

    service.respond = without_end
    with pytest.raises(ValueError, match="more than 1,000,000 bytes"):
        read(service.url(), max_page_bytes=1_000_000)


@pytest.mark.parametrize("part", ["head", "body"])
def test_answer_that_trickles_is_given_up_in_time(service: Service, part: str) -> None:
    def respond(request: Request) -> None:
        if part == "body":
            request.send_response(200)
            request.end_headers()
        else:
            request.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while True:
            request.wfile.write(b"1")
            time.sleep(0.02)

    service.respond = respond
    started = time.monotonic()
    with pytest.raises(httpx.ReadTimeout, match=r"no whole answer within 0\.3 s \(timeout_s\)"):
        read(service.url(), timeout_s=0.3, attempts=2)
    assert len(service.asked) == 2
    assert time.monotonic() - started < 30


def test_connection_that_is_refused_names_url_and_attempts_but_no_query() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}/orders"
    table = hr.PagedApi(f"{url}?token=sesame", SCHEMA, attempts=2, back_off_s=0.01)
    with pytest.raises(httpx.ConnectError) as found:
        list(batch_iterator(table.scan(hr.ScanRequest(SCHEMA, ("id",))).execute(0), "execute"))
    assert str(found.value).startswith(f"{url}: ")
    assert str(found.value).endswith("(2 times tried)")
    assert "sesame" not in str(found.value)
