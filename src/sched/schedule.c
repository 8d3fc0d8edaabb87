/* Schedules as text; see schedule.h.
 *
 * Interface: schedule_read or schedule_add, schedule_print, schedule_free. */
#include "sched/schedule.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"

static const char first_line[] = "ringside schedule 1";
enum { SCHEDULE_LINE = 400 };

bool
schedule_add(struct schedule *schedule, const struct schedule_step *step)
{
    if (!vec_room(&schedule->steps, &schedule->room, schedule->count + 1, sizeof *schedule->steps))
        return false;
    schedule->steps[schedule->count++] = *step;
    return true;
}

void
schedule_free(struct schedule *schedule)
{
    free(schedule->steps);
    fault_plan_free(&schedule->faults);
    *schedule = (struct schedule){ 0 };
}

bool
schedule_copy(struct schedule *schedule, const struct schedule *from)
{
    bool ok                = true;
    schedule->count        = 0;
    schedule->faults.count = 0;
    memcpy(schedule->lesson, from->lesson, sizeof schedule->lesson);
    for (size_t i = 0; ok && i < from->count; i++)
        ok = schedule_add(schedule, &from->steps[i]);
    for (size_t i = 0; ok && i < from->faults.count; i++)
        ok = fault_plan_add(&schedule->faults, &from->faults.faults[i]);
    return ok;
}

/* ---- reading ---- */

/* But for words for people. */
static bool
ends_at(const char *line, int length)
{
    size_t blanks = length > 0 ? strspn(line + length, " ") : 0;
    return length > 0 && (line[length] == '\0' || (blanks > 0 && line[(size_t)length + blanks] == '#'));
}

static bool
read_step(const char *line, struct schedule_step *step)
{
    int length = 0;
    *step      = (struct schedule_step){ .point = 0 };
    int got    = sscanf(line, "at %" SCNu64 " of \"%55[^\"]\" run \"%55[^\"]\"%n", &step->point, step->from, step->run,
                        &length);
    return got == 3 && ends_at(line, length);
}

/* What is read of a line, whose number is for the message. */
static bool
read_line(struct schedule *schedule, const char *line, int number, char *why, size_t why_size)
{
    struct schedule_step step;
    struct fault         fault;
    bool                 kept = true;
    if (line[0] == '\0' || line[0] == '#')
        return true;
    if (strncmp(line, "lesson ", 7) == 0) {
        snprintf(schedule->lesson, sizeof schedule->lesson, "%s", line + 7);
        return true;
    }
    if (strncmp(line, "fault ", 6) == 0 && fault_parse(line + 6, &fault)) {
        kept = fault_plan_add(&schedule->faults, &fault);
    } else if (read_step(line, &step)) {
        kept = schedule_add(schedule, &step);
    } else {
        snprintf(why, why_size, "its line %d is none of a schedule: '%.60s'", number, line);
        return false;
    }
    if (!kept)
        snprintf(why, why_size, "out of memory");
    return kept;
}

bool
schedule_read(struct schedule *schedule, const char *text, char *why, size_t why_size)
{
    char line[SCHEDULE_LINE];
    int  number = 0;
    *schedule   = (struct schedule){ 0 };
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(length < sizeof line ? length : sizeof line - 1), text);
        text += length + (text[length] != '\0');
        number++;
        if (number == 1 && strcmp(line, first_line) != 0) {
            snprintf(why, why_size, "it is no schedule: its first line is not '%s'", first_line);
            return false;
        }
        if (number > 1 && !read_line(schedule, line, number, why, why_size)) {
            schedule_free(schedule);
            return false;
        }
    }
    if (number == 0)
        snprintf(why, why_size, "it is no schedule: it is empty");
    return number > 0;
}

void
schedule_print(const struct schedule *schedule, struct str *out)
{
    str_addf(out, "%s\n", first_line);
    if (schedule->lesson[0] != '\0')
        str_addf(out, "lesson %s\n", schedule->lesson);
    for (size_t i = 0; i < schedule->faults.count; i++) {
        str_add(out, "fault ");
        fault_print(&schedule->faults.faults[i], out);
        str_add(out, "\n");
    }
    for (size_t i = 0; i < schedule->count; i++) {
        const struct schedule_step *step = &schedule->steps[i];
        str_addf(out, "at %" PRIu64 " of \"%s\" run \"%s\"", step->point, step->from, step->run);
        if (step->line > 0)
            str_addf(out, "  # line %" PRIu32, step->line);
        str_add(out, "\n");
    }
}
