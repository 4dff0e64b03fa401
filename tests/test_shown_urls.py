"""Names, errors and reports keep the passwords and signatures of URLs to themselves, however the URL is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ibdissect.errors import CaptureError, ConfigError
from ibdissect.shown_urls import public_name
from tests.cases import every
from tests.commands import run

SECRET = "hunter2"


@every(
    ("word", "shown"),
    [
        ("simplecache::http://u:hunter2@h:1/x.pcap", "simplecache::http://h:1/x.pcap"),
        ("filecache::https://hunter2@h/x?a=hunter2", "filecache::https://h/x?..."),
        ("gzip::http://u:hunter2@h", "gzip::http://h"),
        ("blockcache::s3://u:hunter2@b/x.pcap?sig=hunter2", "blockcache::s3://u@b/x.pcap?..."),
        ("zip://x.pcap::simplecache::http://u:hunter2@h/x", "zip://x.pcap::simplecache::http://h/x"),
        ("zip://http://u:hunter2@h/x.zip", "zip://http://h/x.zip"),
        ("http:/u:hunter2@h", "http:/h"),
        ("http:u:hunter2@h", "http:h"),
        ("http//u:hunter2@h/x", "http//u@h/x"),
        ("http;//u:hunter2@h/x", "http;//u@h/x"),
        ("//u:hunter2@h/x", "//u@h/x"),
        ("http:://u:hunter2@h", "http:://u@h"),
        ("HTTP://u:hunter2@h/x", "HTTP://h/x"),
        ("s3:u:hunter2@b/x", "s3:u@b/x"),
        ("simplecache::http:u:hunter2@h", "simplecache::http:h"),
        ("http://u:hunter2@[::1/x.pcap", "http://[::1/x.pcap"),
        ("http://u:p@[::ffff:1.2.3.4]:80/x?hunter2", "http://[::ffff:1.2.3.4]:80/x?..."),
        ("http://u:a?hunter2@h/x", "http://h/x"),
        ("http://u:a/hunter2@h/x", "http://h/x"),
        ("http://u:a::hunter2@h/x", "http://h/x"),
        ("http://u:hunter2", "http://u:..."),
        ("--output=s3://k:hunter2@b/x", "--output=s3://k@b/x"),
        ("opensm:http://u:hunter2@h/x", "opensm:http://h/x"),
        ("http://h:8080/x@y.pcap", "http://h:8080/x@y.pcap"),
        ("http://[::1]:80/x.pcap", "http://[::1]:80/x.pcap"),
        ("zip://a?.pcap::x.zip", "zip://a?.pcap::x.zip"),
        ("dir/x?y@z.pcap", "dir/x?y@z.pcap"),
        ("a:b@c.pcap", "a:b@c.pcap"),
        ("C:\\x\\y.pcap", "C:\\x\\y.pcap"),
    ],
)
def test_names(word: str, shown: str) -> None:
    assert public_name(word) == shown == public_name(shown)


def test_texts() -> None:
    url = "simplecache::http://u:hunter2@h/x"
    errors = CaptureError(url, f"is not {url}"), ConfigError("--config", url, url, hint=url), CaptureError("x", url)
    assert SECRET not in "".join(map(str, errors)) + errors[0].path + errors[0].reason


RAISES = """
from ibdissect.words import ERROR, Rule, on_chunk


class Raises(Rule):
    'Asks for what is not there.'

    code, name, severity = "ACM902", "raises", ERROR
    reference = message = "x"

    @on_chunk
    def look(self, table, context):
        raise ValueError({text!r})
        yield
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "at 'http://u:hunter2@h/x?hunter2': (s3://b/y?hunter2). dask+tls://HOST:PORT?",
            "at 'http://h/x?...': (s3://b/y?...). dask+tls://HOST:PORT?...",
        ),
        ("10:20 is a@b? no", "10:20 is a@b? no"), ("simplecache::http://u:hunter2@h/x", "simplecache::http://h/x"),
    ],
)  # fmt: skip
def test_what_plugins_raise(tmp_path: Path, repo: Path, text: str, said: str) -> None:
    (tmp_path / "raises.py").write_text(RAISES.replace("{text!r}", repr(text)))
    words = ("lint", str(repo / "captures/pkey-lab.pcap"), "--plugin", str(tmp_path / "raises.py"), "--select", "ACM902")
    done = run(*words, text=True)
    assert f"ValueError: {said}" in done.stderr and SECRET not in done.stdout + done.stderr


URLS = (
    "simplecache::http://u:hunter2@127.0.0.1:1/x.pcap",
    "http:/u:hunter2@127.0.0.1/x.pcap",
    "zip://x.pcap::simplecache::http://u:hunter2@h/x",
)


@pytest.mark.parametrize("url", [pytest.param(url, marks=[pytest.mark.slow] * ("cache" in url)) for url in URLS])
def test_no_command_prints_or_writes_one(tmp_path: Path, repo: Path, url: str) -> None:
    lab = str(repo / "captures/pkey-lab.pcap")
    outputs = [f"--output-file={kind}={kind}.txt" for kind in ("sarif", "json", "jsonl", "junit", "gitlab", "markdown", "html")]
    for words in (
        ["lint", lab, url, *outputs], ["show", url], ["stats", url], ["fabric", url], ["diagnose", url], ["report", url, "-o", "r.html"],
        ["points", url, lab], ["diff", url, lab], ["sql", url, "select 1"], ["export", url, "-o", "x.csv"], ["scrub", url, "-o", "x.pcap"],
        ["tui", url], [url], ["lint", lab, "--baseline", url], ["lint", lab, "--subnet", url], ["lint", lab, "--config", url],
        ["lint", lab, "--plugin", url], ["lint", lab, "--output", f"{url}/x"], ["rules", url], ["show", lab, "-Y", url],
        ["lint", lab, f"--{url}"],
    ):  # fmt: skip
        done = run(*words, cwd=tmp_path, text=True)
        assert done.returncode == 2 and SECRET not in done.stdout + done.stderr, (words, done.stderr)
    written = [file.read_text() for file in tmp_path.iterdir() if file.is_file()]
    assert len(written) >= len(outputs) and not any(SECRET in text for text in written)
