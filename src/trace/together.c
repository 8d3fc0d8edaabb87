/* A job's running traces as one. The whole is made anew when there is more of it; what lies before the last cut
 * comes out as it was, since join.c lets nothing behind a cut change what lies before.
 *
 * Interface in order of use: together_new, together_come_to, together_own, together_trace, together_free. */
#include "trace/together.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/join.h"
#include "trace/reader.h"

struct other { char *path; struct trace *trace; };

struct together {
    const struct trace_writer *writer;
    struct trace              *own, *whole;
    struct other              *others;      /* [rank]; the own one's is empty */
    int                        rank, size;
    unsigned                   cut;
    bool                       is_old;      /* the job has gone on */
    size_t                     count;       /* of the own events in the whole, ... */
    uint64_t                   version;     /* ... and their order */
};

struct together *
together_new(const struct trace_writer *own, int rank, const char *const *paths, int size)
{
    struct together *together = calloc(1, sizeof *together);
    struct other    *others   = calloc((size_t)size + 1, sizeof *others);
    bool             good     = together != NULL && others != NULL;
    if (good)
        *together = (struct together){ .writer = own, .others = others, .rank = rank, .size = size, .is_old = true };
    for (int i = 0; i < size && good; i++)
        if (i != rank && paths[i] != NULL)
            good = (others[i].path = strdup(paths[i])) != NULL;
    if (good)
        return together;
    for (int i = 0; i < size && others != NULL; i++)
        free(others[i].path);
    free(others);
    free(together);
    return NULL;
}

void
together_free(struct together *together)
{
    if (together == NULL)
        return;
    for (int i = 0; i < together->size; i++) {
        trace_release(together->others[i].trace);
        free(together->others[i].path);
    }
    trace_release(together->whole);
    trace_release(together->own);
    free(together->others);
    free(together);
}

void
together_come_to(struct together *together, unsigned cut)
{
    together->is_old |= cut > together->cut;
    together->cut = cut > together->cut ? cut : together->cut;
}

struct trace *
together_own(struct together *together, char *why, size_t why_size)
{
    if (together->own == NULL)
        together->own = trace_open_live(together->writer, why, why_size);
    if (together->own != NULL)
        trace_refresh(together->own);
    return together->own;
}

/* What is there of the others by now. Who has no file, or none that can be read, is missing; the whole's note says
 * so. */
static void
refresh_others(struct together *together)
{
    char why[400];
    for (int i = 0; i < together->size; i++) {
        struct other *other = &together->others[i];
        if (other->trace == NULL && other->path != NULL)
            other->trace = trace_open(other->path, why, sizeof why);
        else if (other->trace != NULL)
            trace_refresh(other->trace);
    }
}

static struct trace *
join(const struct together *together, char *why, size_t why_size)
{
    struct join_part     *parts = calloc((size_t)together->size + 1, sizeof *parts);
    struct trace         *whole = NULL;
    size_t                count = 0;
    const struct join_wish wish = { .is_cut = true, .cut = together->cut, .own = together->own };
    for (int i = 0; i < together->size && parts != NULL; i++) {
        if (i == together->rank)
            parts[count++] = (struct join_part){ "this", together->own };
        else if (together->others[i].trace != NULL && !trace_gone(together->others[i].trace))
            parts[count++] = (struct join_part){ together->others[i].path, together->others[i].trace };
    }
    if (parts != NULL)
        whole = trace_join(parts, count, &wish, why, why_size);
    else
        snprintf(why, why_size, "out of memory");
    free(parts);
    return whole;
}

struct trace *
together_trace(struct together *together, bool *is_new, char *why, size_t why_size)
{
    struct trace *own = together_own(together, why, why_size);
    *is_new = false;
    if (own == NULL)
        return NULL;
    if (together->whole != NULL && !together->is_old && together->count == trace_count(own) &&
        together->version == trace_order_version(own))
        return together->whole;
    if (together->is_old)
        refresh_others(together);
    struct trace *whole = join(together, why, why_size);
    if (whole == NULL)
        return NULL;
    trace_release(together->whole);
    together->whole   = whole;
    together->is_old  = false;
    together->count   = trace_count(own);
    together->version = trace_order_version(own);
    *is_new           = true;
    return whole;
}
