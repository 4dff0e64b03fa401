"""All readers of a capture see the same structures and give a key the same number."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path

import pytest

import ibdissect
from ibdissect.capture.opening import open_capture
from ibdissect.pipeline.reading import Reading, open_reading
from tests import commands
from tests.cases import every
from tests.craft import erf_pcap, gmp
from tests.dissect.frames import all_frames

PLUGIN = '''
from ibdissect.lint.rule import ERROR, Rule
from ibdissect.wire.places import Mad
from ibdissect.wire.spec import Struct, uint


class AcmeGrant(Struct):
    """A grant, with the key that it asks for."""

    key, section, size = "acmegrant", "ACME 1", 8
    carried_by = (Mad(0x0C, 0x0101),)
    token = uint(32, "Token", at="0", secret="Acme_Key")
    number = uint(32, "Number", at="4")


class LastGrant(Rule):
    """The third grant."""

    code, name, severity = "ACM901", "third-grant", ERROR
    reference = "ACME 1"
    on = AcmeGrant
    when = AcmeGrant.number == 3
    at = AcmeGrant.token
    message = "granted with {AcmeGrant.token}"
'''


@pytest.fixture
def grants(tmp_path: Path) -> tuple[str, str]:
    """A capture of three grants with three keys, and the plugin that knows them."""
    capture, plugin = tmp_path / "grants.pcap", tmp_path / "grants.py"
    capture.write_bytes(erf_pcap([gmp(0x0C, 0x81, 0x0101, bytes([0xAC, 0xE0, 0, n, 0, 0, 0, n]), at=24) for n in (1, 2, 3)]))
    plugin.write_text(PLUGIN)
    return str(capture), str(plugin)


def run(*words: str, stdin: bytes = b"") -> str:
    done = commands.run(*words, stdin=stdin)
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.slow
def test_a_key_of_a_plugin_has_one_number_in_a_file_a_pipe_and_a_tree(grants: tuple[str, str]) -> None:
    capture, plugin = grants
    chosen = ("lint", "--plugin", plugin, "--select", "ACM901", "--format", "json", "--no-crc")
    (of_file,) = json.loads(run(*chosen, capture))["findings"]
    (of_pipe,) = json.loads(run(*chosen, "-", stdin=Path(capture).read_bytes()))["findings"]
    assert of_file["message"] == of_pipe["message"] and of_file["message"].endswith(": granted with Acme_Key#3")
    assert "Acme_Key#3" in run("show", "--plugin", plugin, "--format", "tree", "--frames", "3", capture)


@pytest.mark.parametrize("passes", [lambda r: list(r.tables()), lambda r: [*r.tables(until=5), *r.tables()]])
def test_keys_are_numbered_once_however_often_frames_are_read(passes: Callable[[Reading], object]) -> None:
    blob = erf_pcap(all_frames())
    once, several = open_reading(io.BytesIO(blob)), Reading(open_capture(io.BytesIO(blob), window=700))
    once.number_keys()
    passes(several)
    assert once.keys_to == several.keys_to == len(all_frames())
    assert once.masker._numbers == several.masker._numbers and once.masker._numbers


@every("window", [300, 1 << 20])
@every("until", [1, 5, 17, 99])
def test_reading_ends_with_the_last_frame_wanted(until: int, window: int) -> None:
    tables = list(Reading(open_capture(io.BytesIO(erf_pcap(all_frames())), window=window)).tables(until=until))
    assert sum(map(len, tables)) == min(until, 17) and tables[0].chunk.first == 1


def test_standard_input_is_not_opened_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a file is called so."""
    monkeypatch.chdir(tmp_path)
    for name, first in (("a.pcap", 1), ("-", 5)):
        Path(name).write_bytes(erf_pcap([bytes([number]) * 64 for number in range(first, first + 3)]))
    with open("a.pcap", "rb") as file, TextIOWrapper(file) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with ibdissect.open("-") as capture:
            assert [capture.frame(number).data[0] for number in (3, 1, 2)] == [3, 1, 2]
    with ibdissect.open("./-") as capture:
        assert capture.frame(2).data[0] == 6
