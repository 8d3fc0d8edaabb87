/* Order of use: debugger_new, debugger_attach, debugger_set_names, sched_run (it stops at once at event 0),
 * debugger_finished, debugger_free. While it waits for a request the whole process stands still. */
#include "sched/debugger.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/str.h"
#include "control/commands.h"
#include "hw/cost.h"
#include "sched/faults.h"
#include "sched/internal.h"

struct debugger {
    struct observer       observer;  /* first: the observer is the debugger */
    struct sched         *sched;
    struct control_reader reader;
    struct debugger_names names;
    struct debugger_edit *edits;
    size_t                edit_count, next_edit;
    uint64_t              target, seen;
    bool                  gone;      /* the other end hung up: run on without stopping */
    bool                  serving;   /* a request: what fails on its way is an event too, and no place to stop */
    struct str            line, reply;
};

static void
explain_task(void *context, const struct task *task)
{
    struct str *out = context;
    str_addf(out, "%d %s", task->number, task->name);
    if (task->waiting != NULL)
        str_addf(out, " waits in %s", task->waiting->what);
    if (task->waiting != NULL && task->waiting->sequence >= 0)
        str_addf(out, " #%" PRId64, task->waiting->sequence);
    if (task->waiting != NULL && wait_reason_peer(task->waiting) >= 0)
        str_addf(out, " for rank %d", wait_reason_peer(task->waiting));
    str_addf(out, "%s line %u\n", task->waiting == NULL ? " can run" : "", (unsigned)task->line);
}

static bool
edit_delay(struct debugger *debugger, const char *rest, struct str *out)
{
    int    rank = -1;
    double us   = 0;
    if (sscanf(rest, "%d %lf", &rank, &us) != 2 || us < 0 || !(us <= 1e9)) {
        str_add(out, "delay takes a rank and microseconds, e.g. delay 1 100");
        return false;
    }
    if (!sched_delay_rank(debugger->sched, rank, cost_us(us))) {
        str_addf(out, "there is no rank %d now", rank);
        return false;
    }
    str_addf(out, "rank %d goes on %g us later", rank, us);
    return true;
}

static bool
edit_switch(struct debugger *debugger, const char *rest, struct str *out)
{
    int rank = -1;
    if (sscanf(rest, "%d", &rank) != 1) {
        str_add(out, "switch takes a rank, e.g. switch 1");
        return false;
    }
    if (!sched_prefer_rank(debugger->sched, rank)) {
        str_addf(out, "rank %d cannot run now: it waits, or its clock is not among the earliest", rank);
        return false;
    }
    str_addf(out, "rank %d goes first among equals", rank);
    return true;
}

static bool
edit_kill(struct debugger *debugger, const char *rest, struct str *out)
{
    int rank = -1;
    if (sscanf(rest, "%d", &rank) != 1) {
        str_add(out, "kill takes a rank, e.g. kill 2");
        return false;
    }
    if (!fault_kill(debugger->sched, NULL, rank)) {
        str_addf(out, "there is no rank %d now", rank);
        return false;
    }
    str_addf(out, "rank %d was killed", rank);
    return true;
}

static bool
apply_edit(struct debugger *debugger, struct task *me, const char *line, struct str *out)
{
    if (!sched_is_stepped(debugger->sched)) {
        str_add(out, "only the stepped executor can be edited");
        return false;
    }
    if (strncmp(line, "set ", 4) == 0 && debugger->names.set != NULL)
        return debugger->names.set(debugger->names.context, me, line + 4, out);
    if (strncmp(line, "switch ", 7) == 0)
        return edit_switch(debugger, line + 7, out);
    if (strncmp(line, "delay ", 6) == 0)
        return edit_delay(debugger, line + 6, out);
    if (strncmp(line, "kill ", 5) == 0)
        return edit_kill(debugger, line + 5, out);
    str_addf(out, "'%.40s' is no edit", line);
    return false;
}

/* A reply that found no memory must not look like a shorter one. */
static void
send_reply(struct debugger *debugger)
{
    static const char no_memory[] = "no\nout of memory\n.\n";
    struct str *reply = &debugger->reply;
    if (reply->len > 0 && reply->text[reply->len - 1] != '\n')
        str_add(reply, "\n");
    str_add(reply, ".\n");
    const char *text = str_ok(reply) ? reply->text : no_memory;
    if (!control_send(debugger->reader.fd, text, str_ok(reply) ? reply->len : sizeof no_memory - 1))
        debugger->gone = true;
    str_clear(reply);
}

