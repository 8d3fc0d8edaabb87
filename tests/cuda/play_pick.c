/* Cases for the kernels of picking by index and of order (rows_pick.def): embedding and tables; the list of all, whose
 * other functions are in play_pick_index.c. */
#include "play_pick.h"
#include <math.h>
#include <string.h>
#include "plugins/cuda/kernels/order_room.h"

const enum dtype all_types[DTYPE_COUNT] = { DTYPE_F32, DTYPE_F64, DTYPE_I64, DTYPE_BOOL, DTYPE_I32, DTYPE_U8, DTYPE_F16,
                                            DTYPE_BF16, DTYPE_I8 };

/* ---- rows of a table; indices of two dimensions ---- */

struct table_case { int64_t rows, wide; struct sizes indices; enum layout layout; bool bad; };

static struct cpu_view
table_indices(struct play *p, const struct table_case *c)
{
    return places(p, c->layout, c->indices, c->bad ? -2 : 0, c->rows + (c->bad ? 2 : 0));
}

static struct sizes
rows_of(const struct table_case *c)
{
    struct sizes sizes = c->indices;
    sizes.size[sizes.dims++] = c->wide;
    return sizes;
}

static void
embedding_case(struct play *p, enum dtype dtype, const struct table_case *c)
{
    struct cpu_call call = rows_call(p, 2, dtype);
    call.in[0] = view_new(p, dtype, c->layout, (struct sizes){ 2, { c->rows, c->wide } });
    call.in[1] = table_indices(p, c);
    call.out   = result(p, dtype, rows_of(c));
    compare(p, p->kernel, &call);
}

/* Rows of 3 and of 64 elements: the second are moved sixteen bytes at a time. */
static void
embedding_rows(struct play *p)
{
    static const int64_t wides[] = { 0, 1, 3, 64 };
    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int w = 0; w < 4; w++)
            for (int l = 0; l < ROW_LAYOUTS; l++) {
                struct table_case c = { 7, wides[w], { 2, { 3, 5 } }, row_layouts[l], false };
                embedding_case(p, all_types[t], &c);
            }
    for (int i = 0; i < LENGTHS; i++) {
        struct table_case c = { 50, 2, { 1, { lengths[i] } }, LAYOUT_PLAIN, false };
        embedding_case(p, DTYPE_F32, &c);
    }
}

static void
embedding_bad(struct play *p)
{
    struct table_case c = { 7, 4, { 2, { 9, 5 } }, LAYOUT_PLAIN, true };
    for (int t = 0; t < DTYPE_COUNT; t++)
        embedding_case(p, all_types[t], &c);
}

/* start: the row that gets nothing; step 1: divided by how often a row was named. */
static void
gradient_case(struct play *p, enum dtype dtype, const struct table_case *c, int64_t start, int64_t step)
{
    struct cpu_call call = rows_call(p, 2, dtype);
    call.in[0]  = numbers(p, false, dtype, c->layout, rows_of(c));
    call.in[1]  = table_indices(p, c);
    call.out    = result(p, dtype, (struct sizes){ 2, { c->rows, c->wide } });
    call.start  = start;
    call.step   = step;
    call.length = c->rows;
    compare(p, p->kernel, &call);
}

/* Few rows are named by many: their sums show each wrong order. */
static void
gradient_rows(struct play *p)
{
    for (int t = 0; t < REAL_TYPES; t++) {
        for (int l = 0; l < ROW_LAYOUTS; l++)
            for (int64_t start = -1; start < 3; start++) {
                struct table_case c = { 3, 5, { 2, { 4, 9 } }, row_layouts[l], false };
                gradient_case(p, real_types[t], &c, start, start & 1);
            }
        for (int i = 0; i < LENGTHS; i++)
            for (int64_t step = 0; step < 2; step++) {
                struct table_case c = { 11, 2, { 1, { lengths[i] } }, LAYOUT_PLAIN, false };
                gradient_case(p, real_types[t], &c, -1, step);
            }
    }
}

/* So many indices that runs of runs are merged. */
static void
gradient_many(struct play *p)
{
    struct table_case c = { 5, 1, { 1, { (int64_t)ORDER_CHUNK * ORDER_WAYS + 77 } }, LAYOUT_PLAIN, false };
    gradient_case(p, DTYPE_F32, &c, -1, 0);
}

static void
gradient_bad(struct play *p)
{
    struct table_case c = { 7, 4, { 2, { 9, 5 } }, LAYOUT_PLAIN, true };
    gradient_case(p, DTYPE_F32, &c, -1, 0);
    gradient_case(p, DTYPE_F64, &c, 3, 1);
}

/* ---- tables that are added to ---- */

static void
add_case(struct play *p, enum dtype dtype, int64_t pairs, double alpha, bool onto, bool bad)
{
    struct sizes    table = { 3, { 6, 3, 2 } }, rows = { 3, { pairs, 3, 2 } }, indices = { 1, { pairs } };
    struct cpu_call call = rows_call(p, 3, dtype);
    call.in[0] = numbers(p, false, dtype, onto ? LAYOUT_PLAIN : LAYOUT_STRIDED, table);
    call.in[1] = places(p, LAYOUT_STRIDED, indices, bad ? -1 : 0, bad ? 8 : 6);
    call.in[2] = numbers(p, false, dtype, LAYOUT_PLAIN, rows);
    call.out   = onto ? call.in[0] : result(p, dtype, table);
    call.alpha = alpha;
    compare(p, p->kernel, &call);
}

