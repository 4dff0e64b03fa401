"""SMPs of one attribute beside the earlier answers of the same port: what a rule about attributes gets to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import field

from ibdissect.capture.gather import Bytes
from ibdissect.decode import Int
from ibdissect.decode.bit_fields import extract
from ibdissect.decode.equal_rows import Entry
from ibdissect.wire import numbers
from ibdissect.wire.sm_port import PortInfo
from ibdissect.wire.spec import Field

from .events import ChunkFollowed
from .kinds_of_ports import is_lid, kinds_by_then, kinds_of_ports
from .nodes import NOBODY, SWITCH, Node, Port, SwitchFacts
from .smp_columns import DATA_AT, PlacedSmps

if TYPE_CHECKING:
    from .earlier_answers import AttributeHistory

V = TypeVar("V")


class AttributeSmps(PlacedSmps, dict=True, kw_only=True):
    """SMPs of one attribute (seldom several) in a chunk, requests and answers with status 0, in frame order."""

    event: ChunkFollowed
    attributes: tuple[int, ...] = ()
    """Their attribute, seldom several."""
    about_ports: bool = False
    """Whether the modifier selects a port, as for PortInfo."""
    key: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Number that identifies the port, switch or manager concerned; -1 if unknown."""
    before: Bytes = field(default_factory=lambda: np.empty((0, 64), np.uint8))
    """The attribute in the previous answer with the same key, uint8[n, 64]; zeros if there was none."""
    since: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """Frame of that answer; 0 if there was none."""
    content: Int = field(default_factory=lambda: np.empty(0, np.int64))
    """What each holds, and the previous answer, and which kind of node it is, as a number; 0: unknown (`decode.repeated_smps`). Empty if
    nobody may conclude from equal ones."""
    history: AttributeHistory | None = None
    """Where `content` comes from."""
    recorded: bool = False
    """Whether these are not the port's own answers, but records of the SA."""
    columns: dict[object, Any] = field(default_factory=dict)
    """Cached columns, and what is computed from them."""

    def now(self, of: Field[Any]) -> npt.NDArray[Any]:
        """A field of each SMP."""
        return self.cached((of, True), lambda: extract(self.bodies, of.bit, of.bits))

    def was(self, of: Field[Any]) -> npt.NDArray[Any]:
        """The field in the previous answer."""
        return self.cached((of, False), lambda: extract(self.before, of.bit, of.bits))

    def cached(self, what: object, make: Callable[[], V]) -> V:
        """A column, or what is computed from columns, made on first use of its name and cached."""
        found: V | None = self.columns.get(what)
        if found is None:
            found = self.columns[what] = make()
        return found

    @cached_property
    def number(self) -> Int:
        """Number of the port concerned by a PortInfo; meaningless for other attributes."""
        number = self.modifier & 0xFF
        return np.where((self.kind == SWITCH) | (number != 0), number, self.entered)

    def have(self, of: Field[Any]) -> npt.NDArray[np.bool_]:
        """Whether the port concerned by a PortInfo certainly has a component of it, bool[n]."""
        found: npt.NDArray[np.bool_] = (
            kinds_of_ports(kinds_by_then(self), self.number, is_lid(self.now(PortInfo.lid))) & ~of.ports == 0
            if of.ports and self.about_ports else np.ones(len(self), np.bool_)
        )  # fmt: skip
        return found

    @cached_property
    def frames(self) -> Int:
        """Frame numbers."""
        return self.rows + self.event.table.chunk.first

    @property
    def answers(self) -> npt.NDArray[np.bool_]:
        """Which SMPs are answers, bool[n]."""
        mask: npt.NDArray[np.bool_] = self.method == numbers.GET_RESP
        return mask

    @property
    def sets(self) -> npt.NDArray[np.bool_]:
        """Which SMPs are Sets, bool[n]."""
        mask: npt.NDArray[np.bool_] = self.method == numbers.SET
        return mask

    def part(self, index: Int) -> AttributeSmps:
        """Some of them."""
        return AttributeSmps(
            *self.some(index), event=self.event, attributes=self.attributes, about_ports=self.about_ports, key=self.key[index],
            before=self.before[index], since=self.since[index],
        )  # fmt: skip

    def each(self, mask: Any) -> Iterator[AttributeSmp]:
        """Those where `mask` holds, bool[n], one by one."""
        return (AttributeSmp(self, i) for i in mask.nonzero()[0].tolist())


class AttributeSmp(Entry, frozen=True, eq=False):
    """One entry of `AttributeSmps`, its columns as numbers: `smp.modifier`."""

    columns: AttributeSmps

    @property
    def frame(self) -> int:
        return int(self.columns.frames[self.i])

    @property
    def time_ns(self) -> int:
        return int(self.columns.event.table.chunk.time_ns[self.rows])

    @property
    def body_at(self) -> int:
        """Offset of the attribute in the frame."""
        return self.mad + DATA_AT

    @property
    def body(self) -> Any:
        """The attribute, uint8[64]."""
        return self.columns.bodies[self.i]

    @property
    def before(self) -> Any:
        """The attribute in the previous answer, uint8[64]."""
        return self.columns.before[self.i]

    def now(self, of: Field[Any]) -> int:
        return int(self.columns.now(of)[self.i])

    def was(self, of: Field[Any]) -> int:
        """The field in the previous answer."""
        return int(self.columns.was(of)[self.i])

    @property
    def node(self) -> Node:
        """The node addressed or answering; NOBODY if unknown."""
        return self.columns.event.subnet.by_slot(self.slot) or NOBODY

    @property
    def port(self) -> Port | None:
        """The port through which it arrived: port 0 of a switch."""
        return self.node.manager(self.entered)

    @property
    def switch(self) -> tuple[SwitchFacts | None, int]:
        """Capabilities of the node as a switch at that frame, and the frame that first showed them."""
        return self.node.switch.at(self.frame)

    @property
    def name(self) -> str:
        """The port concerned: the one that a PortInfo selects, otherwise that through which it arrived."""
        return self._named(self.node.ports.get(self.number), self.number) if self.columns.about_ports else self.node_name

    @property
    def node_name(self) -> str:
        """The port through which it arrived, by name."""
        return self._named(self.port, self.node.manager_number(self.entered))

    def _named(self, port: Port | None, number: int) -> str:
        """The name of a port. It does not depend on where windows end."""
        if port is not None:
            return port.name_at(self.frame)
        return "an unknown node" if self.node is NOBODY else f"0x{self.node.guid:016x}" + (f" port {number}" if number > 0 else "")
