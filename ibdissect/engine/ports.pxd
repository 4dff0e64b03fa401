# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64
from ibdissect.engine.facts cimport Fact, changed, end, put

cdef class PortState:
    cdef public NodeState node
    cdef public i64 number, frame, peer_frame, cut
    cdef public object guid, pages, qos
    cdef public PKeysState p_keys
    cdef public GuardState guard
    cdef public bint renamed
    cdef public Fact infos, lids, facing

cdef class NodeState:
    cdef public i64 slot, frame, until, kind, told_ns, unsure, changed, weight, window, place, reached
    cdef public bint alive, unarbitrated
    cdef public object guid, system_guid, device_id, vendor_id, port_state_change, name, origin, forwarding
    cdef public Fact facts, switch, linear_top, multicast_top
    cdef public dict ports

cdef class Hop:
    cdef public NodeState node
    cdef public i64 entered, frame
    cdef public object before
    cdef public bint ambiguous

cdef class OriginState:
    cdef public object sender, hops
    cdef public OriginState joined
    cdef public i64 shared, valid_since
    cdef public Fact home
    cdef public dict turns

cdef class BlockState(Fact):
    cdef public i64 number
    cdef public bint contested

cdef class PKeysState:
    cdef public tuple blocks
    cdef public object intended, size
    cdef public i64 doubted

cdef class GuardState:
    cdef public Fact held, timer
    cdef public object pending

cdef class Shared:
    cdef public dict blocks
    cdef public Py_ssize_t limit

cdef BlockState find_block(PKeysState keys, i64 number)
cdef int holds_several(PKeysState keys) except? -1
cdef object kept(Shared shared, object block)
cdef int state_changed(PortState port, i64 after, list found) except? -1
