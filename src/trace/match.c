/* Predicates over events: compiled once by recursive descent (a function per rule of the grammar in match.h, of the
 * same name), evaluated per event. Names are resolved when compiling, so that a wrong one is told at once; nesting
 * is bounded, because expressions also come from outside.
 *
 * Interface in order of use: match_names_of_trace, match_compile or match_compile_break, match_event, match_free.
 * Tokens and nodes are match_parser.c's business, the words of a comparison match_compare.c's. */
#include "trace/match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/match_internal.h"
#include "trace/reader.h"

enum { DEEPEST = 64 };

/* ---- the grammar ---- */

/* Hangs `child` behind the children that `parent` has; `last` is the latest of them. */
static uint32_t
adopt(struct parser *parser, uint32_t parent, uint32_t last, uint32_t child)
{
    struct node *nodes = parser->match->nodes;
    if (parser->failed)
        return 0;
    if (last == 0)
        nodes[parent - 1].child = child;
    else
        nodes[last - 1].next = child;
    return child;
}

static uint32_t expression(struct parser *parser);

static uint32_t
term(struct parser *parser)
{
    if (parser->token == TOKEN_OPEN) {
        parser_next(parser);
        uint32_t inner = expression(parser);
        if (!parser->failed && parser->token != TOKEN_CLOSE)
            parser_fails(parser, "a ')' is missing");
        parser_next(parser);
        return inner;
    }
    if (parser->token == TOKEN_WORD)
        return parser_comparison(parser);
    if (!parser->failed && parser->token == TOKEN_END)
        parser_fails(parser, "the expression ends too early");
    else if (!parser->failed)
        parser_fails_at(parser, "a kind or a field is expected at", parser->word);
    return 0;
}

static uint32_t
not_term(struct parser *parser)
{
    if (++parser->depth > DEEPEST) {
        if (!parser->failed)
            parser_fails(parser, "the expression is nested too deeply");
        return 0;
    }
    uint32_t node;
    if (parser_at_word(parser, "not")) {
        parser_next(parser);
        node = parser_node(parser, NODE_NOT);
        adopt(parser, node, 0, not_term(parser));
    } else {
        node = term(parser);
    }
    parser->depth--;
    return node;
}

/* One node with many children: a long chain of `and` is wide, not deep. */
static uint32_t
chain(struct parser *parser, enum node_type type, const char *word, uint32_t (*operand)(struct parser *))
{
    uint32_t first = operand(parser);
    if (!parser_at_word(parser, word))
        return first;
    uint32_t node = parser_node(parser, type);
    uint32_t last = adopt(parser, node, 0, first);
    while (!parser->failed && parser_at_word(parser, word)) {
        parser_next(parser);
        uint32_t next = operand(parser);
        last = adopt(parser, node, last, next);
    }
    return node;
}

static uint32_t
and_chain(struct parser *parser)
{
    return chain(parser, NODE_AND, "and", not_term);
}

static uint32_t
expression(struct parser *parser)
{
    return chain(parser, NODE_OR, "or", and_chain);
}

/* EXPR [rank R] [if EXPR] */
static uint32_t
break_expression(struct parser *parser)
{
    uint32_t first = expression(parser), node = parser_node(parser, NODE_AND);
    uint32_t last = adopt(parser, node, 0, first);
    while (!parser->failed && (parser_at_word(parser, "rank") || parser_at_word(parser, "device") ||
                               parser_at_word(parser, "lane"))) {
        uint32_t next = parser_comparison(parser);
        last = adopt(parser, node, last, next);
    }
    if (parser_at_word(parser, "if")) {
        parser_next(parser);
        uint32_t next = expression(parser);
        adopt(parser, node, last, next);
    }
    return node;
}

/* ---- compile ---- */

static struct match *
compile_rule(const char *text, const struct match_names *names, char *why, size_t why_size,
        uint32_t (*rule)(struct parser *))
{
    struct match *match = calloc(1, sizeof *match);
    char *copy = match != NULL ? strdup(text) : NULL;
    if (copy == NULL) {
        snprintf(why, why_size, "no memory");
        free(match);
        return NULL;
    }
    match->text = copy;
    match->names = *names;
    struct parser parser = { .at = copy, .match = match, .why = why, .why_size = why_size };
    parser_next(&parser);
    uint32_t root = rule(&parser);
    if (!parser.failed && parser.token != TOKEN_END)
        parser_fails_at(&parser, "and, or, or the end is expected at", parser.word);
    if (parser.failed) {
        match_free(match);
        return NULL;
    }
    match->root = root;
    return match;
}

struct match *
match_compile(const char *text, const struct match_names *names, char *why, size_t why_size)
{
    return compile_rule(text, names, why, why_size, expression);
}

struct match *
match_compile_break(const char *text, const struct match_names *names, char *why, size_t why_size)
{
    return compile_rule(text, names, why, why_size, break_expression);
}

void
match_free(struct match *match)
{
    if (match == NULL)
        return;
    for (size_t i = 0; i < match->node_count; i++) {
        free(match->nodes[i].kinds);
        free(match->nodes[i].args);
        free(match->nodes[i].others);
        free(match->nodes[i].value.text);
    }
    free(match->nodes);
    free(match->text);
    free(match);
}

void
match_use(struct match *match, const struct match_names *names)
{
    match->names = *names;
}

const char *
match_text(const struct match *match)
{
    return match->text;
}

/* ---- evaluate ---- */

static bool
holds(const struct match *match, uint32_t at, const struct moment_event *now)
{
    const struct node *node = &match->nodes[at - 1];
    switch (node->type) {
    case NODE_NOT:
        return !holds(match, node->child, now);
    case NODE_AND:
    case NODE_OR:
        for (uint32_t child = node->child; child != 0; child = match->nodes[child - 1].next) {
            if (holds(match, child, now) == (node->type == NODE_OR))
                return node->type == NODE_OR;
        }
        return node->type == NODE_AND;
    case NODE_KIND:
        if (now->event->phase == PHASE_END && !match->asks_phase)
            return false;
        return now->event->kind < node->kind_count && node->kinds[now->event->kind];
    case NODE_COMPARE:
        return compare_holds(match, node, now);
    }
    return false;
}

bool
match_event(const struct match *match, const struct trace_event *event, uint64_t seq, uint64_t time_ps)
{
    const struct moment_event now = { event, seq, time_ps };
    return holds(match, match->root, &now);
}

/* ---- a trace's names ---- */

static int
trace_names_count(void *context)
{
    return (int)trace_kinds(context);
}

static const char *
trace_names_kind(void *context, int kind)
{
    return trace_kind(context, (unsigned)kind)->name;
}

static const char *
trace_names_args(void *context, int kind)
{
    return trace_kind(context, (unsigned)kind)->args;
}

static const char *
trace_names_text(void *context, int64_t id)
{
    return trace_text_at(context, id);
}

static const char *
trace_names_lane(void *context, uint32_t lane)
{
    return trace_lane_at(context, lane)->name;
}

struct match_names
match_names_of_trace(const struct trace *trace)
{
    void *context;
    memcpy(&context, &trace, sizeof context); /* the table is for engines too, which do change theirs */
    return (struct match_names){ context, trace_names_count, trace_names_kind, trace_names_args, trace_names_text,
                                 trace_names_lane };
}
