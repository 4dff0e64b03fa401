"""Captures behind URLs are read as files are, in few requests, whatever the server does, and their secrets stay secret."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ibdissect.capture import remote
from ibdissect.capture.opening import open_capture
from ibdissect.capture.path_arguments import discover
from ibdissect.capture.windows import allow_reads, interrupt_reads, read_up_to
from ibdissect.errors import CaptureError
from ibdissect.shown_urls import public_name
from tests.cases import every
from tests.commands import run
from tests.conftest import REPO

LAB = REPO / "captures/pkey-lab.pcap"


@every(
    ("url", "text"),
    [
        ("a/b.pcap", "a/b.pcap"),
        ("s3://bucket/a@b.pcap", "s3://bucket/a@b.pcap"),
        ("https://me:secret@host:8080/a.pcap", "https://host:8080/a.pcap"),
        ("https://token@host/a.pcap?X-Amz-Signature=abc", "https://host/a.pcap?..."),
        ("https://host:8080/a@b.pcap", "https://host:8080/a@b.pcap"),
        ("sftp://me:sec/ret@host/a.pcap", "sftp://me@host/a.pcap"),
        ("zip://a?.pcap::https://me:secret@host/x.zip?sig=abc", "zip://a?.pcap::https://host/x.zip?..."),
    ],
)
def test_secrets_of_urls_are_not_shown(url: str, text: str) -> None:
    assert public_name(url) == text


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(CaptureError, match=r"s3://b/a\.pcap: fsspec is not installed.*ibdissect\[remote\]"):
        open_capture("s3://b/a.pcap")


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    system.pipe("/b/day/a.pcap", LAB.read_bytes())
    system.pipe("/b/day/x.txt", b"none")
    system.pipe("/b/night/m.pcap.gz", (REPO / "captures/mkey-enforced.pcap.gz").read_bytes())
    yield system
    system.rm("/b", recursive=True)


def test_names_globs_and_folders(memory: Any) -> None:
    both = ["memory://b/day/a.pcap", "memory://b/night/m.pcap.gz"]
    assert discover(["memory://b/day/a.pcap"]).files == both[:1]
    assert discover(["memory://b/*/*.pc*"]).files == discover(["memory://b/", "memory://b"]).files == both
    assert discover(["memory://b/"]).left_out == 1
    memory.pipe("/b/night/x.pcap3", b"as tcpdump -C names it")
    assert discover(["memory://b/night/"]).files == [both[1], "memory://b/night/x.pcap3"]
    assert discover(["memory://b/none.pcap"]).files == ["memory://b/none.pcap"], "as for files: opening it says what is wrong"
    for url, said in (("memory://b/none*", "matches no file"), ("memory://b/day/x/", "without captures")):
        with pytest.raises(CaptureError, match=said):
            discover([url])


@pytest.mark.slow
def test_commands_read_urls(memory: Any, tmp_path: Path) -> None:
    """The same output as for the file, but for its name."""
    for words in (
        ("lint", "{}", "--format", "json"), ("show", "{}", "-Y", "bth.p_key == 0x8999"), ("stats", "{}"), ("fabric", "{}"),
        ("show", "{}", "--format", "jsonl", "--frames", "3"),
    ):  # fmt: skip
        here, there = (run(*[word.format(name) for word in words], here=True) for name in (LAB, "memory://b/day/a.pcap"))
        assert there.stdout == here.stdout.replace(str(LAB).encode(), b"memory://b/day/a.pcap") and there.returncode == here.returncode
    targets = [tmp_path / name for name in ("a.pcapng", "b.pcapng")]
    for target, name in zip(targets, (str(LAB), "memory://b/day/a.pcap"), strict=True):
        assert run("annotate", name, "--output", str(target), here=True).returncode == 0
    assert targets[0].read_bytes() == targets[1].read_bytes()


def test_frames_in_any_order(memory: Any) -> None:
    import ibdissect

    for url, file in (("memory://b/day/a.pcap", LAB), ("memory://b/night/m.pcap.gz", REPO / "captures/mkey-enforced.pcap.gz")):
        with ibdissect.open(url) as there, ibdissect.open(str(file)) as here:
            assert [there.frame(n) for n in (7, 2, 19)] == [here.frame(n) for n in (7, 2, 19)]


class Server(ThreadingHTTPServer):
    """Serves one body; `answer` may do it badly."""

    daemon_threads = True

    def __init__(self, body: bytes, answer: Callable[[Handler, int, int], None] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.answer, self.requests, self.sent = body, answer, 0, 0
        self.said = len(body)
        self.head: Callable[[Handler], None] = Handler.said

    def url(self, rest: str = "a.pcap", user: str = "") -> str:
        return f"http://{user}127.0.0.1:{self.server_port}/{rest}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self.server.head(self)

    def said(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(self.server.said))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.requests += 1
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(found[1]), int(found[2])) if found else (0, len(self.server.body) - 1)
        (self.server.answer or Handler.part)(self, first, last)

    def part(self, first: int, last: int, status: int = 206) -> None:
        data = self.server.body[first : last + 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.server.sent += len(data)  # before the client has it, and asks for the sum
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Server]]:
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    monkeypatch.setattr(remote, "PAUSE_S", 0.001)
    servers: list[Server] = []

    def start(*words: Any) -> Server:
        servers.append(Server(*words))
        threading.Thread(target=servers[-1].serve_forever, args=(0.02,), daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def long_capture() -> bytes:
    """3.5 MB, 12,728 frames."""
    data = LAB.read_bytes()
    return data[:24] + data[24:] * (3_500_000 // len(data))


def times(url: str) -> list[int]:
    with open_capture(url) as reader:
        found = [int(value) for chunk in reader.chunks() for value in chunk.time_ns]
        assert not reader.damage
        return found


def test_each_byte_is_sent_once(serve: Callable[..., Server], tmp_path: Path) -> None:
    body = long_capture()
    server = serve(body)
    (tmp_path / "a.pcap").write_bytes(body)
    assert times(server.url()) == times(str(tmp_path / "a.pcap"))
    assert server.sent == len(body) + 1 and server.requests == 3, "one byte tells whether there are ranges"


def test_a_server_that_cuts_connections(serve: Callable[..., Server]) -> None:
    """It sends at most 300,000 bytes of an answer, then nothing more."""

    def cut(handler: Handler, first: int, last: int) -> None:
        handler.send_response(206)
        handler.send_header("Content-Length", str(last + 1 - first))
        handler.end_headers()
        handler.wfile.write(handler.server.body[first : last + 1][:300_000])
        handler.wfile.flush()
        handler.connection.close()

    server = serve(long_capture(), cut)
    assert len(times(server.url())) == 12_728


@pytest.mark.slow
def test_a_server_that_fails_now_and_then(serve: Callable[..., Server]) -> None:
    def now_and_then(handler: Handler, first: int, last: int) -> None:
        if handler.server.requests % 3:
            handler.send_error(503)
        else:
            handler.part(first, last)

    assert len(times(serve(long_capture(), now_and_then).url())) == 12_728


@pytest.mark.parametrize("kind", ["more", "none"])
def test_a_server_that_lies_about_ranges(serve: Callable[..., Server], kind: str) -> None:
    """More than asked for, or nothing: an error in words, and no frame that is not in the file."""

    def lie(handler: Handler, first: int, last: int) -> None:
        if kind == "more":
            handler.part(first, last + 1000)
        else:
            handler.part(first, first - 1)

    server = serve(long_capture(), lie)
    with pytest.raises(CaptureError, match="the server sent"):
        times(server.url())


def test_a_file_shorter_than_the_server_says(serve: Callable[..., Server]) -> None:
    server = serve(long_capture())
    server.said += 5000
    with pytest.raises(CaptureError, match=f"the server sent nothing at byte {len(server.body)}"):
        times(server.url())


@pytest.mark.parametrize("honest", [True, False])
def test_a_server_without_ranges_is_read_like_a_pipe(serve: Callable[..., Server], honest: bool) -> None:
    """It sends the whole file whatever is asked for, and may claim to know ranges."""

    class Plain(Handler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(self.server.said))
            self.send_header("Accept-Ranges", "none")
            self.end_headers()

    server = serve(long_capture(), lambda handler, first, last: handler.part(0, len(handler.server.body), 200))
    server.RequestHandlerClass = Plain if honest else Handler
    with open_capture(server.url()) as reader:
        assert not reader.rereadable and sum(len(chunk) for chunk in reader.chunks()) == 12_728


@pytest.mark.parametrize(("status", "asked", "said"), [(404, 1, "no such file"), (403, 1, "403"), (503, remote.ATTEMPTS, "503")])
def test_what_a_server_answers_is_reported(serve: Callable[..., Server], status: int, asked: int, said: str) -> None:
    """A file that is not there, a refusal, and a failure that may pass, which is asked for again."""

    class Refusing(Handler):
        def do_HEAD(self) -> None:
            self.send_error(status)

    server = serve(b"", lambda handler, first, last: handler.send_error(status))
    server.RequestHandlerClass = Refusing
    with pytest.raises(CaptureError, match=said):
        open_capture(server.url())
    assert server.requests == asked


@pytest.mark.parametrize(("url", "hint"), [("https://a/b", "SSL_CERT_FILE=FILE"), ("s3://a/b", "AWS_CA_BUNDLE=FILE"), ("az://a/b", None)])
def test_a_certificate_that_is_not_trusted(url: str, hint: str | None) -> None:
    """It is not asked again, and the error says what to do where we know it."""
    asked = []

    def request() -> None:
        asked.append(url)
        raise OSError("SSL validation failed: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    with pytest.raises(CaptureError, match=r"the server's certificate is not trusted: .*self-signed") as raised:
        remote.tried(request, url)
    assert len(asked) == 1 and (hint or "self-signed certificate") in str(raised.value)


@pytest.mark.parametrize("said", ["Prior attempt to load libhdfs failed", "Unable to load libjvm\ndlopen(/usr/lib/jvm/libjvm.so) failed"])
def test_hdfs_without_hadoop(said: str) -> None:
    """It is not tried again, and the error says what is missing."""
    asked = []

    def request() -> None:
        asked.append(said)
        raise OSError(said)

    with pytest.raises(CaptureError, match=r"^hdfs://h/a\.pcap: needs Java and Hadoop's libhdfs, which were not found.*JAVA_HOME"):
        remote.tried(request, "hdfs://h/a.pcap")
    assert len(asked) == 1


def test_a_library_that_repeats_requests_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was patient already: its failure is final."""
    asked, now = list[float](), 0.0

    def request() -> None:
        nonlocal now
        asked.append(now)
        now += remote.LONGEST_S + 1
        raise OSError("no such host")

    monkeypatch.setattr(remote.time, "monotonic", lambda: now)
    with pytest.raises(CaptureError, match="no such host"):
        remote.tried(request, "gs://b/a.pcap")
    assert len(asked) == 1


