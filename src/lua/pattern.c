/* A pattern is read once, into a row of items; matching walks the row and calls itself only where it may have to come
 * back. Interface: see pattern.h. */
#include "lua/pattern.h"

#include <string.h>
#include "lua/internal.h"

/* LEVELS is how often Lua's matcher enters itself before it says that a pattern is too complex. */
enum { LEVELS = 200, STEPS_A_CHARGE = 1024, CHARACTERS_A_STEP = 4, SET_STEPS = 8 };
/* A text that has not room for more than PATTERN_SETS sets. */
enum { SHORT = 3 * PATTERN_SETS + 2 };

enum item_kind {
    ITEM_ONE,       /* a single character, once */
    ITEM_MOST,      /* * and +: `b` is the least number */
    ITEM_FEWEST,    /* - */
    ITEM_MAYBE,     /* ? */
    ITEM_OPEN,      /* capture `a` begins; `b`: it is a position */
    ITEM_CLOSE,
    ITEM_AGAIN,     /* what capture `a` holds */
    ITEM_BALANCE,   /* from `a` to its `b` */
    ITEM_FRONTIER,
    ITEM_FINISH,    /* $ */
    ITEM_END,       /* of the pattern: a match */
    ITEM_BROKEN,    /* what is wrong from here on, `a`, and a number for its message, `b` */
};

enum single_kind { SINGLE_CHARACTER, SINGLE_ANY, SINGLE_CLASS, SINGLE_OTHER, SINGLE_SET };

enum broken { ENDS_WITH_ESCAPE, NO_BRACKET, NO_DELIMITERS, NO_FRONTIER_SET, TOO_MANY_CAPTURES, NO_OPEN_CAPTURE,
              NO_SUCH_CAPTURE };

static const char *const broken_texts[] = {
    [ENDS_WITH_ESCAPE]  = "malformed pattern (ends with '%%')",
    [NO_BRACKET]        = "malformed pattern (missing ']')",
    [NO_DELIMITERS]     = "malformed pattern (missing arguments to '%%b')",
    [NO_FRONTIER_SET]   = "missing '[' after '%%f' in pattern",
    [TOO_MANY_CAPTURES] = "too many captures",
    [NO_OPEN_CAPTURE]   = "invalid pattern capture",
    [NO_SUCH_CAPTURE]   = "invalid capture index %%%d",
};

/* ---- characters ---- */

enum { UPPER = 1, LOWER = 2, DIGIT = 4, HEX = 8, SPACE = 16, POINT_MARK = 32, CONTROL = 64, ZERO = 128,
       LETTER = UPPER | LOWER };

static const uint8_t classes_of[256] = {
    [0] = CONTROL | ZERO, [1 ... 8] = CONTROL, [9 ... 13] = CONTROL | SPACE, [14 ... 31] = CONTROL, [' '] = SPACE,
    ['!' ... '/'] = POINT_MARK, ['0' ... '9'] = DIGIT | HEX, [':' ... '@'] = POINT_MARK, ['A' ... 'F'] = UPPER | HEX,
    ['G' ... 'Z'] = UPPER, ['[' ... '`'] = POINT_MARK, ['a' ... 'f'] = LOWER | HEX, ['g' ... 'z'] = LOWER,
    ['{' ... '~'] = POINT_MARK, [127] = CONTROL,
};

/* The classes that a letter after % means; 0: it means itself. */
static uint8_t
classes_by_letter(char letter)
{
    switch (letter | 0x20) {
    case 'a': return LETTER;
    case 'c': return CONTROL;
    case 'd': return DIGIT;
    case 'g': return LETTER | DIGIT | POINT_MARK;
    case 'l': return LOWER;
    case 'p': return POINT_MARK;
    case 's': return SPACE;
    case 'u': return UPPER;
    case 'w': return LETTER | DIGIT;
    case 'x': return HEX;
    case 'z': return ZERO;
    }
    return 0;
}

static bool
is_letter(char c)
{
    return (classes_of[(uint8_t)c] & LETTER) != 0;
}

