/* A compiled predicate and its compiler's state, shared by match.c (the grammar), match_compare.c (the
 * words) and match_parser.c (tokens and nodes). */
#ifndef TRACE_MATCH_INTERNAL_H
#define TRACE_MATCH_INTERNAL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "trace/match.h"

enum node_type { NODE_OR, NODE_AND, NODE_NOT, NODE_KIND, NODE_COMPARE };

enum compare {
    COMPARE_EQUAL, COMPARE_UNEQUAL, COMPARE_LESS, COMPARE_AT_MOST, COMPARE_MORE, COMPARE_AT_LEAST, COMPARE_CONTAINS
};

enum field {
    FIELD_SEQ, FIELD_T, FIELD_RANK, FIELD_DEVICE, FIELD_LANE, FIELD_ITER, FIELD_PHASE, FIELD_KIND, FIELD_FLOW,
    FIELD_LINE, FIELD_DEPTH, FIELD_ARG
};

enum arg_type { ARG_NUMBER, ARG_TEXT, ARG_KIND, ARG_FLAG };
struct arg_place { int8_t index; uint8_t type; }; /* which argument of a kind; -1 none */

struct value {
    char       *text;
    long double number; /* 64 bits of mantissa: whole 64-bit integers */
    bool        is_number;
};

struct node {
    enum node_type    type;
    uint32_t          child, next;
    enum field        field;
    enum compare      compare;
    struct value      value;
    bool             *kinds; /* [kind]: NODE_KIND, and a comparison of `kind` with = or != */
    struct arg_place *args;  /* [kind]: FIELD_ARG */
    struct arg_place *others; /* [kind]: the argument that stands for the value; NULL: a value does */
    size_t            kind_count;
};

struct match {
    char              *text;
    struct match_names names;
    struct node       *nodes;
    size_t             node_count, node_room;
    uint32_t           root;
    bool               asks_phase; /* `phase` was said: kinds match their ends too */
};

struct moment_event { const struct trace_event *event; uint64_t seq, time_ps; };

enum token { TOKEN_END, TOKEN_WORD, TOKEN_QUOTED, TOKEN_OPERATOR, TOKEN_OPEN, TOKEN_CLOSE };

struct parser {
    const char   *at;
    struct match *match;
    enum token    token;
    enum compare  compare; /* of TOKEN_OPERATOR */
    char          word[256];
    int           depth;
    bool          failed;
    char         *why;
    size_t        why_size;
};

/* match_parser.c */
void     parser_next(struct parser *parser);
bool     parser_at_word(const struct parser *parser, const char *word);
uint32_t parser_node(struct parser *parser, enum node_type type);
void     parser_fails(struct parser *parser, const char *what);
void     parser_fails_at(struct parser *parser, const char *what, const char *word);

/* match_compare.c */
uint32_t parser_comparison(struct parser *parser); /* KIND | FIELD OP VALUE | rank N ... */
bool     compare_holds(const struct match *match, const struct node *node, const struct moment_event *now);
#endif
