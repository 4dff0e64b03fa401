/* The start of every record in a window, along the chain of record lengths. The definition is `_plain` in capture/record_starts.py. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* A record's length mostly lies in memory that no cache holds yet. Fetching the bytes of the next records early takes a fifth of the time. */
#define AHEAD 4096
#define LINE 64
#if defined(__GNUC__) || defined(__clang__)
#define FETCH(p) __builtin_prefetch(p)
#else
#define FETCH(p) (void)(p)
#endif

/* The unsigned number of `size` bytes at `p`. */
static int64_t number(const uint8_t *p, int size, int big)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value |= (uint64_t)p[i] << 8 * (big ? size - 1 - i : i);
    return (int64_t)value;
}

static PyObject *walk(PyObject *self, PyObject *args)
{
    Py_buffer data, out;
    const char *dtype;
    long long at, limit, offset, plus, least;
    if (!PyArg_ParseTuple(args, "y*LLsLLLw*", &data, &at, &limit, &dtype, &offset, &plus, &least, &out))
        return NULL;
    int big = dtype[0] == '>', size = strlen(dtype) == 3 ? dtype[2] - '0' : 0;
    int64_t room = out.len / 8, count = 0, *starts = out.buf;
    int wrong = at < 0 || offset < 0 || plus < 0 || least < 1 || (size != 2 && size != 4) || limit + offset + size - 1 > data.len;
    if (!wrong) {
        const uint8_t *bytes = data.buf;
        Py_BEGIN_ALLOW_THREADS
        while (at < limit && count < room) {
            int64_t step = number(bytes + at + offset, size, big) + plus;
            starts[count++] = at;
            step = step > least ? step : least;
            for (int64_t next = at + AHEAD; next < at + AHEAD + step && next < at + 2 * AHEAD && next < data.len; next += LINE)
                FETCH(bytes + next);
            at += step;
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&out);
    if (wrong)
        return PyErr_Format(PyExc_ValueError, "record lengths up to %lld do not lie in the data", limit);
    return Py_BuildValue("LL", (long long)count, (long long)at);
}

static PyMethodDef methods[] = {
    {"walk", walk, METH_VARARGS, "walk(data, at, limit, dtype, offset, plus, least, out): number of records that start below limit; where the next one does."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_records", "Starts of many records at once.", -1, methods};

PyMODINIT_FUNC PyInit__records(void) { return PyModule_Create(&module); }