static void
set_add_range(struct pattern_set *set, unsigned first, unsigned last)
{
    for (unsigned c = first; c <= last; c++)
        set->bits[c >> 6] |= (uint64_t)1 << (c & 63);
}

/* What stands behind % in a set. */
static void
set_add_escaped(struct pattern_set *set, char letter)
{
    uint8_t classes = is_letter(letter) ? classes_by_letter(letter) : 0;
    if (classes == 0)
        set_add_range(set, (uint8_t)letter, (uint8_t)letter);
    else if ((classes_of[(uint8_t)letter] & LOWER) != 0)
        set->classes |= classes;
    else
        for (unsigned c = 0; c < 256; c++)
            if ((classes_of[c] & classes) == 0)
                set_add_range(set, c, c);
}

static inline bool
set_has(const struct pattern_set *set, uint8_t c)
{
    bool in = (set->bits[c >> 6] >> (c & 63) & 1) != 0 || (classes_of[c] & set->classes) != 0;
    return in != set->inverted;
}

/* ---- reading ---- */

struct reading {
    const char          *at, *end;      /* what is left of the text */
    struct pattern_item *items;
    struct pattern_set  *sets;
    uint32_t             item_count, set_count;
    int                  captures;
    uint32_t             open;          /* a bit for each capture that has not been closed */
};

static inline void
add_item(struct reading *r, enum item_kind kind, uint8_t a, uint8_t b)
{
    struct pattern_item *item = &r->items[r->item_count++];
    item->kind                = (uint8_t)kind;
    item->a                   = a;
    item->b                   = b;
}

/* Nothing behind it is read. */
static void
add_broken(struct reading *r, enum broken what, int number)
{
    add_item(r, ITEM_BROKEN, (uint8_t)what, (uint8_t)number);
    r->at = r->end;
}

/* The ] that closes a set whose text begins at `at`, behind [ and ^; NULL: there is none. */
static const char *
find_set_end(const char *at, const char *end)
{
    for (const char *first = at; at < end; at++) {
        if (*at == ']' && at > first)
            return at;
        if (*at == '%' && at + 1 < end)
            at++;
    }
    return NULL;
}

/* The text is at a [. false: it was broken. */
static bool
read_set(struct reading *r, uint32_t *number)
{
    struct pattern_set set = { .inverted = false };
    const char        *at  = r->at + 1;
    if (at < r->end && *at == '^') {
        set.inverted = true;
        at++;
    }
    const char *close = find_set_end(at, r->end);
    if (close == NULL) {
        add_broken(r, NO_BRACKET, 0);
        return false;
    }
    for (; at < close; at++) {
        if (*at == '%') {
            set_add_escaped(&set, *++at);
        } else if (at + 2 < close && at[1] == '-') {
            set_add_range(&set, (uint8_t)at[0], (uint8_t)at[2]);
            at += 2;
        } else {
            set_add_range(&set, (uint8_t)*at, (uint8_t)*at);
        }
    }
    *number                 = r->set_count;
    r->sets[r->set_count++] = set;
    r->at                   = close + 1;
    return true;
}

/* Behind a %. false: it was broken. */
static bool
read_escaped(struct reading *r, struct pattern_item *item)
{
    if (++r->at == r->end) {
        add_broken(r, ENDS_WITH_ESCAPE, 0);
        return false;
    }
    uint8_t letter = (uint8_t)*r->at++, classes = is_letter((char)letter) ? classes_by_letter((char)letter) : 0;
    item->a        = classes != 0 ? classes : letter;
    if (classes != 0)
        item->single = (classes_of[letter] & LOWER) != 0 ? SINGLE_CLASS : SINGLE_OTHER;
    return true;
}

/* A single character and how often it may come. */
static void
read_single(struct reading *r)
{
    struct pattern_item *item = &r->items[r->item_count];
    item->single              = SINGLE_CHARACTER;
    item->a                   = (uint8_t)*r->at;
    item->b                   = 0;
    if (*r->at == '[') {
        item->single = SINGLE_SET;
        if (!read_set(r, &item->set))
            return;
    } else if (*r->at == '%') {
        if (!read_escaped(r, item))
            return;
    } else {
        if (*r->at == '.')
            item->single = SINGLE_ANY;
        r->at++;
    }
    enum item_kind kind = ITEM_ONE;
    switch (r->at < r->end ? *r->at : 0) {
    case '+': item->b = 1; kind = ITEM_MOST; r->at++; break;
    case '*': kind = ITEM_MOST; r->at++; break;
    case '-': kind = ITEM_FEWEST; r->at++; break;
    case '?': kind = ITEM_MAYBE; r->at++; break;
    }
    item->kind = (uint8_t)kind;
    r->item_count++;
}

