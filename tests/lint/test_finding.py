"""Does no key and no hostile string get through a finished finding?"""

from __future__ import annotations

from ibdissect.lint.finding import Finding, Gid, Secret, Severity, value_of
from ibdissect.wire.network import GRH
from ibdissect.wire.sm import SMP, NodeDescription
from ibdissect.wire.transport import DETH


def finding(template: str, value: object = None, **arguments: object) -> Finding:
    return Finding(
        code="XYZ001", name="x", severity=Severity.ERROR, frame=1, time_ns=0, template=template, value=value, arguments=arguments
    )


def number(secret: Secret) -> str:
    return f"{secret.kind}#1"


def test_keys_are_masked_wherever_a_message_may_take_them_from() -> None:
    smp = SMP(bytes(24) + bytes(range(1, 9)) + bytes(224))
    found = finding("{key} and {SMP.m_key}", Secret("M_Key", 5), key=Secret("M_Key", 5), SMP=smp)
    assert {s.value for s in found.secrets()} == {5, 0x0102030405060708}
    found.finish(number)
    assert found.message == "M_Key#1 and M_Key#1" and found.value is None


def test_zero_stays_zero_and_show_keys_shows() -> None:
    found = finding("{a} {b}", Secret("Q_Key", 7, 32), a=Secret("Q_Key", 0, 32), b=Secret("Q_Key", 7, 32))
    found.finish(None)
    assert found.message == "0x00000000 0x00000007" and found.value == 7
    found = finding("{a}", Secret("Q_Key", 0, 32), a=Secret("Q_Key", 0, 32))
    found.finish(number)
    assert found.message == "0x00000000" and found.value == 0


def test_strings_of_the_capture_cannot_steer_a_terminal() -> None:
    node = NodeDescription(b"\x1b]0;x\x07\xe2\x80\xaeevil".ljust(64, b"\0"))
    found = finding("{NodeDescription.node_string} {text}", "\x1b[2J", NodeDescription=node, text="a\nb")
    found.finish(None)
    assert "\x1b" not in found.message and "\u202e" not in found.message and "\n" not in found.message
    assert found.value == "\\x1b[2J"


def test_addresses_read_as_addresses() -> None:
    grh = GRH(bytes(8) + bytes.fromhex("fe80" + 13 * "00" + "01") + bytes(16))
    found = finding("{GRH.sgid} {raw}", GRH=grh, raw=value_of(GRH.dgid, bytes(16)))
    found.finish(None)
    assert found.message == "fe80::1 ::"
    assert isinstance(value_of(GRH.sgid, grh.sgid), Gid) and isinstance(value_of(DETH.q_key, 1), Secret)