static void
answer_verdict(struct debugger *debugger, bool ok, const struct str *text)
{
    if (str_ok(text))
        str_addf(&debugger->reply, "%s\n%s", ok ? "ok" : "no", str_text(text));
    else
        str_add(&debugger->reply, "no\nout of memory");
    send_reply(debugger);
}

static void
answer_print(struct debugger *debugger, struct task *me, const char *expression)
{
    struct str text = { 0 };
    bool       ok   = false;
    if (debugger->names.print != NULL)
        ok = debugger->names.print(debugger->names.context, me, expression, &text);
    else
        str_add(&text, "nothing has a name yet: the lesson has not begun");
    answer_verdict(debugger, ok, &text);
    str_free(&text);
}

/* false: the other end is gone, or there was no memory for what it asked, which it is told. */
static bool
read_request(struct debugger *debugger)
{
    if (control_read_line(&debugger->reader, &debugger->line))
        return true;
    debugger->gone = str_ok(&debugger->line);
    if (!debugger->gone) {
        str_free(&debugger->line);
        str_add(&debugger->reply, "no\nout of memory");
        send_reply(debugger);
    }
    return false;
}

/* Serves requests until one lets the run go on, or the other end is gone. */
static void
serve_requests(struct debugger *debugger, struct task *me)
{
    debugger->serving = true;
    while (!debugger->gone) {
        if (!read_request(debugger))
            continue;
        const char *line = str_text(&debugger->line);
        if (strncmp(line, "go ", 3) == 0) {
            debugger->target = strtoull(line + 3, NULL, 10);
            break;
        }
        if (strncmp(line, "print ", 6) == 0) {
            answer_print(debugger, me, line + 6);
        } else if (strcmp(line, "tasks") == 0) {
            str_add(&debugger->reply, "ok\n");
            sched_each_task(debugger->sched, explain_task, &debugger->reply);
            send_reply(debugger);
        } else {
            struct str text = { 0 };
            bool       ok   = apply_edit(debugger, me, line, &text);
            answer_verdict(debugger, ok, &text);
            str_free(&text);
        }
    }
    debugger->serving = false;
}

static void
repeat_edits(struct debugger *debugger, struct task *me, uint64_t seq)
{
    while (debugger->next_edit < debugger->edit_count && debugger->edits[debugger->next_edit].seq <= seq) {
        struct str text = { 0 };
        apply_edit(debugger, me, debugger->edits[debugger->next_edit++].line, &text);
        str_free(&text);
    }
}

static void
debugger_event(struct observer *self, struct task *me, const struct trace_event *event, uint64_t seq)
{
    struct debugger *debugger = (struct debugger *)self;
    (void)event;
    debugger->seen = seq;
    if (debugger->serving)
        return;
    if (debugger->next_edit < debugger->edit_count)
        repeat_edits(debugger, me, seq);
    if (seq < debugger->target || debugger->gone)
        return;
    str_addf(&debugger->reply, "at %" PRIu64, seq);
    send_reply(debugger);
    serve_requests(debugger, me);
}

struct debugger *
debugger_new(int fd, const struct debugger_edit *edits, size_t edit_count)
{
    struct debugger *debugger = calloc(1, sizeof *debugger);
    if (debugger == NULL)
        return NULL;
    debugger->observer.event = debugger_event;
    debugger->reader.fd      = fd;
    if (edit_count > 0) {
        debugger->edits = malloc(edit_count * sizeof *edits);
        if (debugger->edits == NULL) {
            free(debugger);
            return NULL;
        }
        memcpy(debugger->edits, edits, edit_count * sizeof *edits);
        debugger->edit_count = edit_count;
    }
    return debugger;
}

void
debugger_free(struct debugger *debugger)
{
    if (debugger == NULL)
        return;
    str_free(&debugger->line);
    str_free(&debugger->reply);
    free(debugger->edits);
    free(debugger);
}

void
debugger_attach(struct debugger *debugger, struct sched *sched)
{
    debugger->sched = sched;
    sched_set_observer(sched, &debugger->observer);
}

struct debugger *
debugger_of(struct sched *sched)
{
    if (sched->observer == NULL || sched->observer->event != debugger_event)
        return NULL;
    return (struct debugger *)sched->observer;
}

void
debugger_set_names(struct debugger *debugger, const struct debugger_names *names)
{
    debugger->names = *names;
}

void
debugger_finished(struct debugger *debugger, struct task *me, int status)
{
    while (!debugger->gone) {
        str_addf(&debugger->reply, "end %d %" PRIu64, status, debugger->seen);
        send_reply(debugger);
        serve_requests(debugger, me);
    }
}
