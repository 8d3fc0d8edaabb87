/* Interface: place_find, place_of_time. */
#include "place.h"

#include "base/str.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 1 << 16 };

size_t
place_of_time(const struct model *model, uint64_t time)
{
    size_t low = 0, high = model->seen;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace_time(model->trace, middle) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first event of an iteration. Ranks enter it one after the other, so its neighbourhood is looked through too. */
static size_t
place_of_iteration(const struct model *model, uint32_t iteration)
{
    size_t low = 0, high = model->seen;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (trace_event(model->trace, middle)->iteration < iteration)
            low = middle + 1;
        else
            high = middle;
    }
    size_t first = low;
    for (size_t i = 1; i <= NEIGHBOURS && i <= low; i++)
        if (trace_event(model->trace, low - i)->iteration == iteration)
            first = low - i;
    return first;
}

/* A number with its unit, in ps; false: it is none. */
static bool
read_time(const char *text, double *ps)
{
    static const struct { const char *name; double ps; } units[] = {
        { "ps", 1 }, { "ns", 1e3 }, { "us", 1e6 }, { "ms", 1e9 }, { "s", 1e12 },
    };
    char *end;
    *ps = strtod(text, &end);
    if (end == text)
        return false;
    while (isspace((unsigned char)*end))
        end++;
    for (size_t i = 0; i < countof(units); i++)
        if (strcmp(units[i].name, end) == 0) {
            *ps *= units[i].ps;
            return *ps > -9e18 && *ps < 9e18;
        }
    return false;
}

static bool
fails(char *why, size_t why_size, const struct model *model)
{
    struct str text = { 0 };
    trace_print_time(model->end, &text);
    snprintf(why, why_size, "the record has events 0 to %zu, and ends at %s", model->seen > 0 ? model->seen - 1 : 0,
             str_text(&text));
    str_free(&text);
    return false;
}

static bool
find_iteration(const struct model *model, const char *text, size_t *seq, char *why, size_t why_size)
{
    char     *end;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || number < 0 || number > UINT32_MAX) {
        snprintf(why, why_size, "it needs a number: it 3");
        return false;
    }
    *seq = place_of_iteration(model, (uint32_t)number);
    if (*seq < model->seen && trace_event(model->trace, *seq)->iteration == (uint32_t)number)
        return true;
    snprintf(why, why_size, "iteration %lld is not in this record", number);
    return false;
}

/* What is behind "it", or NULL. */
static const char *
behind_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(text, word, length) != 0 || isalpha((unsigned char)text[length]))
        return NULL;
    return text + length + strspn(text + length, " ");
}

bool
place_find(const struct model *model, size_t here, const char *text, size_t *seq, char *why, size_t why_size)
{
    const char *iteration = behind_word(text, "it"), *at = behind_word(text, "at");
    if (iteration == NULL)
        iteration = behind_word(text, "iteration");
    if (iteration != NULL)
        return find_iteration(model, iteration, seq, why, why_size);
    at = at != NULL ? at : text;
    double number;
    char  *end;
    number = strtod(at, &end);
    if (end != at && *end == '\0' && number >= 0 && at[0] != '+') {
        *seq = number < (double)model->seen ? (size_t)number : model->seen;
    } else if (end != at && strcmp(end, "%") == 0 && number >= 0 && number <= 100) {
        *seq = place_of_time(model, (uint64_t)((double)model->end * number / 100));
    } else if (read_time(at, &number)) {
        bool relative = at[0] == '+' || at[0] == '-';
        double from = relative && here != NO_EVENT ? (double)trace_time(model->trace, here) : 0;
        *seq = place_of_time(model, from + number < 0 ? 0 : (uint64_t)(from + number));
    } else {
        snprintf(why, why_size, "a place is an event (118), a time (1.2ms, +50us), it 3, or 40%%; not '%.40s'", text);
        return false;
    }
    return *seq < model->seen || fails(why, why_size, model);
}
