"""URLs as they are shown: without the passwords and signatures in them, which are for the server alone.

Everything that is printed, written to a report or raised passes here: names of captures by `public_name`, other texts by `without_secrets`.
"""

from __future__ import annotations

import re

WEB = ("http", "https")
ARCHIVES = ("zip", "tar")
_NETWORK = (*WEB, "ftp", "ftps", "sftp", "ssh", "scp", "s3", "s3a", "gs", "gcs", "az", "adl", "abfs", "abfss", "hdfs", "webhdfs", "smb")
"""Schemes that are taken for a URL's even without `//`: somebody mistyped it."""
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_CHAIN = rf"::(?={_SCHEME}(?:::|:/|:[^/@:]*:[^@]*@))"
"""Between two links of a chain. An IPv6 address and a local file have `::`, too."""
_LINK = rf"(?s)(.*?)(?<![A-Za-z0-9+.])({_SCHEME}):(/*)(.*)"
"""What stands before a URL (`--subnet=`), its scheme, its slashes and the rest."""
_PORT = r"\d*(?:[/?#]|$)"
_END = r"[:;,.)\]'\"]*$"
"""Marks behind a URL that are those of a sentence."""


def public_name(word: str) -> str:
    """A path, URL or chain of URLs without user names of web servers, passwords and queries, also if it is mistyped."""
    return "::".join(_shown(link) for link in re.split(_CHAIN, word)) if ":" in word or "//" in word else word


def without_secrets(text: str) -> str:
    """A text in which each word is as `public_name` shows it."""
    if "@" not in text and "?" not in text:
        return text
    return re.sub(r"\S+", lambda found: public_name(found[0]) if "@" in found[0] or "?" in found[0] else found[0], text)


def _shown(link: str) -> str:
    link = re.sub(rf"(?s)//([^/@:\[]*):(?!{_PORT}|//).*@", r"//\1@", link)  # whatever the scheme, also if there is none
    found = re.match(_LINK, link)
    if found is None:
        return link
    before, scheme, slashes, rest = found.groups()
    front, kind = f"{before}{scheme}:{slashes}", scheme.lower()
    if ("://" in rest and (not slashes or kind in ARCHIVES)) or (kind in ARCHIVES and slashes):
        return front + (_shown(rest) if "://" in rest else rest)
    if kind in WEB:
        rest = re.sub(rf"(?s)^(?:[^/@]*|[^/@:\[]*:(?!{_PORT}).*)@", "", rest)
    else:
        rest = re.sub(rf"(?s)^([^/@:\[]*):(?!{_PORT}).*@", r"\1@", rest)
    if len(slashes) > 1 or kind in _NETWORK:
        rest = re.sub(rf"(?s)^([^/@:?\[]*):(?!{_PORT})(?![A-Z]+\b)[^/]*", r"\1:...", rest)  # a password without a host; not HOST:PORT
        rest = re.sub(rf"(?s)\?(?!\.\.\.{_END}).*?({_END})", r"?...\1", rest, count=1)
    return front + rest
