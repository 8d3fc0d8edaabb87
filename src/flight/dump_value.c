/* Values of a dump: fields that may be missing, lists, what is wrong and what is odd.
 *
 * Interface: dump_now_words, dump_why_words, dump_wrong, dump_note, dump_text, dump_number, dump_true, dump_list,
 * dump_ranks. */
#include "flight/dump_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/visible.h"

enum { LIST_DEPTH = 4 }; /* tensors, their sizes; more is none of a call's lists */

const char *const dump_now_words[] = { [FLIGHT_UNKNOWN] = "unknown", [FLIGHT_ABSENT] = "absent",
                                       [FLIGHT_RUNNING] = "running", [FLIGHT_WAITING] = "waiting",
                                       [FLIGHT_RETURNED] = "returned", [FLIGHT_THREW] = "threw",
                                       [FLIGHT_KILLED] = "killed" };
const char *const dump_why_words[] = { [FLIGHT_DUMPED] = "dumped", [FLIGHT_DEADLOCK] = "deadlock",
                                       [FLIGHT_TIMEOUT] = "timeout", [FLIGHT_MISMATCH] = "mismatch",
                                       [FLIGHT_INTERRUPTED] = "interrupted" };

bool
dump_wrong(struct dumps *dumps, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (dumps->why[0] == '\0')
        vsnprintf(dumps->why, sizeof dumps->why, format, args);
    va_end(args);
    return false;
}

void
dump_note(struct dumps *dumps, const char *format, ...)
{
    char    line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    visible_add(&dumps->notes, line, strlen(line), VISIBLE_LINE);
    str_add(&dumps->notes, "\n");
}

const char *
dump_text(const json_t *value, const char *key)
{
    return json_string_value(json_object_get(value, key));
}

/* Also where a number stands as text, as thread ids and pg ids do in some versions. */
int64_t
dump_number(const json_t *value, const char *key, int64_t otherwise)
{
    const json_t *field = json_object_get(value, key);
    const char   *text  = json_string_value(field);
    char         *end   = NULL;
    if (json_is_integer(field))
        return json_integer_value(field);
    if (json_is_real(field) && json_real_value(field) > -0x1p62 && json_real_value(field) < 0x1p62)
        return (int64_t)json_real_value(field);
    if (text == NULL || *text == '\0')
        return otherwise;
    long long number = strtoll(text, &end, 10);
    return *end == '\0' ? number : otherwise;
}

bool
dump_true(const json_t *value, const char *key)
{
    return json_is_true(json_object_get(value, key));
}

static void
add_value(const json_t *value, int depth, struct str *out)
{
    if (json_is_array(value) && depth < LIST_DEPTH) {
        str_add(out, "[");
        for (size_t i = 0; i < json_array_size(value); i++) {
            str_add(out, i > 0 ? ", " : "");
            add_value(json_array_get(value, i), depth + 1, out);
        }
        str_add(out, "]");
    } else if (json_is_integer(value)) {
        str_addf(out, "%lld", (long long)json_integer_value(value));
    } else if (json_is_string(value)) {
        str_add(out, json_string_value(value));
    } else {
        str_add(out, "?");
    }
}

void
dump_list(const json_t *list, struct str *out)
{
    if (json_is_array(list))
        add_value(list, 0, out);
}

static bool
add_rank(int **ranks, int *count, size_t room, long long rank)
{
    if ((size_t)*count >= room || rank < 0 || rank >= DUMP_RANKS)
        return false;
    for (int i = 0; i < *count; i++)
        if ((*ranks)[i] == rank)
            return false;
    (*ranks)[(*count)++] = (int)rank;
    return true;
}

/* "[0, 1]", as Python prints a list. */
static bool
ranks_of_text(const char *text, int **ranks, int *count, size_t room)
{
    const char *at   = text + strspn(text, " [(");
    bool        good = *text == '[' || *text == '(';
    while (good && *at != '\0' && strchr("])", *at) == NULL) {
        char     *end  = NULL;
        long long rank = strtoll(at, &end, 10);
        good           = end > at && add_rank(ranks, count, room, rank);
        at             = end + strspn(end, " ,");
    }
    return good;
}

bool
dump_ranks(const json_t *value, int **ranks, int *count)
{
    const char *text  = json_string_value(value);
    size_t      room  = text != NULL ? strlen(text) : json_array_size(value);
    *count            = 0;
    room              = room < DUMP_RANKS ? room : DUMP_RANKS;
    *ranks            = calloc(room + 1, sizeof **ranks);
    if (*ranks == NULL)
        return false;
    bool good = text != NULL ? ranks_of_text(text, ranks, count, room) : json_is_array(value);
    for (size_t i = 0; good && text == NULL && i < json_array_size(value); i++) {
        const json_t *rank = json_array_get(value, i);
        good = json_is_integer(rank) && add_rank(ranks, count, room, json_integer_value(rank));
    }
    *count = good ? *count : 0;
    return true;
}
