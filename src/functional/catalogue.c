/* Reads functions.def: signatures once, into an arena. A signature is written by us, so that one which cannot be read
 * is a broken invariant: an assertion names it. */
#include "functional/catalogue.h"
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/vec.h"
#include "functional/functions.h"

/* ---- the rows ---- */

static const struct function_row rows[] = {
#define FUNCTION(body, forms, signature, help) { signature, help, body, OP_COUNT, forms },
#define OF_OP(body, op, forms, signature, help) { signature, help, body, OP_##op, forms },
#define ALIAS(name, of)
#include "functional/functions.def"
#undef ALIAS
#undef OF_OP
#undef FUNCTION
};

static const struct { const char *name, *of; } aliases[] = {
#define FUNCTION(body, forms, signature, help)
#define OF_OP(body, op, forms, signature, help)
#define ALIAS(name, of) { name, of },
#include "functional/functions.def"
#undef ALIAS
#undef OF_OP
#undef FUNCTION
};

struct catalogue { struct arena arena; struct function functions[countof(rows)]; };

/* ---- signatures ---- */

static const char *const type_names[] = {
    [ARG_TENSOR] = "Tensor", [ARG_TENSORS] = "Tensor[]", [ARG_OPERAND] = "Tensor|Scalar", [ARG_SCALAR] = "Scalar",
    [ARG_INT] = "int", [ARG_FLOAT] = "float", [ARG_BOOL] = "bool", [ARG_TEXT] = "str", [ARG_SIZES] = "int[]",
    [ARG_LENGTHS] = "int|int[]", [ARG_PAIR] = "int[2]", [ARG_PAIR_OR_NONE] = "int?[2]", [ARG_PADDING] = "int[2]|str",
    [ARG_FLAG_OR_DIMS] = "bool|int[]", [ARG_TENSOR_OR_DIM] = "Tensor|int", [ARG_DIM_LISTS] = "int|int[][2]",
    [ARG_DTYPE] = "dtype", [ARG_DEVICE] = "device", [ARG_GENERATOR] = "Generator", [ARG_TABLE] = "table",
    [ARG_FUNCTION] = "function", [ARG_ANY] = "any",
};

struct signature_text { struct arena *arena; const char *at; bool no_memory; };

/* The text up to one of the characters in `ends`, copied; "" without memory. */
static const char *
take_word(struct signature_text *r, const char *ends)
{
    char   word[96];
    size_t length = strcspn(r->at, ends);
    assert(length < sizeof word);
    snprintf(word, sizeof word, "%.*s", (int)length, r->at);
    r->at += length;
    const char *copy = arena_text(r->arena, word);
    r->no_memory     = r->no_memory || copy == NULL;
    return copy != NULL ? copy : "";
}

