/* What the lesson is told when ranks of a spawn have failed: the error of the one that failed first, and the report
 * of who then waited in vain. As torch.multiprocessing's ProcessRaisedException.
 *
 * Interface: spawn_raise_first, spawn_fail_as. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "c10d/group.h"
#include "lua/spawned.h"

/* Of a missing wait: "rank 0 reads t ...". */
static bool
names_reader(const struct error *error)
{
    return error->kind == E_RACE && strncmp(error->message, "rank ", 5) == 0;
}

/* Who failed first in time tells why; the others mostly failed because of it. That one waits in vain is never why, but
 * what follows from it: NULL if all do, or none has failed. */
static const struct error *
first_error(const struct spawn *spawn, bool of_hang)
{
    const struct error *first = NULL;
    for (int i = 0; i < spawn->count; i++) {
        const struct error *error = &spawn->ranks[i].error;
        if (error->kind == E_NONE || error_is_of_hang(error) != of_hang)
            continue;
        if (first == NULL || error->order < first->order)
            first = error;
    }
    return first;
}

/* Of a message, with the error itself told in full; of a report as much as fits. */
static size_t
room_beside(const struct error *error, const char *who)
{
    const size_t most = sizeof error->message - 4, least = most / 4;
    size_t       own  = strlen(error->message) + strlen(who) + 1;
    return own + least < most ? most - own : least;
}

/* What the lesson is told: the error, unless it says the same as the report, and that before or after it. */
struct telling { const char *report; bool report_first, report_alone; };
static void
tell(struct error *error, const struct telling *how)
{
    struct str text   = { 0 }, report = { 0 };
    char       who[24];
    snprintf(who, sizeof who, "rank %d: ", error->rank);
    if (error_is_of_hang(error) || error->kind == E_DIVERGENCE || error->kind == E_KILLED || names_reader(error) ||
        strncmp(error->message, who, strlen(who)) == 0)
        who[0] = '\0'; /* it names the ranks that it is about */
    if (how->report != NULL)
        str_add(&report, how->report);
    if (how->report != NULL && !how->report_alone)
        str_clip_lines(&report, room_beside(error, who));
    if (how->report != NULL && how->report_first)
        str_addf(&text, "%s\n", str_text(&report));
    if (how->report == NULL || !how->report_alone)
        str_addf(&text, "%s%s\n", who, error->message);
    if (how->report != NULL && !how->report_first)
        str_addf(&text, "%s\n", str_text(&report));
    if (str_ok(&text) && str_ok(&report))
        snprintf(error->message, sizeof error->message, "%.*s", (int)text.len - 1, text.text);
    str_free(&text);
    str_free(&report);
}

/* An event of its own: it is what the run ends with, unless the lesson catches it. */
void
spawn_fail_as(struct task *me, const struct error *error)
{
    uint32_t line = me->line;
    task_set_line(me, error->lesson_line > 0 ? error->lesson_line : line);
    failed(me, error->kind, "%s", error->message);
    me->error.hung        = error->hung;
    me->error.rank        = error->rank;
    me->error.lesson_line = error->lesson_line;
    task_set_line(me, line);
}

/* Of who waited in vain. Of ranks in other processes their errors say it. */
static const char *
report_of(const struct spawn *spawn, const struct error *hang)
{
    if (spawn->split)
        return hang != NULL ? hang->message : NULL;
    return world_report(spawn->world, hang != NULL ? hang->order : UINT_MAX);
}

/* The first error, and the report of who waited in vain: alone where nobody waited but for each other, as what follows
 * where a rank threw, before it where one was cut off in its own code. */
void
spawn_raise_first(struct task *me, struct spawn *spawn)
{
    const struct error *hang = first_error(spawn, true), *other = first_error(spawn, false);
    if (hang == NULL && other == NULL)
        return;
    bool dead     = other != NULL && other->kind == E_KILLED; /* who waits for that one says so, and more */
    bool caused   = other != NULL && (hang == NULL || (!dead && other->order < hang->order));
    bool says_all = caused && other->kind == E_DIVERGENCE; /* that the others then wait is of no interest */
    bool cut      = caused && (other->kind == E_BUDGET || other->kind == E_STOPPED);
    struct telling how   = { .report_first = !caused || cut, .report_alone = !caused };
    struct error   error = caused ? *other : *hang;
    if ((hang != NULL && !says_all) || cut)
        how.report = report_of(spawn, hang);
    bool told = how.report != NULL && strstr(error.message, how.report) != NULL;
    bool wants = cut && (other->rank < 0 || !spawn->ranks[other->rank].stuck);
    if (told || wants) /* who needs more than he may is no hang, whoever waits for him */
        how.report = NULL;
    error.payload = NULL;
    error.hung    = cut ? told || how.report != NULL : hang != NULL;
    tell(&error, &how);
    spawn_fail_as(me, &error);
}
