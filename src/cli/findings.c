/* What was found, told and saved; see findings.h.
 *
 * Interface: findings_add, findings_tell, findings_free; findings_tell_cause, outcome_verb. */
#include "cli/findings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/reader.h"
#include "base/str.h"
#include "cli/message.h"
#include "cli/shrink.h"

enum { FINDINGS_TOLD = 5 };

/* ---- kept ---- */

/* The run with the fewest steps: it has least to lose. */
static bool
keep_shortest(struct finding *finding, uint64_t number, const struct outcome *outcome)
{
    const struct chosen *chosen = &outcome->trial->chosen;
    if (finding->count > 1 && (chosen->count > finding->steps ||
                               (chosen->count == finding->steps && number > finding->shortest)))
        return true;
    finding->outcome        = *outcome;
    finding->steps          = chosen->count;
    finding->shortest       = number;
    finding->too_long       = chosen->overflow;
    finding->schedule.count = finding->schedule.faults.count = 0;
    for (size_t i = 0; i < outcome->trial->fault_count; i++)
        if (!fault_plan_add(&finding->schedule.faults, &outcome->trial->faults[i]))
            return false;
    for (size_t i = 0; i < chosen->count; i++)
        if (!schedule_add(&finding->schedule, &chosen->steps[i]))
            return false;
    return true;
}

static void
keep_number(struct finding *finding, uint64_t number)
{
    int at = finding->count < FINDING_NUMBERS ? (int)finding->count : FINDING_NUMBERS - 1;
    finding->count++;
    if (finding->count > FINDING_NUMBERS && number > finding->numbers[at])
        return;
    for (; at > 0 && finding->numbers[at - 1] > number; at--)
        finding->numbers[at] = finding->numbers[at - 1];
    finding->numbers[at] = number;
}

bool
findings_add(struct findings *findings, uint64_t number, const struct outcome *outcome)
{
    int at = 0;
    while (at < findings->count && findings->findings[at].outcome.group != outcome->group)
        at++;
    if (at == FINDINGS_MOST) {
        findings->beyond++;
        return true;
    }
    struct finding *finding = &findings->findings[at];
    findings->count += at == findings->count;
    keep_number(finding, number);
    return keep_shortest(finding, number, outcome);
}

void
findings_free(struct findings *findings)
{
    for (int i = 0; i < findings->count; i++)
        schedule_free(&findings->findings[i].schedule);
}

/* ---- told ---- */

const char *
outcome_verb(const struct outcome *outcome, bool one)
{
    static const char *const verbs[OUTCOME_KINDS][2] = {
        [OUTCOME_SAME] = { "end as usual", "ends as usual" }, [OUTCOME_HANG] = { "hang", "hangs" },
        [OUTCOME_RACE] = { "race", "races" },                 [OUTCOME_ERROR] = { "fail", "fails" },
        [OUTCOME_DIFFER] = { "differ", "differs" },           [OUTCOME_ENDLESS] = { "do not end", "does not end" },
        [OUTCOME_DIED] = { "crash", "crashes" },              [OUTCOME_LEAK] = { "leak", "leaks" },
        [OUTCOME_TORN] = { "leave no trace that opens", "leaves no trace that opens" },
        [OUTCOME_STRUCK] = { "fail as they should", "fails as it should" },
    };
    return verbs[outcome->kind][one];
}

void
findings_tell_cause(const char *text)
{
    char line[1300];
    for (int i = 0; i < 2 && *text != '\0'; i++) {
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        answer_line(i == 0 ? "    " : "      ", line);
        text += length + (text[length] != '\0');
    }
}

static void
tell_finding(const struct finding *finding, const char *number)
{
    const struct outcome *outcome = &finding->outcome;
    uint64_t              told    = finding->count < FINDING_NUMBERS ? finding->count : FINDING_NUMBERS;
    printf("\n%" PRIu64 " %s (%s%s", finding->count, outcome_verb(outcome, finding->count == 1), number,
           finding->count > 1 ? "s" : "");
    for (uint64_t i = 0; i < told; i++)
        printf("%s %" PRIu64, i > 0 ? "," : "", finding->numbers[i]);
    printf("%s)\n", finding->count > told ? ", ..." : "");
    if (outcome->kind != OUTCOME_DIFFER) {
        findings_tell_cause(outcome->cause);
        return;
    }
    answer_line("    usually: ", outcome->usual[0] != '\0' ? outcome->usual : "(nothing)");
    answer_line("    here:    ", outcome->here[0] != '\0' ? outcome->here : "(nothing)");
}

/* ---- saved ---- */

