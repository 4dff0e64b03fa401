"""The finding about a host with wrong ICRCs counts each of its connections where it belongs."""

from __future__ import annotations

from ibdissect.rules.CNX.lost_data import _together

TOLD = 5

HOST = "10.0.0.1 writes the ICRC with its bytes reversed, in all 9 whole packets of that host in this capture"
TAKES, REPEATS = "10.0.0.2 takes them, although a receiver must drop them", "10.0.0.3 repeats its requests, as if the answers were dropped"


def test_each_connection_of_the_host_is_counted_where_it_belongs() -> None:
    said = [f"{HOST}: {what}" for what in (TAKES, REPEATS, TAKES)]
    assert _together(said) == f"{HOST}: {TAKES} (2 connections); {REPEATS} (1 connection)"
    assert _together(said[:1]) == said[0]
    many = [f"{HOST}: 10.0.1.{i} takes them" for i in range(TOLD + 2)]
    assert _together(many).endswith(f"10.0.1.{TOLD - 1} takes them (1 connection); 2 more connections, see ibdissect diagnose")


def test_sentences_that_begin_otherwise_are_not_put_together() -> None:
    assert _together([f"{HOST}: {TAKES}", f"another host: {REPEATS}"]) == f"{HOST}: {TAKES}"
