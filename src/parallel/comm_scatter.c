/* comm.scatter and comm.gather: rows of one tensor to several devices, and back.
 *
 * Messages are PyTorch's, by the number of the tensor that is wrong: its own tests look for them. */
#include "parallel/comm.h"

#include "autograd/history.h"
#include "base/str.h"
#include "device/stream.h"
#include "tensor/op.h"

#include <stdio.h>

/* ---- scatter ---- */

/* A piece's own stream must be one of the device that the piece goes to. */
static bool
stream_fits(struct task *me, const struct stream *stream, int index, int device)
{
    if (stream == NULL || stream_device(stream) == device)
        return true;
    return failed(me, E_RUNTIME, "Expected the device associated with the stream at index %d (was %d) to match the "
                  "device supplied at that index (expected %d)", index, stream_device(stream), device);
}

/* The piece on its device. A stream of its own lets the copy run beside what the device computes. */
static struct tensor *
piece_copied(struct task *me, struct tensor *piece, int device, struct stream *stream)
{
    if (stream == NULL || tensor_device(piece) == device)
        return comm_copy_to(me, piece, device);
    uint64_t       before = stream_borrow(me, stream);
    struct tensor *copy = comm_copy_to(me, piece, device);
    stream_return(me, before);
    return copy;
}

bool
comm_scatter(struct task *me, struct tensor *tensor, int dim, const struct comm_piece *pieces, int count,
             struct tensor **out)
{
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        const struct comm_rows rows = { dim, start, pieces[i].length };
        if (!stream_fits(me, pieces[i].stream, i, pieces[i].device))
            return false;
        struct tensor *piece = comm_narrowed(me, tensor, rows);
        out[i] = piece != NULL ? piece_copied(me, piece, pieces[i].device, pieces[i].stream) : NULL;
        if (out[i] == NULL)
            return false;
        start += rows.length;
    }
    return true;
}

/* ---- shapes that must agree ---- */

static bool
same_but_for(const struct tensor *a, const struct tensor *b, int dim)
{
    if (a->dims != b->dims)
        return false;
    for (int d = 0; d < a->dims; d++)
        if (d != dim && a->size[d] != b->size[d])
            return false;
    return true;
}

static bool
wrong_shape(struct task *me, const char *what, const struct tensor *got, const char *expected,
            const struct tensor *other)
{
    struct str a = { 0 }, b = { 0 };
    shape_print(got->dims, got->size, &a);
    shape_print(other->dims, other->size, &b);
    failed(me, E_RUNTIME, "%s has incorrect shape: %s. Expected %s: %s", what, str_text(&a), expected, str_text(&b));
    str_free(&a);
    str_free(&b);
    return false;
}

/* The outputs lie on devices, are shaped like the tensor but for dim, and there add up to it. */
static bool
outputs_fit(struct task *me, const struct tensor *tensor, int dim, struct tensor *const *out, int count)
{
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        if (tensor_device(out[i]) == DEVICE_CPU)
            return failed(me, E_RUNTIME, "Expected all output tensors to be on devices, but output tensor at index %d "
                          "is on the cpu", i);
        char what[48];
        snprintf(what, sizeof what, "Output tensor at index %d", i);
        if (!same_but_for(out[i], tensor, dim))
            return wrong_shape(me, what, out[i], "the source tensor's, except for the scatter dim", tensor);
        rows += out[i]->size[dim];
    }
    if (rows == tensor->size[dim])
        return true;
    return failed(me, E_RUNTIME, "Total size for output tensors along scatter dim %d does not match the source tensor "
                  "size at dim %d. Expected %lld, but got total size %lld", dim, dim, (long long)tensor->size[dim],
                  (long long)rows);
}

