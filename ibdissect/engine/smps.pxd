# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
from ibdissect.engine.common cimport i64, u8, u64
from ibdissect.engine.ports cimport Hop, NodeState, OriginState, PortState, Shared
from ibdissect.engine.directed_routes cimport RouteEnds

cdef class Steps:
    cdef RouteEnds routes
    cdef object subnet, follower, learner, smps
    cdef public object exchanged, shown
    cdef dict lids, dropped
    cdef list out
    cdef const i64[::1] rows, kinds, attributes, modifiers, senders, slids, dlids, times
    cdef const u64[::1] transactions
    cdef const u8[::1] pure, directed, answers, data, path_data
    cdef i64[::1] which, entries, told
    cdef NodeState nobody
    cdef public list nodes
    cdef Shared shared
    cdef Py_ssize_t path_size
    cdef public i64 at, count, first, keyed_from, frame, time_ns, window
    cdef public bint every_state, every_table
    cdef int step(self, Py_ssize_t i) except? -1
    cdef bytes path(self, Py_ssize_t i)
    cdef Hop owner(self, i64 lid)
    cdef Hop answer(self, Py_ssize_t i, i64 attribute, Hop hop, object smp)
    cdef int place(self, Py_ssize_t i, Hop hop) except? -1
    cdef PortState port(self, NodeState node, i64 number)
    cdef PortState selected(self, Hop hop, i64 number, i64 receiver)
    cdef int port_info(self, Py_ssize_t i, Hop hop, object smp, object asked) except? -1
    cdef int changed_info(self, Py_ssize_t i, PortState port, bytes body, bint own) except? -1
    cdef int other_state(self, PortState port, int was, int state) except? -1
    cdef int own_port(self, Py_ssize_t i, PortState port, Hop hop, object smp, object asked) except? -1
    cdef bint is_copy(self, Py_ssize_t i, bint answers) except? -1
    cdef Hop node_info(self, Py_ssize_t i, Hop hop)
    cdef int learn_node(self, Py_ssize_t i, Hop hop, OriginState origin, u64 guid) except? -1
    cdef PortState of_table(self, Hop hop, i64 number)
    cdef int p_keys(self, Py_ssize_t i, Hop hop) except? -1