static void
read_open(struct reading *r)
{
    if (r->captures == PATTERN_CAPTURES) {
        add_broken(r, TOO_MANY_CAPTURES, 0);
        return;
    }
    bool position = r->at + 1 < r->end && r->at[1] == ')';
    add_item(r, ITEM_OPEN, (uint8_t)r->captures, position);
    if (!position)
        r->open |= (uint32_t)1 << r->captures;
    r->captures++;
    r->at += position ? 2 : 1;
}

/* Closes the innermost that is open. */
static void
read_close(struct reading *r)
{
    if (r->open == 0) {
        add_broken(r, NO_OPEN_CAPTURE, 0);
        return;
    }
    int innermost = 31 - __builtin_clz(r->open);
    r->open &= ~((uint32_t)1 << innermost);
    add_item(r, ITEM_CLOSE, (uint8_t)innermost, 0);
    r->at++;
}

static void
read_again(struct reading *r)
{
    int number = r->at[1] - '0';
    if (number == 0 || number > r->captures || (r->open >> (number - 1) & 1) != 0) {
        add_broken(r, NO_SUCH_CAPTURE, number);
        return;
    }
    add_item(r, ITEM_AGAIN, (uint8_t)(number - 1), 0);
    r->at += 2;
}

static void
read_balance(struct reading *r)
{
    if (r->end - r->at < 4) {
        add_broken(r, NO_DELIMITERS, 0);
        return;
    }
    add_item(r, ITEM_BALANCE, (uint8_t)r->at[2], (uint8_t)r->at[3]);
    r->at += 4;
}

static void
read_frontier(struct reading *r)
{
    uint32_t *set = &r->items[r->item_count].set;
    r->at += 2;
    if (r->at == r->end || *r->at != '[')
        add_broken(r, NO_FRONTIER_SET, 0);
    else if (read_set(r, set))
        add_item(r, ITEM_FRONTIER, 0, 0);
}

static void
read_item(struct reading *r)
{
    char next = r->at + 1 < r->end ? r->at[1] : 0;
    switch (*r->at) {
    case '(': read_open(r); return;
    case ')': read_close(r); return;
    case '$':
        if (r->at + 1 < r->end)
            break;
        add_item(r, ITEM_FINISH, 0, 0);
        r->at++;
        return;
    case '%':
        if (next == 'b')
            read_balance(r);
        else if (next == 'f')
            read_frontier(r);
        else if (next >= '0' && next <= '9')
            read_again(r);
        else
            break;
        return;
    }
    read_single(r);
}

static size_t
count_brackets(const char *text, size_t length)
{
    size_t      count = 0;
    const char *end   = text + length;
    for (; (text = memchr(text, '[', (size_t)(end - text))) != NULL; text++)
        count++;
    return count;
}

void
pattern_read(lua_State *L, struct pattern *pattern, const char *text, size_t length)
{
    struct reading r        = { .at = text, .end = text + length };
    size_t         brackets = length > SHORT ? count_brackets(text, length) : 0;
    if (length < PATTERN_ITEMS - 1 && brackets <= PATTERN_SETS) {
        lua_pushnil(L);
        r.items = pattern->own_items;
        r.sets  = pattern->own_sets;
    } else {
        script_charge(L, length + brackets * SET_STEPS);
        r.sets  = lua_newuserdatauv(L, brackets * sizeof *r.sets + (length + 2) * sizeof *r.items, 0);
        r.items = (struct pattern_item *)(r.sets + brackets);
    }
    while (r.at < r.end)
        read_item(&r);
    add_item(&r, ITEM_END, 0, 0);
    pattern->items    = r.items;
    pattern->sets     = r.sets;
    pattern->captures = r.captures;
}

