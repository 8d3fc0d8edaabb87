/* Batches out of tensors: rows by their indices, and what default_collate makes of samples. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H
#include <stdbool.h>
#include <stdint.h>

struct task; struct tensor;

/* Rows of dimension 0, by indices that may count from the end, in a new tensor of source's device. NULL: failed. */
struct tensor *data_rows(struct task *me, struct tensor *source, const int64_t *indices, int64_t count);
/* torch.stack along a new dimension 0. */
struct tensor *data_stack(struct task *me, struct tensor *const *samples, int count);
/* Tells the trace which samples a batch is made of. */
void data_index(struct task *me, int64_t batch, const int64_t *indices, int64_t count);
#endif