static bool
is_schedule(const char *path)
{
    const char *why;
    size_t      size = 0;
    char       *text = file_read(path, 64 << 20, &size, &why);
    bool        is   = text != NULL && strncmp(text, "ringside schedule ", 18) == 0;
    free(text);
    return is;
}

/* LESSON.schedule, LESSON-2.schedule ...: the finding's, unless something else of that name lies there. */
static bool
name_file(const char *lesson, int number, char *path, size_t size)
{
    char among[16] = "";
    for (int i = 0; i < 100; i++) {
        if (number + i > 1)
            snprintf(among, sizeof among, "-%d", number + i);
        int length = snprintf(path, size, "%s%s.schedule", lesson, among);
        if (length < (int)size && (access(path, F_OK) != 0 || is_schedule(path)))
            return true;
    }
    return false;
}

static bool
save_schedule(const struct schedule *schedule, const char *path)
{
    struct str text = { 0 };
    schedule_print(schedule, &text);
    FILE *file = str_ok(&text) ? fopen(path, "w") : NULL;
    bool  ok   = file != NULL && fprintf(file, "%s", str_text(&text)) >= 0;
    ok         = (file == NULL || fclose(file) == 0) && ok;
    if (!ok)
        message(0, "cannot write %s: %s", path, strerror(errno));
    str_free(&text);
    return ok;
}

static void
tell_steps(const struct schedule *schedule)
{
    enum { STEPS_TOLD = 6 };
    char line[300];
    for (size_t i = 0; i < schedule->faults.count; i++) {
        struct str text = { 0 };
        fault_print(&schedule->faults.faults[i], &text);
        answer_line("      fault: ", str_text(&text));
        str_free(&text);
    }
    for (size_t i = 0; i < schedule->count && i < STEPS_TOLD; i++) {
        const struct schedule_step *step = &schedule->steps[i];
        bool stays = strcmp(step->from, step->run) == 0;
        char where[24] = "";
        if (step->line > 0)
            snprintf(where, sizeof where, " (line %" PRIu32 ")", step->line);
        snprintf(line, sizeof line, "at its point %" PRIu64 "%s %s %s%s", step->point, where, step->from,
                 stays ? "keeps going" : "gives way to ", stays ? "" : step->run);
        answer_line("      ", line);
    }
    if (schedule->count > STEPS_TOLD)
        printf("      ... %zu more\n", schedule->count - STEPS_TOLD);
}

static void
tell_shrunk(struct schedule *schedule, const struct findings_words *words, int number)
{
    char path[SCHEDULE_LESSON + 40], line[2000];
    printf("    shrunk to %zu switch%s", schedule->count, schedule->count == 1 ? "" : "es");
    if (schedule->faults.count > 0)
        printf(" and %zu fault%s", schedule->faults.count, schedule->faults.count == 1 ? "" : "s");
    puts(schedule->count + schedule->faults.count > 0 ? ":" : "");
    tell_steps(schedule);
    bool kept = true;
    for (size_t i = 0; i < words->fault_count; i++)
        kept = kept && fault_plan_add(&schedule->faults, &words->faults[i]);
    if (!kept || !name_file(words->lesson, number, path, sizeof path) || !save_schedule(schedule, path))
        return;
    snprintf(line, sizeof line, "ringside step --policy %s %s", path, words->call);
    answer_line("    see it: ", line);
}

static int
by_least(const void *a, const void *b)
{
    const struct finding *first = a, *second = b;
    return (first->numbers[0] > second->numbers[0]) - (first->numbers[0] < second->numbers[0]);
}

void
findings_tell(struct findings *findings, struct trials *trials, const struct findings_words *words)
{
    qsort(findings->findings, (size_t)findings->count, sizeof findings->findings[0], by_least);
    for (int i = 0; i < findings->count && i < FINDINGS_TOLD; i++) {
        struct finding *finding = &findings->findings[i];
        tell_finding(finding, words->number);
        fflush(stdout);
        snprintf(finding->schedule.lesson, sizeof finding->schedule.lesson, "%s", words->lesson);
        if (finding->too_long)
            printf("    more than %d switches: too many to be made short\n", TRIAL_STEPS);
        else if (shrink_schedule(trials, finding->outcome.group, &finding->schedule))
            tell_shrunk(&finding->schedule, words, i + 1);
        else if (!trials_stopped(trials))
            puts("    it does not repeat: something outside of the run decides, too");
    }
    if (findings->count > FINDINGS_TOLD)
        printf("\n... and %d more cause%s\n", findings->count - FINDINGS_TOLD,
               findings->count - FINDINGS_TOLD == 1 ? "" : "s");
}
