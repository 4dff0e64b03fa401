"""Which SL to VL tables does a chunk show? A switch has one per pair of ports, so they are learnt together by output port."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ibdissect.table.locate import Bool
from ibdissect.wire import numbers

from .model import Subnet
from .nodes import SWITCH
from .smp_places import Places
from .smps import Smps


class SlMaps:
    """The answers with SL to VL tables; learnt together if the places of all are known."""

    def __init__(self, smps: Smps, places: Places, alone: bool) -> None:
        """`alone`: the chunk has no records, which may teach such tables too."""
        self.smps, self.places = smps, places
        shown = smps.answers & (smps.attribute == numbers.SL_TO_VL)
        batch = alone and bool((places.sure | ~shown).all())
        self.batched: Bool = shown if batch else np.zeros(len(shown), np.bool_)
        """Answers to learn together: all with such tables, or none, to keep their order; bool[n]."""

    def learn(self, subnet: Subnet, first: int, until: int) -> None:
        """Process the answers before `until`; `first` is the chunk's first frame number. Places must be settled."""
        smps, places = self.smps, self.places
        index = np.flatnonzero(self.batched[:until])
        # Skip nodes dropped meanwhile.
        index = index[np.array([slot in subnet.slots for slot in places.slot[index].tolist()], np.bool_)]
        if not len(index):
            return
        slot, modifier = places.slot[index], smps.modifier[index].astype(np.int64)
        numbers = sorted(set(slot.tolist()))
        nodes = [subnet.slots[number] for number in numbers]
        which = np.searchsorted(np.array(numbers), slot)
        switch = np.array([node.kind == SWITCH for node in nodes])[which]
        ports = np.array([node.num_ports for node in nodes])[which]
        output = np.where(switch, modifier >> 8 & 0xFF, places.entered[index])
        # Skip the wildcards of the optimised form (bits 17-16), which select many ports.
        good = ~switch | ((modifier >> 16 == 0) & (output <= ports))
        index, which, output = index[good], which[good], output[good]
        if not len(index):
            return
        inputs = np.where(switch, modifier & 0xFF, 0)[good]
        order = np.lexsort((index, output, which))
        index, which, output, inputs = index[order], which[order], output[order], inputs[order]
        entries = np.ascontiguousarray(smps.bodies[index, :8])
        words, raw = entries.view(np.uint64).ravel(), entries.tobytes()
        frames = (first + smps.rows[index]).tolist()
        starts = np.flatnonzero(np.append(True, (which[1:] != which[:-1]) | (output[1:] != output[:-1])))
        same = words == np.repeat(words[starts], np.diff(starts, append=len(words)))
        alike = np.logical_and.reduceat(same, starts).tolist()
        for (low, high), one in zip(pairwise([*starts.tolist(), len(index)]), alike, strict=True):
            port = subnet.port(nodes[int(which[low])], int(output[low]), frames[low])
            qos, some = port.lanes(), inputs[low:high].tolist()
            if one and qos.learn_same(some, subnet.share(raw[low * 8 : low * 8 + 8]), frames[high - 1]):
                continue
            for i, number in enumerate(some, low):
                qos.learn_map(number, subnet.share(raw[i * 8 : i * 8 + 8]), frames[i])
