/* What story_words.c (the sentences) and story_values.c (what is filled in) share. */
#ifndef ANALYSIS_STORY_WORDS_INTERNAL_H
#define ANALYSIS_STORY_WORDS_INTERNAL_H
#include "analysis/story_words.h"

#include <stdbool.h>

struct trace_event; struct trace_kind;

enum { TELLERS = 64 };               /* so many ranks of a round are asked what they have for an argument */

struct telling {
    struct trace             *trace;
    const struct told        *told;
    const struct trace_event *event;               /* told->at */
    const struct trace_kind  *kind;
    size_t                    tellers[TELLERS];    /* the same event of each rank of the round, by rank */
    int                       teller_count;        /* 0: not looked for so far */
};

/* The value of {name}, of `length` bytes. false: it has none, and `out` is as it was. */
bool story_value(struct telling *telling, const char *name, size_t length, struct str *out);
/* Whether {name} is 1, or true. */
bool story_is_one(const struct telling *telling, const char *name, size_t length);
/* Argument `place` of the told event, as the rank that it belongs to has it. */
bool story_argument(const struct telling *telling, int place, struct str *out);
#endif
