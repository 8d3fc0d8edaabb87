/* Checks on their way to be printed, and as bytes between the processes of a job.
 *
 * Interface in order of use: check_list_add, check_list_write, check_list_read, check_list_sort, check_list_clear,
 * check_list_free. */
#include "lua/check_list.h"
#include <stdlib.h>
#include <string.h>
#include "base/vec.h"
#include "lua/share.h"
#include "sched/account.h"

static void
forget_check(struct kept_check *kept)
{
    free((char *)kept->check.name);
    free((char *)kept->check.detail);
    free((char *)kept->check.skip);
    free((char *)kept->check.hints);
}

static size_t
text_bytes(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

size_t
check_bytes(const struct lesson_check *check)
{
    return 2 * sizeof(struct kept_check) + text_bytes(check->name) + text_bytes(check->detail) +
           text_bytes(check->skip) + text_bytes(check->hints);
}

/* The text is replaced by a copy; NULL stays, and is what a copy without memory is: false. */
static bool
copy_text(const char **text)
{
    bool there = *text != NULL;
    *text      = there ? strdup(*text) : NULL;
    return !there || *text != NULL;
}

bool
check_list_add(struct sched *sched, struct check_list *list, const struct lesson_check *check)
{
    struct kept_check kept = { .check = *check, .order = (uint32_t)list->count, .bytes = check_bytes(check) };
    if (!account_take(sched, kept.bytes))
        return false;
    /* Each of them, whatever becomes of the others: all four are freed. */
    bool name = copy_text(&kept.check.name), detail = copy_text(&kept.check.detail);
    bool skip = copy_text(&kept.check.skip), hints = copy_text(&kept.check.hints);
    if (!name || !detail || !skip || !hints ||
        !vec_room(&list->checks, &list->room, list->count + 1, sizeof *list->checks)) {
        forget_check(&kept);
        account_give(sched, kept.bytes);
        return false;
    }
    list->checks[list->count++] = kept;
    return true;
}

static int
by_rank_and_line(const void *a, const void *b)
{
    const struct kept_check *x = a, *y = b;
    if (x->check.rank != y->check.rank)
        return x->check.rank < y->check.rank ? -1 : 1;
    if (x->check.line != y->check.line)
        return x->check.line < y->check.line ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void
check_list_sort(struct check_list *list)
{
    if (list->count > 0)
        qsort(list->checks, list->count, sizeof *list->checks, by_rank_and_line);
}

void
check_list_clear(struct sched *sched, struct check_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        forget_check(&list->checks[i]);
        account_give(sched, list->checks[i].bytes);
    }
    list->count = 0;
}

void
check_list_free(struct check_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        forget_check(&list->checks[i]);
    free(list->checks);
    *list = (struct check_list){ 0 };
}

/* ---- as bytes ---- */

void
check_list_write(const struct check_list *list, struct str *out)
{
    share_add_number(out, (int64_t)list->count);
    for (size_t i = 0; i < list->count; i++) {
        const struct lesson_check *check = &list->checks[i].check;
        share_add_number(out, check->rank);
        share_add_number(out, check->line);
        share_add_number(out, check->ok);
        share_add_text(out, check->name);
        share_add_text(out, check->detail);
        share_add_text(out, check->skip);
        share_add_text(out, check->hints);
    }
}

bool
check_list_read(struct sched *sched, struct check_list *list, struct reader *in)
{
    bool ok = true;
    for (int64_t left = share_read_number(in); ok && left > 0 && !in->broken; left--) {
        struct lesson_check check = { .rank = (int)share_read_number(in) };
        check.line   = (uint32_t)share_read_number(in);
        check.ok     = share_read_number(in) != 0;
        check.name   = share_read_text(in);
        check.detail = share_read_text(in);
        check.skip   = share_read_text(in);
        check.hints  = share_read_text(in);
        ok = !in->broken && check.name != NULL && check_list_add(sched, list, &check);
    }
    return ok && !in->broken;
}
