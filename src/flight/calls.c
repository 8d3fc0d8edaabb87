/* Are two calls the same one? Ranks that meet in a collective must agree on its operation; on sizes, types, root and
 * reduction where the operation asks for it: an all_to_all's sizes are each rank's own, a gather has outputs on its
 * root alone. What one of the two does not know cannot differ. (PyTorch's analyser: Op.match in its
 * flight_recorder/components/types.py.) */
#include <string.h>
#include "flight/internal.h"
#include "base/vec.h"

enum { INPUT_SIZES = 1, OUTPUT_SIZES = 2, INPUT_DTYPES = 4, OUTPUT_DTYPES = 8, ROOT = 16, REDUCE_OP = 32,
       SHARDS_OUT = 64, SHARDS_IN = 128,   /* lists of unequal shards: their list must be equal, a shard need not */
       SIZES = INPUT_SIZES | OUTPUT_SIZES, DTYPES = INPUT_DTYPES | OUTPUT_DTYPES };

struct family { const char *operation; int rules; };

/* Operations under every name that PyTorch's back-ends give them. Of another one only the name is compared. */
static const struct family families[] = {
    { "all_reduce",             SIZES | DTYPES | REDUCE_OP },
    { "allreduce",              SIZES | DTYPES | REDUCE_OP },
    { "allreduce_coalesced",    SIZES | DTYPES | REDUCE_OP },
    { "all_reduce_coalesced",   SIZES | DTYPES | REDUCE_OP },
    { "broadcast",              SIZES | DTYPES | ROOT },
    { "_broadcast_oop",         OUTPUT_SIZES | OUTPUT_DTYPES | ROOT },
    { "reduce",                 INPUT_SIZES | INPUT_DTYPES | ROOT | REDUCE_OP },
    { "_reduce_oop",            INPUT_SIZES | INPUT_DTYPES | ROOT | REDUCE_OP },
    { "all_gather",             SIZES | DTYPES | SHARDS_OUT },
    { "allgather",              SIZES | DTYPES | SHARDS_OUT },
    { "_all_gather_base",       SIZES | DTYPES },
    { "_allgather_base",        SIZES | DTYPES },
    { "all_gather_into_tensor", SIZES | DTYPES },
    { "gather",                 INPUT_SIZES | INPUT_DTYPES | ROOT },
    { "scatter",                OUTPUT_SIZES | OUTPUT_DTYPES | ROOT },
    { "reduce_scatter",         SIZES | DTYPES | REDUCE_OP | SHARDS_IN },
    { "_reduce_scatter_base",   SIZES | DTYPES | REDUCE_OP },
    { "reduce_scatter_tensor",  SIZES | DTYPES | REDUCE_OP },
    { "all_to_all",             DTYPES },
    { "alltoall",               DTYPES },
    { "all_to_allv",            DTYPES },
    { "alltoall_base",          DTYPES },
    { "all_to_all_single",      DTYPES },
};

static int
rules_of(const char *operation)
{
    for (size_t i = 0; operation != NULL && i < countof(families); i++)
        if (strcmp(families[i].operation, operation) == 0)
            return families[i].rules;
    return 0;
}