static void
add_rows_pairs(struct play *p)
{
    static const double alphas[] = { 1, -2.3, 3 };
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < LENGTHS; i++)
            for (int a = 0; a < 3; a++)
                add_case(p, all_types[t], lengths[i], alphas[a], i & 1, false);
}

static void
add_rows_bad(struct play *p)
{
    for (int t = 0; t < 3; t++)
        add_case(p, all_types[t], 40, 1, t & 1, true);
}

/* ---- max_norm ---- */

static void
renorm_rows(struct play *p)
{
    static const double norms[] = { 2, 1, INFINITY, 3, 0.5 };
    for (int t = 0; t < REAL_TYPES; t++)
        for (size_t n = 0; n < sizeof norms / sizeof *norms; n++)
            for (int l = 0; l < ROW_LAYOUTS; l++)
                for (int bad = 0; bad < 2; bad++) {
                    struct table_case c = { 20, 6, { 2, { 3, 5 } }, row_layouts[l], bad };
                    struct cpu_call   call = rows_call(p, 2, real_types[t]);
                    call.in[0] = numbers(p, l == 3, real_types[t], c.layout, (struct sizes){ 2, { c.rows, c.wide } });
                    call.in[1] = table_indices(p, &c);
                    call.out   = result(p, real_types[t], (struct sizes){ 2, { c.rows, c.wide } });
                    call.alpha = 4;
                    call.beta  = norms[n];
                    compare(p, p->kernel, &call);
                }
}

const struct play_case play_pick[] = {
    { "rows of any type and layout agree", embedding_rows, KERNEL_cpu_embedding },
    { "an index that is no row is told", embedding_bad, KERNEL_cpu_embedding },
    { "rows are added in the order of their positions", gradient_rows, KERNEL_cpu_embedding_backward },
    { "more than a hundred thousand indices keep their order", gradient_many, KERNEL_cpu_embedding_backward },
    { "an index that is no row is told", gradient_bad, KERNEL_cpu_embedding_backward },
    { "rows of each norm agree, and bad indices are told", renorm_rows, KERNEL_cpu_embedding_renorm },
    { "pairs are added in their order, onto a table or a copy of it", add_rows_pairs, KERNEL_cpu_add_rows },
    { "an index that is no row is told", add_rows_bad, KERNEL_cpu_add_rows },
    { "elements of any type agree, along each dimension", gather_along, KERNEL_pick_gather },
    { "indices that lack the dimension agree", gather_lacking, KERNEL_pick_gather },
    { "bad indices are told", along_bad, KERNEL_pick_gather },
    { "of equal indices the last wins, along each dimension", scatter_along, KERNEL_pick_scatter },
    { "long lines keep their order", scatter_long, KERNEL_pick_scatter },
    { "bad indices are told", along_bad, KERNEL_pick_scatter },
    { "equal indices are added in their order, along each dimension", scatter_along, KERNEL_pick_scatter_add },
    { "long lines keep their order", scatter_long, KERNEL_pick_scatter_add },
    { "bad indices are told", along_bad, KERNEL_pick_scatter_add },
    { "rows of any type agree, along each dimension, counted from both ends", rows_along, KERNEL_pick_index },
    { "bad indices are told", rows_bad, KERNEL_pick_index },
    { "of equal indices the last wins, along each dimension", rows_along, KERNEL_pick_index_put },
    { "rows of another type become the table's", rows_of_other_types, KERNEL_pick_index_put },
    { "bad indices are told", rows_bad, KERNEL_pick_index_put },
    { "equal indices are added in their order, along each dimension", rows_along, KERNEL_pick_index_add },
    { "bad indices are told", rows_bad, KERNEL_pick_index_add },
    { "each set of dimensions turns round", others_flip, KERNEL_pick_flip },
    { "each diagonal cuts as on the CPU", others_triangle, KERNEL_pick_tril },
    { "each diagonal cuts as on the CPU", others_triangle, KERNEL_pick_triu },
    { "each type is put in order along each dimension", order_along_each, KERNEL_sort_argsort },
    { "equal elements stay in their order, rows of any length", order_lengths, KERNEL_sort_argsort },
    { "runs of runs are merged", order_long, KERNEL_sort_argsort },
    { "a number alone is picked by index 0", alone, KERNEL_pick_gather },
    { "a number alone is picked by index 0", alone, KERNEL_pick_scatter },
    { "a number alone is picked by index 0", alone, KERNEL_pick_scatter_add },
    { "rows beyond what can be merged are the host's", order_lacks, KERNEL_sort_argsort },
    { "indices beyond what can be merged are the host's", order_lacks, KERNEL_cpu_embedding_backward },
    { NULL, NULL, KERNEL_COUNT },
};