static bool
take_literal(struct signature_text *r, const char *text)
{
    size_t length = strlen(text);
    if (strncmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

static enum argument_type
take_type(struct signature_text *r)
{
    size_t longest = 0, type = 0; /* "int" begins "int[2]" */
    for (size_t i = 0; i < countof(type_names); i++) {
        size_t length = strlen(type_names[i]);
        if (length > longest && strncmp(type_names[i], r->at, length) == 0) {
            longest = length;
            type    = i;
        }
    }
    assert(longest > 0);
    r->at += longest;
    return (enum argument_type)type;
}

static void
take_default(struct signature_text *r, struct parameter *p)
{
    char *end = NULL;
    if (take_literal(r, "None"))
        p->none = p->optional = true;
    else if (take_literal(r, "True"))
        p->number = 1;
    else if (take_literal(r, "\"")) {
        p->text = take_word(r, "\"");
        r->at++;
    } else if (!take_literal(r, "False")) {
        p->number = strtod(r->at, &end);
        assert(end != r->at);
        r->at = end;
    }
}

static bool
names_dimension(const struct parameter *p)
{
    static const char *const names[] = { "dim", "dims", "dim0", "dim1", "dim2", "start_dim", "end_dim", "dimension",
                                         "source", "destination" };
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(p->name, names[i]) == 0)
            return p->type == ARG_INT || p->type == ARG_SIZES || p->type == ARG_FLAG_OR_DIMS ||
                   p->type == ARG_TENSOR_OR_DIM;
    return false;
}

static struct parameter
take_parameter(struct signature_text *r)
{
    struct parameter p = { .type = take_type(r) };
    p.optional         = take_literal(r, "?");
    p.spread           = take_literal(r, "...");
    assert(*r->at == ' ');
    r->at++;
    p.name   = take_word(r, "=,)");
    p.needed = !take_literal(r, "=");
    if (!p.needed)
        take_default(r, &p);
    p.dimension = names_dimension(&p);
    return p;
}

static enum result_type
result_of(const char *text)
{
    static const struct { const char *text; enum result_type type; } results[] = {
        { "", RESULT_NONE }, { " -> Tensor", RESULT_TENSOR }, { " -> Tensor[]", RESULT_LIST },
        { " -> bool", RESULT_BOOL }, { " -> int", RESULT_INT }, { " -> float", RESULT_FLOAT },
        { " -> dtype", RESULT_DTYPE }, { " -> any", RESULT_NONE },
    };
    for (size_t i = 0; i < countof(results); i++)
        if (strcmp(results[i].text, text) == 0)
            return results[i].type;
    assert(strncmp(text, " -> (Tensor", 11) == 0);
    return RESULT_TENSORS;
}

bool
signature_parse(struct arena *arena, const char *text, struct signature *out)
{
    struct signature_text r = { .arena = arena, .at = text };
    struct parameter      parameters[PARAMETERS];
    bool                  by_name = false;
    *out = (struct signature){ .name = take_word(&r, "(") };
    r.at++;
    while (!take_literal(&r, ")")) {
        by_name = take_literal(&r, "*, ") || by_name;
        assert(out->count < PARAMETERS);
        parameters[out->count]           = take_parameter(&r);
        parameters[out->count++].by_name = by_name;
        out->positional += !by_name;
        take_literal(&r, ", ");
    }
    out->result             = result_of(r.at);
    size_t            bytes = (size_t)out->count * sizeof *parameters;
    struct parameter *kept  = arena_take(arena, bytes > 0 ? bytes : 1);
    if (kept == NULL || r.no_memory)
        return false;
    memcpy(kept, parameters, bytes);
    out->parameters = kept;
    return true;
}

/* ---- the catalogue ---- */

struct catalogue *
catalogue_new(void)
{
    struct catalogue *catalogue = calloc(1, sizeof *catalogue);
    for (size_t i = 0; catalogue != NULL && i < countof(rows); i++) {
        catalogue->functions[i].row = &rows[i];
        if (signature_parse(&catalogue->arena, rows[i].signature, &catalogue->functions[i].signature))
            continue;
        catalogue_free(catalogue);
        return NULL;
    }
    return catalogue;
}

void
catalogue_free(struct catalogue *catalogue)
{
    if (catalogue == NULL)
        return;
    arena_free(&catalogue->arena);
    free(catalogue);
}

const struct function *
catalogue_functions(const struct catalogue *catalogue, size_t *count)
{
    *count = countof(rows);
    return catalogue->functions;
}

bool
catalogue_alias(size_t i, const char **name, const char **of)
{
    if (i >= countof(aliases))
        return false;
    *name = aliases[i].name;
    *of   = aliases[i].of;
    return true;
}

static bool
same_name(const char *name, const char *word, size_t length)
{
    return strlen(name) == length && strncmp(name, word, length) == 0;
}

static const struct function *
find_named(const struct catalogue *catalogue, const char *name, size_t length, unsigned forms)
{
    for (size_t i = 0; i < countof(aliases); i++)
        if (same_name(aliases[i].name, name, length)) {
            name   = aliases[i].of;
            length = strlen(name);
            break;
        }
    for (size_t i = 0; i < countof(rows); i++)
        if ((rows[i].forms & forms) != 0 && same_name(catalogue->functions[i].signature.name, name, length))
            return &catalogue->functions[i];
    return NULL;
}

const struct function *
catalogue_find(const struct catalogue *catalogue, const char *name, unsigned forms)
{
    size_t length = strlen(name);
    if (forms != FORM_IN_PLACE)
        return find_named(catalogue, name, length, forms);
    return length > 1 && name[length - 1] == '_' ? find_named(catalogue, name, length - 1, forms) : NULL;
}
