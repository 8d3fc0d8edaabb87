/* The words of a predicate: kinds, fields, values, and what was probably meant by one that does not exist.
 *
 * Interface: parser_comparison compiles one term, compare_holds evaluates a comparison. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "trace/match_internal.h"

static const char *const field_names[FIELD_ARG] = {
    "seq", "t", "rank", "device", "lane", "iter", "phase", "kind", "flow", "line", "depth",
};
static const char *const phase_words[] = { "", "begin", "end", "instant" };

/* ---- did you mean ---- */

enum { LONGEST_GUESS = 64 };

/* Levenshtein's distance with neighbours swapped counting one; LONGEST_GUESS when a word is too long for it. */
static int
edit_distance(const char *a, const char *b)
{
    int rows[3][LONGEST_GUESS + 1];
    size_t length_a = strlen(a), length_b = strlen(b);
    if (length_a > LONGEST_GUESS || length_b > LONGEST_GUESS)
        return LONGEST_GUESS;
    int *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= length_b; j++)
        above[j] = (int)j;
    for (size_t i = 1; i <= length_a; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= length_b; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            best = above[j] + 1 < best ? above[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int *oldest = before;
        before = above;
        above = row;
        row = oldest;
    }
    return above[length_b];
}

struct guess { const char *word; char best[LONGEST_GUESS + 1]; int distance; };

static void
guess_try(struct guess *guess, const char *candidate)
{
    int distance = edit_distance(guess->word, candidate);
    if (distance < guess->distance) {
        guess->distance = distance;
        snprintf(guess->best, sizeof guess->best, "%s", candidate);
    }
}

/* One by one the names in "bytes, op:text"; false: past the last. */
static bool
next_arg(const char **list, char *name, size_t name_size, char *type, size_t type_size)
{
    const char *at = *list + strspn(*list, " ,\t");
    if (*at == '\0')
        return false;
    size_t length = strcspn(at, ":, \t");
    snprintf(name, name_size, "%.*s", (int)(length < name_size ? length : name_size - 1), at);
    at += length + strspn(at + length, " \t");
    *type = '\0';
    if (*at == ':') {
        at += 1 + strspn(at + 1, " \t");
        length = strcspn(at, ", \t");
        snprintf(type, type_size, "%.*s", (int)(length < type_size ? length : type_size - 1), at);
        at += length;
    }
    *list = at + strcspn(at, ",");
    return true;
}

static void
guess_args(struct guess *guess, const char *list)
{
    char name[LONGEST_GUESS], type[16];
    while (next_arg(&list, name, sizeof name, type, sizeof type))
        guess_try(guess, name);
}

static void
fails_unknown(struct parser *parser, const char *what, const char *word, bool fields)
{
    const struct match_names *names = &parser->match->names;
    int length = (int)strlen(word);
    struct guess guess = { .word = word, .distance = (length < 6 ? 2 : length / 3) + 1 };
    for (int kind = 1, count = names->kind_count(names->context); kind < count; kind++) {
        if (fields)
            guess_args(&guess, names->kind_args(names->context, kind));
        else
            guess_try(&guess, names->kind_name(names->context, kind));
    }
    for (int field = 0; fields && field < FIELD_ARG; field++)
        guess_try(&guess, field_names[field]);
    char text[400];
    if (guess.best[0] != '\0')
        snprintf(text, sizeof text, "unknown %s '%s'; did you mean %s?", what, word, guess.best);
    else
        snprintf(text, sizeof text, "unknown %s '%s'", what, word);
    parser_fails(parser, text);
}

/* ---- kinds ---- */

static bool
is_below(const char *name, const char *family, size_t length)
{
    return strncmp(name, family, length) == 0 && name[length] == '.';
}

/* A whole name is that kind; with ".*" it and what is below; a bare family what is below. */
static bool *
kinds_of(struct parser *parser, const char *pattern, size_t *kind_count)
{
    const struct match_names *names = &parser->match->names;
    int count = names->kind_count(names->context);
    size_t length = strlen(pattern);
    bool below = length > 2 && strcmp(pattern + length - 2, ".*") == 0, exact = false, any = false;
    length -= below ? 2 : 0;
    bool *kinds = calloc((size_t)(count > 0 ? count : 1), sizeof *kinds);
    if (kinds == NULL) {
        parser_fails(parser, "no memory");
        return NULL;
    }
    for (int kind = 1; kind < count; kind++) {
        const char *name = names->kind_name(names->context, kind);
        exact |= kinds[kind] = strlen(name) == length && strncmp(name, pattern, length) == 0;
    }
    for (int kind = 1; kind < count; kind++) {
        if ((below || !exact) && is_below(names->kind_name(names->context, kind), pattern, length))
            kinds[kind] = true;
        any |= kinds[kind];
    }
    if (!any) {
        free(kinds);
        fails_unknown(parser, "kind", pattern, false);
        return NULL;
    }
    *kind_count = (size_t)count;
    return kinds;
}

/* ---- fields and values ---- */

