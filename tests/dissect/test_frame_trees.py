"""Every byte of a frame belongs to something that is shown, under its own name."""

from __future__ import annotations

import pytest

from ibdissect.dissect.frame_trees import dissect_row
from ibdissect.dissect.shown_value import Presenter

from .test_walk import crafted


@pytest.mark.slow
def test_every_byte_is_shown_outside_unused_zeros() -> None:
    for table in crafted():
        for row in range(len(table)):
            tree = dissect_row(table, row, Presenter(show_keys=True))
            shown = bytearray(len(tree.data))
            for node in tree.walk():
                if node.field is not None and not node.in_front:
                    shown[node.offset : node.offset + node.length] = b"\1" * node.length
            hidden = [i for i, seen in enumerate(shown) if not seen]
            assert not any(tree.data[i] for i in hidden), (tree.summary, hidden)
            assert tree.summary.protocol in ("SMP", "SA", "CM", "PM") or not hidden


def test_an_unknown_attribute_stays_visible() -> None:
    table = crafted()[0]
    layers = {node.label: node for node in dissect_row(table, 5, Presenter()).layers}
    data = layers["Attribute data"].children[0]
    assert (data.name, data.offset, data.length) == ("infiniband.mad.data", 28 + 64, 64)
    assert data.value == bytes(range(64)).hex()


@pytest.mark.slow
def test_pad_and_trailer_are_distinguished() -> None:
    table = crafted()[0]
    write = {node.label: node for node in dissect_row(table, 6, Presenter()).layers}
    assert (write["Payload"].length, write["Pad"].length) == (3, 1)
    longer = {node.label: node for node in dissect_row(table, 14, Presenter()).layers}
    assert longer["Trailer"].children[0].value == "eeff"


def test_at_byte_finds_field_below_layer() -> None:
    tree = dissect_row(crafted()[0], 0, Presenter())
    assert [node.name for node in tree.at_byte(3)] == ["", "infiniband.lrh.dlid"]
