/* Checksums of many packets at once: ICRC (CRC-32) and VCRC (CRC-16, polynomial 0x100B), both reflected.
 *
 * wire/crc.py says what is summed and is what tests compare this file with. Plain buffers come in, so neither NumPy's headers nor a
 * certain NumPy version are needed. The interpreter lock is released while packets are summed.
 *
 * Where the processor multiplies without carry (PCLMULQDQ), 64 bytes are folded at a time: a 128-bit piece of the message, H*x^64 + L,
 * stands D bits before its successor, and is replaced by H*(x^(D+64) mod P) + L*(x^D mod P), which has the same remainder. The last
 * 16 bytes go through tables, as everything does on other processors.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define FOLDS 1
#include <immintrin.h>
#else
#define FOLDS 0
#endif

typedef struct {
    uint32_t polynomial; /* reflected */
    int width;
    uint32_t table[8][256];     /* table[k][b]: remainder of byte b with k zero bytes behind it */
    uint64_t far_high, far_low; /* x^(512+63), x^(512-1) mod P, reflected in 64 bits: a product of reflected numbers is short of one x */
    uint64_t near_high, near_low; /* x^(128+63), x^(128-1) */
} Sum;

static Sum icrc_sum = {.polynomial = 0xEDB88320u, .width = 32}, vcrc_sum = {.polynomial = 0xD008u, .width = 16};
static int folds = 0;

/* x^n mod P as a 64-bit reflected number: bit 63 - k is the coefficient of x^k. */
static uint64_t power(const Sum *sum, int n)
{
    uint32_t remainder = 1u << (sum->width - 1); /* x^0 in a reflected register */
    while (n--)
        remainder = remainder & 1 ? remainder >> 1 ^ sum->polynomial : remainder >> 1;
    return (uint64_t)remainder << (64 - sum->width);
}

static void prepare(Sum *sum)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int i = 0; i < 8; i++)
            c = c & 1 ? c >> 1 ^ sum->polynomial : c >> 1;
        sum->table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            sum->table[k][b] = sum->table[k - 1][b] >> 8 ^ sum->table[0][sum->table[k - 1][b] & 0xFF];
    sum->far_high = power(sum, 512 + 63), sum->far_low = power(sum, 512 - 1);
    sum->near_high = power(sum, 128 + 63), sum->near_low = power(sum, 128 - 1);
}

static uint32_t four(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t by_table(const Sum *sum, uint32_t c, const uint8_t *p, size_t n)
{
    const uint32_t(*t)[256] = sum->table;
    for (; n >= 8; p += 8, n -= 8) {
        c ^= four(p);
        c = t[7][c & 0xFF] ^ t[6][c >> 8 & 0xFF] ^ t[5][c >> 16 & 0xFF] ^ t[4][c >> 24] ^ t[3][p[4]] ^ t[2][p[5]] ^ t[1][p[6]] ^ t[0][p[7]];
    }
    if (n >= 4) {
        c ^= four(p);
        c = t[3][c & 0xFF] ^ t[2][c >> 8 & 0xFF] ^ t[1][c >> 16 & 0xFF] ^ t[0][c >> 24];
        p += 4, n -= 4;
    }
    while (n--)
        c = c >> 8 ^ t[0][(c ^ *p++) & 0xFF];
    return c;
}

#if FOLDS
__attribute__((target("pclmul,sse2"))) static inline __m128i folded(__m128i piece, __m128i next, __m128i by)
{
    __m128i high = _mm_clmulepi64_si128(piece, by, 0x00), low = _mm_clmulepi64_si128(piece, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(high, low), next);
}

#define LOAD(at) _mm_loadu_si128((const __m128i *)(at))

/* `first` holds the first 64 bytes, the others follow at p + 64. */
__attribute__((target("pclmul,sse2"))) static uint32_t by_folding(const Sum *sum, uint32_t c, const uint8_t *first, const uint8_t *p, size_t n)
{
    uint8_t last[16];
    __m128i far = _mm_set_epi64x((int64_t)sum->far_low, (int64_t)sum->far_high);
    __m128i near = _mm_set_epi64x((int64_t)sum->near_low, (int64_t)sum->near_high);
    __m128i a = _mm_xor_si128(LOAD(first), _mm_cvtsi32_si128((int)c)), b = LOAD(first + 16), d = LOAD(first + 32), e = LOAD(first + 48);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = folded(a, LOAD(p), far), b = folded(b, LOAD(p + 16), far);
        d = folded(d, LOAD(p + 32), far), e = folded(e, LOAD(p + 48), far);
    }
    a = folded(folded(folded(a, b, near), d, near), e, near);
    for (; n >= 16; p += 16, n -= 16)
        a = folded(a, LOAD(p), near);
    _mm_storeu_si128((__m128i *)last, a);
    return by_table(sum, by_table(sum, 0, last, 16), p, n);
}
#endif

static uint32_t summed(const Sum *sum, uint32_t c, const uint8_t *p, size_t n)
{
#if FOLDS
    if (folds && n >= 64)
        return by_folding(sum, c, p, p, n);
#endif
    return by_table(sum, c, p, n);
}