static enum field
field_named(const char *word)
{
    int field = 0;
    while (field < FIELD_ARG && strcmp(field_names[field], word) != 0)
        field++;
    return (enum field)field;
}

static enum arg_type
arg_type_of(const char *type)
{
    return strcmp(type, "text") == 0 ? ARG_TEXT : strcmp(type, "kind") == 0 ? ARG_KIND
         : strcmp(type, "flag") == 0 ? ARG_FLAG : ARG_NUMBER;
}

/* Where each kind has an argument of this name; NULL: none has. *words: some of them are no numbers. */
static struct arg_place *
args_of(struct parser *parser, const char *word, size_t *kind_count, bool *words)
{
    const struct match_names *names = &parser->match->names;
    int count = names->kind_count(names->context);
    struct arg_place *places = calloc((size_t)(count > 0 ? count : 1), sizeof *places);
    bool any = false;
    for (int kind = 0; places != NULL && kind < count; kind++) {
        char name[LONGEST_GUESS], type[16];
        const char *list = kind > 0 ? names->kind_args(names->context, kind) : "";
        places[kind].index = -1;
        for (int8_t i = 0; i < 4 && next_arg(&list, name, sizeof name, type, sizeof type); i++) {
            if (strcmp(name, word) != 0)
                continue;
            places[kind] = (struct arg_place){ i, (uint8_t)arg_type_of(type) };
            *words |= places[kind].type != ARG_NUMBER;
            any = true;
            break;
        }
    }
    *kind_count = (size_t)count;
    if (any)
        return places;
    if (places == NULL)
        parser_fails(parser, "no memory");
    free(places);
    return NULL;
}

static bool
parse_number(const char *word, long double *out)
{
    const char *digits = word + (*word == '-' || *word == '+');
    if (!isdigit((unsigned char)*digits) && !(*digits == '.' && isdigit((unsigned char)digits[1])))
        return false;
    char *end;
    *out = strtold(word, &end);
    return *end == '\0' && isfinite(*out);
}

static bool
read_phase(const char *word, long double *out)
{
    for (int phase = PHASE_BEGIN; phase <= PHASE_INSTANT; phase++) {
        if (strcmp(word, phase_words[phase]) == 0) {
            *out = phase;
            return true;
        }
    }
    return false;
}

/* Whether the value names an argument, which is a number in every kind that has it. */
static bool
is_argument(struct parser *parser, struct node *node)
{
    bool   words = false;
    size_t kinds = 0;
    node->others = args_of(parser, node->value.text, &kinds, &words);
    if (words) {
        free(node->others);
        node->others = NULL;
    }
    return node->others != NULL;
}

/* Takes the value at the current token into `node`. */
static void
take_value(struct parser *parser, struct node *node, const char *field, bool words)
{
    struct value *value = &node->value;
    if (parser->failed)
        return;
    if (parser->token != TOKEN_WORD && parser->token != TOKEN_QUOTED) {
        parser_fails_at(parser, "a value is missing behind", field);
        return;
    }
    value->text = strdup(parser->word);
    value->is_number = parser->token == TOKEN_WORD && parse_number(parser->word, &value->number);
    if (value->text == NULL) {
        parser_fails(parser, "no memory");
    } else if (node->field == FIELD_PHASE) {
        value->is_number = read_phase(parser->word, &value->number);
        if (!value->is_number)
            parser_fails_at(parser, "a phase is begin, end or instant, not", parser->word);
    } else if (node->field == FIELD_DEVICE && strcmp(parser->word, "host") == 0) {
        value->number = -1;
        value->is_number = true;
    } else if (node->field == FIELD_KIND) {
        if (node->compare == COMPARE_EQUAL || node->compare == COMPARE_UNEQUAL)
            node->kinds = kinds_of(parser, parser->word, &node->kind_count);
    } else if (node->field == FIELD_ARG && !words && !value->is_number && is_argument(parser, node)) {
        value->is_number = true;
    } else if (node->field != FIELD_LANE && !words && !value->is_number) {
        char text[160];
        snprintf(text, sizeof text, "%.60s needs a number, not", field);
        parser_fails_at(parser, text, parser->word);
    }
    if (!parser->failed && node->compare == COMPARE_CONTAINS && !words && node->field != FIELD_LANE &&
        node->field != FIELD_KIND)
        parser_fails_at(parser, "~ asks what a text contains; no text is", field);
    parser_next(parser);
}

/* FIELD OP VALUE, and "rank N" where the operator is left out. */
static uint32_t
field_comparison(struct parser *parser, const char *word)
{
    struct node node = { .type = NODE_COMPARE, .field = field_named(word), .compare = COMPARE_EQUAL };
    bool words = false;
    if (node.field == FIELD_ARG) {
        node.args = args_of(parser, word, &node.kind_count, &words);
        if (node.args == NULL && !parser->failed)
            fails_unknown(parser, "field", word, true);
    }
    parser->match->asks_phase |= node.field == FIELD_PHASE;
    if (parser->token == TOKEN_OPERATOR) {
        node.compare = parser->compare;
        parser_next(parser);
    }
    take_value(parser, &node, word, words);
    uint32_t at = parser_node(parser, NODE_COMPARE);
    if (at != 0) {
        parser->match->nodes[at - 1] = node;
        return at;
    }
    free(node.args);
    free(node.others);
    free(node.kinds);
    free(node.value.text);
    return 0;
}

