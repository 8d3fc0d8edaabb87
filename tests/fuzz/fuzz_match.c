/* Predicates over events, as `break`, `until`, `events` and rs.trace compile them: any text is compiled or refused, and
 * what is compiled answers for any event. An input is the text. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "fuzz.h"
#include "tokens.h"
#include "trace/match.h"
#include "trace/schema.h"

static int
kinds(void *context)
{
    (void)context;
    return KIND_COUNT;
}

static const char *
kind_name(void *context, int kind)
{
    (void)context;
    return kind_table[kind].name;
}

static const char *
kind_args(void *context, int kind)
{
    (void)context;
    return kind_table[kind].args;
}

static const char *
text_at(void *context, int64_t id)
{
    (void)context;
    return id == 1 ? "add" : id == 2 ? "fc1.weight" : "?";
}

static const char *
lane_at(void *context, uint32_t lane)
{
    (void)context;
    return lane == 0 ? "r0 main" : "r1 comm";
}

static const struct match_names names = { NULL, kinds, kind_name, kind_args, text_at, lane_at };

static const struct trace_event events[] = {
    { .kind = KIND_dp_scatter, .phase = PHASE_BEGIN, .rank = 0, .device = -1, .args = { 4, 0, 3 }, .time = 1000 },
    { .kind = KIND_dp_scatter_chunk, .phase = PHASE_INSTANT, .device = 2, .args = { 1, 2, 16, 2 }, .line = 17 },
    { .kind = KIND_op, .phase = PHASE_END, .rank = 1, .device = 1, .args = { 1, 7, INT64_MAX, INT64_MIN }, .lane = 1,
      .iteration = UINT32_MAX, .depth = 255, .flow = UINT32_MAX, .time = UINT64_MAX },
    { .kind = KIND_lesson_check, .phase = PHASE_INSTANT, .rank = -1, .device = -1, .args = { 2, 1 } },
    { .kind = KIND_NONE, .phase = PHASE_INSTANT, .rank = -1, .device = -1 },
    { .kind = UINT16_MAX, .phase = PHASE_BEGIN, .lane = UINT32_MAX, .args = { -1, -1, -1, -1 } },
};

static void
ask(struct match *match, const char *why, const char *text)
{
    if (match == NULL) {
        fuzz_assert(why[0] != '\0' && strchr(why, '\n') == NULL, "who refuses says why, in one line");
        return;
    }
    fuzz_assert(strcmp(match_text(match), text) == 0, "a predicate keeps its text");
    match_use(match, &names);
    for (size_t i = 0; i < countof(events); i++) {
        bool holds = match_event(match, &events[i], i * 1000, events[i].time);
        fuzz_assert(holds == match_event(match, &events[i], i * 1000, events[i].time), "it answers the same again");
    }
    match_free(match);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), why[300] = "", short_why[2] = "";
    fuzz_assert(text != NULL, "there is memory for the text");
    memcpy(text, data, size);
    text[size] = '\0';
    struct match *match = match_compile(text, &names, why, sizeof why);
    match_free(match_compile(text, &names, short_why, sizeof short_why));
    ask(match, why, text);
    match = match_compile_break(text, &names, why, sizeof why);
    ask(match, why, text);
    free(text);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
    "seq", "t", "rank", "device", "lane", "iter", "phase", "kind", "flow", "line", "depth", "bytes", "bucket", "op",
    "text", "ok", "and", "or", "not", "if", "begin", "end", "instant", "dp", "dp.scatter", "dp.*", "dp.scatter.chunk",
    "op", "lock", "memory", "none", "host", "r0", "comm", "=", "==", "!=", "<", "<=", ">", ">=", "~", "(", ")", "!",
    "((((", "))))", ".", ",", "*", "'add'", "\"main\"", "'", "\"", "''", "0", "1", "1e6", "2.5", "-1", "1e400", "nan",
    "inf", "0x10", "1_0", "true", "false",
};
static const struct token_list list = { words, countof(words) };

TOKENS_MUTATOR(list)
TOKENS_CROSSOVER(list)