@pytest.mark.slow
def test_logs_of_libraries_stay_off_the_terminal() -> None:
    """They would name secrets of the URL."""
    pytest.importorskip("fsspec")
    program = "import logging, ibdissect.capture.remote as r; r.filesystem('memory://a'); logging.getLogger('gcsfs.retry').error('token')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stderr == ""


def test_a_file_that_only_its_position_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """As files of sftp:// are: they have no size, and seeking returns nothing."""

    class File(io.BytesIO):
        def seek(self, *where: int) -> None:  # type: ignore[override]
            super().seek(*where)

    class System:
        def open(self, path: str, mode: str, cache_type: str) -> File:
            return File(LAB.read_bytes())

    monkeypatch.setattr(remote, "filesystem", lambda url: (System(), url))
    assert times("sftp://h/a.pcap") == times(str(LAB))


def test_no_redirection_leads_to_a_file(serve: Callable[..., Server]) -> None:
    class Elsewhere(Handler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()

        do_HEAD = do_GET

    server = serve(b"")
    server.RequestHandlerClass = Elsewhere
    with pytest.raises(CaptureError, match="Redirect"):
        open_capture(server.url())


def test_ctrl_c_ends_the_attempts(serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(long_capture())
    with open_capture(server.url()) as reader:
        server.answer = lambda handler, first, last: handler.send_error(503)
        monkeypatch.setattr(remote, "PAUSE_S", 1000)
        interrupt_reads()
        try:
            assert sum(len(chunk) for chunk in reader.chunks()) < 12_728
        finally:
            allow_reads()


@pytest.mark.slow
def test_no_secret_is_printed_anywhere(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Neither of a capture that is read nor of one that is refused."""
    server = serve(LAB.read_bytes())
    refusing = serve(b"", lambda handler, first, last: handler.send_error(403))
    refusing.said = 100
    urls = [one.url("a.pcap?X-Amz-Signature=s3cr3t-sig", "me:pass-w0rd@") for one in (server, refusing)]
    for words in (("--format", "json"), ("--format", "sarif"), ("--format", "junit")):
        done = run("lint", *urls, *words, text=True, here=True)
        assert done.returncode in (0, 2) and "403" in done.stderr
        assert not re.search("s3cr3t|pass-w0rd", done.stdout + done.stderr)
    run("lint", urls[0], "--write-baseline", str(tmp_path / "b.json"), text=True, here=True)  # none if a capture was refused
    assert "PKY001" in (tmp_path / "b.json").read_text() and "s3cr3t" not in (tmp_path / "b.json").read_text()
    for words in (("show",), ("stats",), ("fabric",), ("tui",), ("diff", "x"), ("points", "x"), ("fabric", "--subnet")):
        for url in urls:
            done = run(*words, url, text=True, here=True)  # which has loaded aiohttp
            assert not re.search("s3cr3t|pass-w0rd", done.stdout + done.stderr), words
    result = json.loads(run("lint", urls[0], "--format", "json", here=True).stdout)
    assert result["captures"][0]["path"] == f"http://127.0.0.1:{server.server_port}/a.pcap?..."


@pytest.mark.slow
def test_an_s3_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing, globs, archives and ranges against moto's server; credentials come from the environment, as botocore wants them."""
    pytest.importorskip("s3fs")
    boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
    for name, value in (("AWS_ACCESS_KEY_ID", "testing"), ("AWS_SECRET_ACCESS_KEY", "testing"), ("AWS_DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)
    server = moto.ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        client = boto3.client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket="site")
        for day in (20, 21):
            client.put_object(Bucket="site", Key=f"{day}/a.pcap", Body=LAB.read_bytes())
        environment = dict(os.environ)
        done = run("lint", "s3://site/*/a.pcap", "s3://site/21/", "--format", "json", env=environment)
        captures = json.loads(done.stdout)["captures"]
        assert [(one["path"], one["frames"]) for one in captures] == [("s3://site/20/a.pcap", 37), ("s3://site/21/a.pcap", 37)]
        done = run("lint", "s3://site/22/a.pcap", "s3://other/a.pcap", env=environment, text=True)
        assert done.returncode == 2 and "s3://site/22/a.pcap: no such file" in done.stderr and "Traceback" not in done.stderr
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.parametrize("words", [("lint",), ("lint", "--jobs", "1"), ("lint", "--set"), ("stats",)], ids=" ".join)
@pytest.mark.parametrize("silent_at", ["head", "first bytes", "middle"])
def test_ctrl_c_ends_the_wait_for_a_silent_server(serve: Callable[..., Server], words: tuple[str, ...], silent_at: str) -> None:
    asked, over = threading.Event(), threading.Event()

    def answer(handler: Handler, first: int, last: int) -> None:
        if silent_at == "first bytes" or (silent_at == "middle" and last > 300_000):
            asked.set()
            over.wait(60)
        handler.part(first, last)

    def head(handler: Handler) -> None:
        if silent_at == "head":
            asked.set()
            over.wait(60)
        Handler.said(handler)

    body = LAB.read_bytes()
    server = serve(body[:24] + body[24:] * 100, answer)
    server.head = head
    command = [sys.executable, "-m", "ibdissect", words[0], server.url(), *words[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert asked.wait(60)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        finally:
            over.set()
            process.kill()
    assert process.returncode == 130 and "Traceback" not in said


def test_ctrl_c_is_the_end_of_what_a_server_without_ranges_sends() -> None:
    """It is no failure of the server: what came before is checked and reported."""
    over = threading.Event()

    class Silent:
        def read(self, count: int) -> bytes:
            over.wait(20)
            return b"late"

    before = signal.signal(signal.SIGALRM, lambda *_: interrupt_reads())
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        assert read_up_to(remote._Once(Silent(), "http://site/x.pcap"), 5) == b""
    finally:
        over.set()
        signal.signal(signal.SIGALRM, before)
        allow_reads()


@pytest.mark.parametrize("raised", [ValueError("x"), SystemExit(3)])
def test_what_a_request_raises_is_raised(raised: BaseException) -> None:
    def ask() -> None:
        raise raised

    with pytest.raises(type(raised)):
        remote._waited(ask, 60)
    assert remote._waited(lambda: 5, 60) == 5


def test_a_server_that_is_silent_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening and reading, once; the error names the limit."""
    over, asked = threading.Event(), list[str]()

    class Silent:
        def read(self, count: int) -> bytes:
            asked.append("read")
            over.wait(20)
            return b"late"

    def opening() -> None:
        asked.append("open")
        over.wait(20)

    monkeypatch.setattr(remote, "OPENING_S", 0.05)
    monkeypatch.setattr(remote, "RANGE_S", 0.1)
    try:
        with pytest.raises(CaptureError, match=r"within 0.05 s"):
            remote.tried(opening, "http://site/x.pcap")
        with pytest.raises(CaptureError, match=r"within 0.1 s"):
            read_up_to(remote._Once(Silent(), "http://site/x.pcap"), 5)
    finally:
        over.set()
    assert asked == ["open", "read"]
