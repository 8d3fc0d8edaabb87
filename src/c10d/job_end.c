/* Ends of ranks as text: a word and its value a line, `why` last, since it may have lines of its own. */
#include "c10d/job_end.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/vec.h"

static const char *const how_words[] = { "returned", "threw", "killed", "lost" };

void
job_end_print(const struct job_end *end, struct str *out)
{
    str_addf(out, "rank %d\nworld %d\nhow %s\nexact %d\nns %" PRId64 "\nline %" PRIu32 "\n", end->rank, end->world,
             how_words[end->how], end->exact, end->ns, end->line);
    if (end->call[0] != '\0')
        str_addf(out, "%s %s\n", end->inside ? "inside" : "after", end->call);
    if (end->kind[0] != '\0')
        str_addf(out, "kind %s\nof_hang %d\n", end->kind, end->of_hang);
    for (uint32_t i = 0; i < end->group_count; i++)
        str_addf(out, "group %" PRIu64 " %" PRId64 " %" PRId64 "\n", end->groups[i].id, end->groups[i].issued,
                 end->groups[i].over);
    str_addf(out, "why %s", end->why);
}

/* ---- reading ---- */

static bool
take_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *rest = NULL;
    errno = 0;
    long long number = strtoll(text, &rest, 10);
    *out = number;
    return errno == 0 && rest != text && *rest == '\0' && number >= least && number <= most;
}

static bool
take_how(const char *text, struct job_end *out)
{
    for (size_t i = 0; i < countof(how_words); i++)
        if (strcmp(text, how_words[i]) == 0) {
            out->how = (enum job_how)i;
            return true;
        }
    return false;
}

static bool
take_group(const char *text, struct job_end *out)
{
    struct job_page_group group;
    int                   end = 0;
    if (out->group_count >= JOB_PAGE_GROUPS ||
        sscanf(text, "%" SCNu64 " %" SCNd64 " %" SCNd64 "%n", &group.id, &group.issued, &group.over, &end) != 3 ||
        text[end] != '\0')
        return false;
    out->groups[out->group_count++] = group;
    return true;
}

static bool
take_call(const char *text, bool inside, struct job_end *out)
{
    snprintf(out->call, sizeof out->call, "%s", text);
    out->inside = inside;
    return true;
}

/* Words that nobody knows are passed over. */
static bool
take_line(const char *word, const char *value, struct job_end *out)
{
    int64_t number = 0;
    if (strcmp(word, "how") == 0)
        return take_how(value, out);
    if (strcmp(word, "inside") == 0 || strcmp(word, "after") == 0)
        return take_call(value, word[0] == 'i', out);
    if (strcmp(word, "kind") == 0)
        return snprintf(out->kind, sizeof out->kind, "%s", value) >= 0;
    if (strcmp(word, "group") == 0)
        return take_group(value, out);
    if (strcmp(word, "rank") == 0 && take_number(value, 0, INT32_MAX, &number))
        return (out->rank = (int)number) >= 0;
    if (strcmp(word, "world") == 0 && take_number(value, -1, INT32_MAX, &number))
        return (out->world = (int)number) >= -1;
    if (strcmp(word, "line") == 0 && take_number(value, 0, UINT32_MAX, &number))
        return out->line = (uint32_t)number, true;
    if (strcmp(word, "ns") == 0 && take_number(value, 0, INT64_MAX, &number))
        return out->ns = number, true;
    if (strcmp(word, "exact") == 0 && take_number(value, 0, 1, &number))
        return out->exact = number != 0, true;
    if (strcmp(word, "of_hang") == 0 && take_number(value, 0, 1, &number))
        return out->of_hang = number != 0, true;
    return strcmp(word, "rank") != 0 && strcmp(word, "world") != 0 && strcmp(word, "line") != 0 &&
           strcmp(word, "ns") != 0 && strcmp(word, "exact") != 0 && strcmp(word, "of_hang") != 0;
}

bool
job_end_parse(const char *text, struct job_end *out)
{
    *out = (struct job_end){ .rank = -1, .world = -1 };
    while (*text != '\0') {
        char   line[256], *space;
        size_t length = strcspn(text, "\n");
        if (strncmp(text, "why ", 4) == 0) {
            snprintf(out->why, sizeof out->why, "%s", text + 4);
            return out->rank >= 0;
        }
        if (length >= sizeof line)
            return false;
        memcpy(line, text, length);
        line[length] = '\0';
        if ((space = strchr(line, ' ')) == NULL)
            return false;
        *space = '\0';
        if (!take_line(line, space + 1, out))
            return false;
        text += length + (text[length] == '\n');
    }
    return false;
}

/* ---- pages ---- */

static void
name_call(struct job_page *page)
{
    char of[24] = "";
    page->call[0] = '\0';
    if (page->operation[0] == '\0')
        return;
    if (page->sequence < 0) {
        snprintf(page->call, sizeof page->call, "%s", page->operation);
        return;
    }
    if (page->of_group > 0)
        snprintf(of, sizeof of, " of group %" PRId32, page->of_group);
    snprintf(page->call, sizeof page->call, "%s #%" PRId64 "%s", page->operation, page->sequence, of);
}

void
job_page_settle(struct job_page *copy)
{
    copy->operation[sizeof copy->operation - 1]     = '\0';
    copy->failed_kind[sizeof copy->failed_kind - 1] = '\0';
    copy->why[sizeof copy->why - 1]                 = '\0';
    if (copy->group_count > JOB_PAGE_GROUPS)
        copy->group_count = JOB_PAGE_GROUPS;
    name_call(copy);
}

void
job_page_read(const struct job_page *page, struct job_page *out)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES; i++) {
        unsigned before = atomic_load(&page->turn);
        memcpy((void *)out, (const void *)page, sizeof *out);
        atomic_thread_fence(memory_order_seq_cst);
        if (before % 2 == 0 && atomic_load(&page->turn) == before)
            break;
    }
    job_page_settle(out);
}

void
job_end_of_page(const struct job_page *page, int rank, const char *why, struct job_end *out)
{
    struct job_page copy;
    struct timespec now;
    job_page_read(page, &copy);
    clock_gettime(CLOCK_REALTIME, &now);
    *out = (struct job_end){ .rank = rank, .world = -1, .how = JOB_KILLED, .exact = true, .line = copy.line,
                             .inside = copy.inside, .group_count = copy.group_count,
                             .ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec };
    memcpy(out->call, copy.call, sizeof out->call);
    memcpy(out->groups, copy.groups, sizeof out->groups);
    snprintf(out->why, sizeof out->why, "%s", why);
}
