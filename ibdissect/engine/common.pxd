# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=False
# What the compiler takes instead of the functions of common.py: tests/engine/test_common.py compares the two.
ctypedef unsigned char u8
ctypedef unsigned int u32
ctypedef unsigned long long u64
ctypedef long long i64

cdef enum:
    NOTHING = 0
    REQUEST = 1
    ANSWER = 2
    CNP = 3
    OTHER = 4
    NATIVE = 1
    ROCE1 = 2
    ROCE2 = 3
    IDLE = 0
    TRANSFERRING = 1
    BUSY = 2
    RECOVERY = 3
    WAITING = 4
    RING = 32
    UNKNOWN_SPAN = 1048576
    OF_REQUEST = 3
    PAUSE_NS = 5000000
    SOON_NS = 400000
    APART_NS = 1000000000
    ANEW_NS = 1000000
    GROUP_NS = 50000
    MAX_WAITING = 4096
    MAX_PAUSES = 64
    OPEN_VALUES = 8
    PSNS = 16777216
    SEND_FIRST = 0
    SEND_MIDDLE = 1
    WRITE_FIRST = 6
    WRITE_MIDDLE = 7
    READ_REQUEST = 12
    READ_FIRST = 13
    READ_MIDDLE = 14
    READ_LAST = 15
    READ_ONLY = 16
    ACKNOWLEDGE = 17
    COMPARE_SWAP = 19
    FETCH_ADD = 20

# The first and the last byte of a number are looked at with bounds: what lies between cannot be outside. An unsigned place takes one
# comparison each. The number is put together from one pointer: then the compiler makes one instruction of its loads.
cdef inline int b16(const u8[::1] p, size_t at) except -1 nogil:
    cdef u8 last = p[at + 1]
    cdef const u8* q = &p[at]
    return q[0] << 8 | q[1]

cdef inline int b24(const u8[::1] p, size_t at) except -1 nogil:
    cdef u8 last = p[at + 2]
    cdef const u8* q = &p[at]
    return q[0] << 16 | q[1] << 8 | q[2]

cdef inline i64 b32(const u8[::1] p, size_t at) except -1 nogil:
    cdef u8 last = p[at + 3]
    cdef const u8* q = &p[at]
    return <i64>(<u32>q[0] << 24 | <u32>q[1] << 16 | <u32>q[2] << 8 | <u32>q[3])

cdef inline u64 b64(const u8[::1] p, size_t at) except? 0xFFFFFFFFFFFFFFFFULL nogil:
    cdef u8 last = p[at + 7]
    return loaded(&p[at])

cdef inline u64 loaded(const u8* q) noexcept nogil:
    return (<u64>q[0] << 56 | <u64>q[1] << 48 | <u64>q[2] << 40 | <u64>q[3] << 32
            | <u64>q[4] << 24 | <u64>q[5] << 16 | <u64>q[6] << 8 | <u64>q[7])

cdef inline bytes cut(const u8[::1] p, Py_ssize_t at, Py_ssize_t end):
    end = min(end, p.shape[0])
    return (<const char*>&p[at])[:end - at] if at < end else b""

cdef inline u64 mix(u64 a, u64 b) noexcept nogil:
    cdef u64 h = (a ^ (b * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL
    h = (h ^ h >> 32) * 0xD6E8FEB86659FD93ULL
    return h ^ h >> 29

cdef inline i64 distance(i64 a, i64 b) noexcept nogil:
    return ((a - b + (PSNS >> 1)) & (PSNS - 1)) - (PSNS >> 1)

cdef inline u64 hashed(const u8[::1] p, size_t at, size_t end, u64 h) except? 0xFFFFFFFFFFFFFFFFULL nogil:
    cdef i64 size = <i64>end - <i64>at
    cdef i64 left = size
    cdef u64 rest = 0
    cdef u8 last
    cdef const u8* q
    if size > 0:
        last = p[end - 1]
        q = &p[at]
        while left >= 16:
            h = (h ^ loaded(q) ^ loaded(q + 8) * 0x9E3779B97F4A7C15ULL) * 0xD6E8FEB86659FD93ULL
            h ^= h >> 32
            q += 16
            left -= 16
        if left >= 8:
            h = mix(h, loaded(q))
            q += 8
            left -= 8
        while left > 0:
            rest = rest << 8 | q[0]
            q += 1
            left -= 1
    return mix(h ^ rest, <u64>size)

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define IBDISSECT_FETCH(place) __builtin_prefetch(place)
    #else
    #define IBDISSECT_FETCH(place)
    #endif
    """
    void IBDISSECT_FETCH(const void* place) noexcept nogil

cdef inline int fetch(const u8[::1] p, size_t at) except -1 nogil:
    if at < <size_t>p.shape[0]:
        IBDISSECT_FETCH(&p[at])
    return 0

cdef inline int fetch64(const i64[::1] p, size_t at) except -1 nogil:
    if at < <size_t>p.shape[0]:
        IBDISSECT_FETCH(&p[at])
    return 0
