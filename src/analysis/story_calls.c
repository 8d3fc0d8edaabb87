/* Collectives: whose each is, and which bucket's. A rank issues a call, and it begins later, mostly on another lane.
 * Interface: note_issue, take_issue, forget_issues. */
#include "analysis/story_internal.h"

#include <string.h>

#include "base/vec.h"

/* "all_reduce" is done by c10d.allreduce. */
static bool
is_operation(const char *operation, const char *kind)
{
    for (kind += strncmp(kind, "c10d.", 5) == 0 ? 5 : 0;; operation++, kind++) {
        while (*operation == '_')
            operation++;
        while (*kind == '_')
            kind++;
        if (*operation != *kind || *kind == '\0')
            return *operation == *kind;
    }
}

/* The kind that does the operation, which is a text's number. false: none that the story tells. */
static bool
kind_of_operation(struct story *story, int64_t operation, uint16_t *out)
{
    uint64_t known;
    if (map_get(&story->operations, (uint64_t)operation, &known)) {
        *out = (uint16_t)known;
        return known < story->kind_count;
    }
    const char *name = trace_text_at(story->trace, operation);
    for (known = 0; known < story->kind_count; known++)
        if (story->kinds[known].part == PART_CALL &&
            is_operation(name, trace_kind(story->trace, (unsigned)known)->name))
            break;
    if (!map_set(&story->operations, (uint64_t)operation, known < story->kind_count ? known : UINT16_MAX))
        story->starved = true;
    *out = (uint16_t)known;
    return known < story->kind_count;
}

void
note_issue(struct story *story, const struct trace_event *event)
{
    const struct story_lane *lane = &story->lanes[event->lane];
    const struct story_rank *rank = &story->ranks[rank_number(event->rank)];
    struct issue issue = { .rank = event->rank, .sequence = event->args[1], .group = event->args[3], .bucket = -1,
                           .own = true };
    if (!kind_of_operation(story, event->args[0], &issue.kind))
        return;
    for (size_t i = 0; i < lane->count; i++) {
        const struct story_kind *kind = &story->kinds[lane->open[i].kind];
        issue.own    = issue.own && !kind->shields;
        issue.bucket = kind->shields ? lane->open[i].bucket : issue.bucket; /* of the innermost */
    }
    if (!lane->is_main && rank->act != NO_ROUND && story->kinds[story->rounds[rank->act].kind].shields)
        issue.own = false; /* from a task of the backward's */
    if (vec_room(&story->issues, &story->issue_room, story->issue_count + 1, sizeof *story->issues))
        story->issues[story->issue_count++] = issue;
    else
        story->starved = true;
}

bool
take_issue(struct story *story, const struct trace_event *event, struct issue *out)
{
    int sequence = story->kinds[event->kind].sequence;
    for (size_t i = 0; i < story->issue_count; i++) {
        const struct issue *issue = &story->issues[i];
        if (issue->rank != event->rank || issue->kind != event->kind ||
            (sequence >= 0 && issue->sequence != event->args[sequence]))
            continue;
        *out = *issue;
        memmove(&story->issues[i], &story->issues[i + 1], (story->issue_count - i - 1) * sizeof *issue);
        story->issue_count--;
        return true;
    }
    return false;
}

void
forget_issues(struct story *story, int rank)
{
    size_t kept = 0;
    for (size_t i = 0; i < story->issue_count; i++)
        if (story->issues[i].rank != rank)
            story->issues[kept++] = story->issues[i];
    story->issue_count = kept;
}
