"""`serve` shows the terminal UI in a browser, for this machine only."""

from __future__ import annotations

import asyncio
import http.client
import logging
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from ibdissect.cli.common_options import CommonOptions
from ibdissect.cli.serve import command_line, passed_on
from tests import commands

pytestmark = pytest.mark.slow

NAME = "two words & $(touch hacked) 'quoted'.pcap"


@pytest.fixture(scope="module")
def served(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int, str]]:
    """A running server; yields its host, port and secret word."""
    tmp_path = tmp_path_factory.mktemp("served")
    (tmp_path / NAME).write_bytes((repo / "captures/pkey-lab.pcap").read_bytes())
    with serving(tmp_path / NAME) as (_, *place):
        yield place[0], place[1], place[2]
    assert not (tmp_path / "hacked").exists()


@contextmanager
def serving(capture: Path) -> Iterator[tuple[subprocess.Popen[str], str, int, str]]:
    """A server with its host, port and secret word."""
    pytest.importorskip("textual_serve")
    process = subprocess.Popen(
        [sys.executable, "-m", "ibdissect", "serve", str(capture)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://([0-9.]+):(\d+)/([\w-]+)/", line)
        assert found is not None, line + process.stderr.read()
        yield process, found[1], int(found[2]), found[3]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        process.stderr.close()
        assert process.stdout is not None
        process.stdout.close()


def fetch(host: str, port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    """Fetch the page, as soon as the server listens."""
    for _ in range(100):
        connection = http.client.HTTPConnection(host, port, timeout=10)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            asyncio.run(asyncio.sleep(0.1))
        finally:
            connection.close()
    raise AssertionError("the server never answered")


async def screen(host: str, port: int, word: str, then: Callable[[], object] = lambda: None) -> bytes:
    """The first output of the terminal UI, requested like the page does. `then` is called while the browser is still there."""
    import aiohttp

    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        async with session.get(f"http://{host}:{port}/{word}/") as page:
            asked = re.search(r"ws://[0-9.:]+/[\w-]+/ws", await page.text())
        assert asked is not None
        async with session.ws_connect(f"{asked[0]}?width=120&height=40") as socket:
            drawn = b""
            async with asyncio.timeout(60):
                async for message in socket:
                    if message.type == aiohttp.WSMsgType.BINARY:
                        drawn += message.data
                    if b"LID" in drawn and b"SMP" in drawn:
                        then()
                        return drawn
    return drawn


def test_the_page_and_the_screen_are_there(served: tuple[str, int, str]) -> None:
    host, port, word = served
    assert host == "127.0.0.1"
    status, page = fetch(host, port, f"/{word}/")
    assert status == 200 and "textual" in page
    assert '.xterm-helper-textarea")' in page and "keys?.focus()" in page, "keys work without a click"
    assert b"SMP" in asyncio.run(screen(*served))


def runs(process: int) -> bool:
    try:
        return bool(Path(f"/proc/{process}/environ").read_bytes())
    except OSError:
        return False


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends_with_its_screens_although_a_browser_stays(repo: Path, name: signal.Signals) -> None:
    with serving(repo / "captures/pkey-lab.pcap") as (process, *place):
        fetch(place[0], place[1], "/")  # it listens

        def end() -> None:
            (child,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
            process.send_signal(name)
            assert process.wait(15) == 0  # aiohttp alone would wait until this browser answers, or a minute
            start = time.monotonic()
            while runs(child):
                assert time.monotonic() - start < 15
                time.sleep(0.05)

        asyncio.run(screen(*place, end))


def test_nothing_is_fetched_from_other_sites(served: tuple[str, int, str]) -> None:
    host, port, word = served
    fetch(host, port, "/")  # it listens
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", f"/{word}/")
    answer = connection.getresponse()
    policy, page = answer.headers["Content-Security-Policy"], answer.read().decode()
    connection.close()
    assert "style-src 'self'" in policy and "font-src 'self'" in policy
    assert not re.search(r"<(script|img|iframe|link)[^>]*(src|href)\s*=.?(https?:)?//(?!127[.]0[.]0[.]1)", page)
    assert "css/xterm.css" in page and "fonts.googleapis" not in page


@pytest.mark.parametrize("request_line", ["OPTIONS *", "GET *", "OPTIONS /", "GET //", "CONNECT x:1", "GET http://127.0.0.1:PORT"])
def test_no_request_is_an_error_of_the_server(served: tuple[str, int, str], request_line: str) -> None:
    host, port, _ = served
    with socket.create_connection((host, port), timeout=20) as connection:
        line = request_line.replace("PORT", str(port))
        connection.sendall(f"{line} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        assert connection.recv(100).partition(b"\r\n")[0].split()[1] in (b"400", b"403")


def test_what_is_no_request_prints_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever another user of the machine sends, the terminal of `serve` gets one line."""
    browser = pytest.importorskip("ibdissect.cli.browser")
    browser.LocalServer("true", "127.0.0.1", 8080, "a capture")
    try:
        raise ValueError("from elsewhere")
    except ValueError:
        logging.getLogger("aiohttp.server").exception("Error handling request")
    assert caplog.text.count("\n") == 1 and "elsewhere" not in caplog.text


@pytest.mark.parametrize("headers", [{"Host": "evil.example:80"}, {"Origin": "http://evil.example"}], ids=["rebinding", "other site"])
def test_pages_of_others_are_not_let_in(served: tuple[str, int, str], headers: dict[str, str]) -> None:
    host, port, word = served
    assert fetch(host, port, f"/{word}/", headers) == (403, "This page is for this machine alone.")


@pytest.mark.parametrize("path", ["/", "/guessed/", "/%ff/", "/x/WORD/", "/ws", "/guessed/ws", "/?word=WORD", "/static/js/textual.js"])
def test_other_users_of_the_machine_are_not_let_in(served: tuple[str, int, str], path: str) -> None:
    host, port, word = served
    for cookie in ("", f"ibdissect-{port}={word}", 'odd=\xff"\x01; =;;'):
        assert fetch(host, port, path.replace("WORD", word), {"Cookie": cookie})[0] in (403, 400)


@pytest.mark.parametrize("size", ["width=100000&height=100000", "width=-1", "height=x", "width=0", "width=9" + "9" * 5000])
def test_a_terminal_has_a_size(served: tuple[str, int, str], size: str) -> None:
    host, port, word = served
    status, said = fetch(host, port, f"/{word}/ws?{size}")
    assert (status, said) == (400, "A terminal has 1 to 1000 columns and lines.")


def test_a_size_sent_later_is_bounded_too() -> None:
    pytest.importorskip("textual_serve")
    import json

    sizes = (1, 1000, "80", 0, 1001, 1e5, None, -3, "٣" * 9, True)
    _, taken = answered(*(json.dumps(["resize", {"width": one, "height": 9}]) for one in sizes))
    assert taken == [(1, 9), (1000, 9), (80, 9)]


NO_MESSAGES = (
    '["resize", {"width": 1}]', '["resize"]', '["resize", 1]', "[]", "{}", "{", "1", '["stdin", 1]', '["stdin", "\\ud800"]',
    "[" * 9999,
)  # fmt: skip


@pytest.mark.parametrize("said", NO_MESSAGES, ids=range(len(NO_MESSAGES)))
def test_a_message_that_is_none_ends_only_its_window(said: str) -> None:
    assert answered(said) == (True, [])


def answered(*messages: str) -> tuple[bool, list[tuple[int, int]]]:
    """What messages of a browser do: whether its window ends, and the sizes it takes."""
    pytest.importorskip("textual_serve")
    from aiohttp import WSMessage, WSMsgType

    from ibdissect.cli.browser import LocalServer

    class Browser:
        async def __aiter__(self) -> AsyncIterator[WSMessage]:
            for said in messages:
                yield WSMessage(WSMsgType.TEXT, said, None)

    taken = list[tuple[int, int]]()

    async def sized(width: int, height: int) -> None:
        taken.append((width, height))

    async def ignored(*_: object) -> None: ...

    window = SimpleNamespace(_process=Mock(), set_terminal_size=sized, send_bytes=ignored)
    asyncio.run(LocalServer("true", "127.0.0.1", 9, "")._process_messages(Browser(), window))
    return bool(window._process.terminate.call_count), taken


def test_no_cookie_is_set_and_nothing_but_the_page_is_allowed(served: tuple[str, int, str]) -> None:
    host, port, word = served
    fetch(host, port, "/")  # it listens
    connection = http.client.HTTPConnection(host, port, timeout=10)
    connection.request("GET", f"/{word}/")
    headers = connection.getresponse().headers
    connection.close()
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert headers["Set-Cookie"] is None and headers["Referrer-Policy"] == "no-referrer"
    assert policy["default-src"] == "'none'" and policy["connect-src"] == f"'self' ws://{host}:{port}"
    assert not {source for sources in policy.values() for source in sources.split()} - {
        "'none'", "'self'", "'unsafe-inline'", "data:", f"ws://{host}:{port}"
    }  # fmt: skip


def test_every_word_is_quoted() -> None:
    words = ["tui", f"/tmp/{NAME}", "--filter=ip.src == 1.2.3.4 && !arp"]
    assert shlex.split(command_line(words)) == ["exec", sys.executable, "-P", "-m", "ibdissect", *words]


def test_options_are_passed_on() -> None:
    common = CommonOptions(plugins=("-x.py", "b"), filter="-1 == 1", show_keys=True, subnet=("files",), subnet_time="2026-01-01",
                    name_ports=True, roce_ports=(4799,))  # fmt: skip
    words = ["--plugin=-x.py", "--plugin=b", "--subnet=files", "--roce-port=4799", "--filter=-1 == 1", "--subnet-time=2026-01-01",
             "--names", "--show-keys"]  # fmt: skip
    assert passed_on(common) == words


def test_without_textual_serve_it_says_how_to_install_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ibdissect.cli.browser", raising=False)
    for name in [name for name in sys.modules if name.startswith("textual_serve.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "textual_serve", None)
    done = commands.run("serve", "captures/pkey-lab.pcap", cwd=repo, text=True, here=True)
    assert done.returncode == 2 and "pip install 'ibdissect[serve]'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("no-such.pcap",), ("-",), ("README.md",), ("captures/pkey-lab.pcap", "-Y", "nothing == 1")])
def test_what_cannot_be_shown_is_reported_at_once(repo: Path, words: tuple[str, ...]) -> None:
    done = commands.run("serve", *words, cwd=repo, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error:")


def test_a_wrong_configuration_is_reported_at_once(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text('ignore = "PKX001"')
    done = commands.run("serve", "captures/pkey-lab.pcap", "--config", str(tmp_path / "wrong.toml"), cwd=repo, text=True)
    assert done.returncode == 2 and "no rule has the code or name PKX001" in done.stderr


def test_a_browser_leaves_the_usual_port_out() -> None:
    pytest.importorskip("textual_serve")
    from ibdissect.cli.browser import LocalServer

    assert LocalServer("true", "127.0.0.1", 80, "").allowed == {"127.0.0.1", "127.0.0.1:80"}
    assert LocalServer("true", "127.0.0.1", 8080, "").allowed == {"127.0.0.1:8080"}


def test_a_port_in_use_is_named(repo: Path, served: tuple[str, int, str]) -> None:
    fetch(served[0], served[1], "/")
    done = commands.run("serve", "captures/pkey-lab.pcap", "--port", str(served[1]), cwd=repo, text=True)
    assert done.returncode == 2 and str(served[1]) in done.stderr