/* ---- matching ---- */

static void
charge_steps(struct match *m)
{
    uint32_t steps = m->steps;
    m->steps       = 0;
    script_charge(m->L, steps);
}

static inline void
count_step(struct match *m)
{
    if (++m->steps >= STEPS_A_CHARGE)
        charge_steps(m);
}

/* Characters that a loop without steps of its own went over. */
static inline void
count_characters(struct match *m, ptrdiff_t count)
{
    uint64_t steps = (uint64_t)count / CHARACTERS_A_STEP;
    if (steps < STEPS_A_CHARGE)
        m->steps += (uint32_t)steps;
    else
        script_charge(m->L, steps);
}

/* One level deeper, where Lua's matcher would enter itself. */
static inline int
deeper(const struct match *m, int level)
{
    if (level + 1 == LEVELS)
        luaL_error(m->L, "pattern too complex");
    return level + 1;
}

static inline bool
fits(const struct match *m, const struct pattern_item *item, const char *at)
{
    if (at == m->end)
        return false;
    uint8_t c = (uint8_t)*at;
    switch ((enum single_kind)item->single) {
    case SINGLE_CHARACTER: return c == item->a;
    case SINGLE_ANY: return true;
    case SINGLE_CLASS: return (classes_of[c] & item->a) != 0;
    case SINGLE_OTHER: return (classes_of[c] & item->a) == 0;
    case SINGLE_SET: break;
    }
    return set_has(&m->pattern->sets[item->set], c);
}

/* The end of the longest row of characters from `at` on that fit. */
static const char *
run_end(const struct match *m, const struct pattern_item *item, const char *at)
{
    const struct pattern_set *sets = m->pattern->sets; /* `set` means something in SINGLE_SET alone */
    const char               *end = m->end;
    switch ((enum single_kind)item->single) {
    case SINGLE_CHARACTER:
        while (at < end && (uint8_t)*at == item->a)
            at++;
        return at;
    case SINGLE_ANY: return end;
    case SINGLE_CLASS:
        while (at < end && (classes_of[(uint8_t)*at] & item->a) != 0)
            at++;
        return at;
    case SINGLE_OTHER:
        while (at < end && (classes_of[(uint8_t)*at] & item->a) == 0)
            at++;
        return at;
    case SINGLE_SET:
        while (at < end && set_has(&sets[item->set], (uint8_t)*at))
            at++;
    }
    return at;
}

/* false: what follows cannot begin at `at`, as one look tells. */
static inline bool
may_follow(const struct match *m, const struct pattern_item *item, const char *at)
{
    return item->kind != ITEM_ONE || fits(m, item, at);
}

static const char *match_items(struct match *m, const char *at, const struct pattern_item *item, int level);

/* At least one character fits at `at`. */
static const char *
match_most(struct match *m, const char *at, const struct pattern_item *item, int level)
{
    const char *last = run_end(m, item, at), *first = at + item->b;
    count_characters(m, last - at);
    level = deeper(m, level);
    for (; last >= first; last--) {
        count_step(m);
        const char *end = may_follow(m, item + 1, last) ? match_items(m, last, item + 1, level) : NULL;
        if (end != NULL)
            return end;
    }
    return NULL;
}

/* The same. */
static const char *
match_fewest(struct match *m, const char *at, const struct pattern_item *item, int level)
{
    level = deeper(m, level);
    for (;; at++) {
        count_step(m);
        const char *end = may_follow(m, item + 1, at) ? match_items(m, at, item + 1, level) : NULL;
        if (end != NULL || !fits(m, item, at))
            return end;
    }
}

static const char *
match_balance(struct match *m, const char *at, const struct pattern_item *item)
{
    int64_t     depth = 1;
    const char *from  = at;
    if (at == m->end || (uint8_t)*at != item->a)
        return NULL;
    for (at++; at < m->end; at++) {
        if ((uint8_t)*at == item->b) {
            if (--depth == 0)
                break;
        } else if ((uint8_t)*at == item->a) {
            depth++;
        }
    }
    count_characters(m, at - from);
    return at < m->end ? at + 1 : NULL;
}

