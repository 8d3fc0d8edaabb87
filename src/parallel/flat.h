/* Many tensors side by side in one flat buffer, dense and in order: what travels is one message and not a hundred.
 *
 *     flat_empty, then per tensor flat_piece       a view shaped like the tensor: to copy in, to copy out, to keep
 *     flat_joined                                  a buffer with their values, by one op */
#ifndef PARALLEL_FLAT_H
#define PARALLEL_FLAT_H
#include "tensor/tensor.h"

/* Those of tensors that lie in the buffer, in its order: tensors[indices[0]], ... All of one type on one device. */
struct flat_members { struct tensor *const *tensors; const int *indices; int count; };

/* Room for all members, nothing copied; in me's scope; NULL: failed. */
struct tensor *flat_empty(struct task *me, const struct flat_members *members);
/* Their values; one alone is not copied. In me's scope; NULL: failed. */
struct tensor *flat_joined(struct task *me, const struct flat_members *members);

/* Cuts `flat` from its beginning: each call answers the next piece, contiguous and shaped like `like`. It shares the
 * buffer's version counter. In me's scope; NULL: failed. */
struct flat_walk { struct tensor *flat; int64_t used; };
struct tensor *flat_piece(struct task *me, struct flat_walk *walk, const struct tensor *like);
/* The next piece with the strides of `like`, if that has no gaps (a transposed weight), so that a gradient in it lies as its
 * parameter does. */
struct tensor *flat_piece_strided(struct task *me, struct flat_walk *walk, const struct tensor *like);
#endif