uint32_t
parser_comparison(struct parser *parser)
{
    char word[sizeof parser->word];
    memcpy(word, parser->word, sizeof word);
    parser_next(parser);
    if (parser->token == TOKEN_OPERATOR)
        return field_comparison(parser, word);
    if (strcmp(word, "rank") == 0 || strcmp(word, "device") == 0 || strcmp(word, "lane") == 0)
        return field_comparison(parser, word);
    if (parser->failed)
        return 0;
    if (field_named(word) != FIELD_ARG) {
        parser_fails_at(parser, "a comparison is missing behind", word);
        return 0;
    }
    size_t kind_count;
    bool *kinds = kinds_of(parser, word, &kind_count);
    uint32_t at = kinds != NULL ? parser_node(parser, NODE_KIND) : 0;
    if (at == 0) {
        free(kinds);
        return 0;
    }
    parser->match->nodes[at - 1].kinds = kinds;
    parser->match->nodes[at - 1].kind_count = kind_count;
    return at;
}

/* ---- evaluate ---- */

static bool
order_holds(enum compare compare, int order)
{
    switch (compare) {
    case COMPARE_EQUAL: return order == 0;
    case COMPARE_UNEQUAL: return order != 0;
    case COMPARE_LESS: return order < 0;
    case COMPARE_AT_MOST: return order <= 0;
    case COMPARE_MORE: return order > 0;
    case COMPARE_AT_LEAST: return order >= 0;
    case COMPARE_CONTAINS: return false;
    }
    return false;
}

static bool
number_is(const struct node *node, long double number, long double other)
{
    return node->value.is_number && order_holds(node->compare, number < other ? -1 : number > other);
}

static bool
number_holds(const struct node *node, long double number)
{
    return number_is(node, number, node->value.number);
}

static bool
number_arg_holds(const struct node *node, const struct trace_event *event, int64_t arg)
{
    if (node->others == NULL)
        return number_holds(node, arg);
    int8_t other = node->others[event->kind].index;
    return other >= 0 && number_is(node, arg, event->args[other]);
}

static bool
text_holds(const struct node *node, const char *text)
{
    if (node->compare == COMPARE_CONTAINS)
        return strstr(text, node->value.text) != NULL;
    return order_holds(node->compare, strcmp(text, node->value.text));
}

static bool
arg_holds(const struct match *match, const struct node *node, const struct trace_event *event)
{
    const struct match_names *names = &match->names;
    if (event->kind >= node->kind_count || node->args[event->kind].index < 0)
        return false;
    struct arg_place place = node->args[event->kind];
    int64_t arg = event->args[place.index];
    switch ((enum arg_type)place.type) {
    case ARG_TEXT:
        return text_holds(node, names->text(names->context, arg));
    case ARG_KIND:
        return arg >= 0 && (uint64_t)arg < node->kind_count &&
               text_holds(node, names->kind_name(names->context, (int)arg));
    case ARG_FLAG:
        if (!node->value.is_number)
            return text_holds(node, arg != 0 ? "true" : "false");
        return number_holds(node, arg);
    case ARG_NUMBER:
        break;
    }
    return number_arg_holds(node, event, arg);
}

static bool
kind_holds(const struct match *match, const struct node *node, unsigned kind)
{
    if (kind == 0 || (int)kind >= match->names.kind_count(match->names.context))
        return false;
    if (node->kinds == NULL)
        return text_holds(node, match->names.kind_name(match->names.context, (int)kind));
    return (kind < node->kind_count && node->kinds[kind]) == (node->compare == COMPARE_EQUAL);
}

bool
compare_holds(const struct match *match, const struct node *node, const struct moment_event *now)
{
    const struct trace_event *event = now->event;
    switch (node->field) {
    case FIELD_SEQ: return number_holds(node, now->seq);
    case FIELD_T: return number_holds(node, (long double)now->time_ps / 1000);
    case FIELD_RANK: return number_holds(node, event->rank);
    case FIELD_DEVICE: return number_holds(node, event->device);
    case FIELD_LANE: return text_holds(node, match->names.lane(match->names.context, event->lane));
    case FIELD_ITER: return number_holds(node, event->iteration);
    case FIELD_PHASE: return number_holds(node, event->phase);
    case FIELD_KIND: return kind_holds(match, node, event->kind);
    case FIELD_FLOW: return number_holds(node, event->flow);
    case FIELD_LINE: return number_holds(node, event->line);
    case FIELD_DEPTH: return number_holds(node, event->depth);
    case FIELD_ARG: return arg_holds(match, node, event);
    }
    return false;
}
