/* Views of views; see view.h. */
#include "tensor/cpu/view.h"

struct cpu_view
view_expand(const struct cpu_view *view, int dims, const int64_t *sizes)
{
    struct cpu_view wide = { .data = view->data, .dtype = view->dtype, .dims = dims };
    int             added = dims - view->dims;
    for (int i = 0; i < dims; i++) {
        wide.size[i] = sizes[i];
        if (i >= added && view->size[i - added] != 1)
            wide.stride[i] = view->stride[i - added];
    }
    return wide;
}

void
view_put_dim(struct cpu_view *view, int64_t size, int64_t stride)
{
    view->size[view->dims]   = size;
    view->stride[view->dims] = stride;
    view->dims++;
}

struct cpu_view
view_without(const struct cpu_view *view, int dim)
{
    struct cpu_view rest = { .data = view->data, .dtype = view->dtype };
    for (int d = 0; d < view->dims; d++) {
        if (d != dim)
            view_put_dim(&rest, view->size[d], view->stride[d]);
    }
    return rest;
}
