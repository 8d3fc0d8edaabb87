/* Plans of faults: a line for each, read and written alike, so that a schedule's file, a command line and a person
 * speak one language. What a plan does in a run is faults.c's.
 *
 * Interface: fault_parse, fault_print; fault_plan_add, fault_plan_free. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "sched/faults.h"

/* A form has the words as they stand in the line: R the rank, P the peer, N the number, T the time; [..] may be left
 * out, which stands for number 0. */
static const struct { const char *form; enum fault_kind kind; } forms[] = {
    { "kill R [at N]", FAULT_KILL },
    { "late R [at N] by T us", FAULT_LATE },
    { "lose R -> P [message N]", FAULT_LOSE },
    { "delay R -> P [message N] by T us", FAULT_DELAY },
    { "double R -> P [message N]", FAULT_DOUBLE },
    { "cut R -> P [message N]", FAULT_CUT },
    { "allocation N", FAULT_ALLOCATION },
    { "write N", FAULT_WRITE },
};

enum { RANK_MOST = 1023, FRACTION_DIGITS = 6 };
static const uint64_t PS_IN_US = 1000000, US_MOST = 1000000000000;

static void
skip_blanks(const char **at)
{
    *at += strspn(*at, " \t");
}

static bool
read_number(const char **at, uint64_t most, uint64_t *out)
{
    const char *digits = *at;
    *out = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');
        if (*out > (most - digit) / 10)
            return false;
        *out = *out * 10 + digit;
    }
    return *at > digits;
}

/* Microseconds with up to six decimals, as whole picoseconds. */
static bool
read_time(const char **at, uint64_t *ps)
{
    uint64_t us, unit = PS_IN_US;
    if (!read_number(at, US_MOST, &us))
        return false;
    *ps = us * PS_IN_US;
    if (**at != '.')
        return true;
    int digits = 0;
    for (++*at; **at >= '0' && **at <= '9' && digits < FRACTION_DIGITS; ++*at, digits++)
        *ps += (uint64_t)(**at - '0') * (unit /= 10);
    return digits > 0 && !(**at >= '0' && **at <= '9');
}

static bool
read_rank(const char **at, int *out)
{
    uint64_t rank;
    bool     ok = read_number(at, RANK_MOST, &rank);
    *out = ok ? (int)rank : -1;
    return ok;
}

/* One word of a form, which ends at a blank or bracket. */
static bool
read_word(const char **at, const char *word, size_t length, struct fault *fault)
{
    skip_blanks(at);
    if (length == 1 && *word == 'R')
        return read_rank(at, &fault->rank);
    if (length == 1 && *word == 'P')
        return read_rank(at, &fault->peer);
    if (length == 1 && *word == 'N')
        return read_number(at, UINT64_MAX, &fault->at);
    if (length == 1 && *word == 'T')
        return read_time(at, &fault->ps);
    if (strncmp(*at, word, length) != 0)
        return false;
    *at += length;
    return true;
}

static bool
read_form(const char *line, const char *form, struct fault *fault)
{
    while (*form != '\0') {
        size_t      length = strcspn(form, " []");
        const char *before = line;
        if (*form == ' ' || *form == ']') {
            form++;
        } else if (*form == '[') { /* its first word says whether it is there */
            size_t word = strcspn(++form, " ");
            if (!read_word(&before, form, word, fault))
                form += strcspn(form, "]");
        } else if (read_word(&line, form, length, fault)) {
            form += length;
        } else {
            return false;
        }
    }
    skip_blanks(&line);
    return *line == '\0';
}

bool
fault_parse(const char *line, struct fault *fault)
{
    for (size_t i = 0; i < countof(forms); i++) {
        *fault = (struct fault){ .kind = forms[i].kind, .rank = -1, .peer = -1 };
        if (read_form(line, forms[i].form, fault))
            return fault->rank != fault->peer || fault->rank < 0;
    }
    return false;
}

static void
print_time(uint64_t ps, struct str *out)
{
    uint64_t fraction = ps % PS_IN_US;
    str_addf(out, "%" PRIu64, ps / PS_IN_US);
    if (fraction == 0)
        return;
    int digits = FRACTION_DIGITS;
    for (; fraction % 10 == 0; fraction /= 10)
        digits--;
    str_addf(out, ".%0*" PRIu64, digits, fraction);
}

void
fault_print(const struct fault *fault, struct str *out)
{
    size_t i = 0;
    while (forms[i].kind != fault->kind)
        i++;
    for (const char *at = forms[i].form; *at != '\0'; at++) {
        bool alone = (at == forms[i].form || at[-1] == ' ') && strchr(" ]", at[1]) != NULL;
        if (alone && *at == 'R')
            str_addf(out, "%d", fault->rank);
        else if (alone && *at == 'P')
            str_addf(out, "%d", fault->peer);
        else if (alone && *at == 'N')
            str_addf(out, "%" PRIu64, fault->at);
        else if (alone && *at == 'T')
            print_time(fault->ps, out);
        else if (*at != '[' && *at != ']')
            str_add_bytes(out, at, 1);
    }
}

bool
fault_plan_add(struct fault_plan *plan, const struct fault *fault)
{
    if (!vec_room(&plan->faults, &plan->room, plan->count + 1, sizeof *plan->faults))
        return false;
    plan->faults[plan->count++] = *fault;
    return true;
}

void
fault_plan_free(struct fault_plan *plan)
{
    free(plan->faults);
    *plan = (struct fault_plan){ 0 };
}
