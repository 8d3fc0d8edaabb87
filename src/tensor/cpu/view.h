/* Other ways to look at the elements of a view. */
#ifndef TENSOR_CPU_VIEW_H
#define TENSOR_CPU_VIEW_H
#include "base/both.h"
#include "tensor/cpu/kernel.h"

/* Elements. */
BOTH int64_t
view_count(const struct cpu_view *view)
{
    int64_t count = 1;
    for (int d = 0; d < view->dims; d++)
        count *= view->size[d];
    return count;
}

struct cpu_view view_expand(const struct cpu_view *view, int dims, const int64_t *sizes); /* to sizes that it fits */
struct cpu_view view_without(const struct cpu_view *view, int dim); /* at index 0 of one dimension */
void            view_put_dim(struct cpu_view *view, int64_t size, int64_t stride); /* one more, the innermost */
#endif