/* What stands before the BTH of a packet: bytes that may change on the way count as ones (IBA 7.8.1, RoCE annexes A16 and A17). */
enum { NATIVE, ROUTED, ROCE_IP4, ROCE_IP6, KINDS };
#define HEAD 80 /* the longest of them: an IPv4 header of 60 bytes, UDP, the first 12 bytes of the BTH */

static uint32_t icrc_of(int kind, const uint8_t *p, size_t n)
{
    static const uint8_t ones[8] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
    uint8_t head[HEAD];
    size_t taken = n < HEAD ? n : HEAD;
    if (taken == HEAD)
        memcpy(head, p, HEAD); /* a constant size needs no call and no loop */
    else
        for (size_t i = 0; i < HEAD; i++)
            head[i] = i < n ? p[i] : 0;
    uint32_t c = 0xFFFFFFFFu;
    size_t bth = 8;
    if (kind == NATIVE) {
        head[0] |= 0xF0;
    } else {
        bth = 40;
        c = by_table(&icrc_sum, c, ones, 8); /* an LRH of ones */
        if (kind == ROCE_IP4) {
            size_t udp = (size_t)(head[0] & 15) * 4;
            head[1] = head[8] = head[10] = head[11] = head[udp + 6] = head[udp + 7] = 0xFF;
            bth = udp + 8;
        } else {
            head[0] |= 0x0F, head[1] = head[2] = head[3] = head[7] = 0xFF;
            if (kind == ROCE_IP6)
                head[46] = head[47] = 0xFF, bth = 48;
        }
    }
    head[bth + 4] = 0xFF;
#if FOLDS
    if (folds && n >= 64 && bth + 4 < 64)
        return ~by_folding(&icrc_sum, c, head, p, n);
#endif
    c = summed(&icrc_sum, c, head, taken);
    return ~summed(&icrc_sum, c, p + taken, n - taken);
}

/* Buffers of a call: bytes, int64 starts, int64 ends, what else, uint32 results. */
typedef struct {
    Py_buffer data, starts, ends, kinds, out;
} Call;

static void release(Call *call)
{
    Py_buffer *all[] = {&call->data, &call->starts, &call->ends, &call->kinds, &call->out};
    for (int i = 0; i < 5; i++)
        if (all[i]->obj)
            PyBuffer_Release(all[i]);
}

static PyObject *sums(PyObject *args, int with_kinds)
{
    Call call;
    memset(&call, 0, sizeof call);
    int parsed = with_kinds ? PyArg_ParseTuple(args, "y*y*y*y*w*", &call.data, &call.starts, &call.ends, &call.kinds, &call.out)
                            : PyArg_ParseTuple(args, "y*y*y*w*", &call.data, &call.starts, &call.ends, &call.out);
    if (!parsed)
        return NULL;
    Py_ssize_t n = call.out.len / 4, wrong = -1;
    if (call.starts.len != n * 8 || call.ends.len != n * 8 || (with_kinds && call.kinds.len != n)) {
        release(&call);
        PyErr_SetString(PyExc_ValueError, "starts and ends are int64, kinds uint8, out uint32, all of one length");
        return NULL;
    }
    const uint8_t *data = call.data.buf, *kinds = call.kinds.buf;
    const int64_t *starts = call.starts.buf, *ends = call.ends.buf, size = call.data.len;
    uint32_t *out = call.out.buf;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t start = starts[i], end = ends[i];
        if (start < 0 || end < start || end > size || (with_kinds && kinds[i] >= KINDS)) {
            wrong = i;
            break;
        }
        out[i] = with_kinds ? icrc_of(kinds[i], data + start, (size_t)(end - start))
                            : summed(&vcrc_sum, 0xFFFFu, data + start, (size_t)(end - start)) ^ 0xFFFFu;
    }
    Py_END_ALLOW_THREADS
    release(&call);
    if (wrong >= 0)
        return PyErr_Format(PyExc_ValueError, "entry %zd does not lie in the data, or is of no known kind", wrong);
    Py_RETURN_NONE;
}

static PyObject *icrcs(PyObject *self, PyObject *args) { return sums(args, 1); }

static PyObject *vcrcs(PyObject *self, PyObject *args) { return sums(args, 0); }

static PyObject *fold(PyObject *self, PyObject *args)
{
    int wanted, before = folds;
    if (!PyArg_ParseTuple(args, "p", &wanted))
        return NULL;
#if FOLDS
    folds = wanted && __builtin_cpu_supports("pclmul");
#endif
    return PyBool_FromLong(before);
}

static PyMethodDef methods[] = {
    {"icrcs", icrcs, METH_VARARGS, "icrcs(data, starts, ends, kinds, out): the ICRC of each packet, from where its sum starts to its ICRC."},
    {"vcrcs", vcrcs, METH_VARARGS, "vcrcs(data, starts, ends, out): the VCRC of each packet, from its LRH to its VCRC."},
    {"fold", fold, METH_VARARGS, "fold(wanted): whether carry-less multiplication is used, where there is any; returns what held before."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_sums", "Checksums of many packets at once.", -1, methods};

PyMODINIT_FUNC PyInit__sums(void)
{
    prepare(&icrc_sum), prepare(&vcrc_sum);
#if FOLDS
    __builtin_cpu_init();
    folds = __builtin_cpu_supports("pclmul") != 0;
#endif
    return PyModule_Create(&module);
}
