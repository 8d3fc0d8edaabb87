/* The debugger, both of its ends: command lines to a session over a small record, and what the session asks of its
 * engine, asked of a real one that runs the lesson. A line that begins with '!' goes to the engine as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "analysis/state.h"
#include "analysis/story.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/session.h"
#include "fuzz.h"
#include "run.h"
#include "sched/debugger.h"
#include "tokens.h"
#include "trace/reader.h"

enum { INPUT_MOST = 1000, REQUESTS_MOST = 12, STEPS = 1000000, MEMORY = 64 << 20 };

static const char lesson[] =
    "local rs = require 'ringside'\n"
    "rs.lesson { title = 'Fuzz', devices = 2, seed = 3 }\n"
    "local nn, dist = rs.nn, rs.distributed\n"
    "net = nn.Sequential { nn.Linear(3, 2), nn.ReLU() }\n"
    "local x, flags, whole = rs.randn { 2, 3 }, rs.tensor { true, false }, rs.arange(4)\n"
    "local words = { a = 1, list = { 1, 2, { x } }, [1.5] = 'q' }\n"
    "words.self = words\n"
    "local function step(n)\n"
    "  local half = rs.ones({ n }, { dtype = 'float16' })\n"
    "  net(x):sum():backward()\n"
    "  return half:sum(), words, flags, whole\n"
    "end\n"
    "step(4)\n"
    "dist.spawn(function(rank)\n"
    "  local mine = rs.ones { 2 } * rank\n"
    "  dist.all_reduce(mine)\n"
    "end, { world = 2 })\n"
    "rs.check('it is done', true)\n";

/* ---- the engine ---- */

/* All requests lie in the socket before it begins; behind the last one nobody listens, and it runs on to its end. */
static void
ask_engine(const struct str *requests)
{
    int ends[2];
    char answers[4096];
    fuzz_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there is a socket");
    fuzz_assert(write(ends[0], str_text(requests), requests->len) == (ssize_t)requests->len, "it takes the requests");
    shutdown(ends[0], SHUT_WR);
    struct debugger *debugger = debugger_new(ends[1], NULL, 0);
    fuzz_assert(debugger != NULL, "there is memory for a debugger");
    fuzz_run_lesson(&(struct fuzz_lesson){ .text = lesson, .steps = STEPS, .memory = MEMORY, .debugger = debugger });
    debugger_free(debugger);
    close(ends[1]);
    while (read(ends[0], answers, sizeof answers) > 0)
        continue;
    close(ends[0]);
}

/* ---- the session ---- */

/* Made once, for all inputs: nothing changes it. */
static struct trace *
record(void)
{
    static struct trace *trace;
    if (trace == NULL)
        fuzz_run_lesson(&(struct fuzz_lesson){ .text = lesson, .steps = STEPS, .memory = MEMORY, .record = &trace });
    fuzz_assert(trace != NULL && trace_count(trace) > 100, "the lesson was recorded");
    return trace;
}

struct rig {
    struct session session;
    int            engine;      /* the other end of what the session takes for its engine */
    bool           answered;    /* an answer lies there already */
    struct str     requests;    /* for the real one */
    int            count;
};

static void
begin(struct rig *rig)
{
    int ends[2];
    fuzz_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there is a socket");
    struct trace *trace = record();
    *rig = (struct rig){ .engine = ends[1], .session = { .reader = { .fd = ends[0] }, .viewer = -1, .trace = trace,
                                                         .state = state_new(trace), .story = story_new(trace) } };
    fuzz_assert(rig->session.state != NULL, "there is memory for the state");
    fuzz_assert(rig->session.story != NULL, "there is memory for the story");
    fuzz_assert(session_run_begin(&rig->session), "there is memory for the run");
    rig->session.engine_run = rig->session.run;
    breaks_use(&rig->session.rules.breaks, trace);
}