static const char *
match_again(struct match *m, const char *at, const struct pattern_item *item)
{
    const struct capture *capture = &m->captures[item->a];
    if (capture->length < 0 || capture->length > m->end - at)
        return NULL;
    count_characters(m, capture->length);
    return memcmp(at, capture->at, (size_t)capture->length) == 0 ? at + capture->length : NULL;
}

/* Behind the last character counts as a zero, and so does what is before the first. */
static bool
is_frontier(const struct match *m, const char *at, const struct pattern_item *item)
{
    const struct pattern_set *set    = &m->pattern->sets[item->set];
    uint8_t                   before = at == m->begin ? 0 : (uint8_t)at[-1], here = at == m->end ? 0 : (uint8_t)*at;
    return !set_has(set, before) && set_has(set, here);
}

/* NULL: no match. Each item leads to the next, so captures need no clearing when a way was wrong. */
static const char *
match_items(struct match *m, const char *at, const struct pattern_item *item, int level)
{
    for (; at != NULL; item++) {
        count_step(m);
        switch ((enum item_kind)item->kind) {
        case ITEM_ONE:
            at = fits(m, item, at) ? at + 1 : NULL;
            break;
        case ITEM_MOST:
            if (fits(m, item, at))
                return match_most(m, at, item, level);
            at = item->b == 0 ? at : NULL;
            break;
        case ITEM_FEWEST:
            if (fits(m, item, at))
                return match_fewest(m, at, item, level);
            break;
        case ITEM_MAYBE:
            if (fits(m, item, at)) {
                const char *end = match_items(m, at + 1, item + 1, deeper(m, level));
                if (end != NULL)
                    return end;
            }
            break;
        case ITEM_OPEN:
            level                 = deeper(m, level);
            m->captures[item->a] = (struct capture){ at, item->b ? CAPTURE_POSITION : CAPTURE_OPEN };
            break;
        case ITEM_CLOSE:
            level                        = deeper(m, level);
            m->captures[item->a].length = at - m->captures[item->a].at;
            break;
        case ITEM_AGAIN: at = match_again(m, at, item); break;
        case ITEM_BALANCE: at = match_balance(m, at, item); break;
        case ITEM_FRONTIER: at = is_frontier(m, at, item) ? at : NULL; break;
        case ITEM_FINISH: at = at == m->end ? at : NULL; break;
        case ITEM_END: return at;
        case ITEM_BROKEN: luaL_error(m->L, broken_texts[item->a], item->b);
        }
    }
    return NULL;
}

void
match_begin(struct match *match, lua_State *L, const struct pattern *pattern, const char *text, size_t length)
{
    match->L       = L;
    match->pattern = pattern;
    match->begin   = text;
    match->end     = text + length;
    match->steps   = 0;
}

const char *
match_at(struct match *match, const char *at)
{
    return match_items(match, at, match->pattern->items, 0);
}

void
match_end(struct match *match)
{
    charge_steps(match);
}

/* ---- captures ---- */

struct capture
match_capture(const struct match *match, int index, const char *from, const char *to)
{
    if (index >= match->pattern->captures) {
        if (index != 0)
            luaL_error(match->L, "invalid capture index %%%d", index + 1);
        return (struct capture){ from, to - from };
    }
    if (match->captures[index].length == CAPTURE_OPEN)
        luaL_error(match->L, "unfinished capture");
    return match->captures[index];
}

void
match_push_capture(const struct match *match, struct capture capture)
{
    if (capture.length == CAPTURE_POSITION)
        lua_pushinteger(match->L, capture.at - match->begin + 1);
    else
        lua_pushlstring(match->L, capture.at, (size_t)capture.length);
}

int
match_push(const struct match *match, const char *from, const char *to)
{
    int count = match->pattern->captures == 0 && from != NULL ? 1 : match->pattern->captures;
    if (count > LUA_MINSTACK / 2) /* what every call has room for */
        luaL_checkstack(match->L, count, "too many captures");
    for (int i = 0; i < count; i++)
        match_push_capture(match, match_capture(match, i, from, to));
    return count;
}
