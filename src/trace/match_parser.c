/* A predicate's text in tokens, the nodes that it becomes, and the first thing that is wrong with it.
 *
 * Interface: parser_next, parser_at_word, parser_node, parser_fails. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "trace/match_internal.h"

enum { MOST_NODES = 4096 };

/* The first trouble is told. */
void
parser_fails(struct parser *parser, const char *what)
{
    if (!parser->failed)
        snprintf(parser->why, parser->why_size, "%s", what);
    parser->failed = true;
    parser->token = TOKEN_END;
}

void
parser_fails_at(struct parser *parser, const char *what, const char *word)
{
    char text[600];
    snprintf(text, sizeof text, "%.200s '%.255s'", what, word);
    parser_fails(parser, text);
}

/* ---- words ---- */

static bool
word_character(char c)
{
    return c != '\0' && !isspace((unsigned char)c) && strchr("=!<>~()\"'", c) == NULL;
}

static void
take_quoted(struct parser *parser, char quote)
{
    const char *start = ++parser->at, *end = strchr(start, quote);
    if (end == NULL || (size_t)(end - start) >= sizeof parser->word) {
        parser_fails(parser, end == NULL ? "a quote is not closed" : "a text is too long");
        return;
    }
    memcpy(parser->word, start, (size_t)(end - start));
    parser->word[end - start] = '\0';
    parser->at = end + 1;
    parser->token = TOKEN_QUOTED;
}

static void
take_operator(struct parser *parser)
{
    static const struct { const char *text; enum compare compare; } operators[] = {
        { "==", COMPARE_EQUAL }, { "!=", COMPARE_UNEQUAL }, { "<=", COMPARE_AT_MOST }, { ">=", COMPARE_AT_LEAST },
        { "=", COMPARE_EQUAL }, { "<", COMPARE_LESS }, { ">", COMPARE_MORE }, { "~", COMPARE_CONTAINS },
    };
    for (size_t i = 0; i < countof(operators); i++) {
        size_t length = strlen(operators[i].text);
        if (strncmp(parser->at, operators[i].text, length) == 0) {
            snprintf(parser->word, sizeof parser->word, "%s", operators[i].text);
            parser->at += length;
            parser->token = TOKEN_OPERATOR;
            parser->compare = operators[i].compare;
            return;
        }
    }
    parser_fails(parser, "'!' alone means nothing; write not");
}

/* The next token, into parser->token and parser->word. */
void
parser_next(struct parser *parser)
{
    while (isspace((unsigned char)*parser->at))
        parser->at++;
    char c = *parser->at;
    parser->token = TOKEN_END;
    parser->word[0] = '\0';
    if (c == '\0')
        return;
    if (c == '"' || c == '\'') {
        take_quoted(parser, c);
    } else if (c == '(' || c == ')') {
        parser->token = c == '(' ? TOKEN_OPEN : TOKEN_CLOSE;
        snprintf(parser->word, sizeof parser->word, "%c", c);
        parser->at++;
    } else if (!word_character(c)) {
        take_operator(parser);
    } else {
        size_t length = 0;
        while (word_character(parser->at[length]))
            length++;
        if (length >= sizeof parser->word) {
            parser_fails(parser, "a word is too long");
            return;
        }
        memcpy(parser->word, parser->at, length);
        parser->word[length] = '\0';
        parser->at += length;
        parser->token = TOKEN_WORD;
    }
}

bool
parser_at_word(const struct parser *parser, const char *word)
{
    return parser->token == TOKEN_WORD && strcmp(parser->word, word) == 0;
}

/* ---- nodes ---- */

/* 0: no room, already told. Nodes are named by their place + 1, because the array moves. */
uint32_t
parser_node(struct parser *parser, enum node_type type)
{
    struct match *match = parser->match;
    if (parser->failed)
        return 0;
    if (match->node_count >= MOST_NODES ||
        !vec_room(&match->nodes, &match->node_room, match->node_count + 1, sizeof *match->nodes)) {
        parser_fails(parser, match->node_count >= MOST_NODES ? "the expression is too long" : "no memory");
        return 0;
    }
    match->nodes[match->node_count] = (struct node){ .type = type };
    return (uint32_t)++match->node_count;
}
