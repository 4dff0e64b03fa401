"""Captures named by a URL, read in ranges of bytes through fsspec, never as a local copy.

Passwords and signatures in URLs are for the server alone: everything shown or raised here uses `public_names`.
"""

from __future__ import annotations

import io
import re
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ibdissect.capture.windows import ByteStream, ReadInterrupted, ended
from ibdissect.errors import CaptureError
from ibdissect.shown_urls import without_secrets

T = TypeVar("T")
FIRST = 1 << 18
"""Bytes at the start that are kept, because every command reads them several times."""
BLOCK = 4 << 20
"""Least number of bytes requested at once."""
MOST = 6 << 20
"""Most bytes requested at once: libraries hold an answer two or three times."""
LEAST = 1 << 16
"""After failures, smaller ranges are requested, down to this size: a server may cut every connection after some bytes."""
ATTEMPTS = 6
"""How often in a row a request may fail."""
PAUSE_S = 0.2
"""Pause after the first failure; it doubles with each."""
POLL_S = 0.1
"""Pause between two looks at whether the wait for a server was ended."""
LONGEST_S = 20
"""Opening is not tried again after so long: some libraries repeat each request for half a minute themselves."""
OPENING_S, RANGE_S = 60, 120
"""How long the answer to a request is waited for that opens a file, and to one for a range of bytes."""
ARCHIVES = ("zip://", "tar://")
WEB = ("http://", "https://")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_CERTIFICATES = {"http": "SSL_CERT_FILE", "s3": "AWS_CA_BUNDLE"}
"""Which environment variable names the certificates that the library trusts, by how URLs begin."""
_LOGGERS = ("fsspec", "s3fs", "gcsfs", "adlfs", "azure", "paramiko")
"""What they log stays off the terminal unless the program asks for it: failures are reported in our words, without secrets of the URL."""
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_NO_HADOOP = "lib(hdfs|jvm)"
"""What pyarrow says of hdfs:// without the libraries of Hadoop or Java, once for each place where it looked."""
_LASTING = (FileNotFoundError, PermissionError, NotImplementedError, IsADirectoryError, ImportError)
"""Failures that another attempt would repeat."""


def is_url(path: str) -> bool:
    """Whether a path names something that is not a file of this machine."""
    return _URL.match(path) is not None


def in_archive(path: str) -> bool:
    """Whether a URL names an archive, or members of one."""
    return path.startswith(ARCHIVES)


def _words(error: BaseException, url: str) -> str:
    """What a library said, without secrets of the URL."""
    from urllib.parse import unquote  # with ipaddress, which it imports, a hundredth of every start

    text = " ".join(f"{type(error).__name__}: {error}".split())
    text = without_secrets(text)
    for link in url.split("::"):
        rest, _, asked = link.partition("://")[2].partition("?")
        given = re.match(r"[^/@:]*:(?!\d+/)(.*)@", rest)
        for secret in [*filter(None, re.split("[&=]", asked)), *([given[1]] if given else [])]:
            if len(secret) > 3:
                text = text.replace(secret, "...").replace(unquote(secret), "...")
    return text


def filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system for a URL, and the path there. CaptureError without fsspec or the library for that kind of URL."""
    import logging
    from urllib.parse import urlsplit

    if url.startswith(WEB):
        try:
            known = bool(urlsplit(url).hostname) and urlsplit(url).port != 0
        except ValueError:
            known = False
        if not known:
            raise CaptureError(url, "is not a valid URL", hint="write http://HOST:PORT/PATH; an IPv6 address in brackets, http://[::1]/PATH")
    for logger in map(logging.getLogger, _LOGGERS):
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
    try:
        import fsspec
    except ModuleNotFoundError:
        hint = "install what reads URLs: python -m pip install 'ibdissect[remote]'"
        raise CaptureError(url, "fsspec is not installed", hint=hint) from None
    found: tuple[Any, str] = tried(lambda: fsspec.core.url_to_fs(url), url)
    return found


class _Interrupted(Exception):
    """`interrupt_reads` ended the wait for a server."""


class _Silent(Exception):
    """A server did not answer, or not all of it, in so many seconds."""


def _waited(request: Callable[[], T], seconds: float) -> T:
    """The result of a request, which a server may never answer: once `interrupt_reads` is called, or so many seconds passed, it is left
    alone, in a thread of its own.

    Raises what it raises, _Interrupted or _Silent.
    """
    found: list[T] = []
    raised: list[BaseException] = []
    over = threading.Event()

    def ask() -> None:
        try:
            found.append(request())
        except BaseException as error:
            raised.append(error)
        over.set()

    threading.Thread(target=ask, daemon=True, name="waits for a server").start()
    until = time.monotonic() + seconds
    while not over.wait(POLL_S):
        if ended():
            raise _Interrupted
        if time.monotonic() > until:
            raise _Silent(seconds)
    if raised:
        raise raised[0]
    return found[0]


def _pause(seconds: float) -> None:
    """Wait before another attempt, unless `interrupt_reads` was called."""
    until = time.monotonic() + seconds
    while not ended() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, POLL_S))


def tried(request: Callable[[], T], url: str) -> T:
    """The result of a request, repeated if it fails in a way that may pass. CaptureError."""
    start = time.monotonic()
    for attempt in range(ATTEMPTS):
        try:
            return _waited(request, OPENING_S)
        except _Interrupted:
            raise CaptureError(url, "was not opened: interrupted") from None
        except Exception as raised:  # libraries raise what they like
            error = _answer(raised, url)
            if attempt == ATTEMPTS - 1 or time.monotonic() - start > LONGEST_S or _lasting(error) or ended():
                raise _failure(error, url) from None
            _pause(PAUSE_S * 2**attempt)
    raise AssertionError


def _answer(error: Exception, url: str) -> Exception:
    """What happened: fsspec says of every failure of a web server, or of the way to it, that there is no such file."""
    cause = error.__cause__
    if isinstance(error, FileNotFoundError) and isinstance(cause, Exception) and url.startswith(WEB):
        return error if getattr(cause, "status", None) in (404, 410) else cause
    return error


def _lasting(error: Exception) -> bool:
    status = getattr(error, "status", None)
    refused = (isinstance(status, int) and 400 <= status < 500 and status not in (408, 429)) or _UNTRUSTED in str(error)
    refused = refused or re.search(_NO_HADOOP, str(error)) is not None
    return refused or isinstance(error, (*_LASTING, _Silent, ValueError, TypeError)) or "Credentials" in type(error).__name__


def _failure(error: Exception, url: str) -> CaptureError:
    if isinstance(error, FileNotFoundError):
        return CaptureError(url, "no such file")
    if isinstance(error, _Silent):
        return CaptureError(url, f"cannot be read: the server did not answer, or too slowly, within {error.args[0]:g} s")
    if isinstance(error, PermissionError):
        hint = "credentials come from where the library of that store looks for them"
        return CaptureError(url, "permission denied", hint=hint)
    if isinstance(error, ImportError):
        return CaptureError(url, f"a library is missing: {_words(error, url).partition(': ')[2]}")
    if re.search(_NO_HADOOP, str(error)):
        hint = "set JAVA_HOME, HADOOP_HOME and CLASSPATH (the output of `hadoop classpath --glob`)"
        return CaptureError(url, "needs Java and Hadoop's libhdfs, which were not found", hint=hint)
    if _UNTRUSTED in str(error):
        name = next((name for start, name in _CERTIFICATES.items() if url.startswith(start)), "")
        hint = f"if it is yours: {name}=FILE names a file with its certificate" if name else ""
        return CaptureError(url, f"the server's certificate is not trusted: {_words(error, url)}", hint=hint)
    if isinstance(error, (TypeError, AttributeError, LookupError)) or "to unpack" in str(error):
        return CaptureError(url, f"cannot be read: the library for {url.partition(':')[0]}:// does not understand it")
    return CaptureError(url, f"cannot be read: {_words(error, url)}")


class Remote:
    """An opened URL: bytes by position, for any number of streams and threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._first: bytes | None = None
        self._block = (0, b"")
        system, path = filesystem(url)
        self._file = tried(lambda: system.open(path, "rb", cache_type="none"), url)
        self.size: int | None = tried(self._measured, url)
        """None: the server sends no ranges, so the bytes come once, in order."""
        if url.startswith(WEB) and self.size is not None and not tried(self._ranges, url):
            self._file.close()
            self._file, self.size = tried(lambda: system.open(path, "rb", block_size=0), url), None

    def _measured(self) -> int | None:
        if hasattr(self._file, "size"):
            size: int | None = self._file.size
            return size
        self._file.seek(0, io.SEEK_END)  # paramiko returns nothing
        return int(self._file.tell())

    def _ranges(self) -> bool:
        """Whether a web server sends parts of a file; many send the whole one whatever is asked for."""
        try:
            self._file.seek(1)
            self._file.read(1)
        except ValueError:
            return False
        return True

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def once(self) -> io.RawIOBase:
        """The bytes of a server without ranges."""
        return _Once(self._file, self.url)

    def read(self, position: int, wanted: int) -> bytes:
        """Bytes at a position: as many as wanted, or some of them; none at the end. CaptureError."""
        assert self.size is not None
        with self._lock:
            if self._first is None:
                self._first = self._ranged(0, min(FIRST, self.size))
            if position < len(self._first):
                return self._first[position : position + wanted]
            if wanted >= BLOCK:
                return self._ranged(position, min(wanted, MOST, self.size - position))
            start, block = self._block
            if not start <= position < start + len(block):
                start, block = self._block = position, self._ranged(position, min(BLOCK, self.size - position))
            return block[position - start : position - start + wanted]

    def _asked(self, position: int, count: int) -> bytes:
        self._file.seek(position)
        data: bytes = self._file.read(count)
        return data

    def _ranged(self, position: int, count: int) -> bytes:
        """A range of the file, in as many requests as it needs."""
        parts: list[bytes] = []
        step, left, failed = count, count, 0
        while left > 0:
            try:
                data = _waited(partial(self._asked, position, min(step, left)), RANGE_S)
                if len(data) > min(step, left):
                    raise CaptureError(self.url, f"the server sent {len(data)} bytes where {min(step, left)} were asked for")
                if not data:
                    raise EOFError(f"the server sent nothing at byte {position} of {self.size}")
            except CaptureError:
                raise
            except _Interrupted:
                break
            except Exception as error:  # libraries raise what they like
                failed += 1
                if ended():
                    break
                if failed == ATTEMPTS or _lasting(error):
                    raise _failure(error, self.url) from None
                step = max(LEAST, step // 4)
                _pause(PAUSE_S * 2 ** (failed - 1))
                continue
            failed = 0
            parts.append(data)
            position, left = position + len(data), left - len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class RemoteBytes(ByteStream):
    """One stream over a `Remote`, with its own position."""

    def __init__(self, remote: Remote) -> None:
        self.remote, self.position = remote, 0

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.position = offset + (0, self.position, self.remote.size or 0)[whence]
        return self.position

    def some(self, count: int) -> bytes:
        data = self.remote.read(self.position, count) if self.position < (self.remote.size or 0) else b""
        self.position += len(data)
        return data


class _Once(ByteStream):
    """A stream that cannot be sought: a failure ends it, as nothing can be asked for again."""

    def __init__(self, file: Any, url: str) -> None:
        self.file, self.url = file, url

    def some(self, count: int) -> bytes:
        try:
            data: bytes = _waited(partial(self.file.read, min(count, FIRST)), RANGE_S)
        except (_Interrupted, ReadInterrupted):
            return b""
        except Exception as error:  # libraries raise what they like
            raise _failure(error, self.url) from None
        return data