static void
end(struct rig *rig)
{
    close(rig->engine);
    close(rig->session.reader.fd);
    state_free(rig->session.state);
    story_free(rig->session.story);
    breaks_free(&rig->session.rules.breaks);
    session_runs_free(&rig->session);
    str_free(&rig->requests);
}

/* The run has ended and the engine stands where the session looks: nobody starts another. */
static void
stand_still(struct rig *rig, int command)
{
    struct session *session = &rig->session;
    bool asks = command == CMD_print || command == CMD_info || command == CMD_set || command == CMD_switch ||
                command == CMD_delay || command == CMD_kill;
    session->head = asks ? session->cursor : trace_count(session->trace) - 1;
    session->engine_head = session->cursor;
    session->ended = true;
    session->died = false;
    session->edit_count = 0;
}

static void
take_request(struct rig *rig)
{
    char request[1200];
    ssize_t got = recv(rig->engine, request, sizeof request, MSG_DONTWAIT);
    if (got <= 0)
        return;
    rig->answered = false;
    if (rig->count++ < REQUESTS_MOST)
        str_add_bytes(&rig->requests, request, (size_t)got);
}

static void
carry_out(struct rig *rig, const char *line)
{
    static const char answers[][24] = { "ok\nvalue 1\n.\n", "no\nthere is none\n.\n" };
    char why[300];
    struct command_line parsed;
    struct str out = { 0 };
    const char *answer = answers[strlen(line) % countof(answers)];
    parsed.command = -1;
    if (!rig->answered)
        fuzz_assert(write(rig->engine, answer, strlen(answer)) > 0, "an answer waits");
    rig->answered = true;
    stand_still(rig, command_parse(line, &parsed, why, sizeof why) ? parsed.command : -1);
    bool done = session_command(&rig->session, line, &out);
    fuzz_assert(done || out.len > 0, "who refuses says why");
    fuzz_assert(out.len == 0 || out.text[out.len - 1] == '\n', "what is said is whole lines");
    fuzz_assert(rig->session.cursor < trace_count(rig->session.trace), "the cursor stands at an event");
    fuzz_assert(session_state_name(&rig->session) != NULL, "a session has a state");
    str_free(&out);
    take_request(rig);
    if (parsed.command == CMD_goto && rig->session.cursor < 400)
        str_addf(&rig->requests, "go %d\n", (int)rig->session.cursor);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > INPUT_MOST)
        return 0;
    struct rig rig;
    char *text = malloc(size + 1), *rest = text, *line;
    fuzz_assert(text != NULL, "there is memory for the lines");
    memcpy(text, data, size);
    text[size] = '\0';
    begin(&rig);
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (line[0] != '!')
            carry_out(&rig, line);
        else if (rig.count++ < REQUESTS_MOST)
            str_addf(&rig.requests, "%s\n", line + 1);
    }
    if (rig.requests.len > 0)
        ask_engine(&rig.requests);
    end(&rig);
    free(text);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
#define COMMAND(id, name, args, keys, scope, group, help) name,
#include "control/commands.def"
#undef COMMAND
    "s", "S", "n", "N", "m", "M", "c", "C", "f", "u", "U", "w", "q", "x", "net", "net.0.weight", "net.0.weight.grad", "weight",
    "0.bias", "x", "flags", "whole", "words", "words.list.3.1", "words.self.self", "half", "mine", "result", "step",
    "rs", "rank 0", "rank 1", "rank -1", "rank 9", "[0,0]", "[-1]", "[9223372036854775807]", "[0,0,0,0,0,0,0,0,0]", "[",
    "]", ".", "1.5", "nan", "-inf", "1e400", "0x1p3", "go", "edit", "tasks", "memory", "locks", "all", "none",
    "breaks", "buckets", "dp", "op", "dist", "c10d", "comm.hop", "lesson.check", "if", "and", "or", "not", "=", "<",
    "~", "(", ")", "phase", "end", "bytes", "lane", "\n", "\n", "\n!", "!", "#",
};
static const struct token_list list = { words, countof(words) };

TOKENS_MUTATOR(list)
TOKENS_CROSSOVER(list)
