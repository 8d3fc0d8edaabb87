/* Lua's patterns (reference manual, 6.4.1), matched with every step counted: a match that takes for ever is a
 * BudgetError like any other loop, and a run that is stopped stops inside of one. What a pattern means and what is
 * wrong with it is as in Lua's own; classes are those of ASCII wherever the program runs.
 *
 * Order of use: pattern_read, match_begin, match_at for each place, match_push or match_capture, match_end. */
#ifndef LUA_PATTERN_H
#define LUA_PATTERN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lua_State;

enum { PATTERN_CAPTURES = 32, PATTERN_ITEMS = 32, PATTERN_SETS = 4 };
enum { CAPTURE_OPEN = -1, CAPTURE_POSITION = -2 };  /* lengths of captures that have none */

struct pattern_set {
    uint64_t bits[4];       /* a bit for each character that stands in it by itself or in a range */
    uint8_t  classes;       /* and all characters of these */
    bool     inverted;
};

/* One step of a pattern: what it looks for, and for a single character how often. */
struct pattern_item {
    uint8_t  kind, single;
    uint8_t  a, b;          /* a character, delimiters, a capture's number: by kind */
    uint32_t set;           /* number of its set */
};

struct pattern {
    const struct pattern_item *items;   /* its own, or a userdata's for a long pattern */
    const struct pattern_set  *sets;
    int                        captures;
    struct pattern_item        own_items[PATTERN_ITEMS];
    struct pattern_set         own_sets[PATTERN_SETS];
};

struct capture { const char *at; ptrdiff_t length; };

/* A subject and the latest match in it. */
struct match {
    struct lua_State     *L;
    const struct pattern *pattern;
    const char           *begin, *end;  /* the subject */
    uint32_t              steps;        /* not charged yet */
    struct capture        captures[PATTERN_CAPTURES];
};

/* Pushes one value, to stay on the stack (or be kept) as long as the pattern is used. What is wrong with a pattern is
 * raised only by a match that comes to that place. `text` is not needed afterwards. */
void pattern_read(struct lua_State *L, struct pattern *pattern, const char *text, size_t length);

void        match_begin(struct match *match, struct lua_State *L, const struct pattern *pattern, const char *text,
                        size_t length);
const char *match_at(struct match *match, const char *at);  /* where the match that begins at `at` ends; NULL: none */
void        match_end(struct match *match);                 /* charges what is left */

/* The captures as values; where a pattern has none, the whole match from `from` to `to` if `from` is not NULL. Answers
 * how many were pushed. */
int  match_push(const struct match *match, const char *from, const char *to);
/* Capture `index` (from 0) in place; index 0 of a pattern without any is the whole match. Raises what Lua raises. */
struct capture match_capture(const struct match *match, int index, const char *from, const char *to);
void match_push_capture(const struct match *match, struct capture capture);
#endif