bool
comm_scatter_into(struct task *me, struct tensor *tensor, int dim, struct tensor *const *out, int count,
                  struct stream *const *streams)
{
    if (count < 1)
        return failed(me, E_RUNTIME, "Expected at least one output tensor to scatter to");
    dim = comm_dim(me, tensor, dim);
    if (dim < 0 || !outputs_fit(me, tensor, dim, out, count))
        return false;
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        const struct comm_rows rows = { dim, start, out[i]->size[dim] };
        struct stream         *stream = streams != NULL ? streams[i] : NULL;
        struct tensor         *piece = comm_narrowed(me, tensor, rows);
        if (piece == NULL || !stream_fits(me, stream, i, tensor_device(out[i])) || !inplace_allowed(me, out[i]))
            return false;
        uint64_t before = stream != NULL ? stream_borrow(me, stream) : 0;
        bool     done = tensor_copy(me, out[i], piece);
        if (stream != NULL)
            stream_return(me, before);
        if (!done)
            return false;
        tensor_bump(out[i]);
        start += rows.length;
    }
    return true;
}

/* ---- gather ---- */

/* All pieces agree in every size but the one along dim. Answers the sum of those, -1: failed. */
static int64_t
gathered_rows(struct task *me, struct tensor *const *pieces, int count, int dim)
{
    const struct tensor *first = pieces[0];
    int64_t rows = 0;
    for (int i = 0; i < count; i++) {
        const struct tensor *piece = pieces[i];
        if (piece->dims != first->dims) {
            failed(me, E_SHAPE, "Tensors must have same number of dimensions: got %d and %d (tensor number %d): the "
                   "input tensor at index %d has %d dimensions", first->dims, piece->dims, i, i, piece->dims);
            return -1;
        }
        for (int d = 0; d < first->dims; d++) {
            if (d == dim || piece->size[d] == first->size[d])
                continue;
            struct str got = { 0 };
            shape_print(piece->dims, piece->size, &got);
            failed(me, E_SHAPE, "Sizes of tensors must match except in dimension %d. "
                   "Expected size %lld but got size %lld for tensor number %d in the list: the input tensor at index "
                   "%d has the shape %s", dim, (long long)first->size[d], (long long)piece->size[d], i, i,
                   str_text(&got));
            str_free(&got);
            return -1;
        }
        rows += piece->size[dim];
    }
    return rows;
}

/* What the pieces make along dim, which may count from the end; answers it wrapped, -1: failed. */
static int
gathered_shape(struct task *me, struct tensor *const *pieces, int count, int dim, struct comm_shape *shape)
{
    if (count < 1)
        return failed(me, E_RUNTIME, "Expected at least one tensor to gather from"), -1;
    dim = comm_dim(me, pieces[0], dim);
    if (dim < 0)
        return -1;
    *shape = comm_shape_of(pieces[0]);
    shape->size[dim] = gathered_rows(me, pieces, count, dim);
    return shape->size[dim] < 0 ? -1 : dim;
}

static bool
gather_pieces(struct task *me, struct tensor *const *pieces, int count, struct tensor *whole, int dim)
{
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        const struct comm_rows rows = { dim, start, pieces[i]->size[dim] };
        struct tensor         *slice = comm_narrowed(me, whole, rows);
        if (slice == NULL || !tensor_copy(me, slice, pieces[i]))
            return false;
        start += rows.length;
    }
    return true;
}

struct tensor *
comm_gather(struct task *me, struct tensor *const *pieces, int count, int device, int dim)
{
    struct comm_shape shape;
    dim = gathered_shape(me, pieces, count, dim, &shape);
    if (dim < 0)
        return NULL;
    struct tensor *whole = tensor_empty(me, shape.dtype, device, shape.dims, shape.size);
    return whole != NULL && gather_pieces(me, pieces, count, whole, dim) ? whole : NULL;
}

struct tensor *
comm_gather_into(struct task *me, struct tensor *const *pieces, int count, struct tensor *out, int dim)
{
    struct comm_shape shape;
    dim = gathered_shape(me, pieces, count, dim, &shape);
    if (dim < 0 || !inplace_allowed(me, out))
        return NULL;
    struct tensor wanted = { .dims = shape.dims };
    for (int d = 0; d < shape.dims; d++)
        wanted.size[d] = shape.size[d];
    if (!tensor_same_shape(out, &wanted) && !wrong_shape(me, "The out tensor", out, "what is gathered", &wanted))
        return NULL;
    if (!gather_pieces(me, pieces, count, out, dim))
        return NULL;
    tensor_bump(out);
    return out;
}