bool
texts_equal(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* A list of nothing, as a gather's outputs away from its root, says as little as NULL. */
static bool
is_known(const char *text)
{
    return text != NULL && text[strspn(text, "[]() ,")] != '\0';
}

static bool
texts_differ(const char *a, const char *b)
{
    return a != b && is_known(a) && is_known(b) && strcmp(a, b) != 0;
}

const char *
either(const char *first, const char *second)
{
    return first != NULL && strlen(first) > 2 ? first : second;
}

/* "[[3], [3]]" is, "[[3], [5]]" is not. */
static bool
equal_shards(const char *list)
{
    const char *first = list != NULL && list[0] == '[' ? strchr(list + 1, '[') : NULL;
    const char *end   = first != NULL ? strchr(first, ']') : NULL;
    if (end == NULL)
        return true;
    size_t size = (size_t)(end - first) + 1;
    for (const char *next = strchr(end, '['); next != NULL; next = strchr(next + 1, '['))
        if (strncmp(next, first, size) != 0)
            return false;
    return true;
}

/* A scalar's "[[]]" is a size like any other. */
static bool
sizes_differ(const char *a, const char *b)
{
    bool scalar = a != NULL && b != NULL && (strcmp(a, "[[]]") == 0 || strcmp(b, "[[]]") == 0);
    return scalar ? strcmp(a, b) != 0 && strcmp(a, "[]") != 0 && strcmp(b, "[]") != 0 : texts_differ(a, b);
}

static bool
shapes_differ(const struct flight_entry *a, const struct flight_entry *b, int rules)
{
    bool own_inputs  = (rules & SHARDS_OUT) != 0 && !(equal_shards(a->output_sizes) && equal_shards(b->output_sizes));
    bool own_outputs = (rules & SHARDS_IN) != 0 && !(equal_shards(a->input_sizes) && equal_shards(b->input_sizes));
    return ((rules & INPUT_SIZES) != 0 && !own_inputs && sizes_differ(a->input_sizes, b->input_sizes)) ||
           ((rules & OUTPUT_SIZES) != 0 && !own_outputs && sizes_differ(a->output_sizes, b->output_sizes));
}

static bool
dtypes_differ(const struct flight_entry *a, const struct flight_entry *b, int rules)
{
    return ((rules & INPUT_DTYPES) != 0 && texts_differ(a->input_dtypes, b->input_dtypes)) ||
           ((rules & OUTPUT_DTYPES) != 0 && texts_differ(a->output_dtypes, b->output_dtypes));
}

/* Texts are kept once, so this is the usual case, and quick. */
static bool
same_in_all(const struct flight_entry *a, const struct flight_entry *b)
{
    return a->operation == b->operation && a->input_sizes == b->input_sizes && a->output_sizes == b->output_sizes &&
           a->input_dtypes == b->input_dtypes && a->output_dtypes == b->output_dtypes &&
           a->reduce_op == b->reduce_op && a->details == b->details && a->root == b->root;
}

enum hang_cause
calls_differ(const struct flight_entry *a, const struct flight_entry *b)
{
    if (same_in_all(a, b))
        return HANG_NONE;
    if (a->operation != b->operation && a->operation != NULL && b->operation != NULL &&
        strcmp(a->operation, b->operation) != 0)
        return HANG_OPERATION;
    int rules = rules_of(a->operation);
    if (shapes_differ(a, b, rules))
        return HANG_SHAPE;
    if (dtypes_differ(a, b, rules))
        return HANG_DTYPE;
    if ((rules & ROOT) != 0 && a->root >= 0 && b->root >= 0 && a->root != b->root)
        return HANG_ROOT;
    if ((rules & REDUCE_OP) != 0 && texts_differ(a->reduce_op, b->reduce_op))
        return HANG_REDUCE_OP;
    return a->details != NULL && b->details != NULL && !texts_equal(a->details, b->details) ? HANG_DETAILS : HANG_NONE;
}

static bool
places_known(const struct flight_entry *a, const struct flight_entry *b)
{
    return a->line > 0 && b->line > 0;
}

bool
same_place(const struct flight_entry *a, const struct flight_entry *b)
{
    return places_known(a, b) && a->line == b->line && texts_equal(a->file, b->file);
}

bool
other_place(const struct flight_entry *a, const struct flight_entry *b)
{
    return places_known(a, b) && !same_place(a, b);
}

static uint64_t
hash_text(uint64_t seed, const char *text)
{
    return is_known(text) ? hash_bytes(seed, text, strlen(text) + 1) : hash_bytes(seed, "", 1);
}

uint64_t
call_hash(const struct flight_entry *entry)
{
    int      rules = rules_of(entry->operation);
    uint64_t hash  = hash_text(0, entry->operation);
    if ((rules & INPUT_SIZES) != 0 && ((rules & SHARDS_OUT) == 0 || equal_shards(entry->output_sizes)))
        hash = hash_text(hash, entry->input_sizes);
    if ((rules & OUTPUT_SIZES) != 0 && ((rules & SHARDS_IN) == 0 || equal_shards(entry->input_sizes)))
        hash = hash_text(hash, entry->output_sizes);
    if ((rules & INPUT_DTYPES) != 0)
        hash = hash_text(hash, entry->input_dtypes);
    if ((rules & OUTPUT_DTYPES) != 0)
        hash = hash_text(hash, entry->output_dtypes);
    if ((rules & ROOT) != 0)
        hash = hash_bytes(hash, &entry->root, sizeof entry->root);
    if ((rules & REDUCE_OP) != 0)
        hash = hash_text(hash, entry->reduce_op);
    return hash_text(hash, entry->details);
}
