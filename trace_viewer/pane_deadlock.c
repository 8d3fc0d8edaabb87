/* The deadlock screen. At a fault: what happened in a line; who waits for whom, ranks that went another way first; why;
 * the last call that all have done; what to try; behind it the report as the engine wrote it. Each line leads to its
 * event. An error that only repeats a fault says where that was found, and who has raised it. Once it was caught it is
 * over. */
#include "panes.h"

#include "page.h"
#include "parties.h"
#include "raised.h"
#include "ranks.h"
#include "analysis/state.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum fault {
    FAULT_NONE, FAULT_DEADLOCK, FAULT_TIMEOUT, FAULT_MISMATCH, FAULT_DIVERGENCE, FAULT_REUSE, FAULT_RACE,
    FAULT_INJECTED, FAULT_ERROR
};

enum { LOOK_BACK = 512 }; /* faults: a fault that many ranks repeat is found behind their errors */

static const struct { const char *kind, *error, *head; } faults[] = {
    [FAULT_NONE]       = { "", "", "" },
    [FAULT_DEADLOCK]   = { "fault.deadlock",     "DeadlockError",   "DEADLOCK" },
    [FAULT_TIMEOUT]    = { "fault.timeout",      "TimeoutError",    "TIME-OUT" },
    [FAULT_MISMATCH]   = { "fault.mismatch",     "MismatchError",   "MISMATCH" },
    [FAULT_DIVERGENCE] = { "fault.divergence",   "DivergenceError", "DIVERGENCE" },
    [FAULT_REUSE]      = { "fault.buffer_reuse", "",                "BUFFER REUSE" },
    [FAULT_RACE]       = { "fault.race",         "RaceError",       "RACE" },
    [FAULT_INJECTED]   = { "fault.injected",     "",                "ON PURPOSE" },
    [FAULT_ERROR]      = { "fault.error",        "",                "ERROR" },
};

static enum fault
fault_at(const struct model *model, size_t seq)
{
    const char *kind = model_kind(model, seq);
    if (strncmp(kind, "fault.", 6) != 0)
        return FAULT_NONE;
    for (enum fault fault = FAULT_DEADLOCK; fault < FAULT_ERROR; fault++)
        if (strcmp(kind, faults[fault].kind) == 0)
            return fault;
    return FAULT_ERROR;
}

/* Where what an error only repeats was found; NO_EVENT: it is the first to say so. */
static size_t
found_at(const struct model *model, size_t seq)
{
    enum fault  which = FAULT_NONE;
    const char *error = model_argument_text(model, seq, "error");
    for (enum fault fault = FAULT_DEADLOCK; fault < FAULT_ERROR; fault++)
        if (faults[fault].error[0] != '\0' && strcmp(error, faults[fault].error) == 0)
            which = fault;
    size_t at = seq;
    for (int tried = 0; which != FAULT_NONE && at > 0 && tried < LOOK_BACK; tried++) {
        at = raised_last(model, at - 1);
        if (at == NO_EVENT || fault_at(model, at) == which)
            return at;
    }
    return NO_EVENT;
}

/* ---- the first line ---- */

static void
add_head(struct page *page, size_t event, const char *head, const struct str *rest, int width)
{
    struct str line = { 0 };
    str_addf(&line, "%s  %s", head, str_text(rest));
    page->starved |= !str_ok(&line) || !str_ok(rest);
    page_wrap(page, event, (struct style){ .attr = ATTR_BOLD }, width, 2, str_text(&line));
    if (page->count > 0) {
        page->lines[0].heads = (int)strlen(head);
        page->lines[0].head  = (struct style){ .ink = WORK_FAULT, .attr = ATTR_BOLD | ATTR_REVERSE };
    }
    str_free(&line);
}

static void
print_first_line(const char *text, struct str *out)
{
    str_add_bytes(out, text, strcspn(text, "\n"));
}

static void
print_injected(const struct model *model, size_t seq, struct str *out)
{
    const char *kind = model_argument_text(model, seq, "kind");
    bool    point = strcmp(kind, "kill") == 0 || strcmp(kind, "late") == 0;
    int64_t rank = -1, peer = -1, at = 0;
    model_argument(model, seq, "rank", &rank);
    model_argument(model, seq, "peer", &peer);
    model_argument(model, seq, "at", &at);
    str_add(out, kind);
    if (rank >= 0)
        str_addf(out, " r%lld", (long long)rank);
    if (peer >= 0)
        str_addf(out, " \u25ba r%lld", (long long)peer);
    const char *what = point ? "point" : peer >= 0 ? "message" : "request";
    str_addf(out, ", at its %s number %lld: a fault that was asked for", what, (long long)at);
}

static void
print_what(const struct model *model, size_t seq, const struct parties *parties, struct str *out)
{
    size_t     ranks, waiting = parties_waiting(parties, &ranks);
    struct str gone = { 0 };
    int64_t    number = -1;
    parties_print_gone(parties, &gone);
    switch (fault_at(model, seq)) {
    case FAULT_DEADLOCK:
    case FAULT_TIMEOUT:
        if (parties->waits.rank_count == 0)
            str_add(out, "nobody can run: tasks wait for each other");
        else if (gone.len > 0)
            str_addf(out, "%zu of %zu ranks wait: %s", waiting, ranks, str_text(&gone));
        else
            str_addf(out, "%s: %zu of %zu ranks wait",
                     fault_at(model, seq) == FAULT_DEADLOCK ? "nobody can run" : "it took too long", waiting, ranks);
        break;
    case FAULT_MISMATCH:
        model_argument(model, seq, "sequence", &number);
        str_addf(out, "call #%lld is not the same on all ranks", (long long)number);
        break;
    case FAULT_INJECTED:
        print_injected(model, seq, out);
        break;
    case FAULT_ERROR:
        str_addf(out, "%s: ", model_argument_text(model, seq, "error"));
        print_first_line(raised_report(model, seq), out);
        break;
    default:
        print_first_line(raised_report(model, seq), out);
    }
    out->broken |= !str_ok(&gone);
    str_free(&gone);
}

/* ---- why ---- */

/* "cause: ..." of the report in one line; "" there is none. */
static void
print_cause(const char *report, struct str *out)
{
    const char *at = strstr(report, "\ncause: ");
    if (at == NULL)
        return;
    for (at += strlen("\ncause: "); *at != '\0' && strncmp(at, "\n\n", 2) != 0;) {
        size_t length = strcspn(at, "\n");
        str_add_bytes(out, at, length);
        at += length;
        if (*at != '\n' || at[1] == '\n')
            break;
        at += strspn(at, "\n ");
        str_add(out, " ");
    }
}

static void
print_circle(const struct parties *parties, struct str *out)
{
    int    ranks[9];
    size_t count = waits_circle(&parties->waits, ranks, 9);
    for (size_t i = 0; i < count && i < 9; i++)
        str_addf(out, "r%d \u2500\u25ba ", ranks[i]);
    if (count > 9)
        str_addf(out, "+%zu \u2500\u25ba ", count - 9);
    if (count > 0)
        str_addf(out, "r%d, a circle", ranks[0]);
}

static void
add_told(struct page *page, size_t event, const char *word, const struct str *text, int width)
{
    struct str line = { 0 };
    str_addf(&line, "%-5s %s", word, str_text(text));
    page->starved |= !str_ok(&line) || !str_ok(text);
    size_t first = page->count;
    if (text->len > 0)
        page_wrap(page, event, (struct style){ 0 }, width, 6, str_text(&line));
    if (first < page->count) {
        page->lines[first].heads = (int)strlen(word);
        page->lines[first].head  = (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD };
    }
    str_free(&line);
}

static const struct waiter *
first_in_vain(const struct parties *parties)
{
    for (size_t i = 0; i < parties->count; i++)
        if (parties->list[i].first->awaits == AWAITS_CALL)
            return parties->list[i].first;
    return NULL;
}

static void
add_why(struct page *page, const struct scene *scene, size_t seq, const struct parties *parties, int width)
{
    struct str  text = { 0 };
    const char *operation;
    print_cause(raised_report(scene->model, seq), &text);
    if (text.len == 0)
        print_circle(parties, &text);
    add_told(page, seq, "why", &text, width);
    str_clear(&text);
    const struct waiter *waiter = first_in_vain(parties);
    int     group = waiter != NULL ? (int)waiter->group : 0;
    int64_t done  = waits_done_by_all(&parties->waits, group, &operation);
    if (parties->waits.call_count > 0) {
        if (done >= 0)
            str_addf(&text, "done by all: %s%s#%lld", operation, operation[0] != '\0' ? " " : "", (long long)done);
        else
            str_add(&text, "no call is done by all");
        if (group > 0)
            str_addf(&text, " in group %d", group);
        add_told(page, NO_EVENT, "last", &text, width);
    }
    str_free(&text);
}

/* ---- what to try ---- */

static void
print_try(const struct scene *scene, size_t seq, const struct parties *parties, struct str *out)
{
    bool live = scene->view->run != RUN_SAVED && scene->view->run != RUN_GONE;
    const struct party *party = parties->count > 0 ? &parties->list[0] : NULL;
    switch (fault_at(scene->model, seq)) {
    case FAULT_DEADLOCK:
    case FAULT_TIMEOUT:
    case FAULT_MISMATCH:
        if (party != NULL && party->rank_count > 0 && party->ranks[0] >= 0) {
            str_add(out, "Tab Enter back to ");
            ranks_print(party->ranks, 1, out);
            str_add(out, party->first->stands == STANDS_RETURNED ? "'s end" : party->first->stands == STANDS_KILLED
                                                                             ? "'s death" : "'s call");
        } else
            str_add(out, "Tab Enter to that wait");
        if (live)
            str_add(out, "   x let another rank run first");
        break;
    case FAULT_INJECTED:
        str_add(out, "e what comes of it");
        break;
    case FAULT_RACE:
    case FAULT_REUSE:
        str_add(out, "work:wait() before the tensor is used   S back to that use");
        break;
    case FAULT_DIVERGENCE:
        str_add(out, "S back to the last step   M to the last stage that changed it");
        break;
    default:
        str_add(out, "S back to what led to it   E the fault before");
    }
    str_add(out, "   :explain the whole report");
}

static void
add_place(struct page *page, const struct model *model, size_t seq, int width)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    struct str text = { 0 };
    if (event->rank >= 0)
        str_addf(&text, "r%d ", event->rank);
    page_place(model, event->line, &text);
    add_told(page, seq, "at", &text, width);
    str_free(&text);
}

/* Where the rank died, or failed, outermost stage first. */
static void
add_inside(struct page *page, const struct model *model, size_t seq, int width)
{
    size_t open[16], count = state_open(model->state, trace_event(model->trace, seq)->lane, open, countof(open));
    struct str text = { 0 };
    for (size_t i = 0; i < count && i < countof(open); i++) {
        str_add(&text, i > 0 ? " > " : "");
        model_label(model, open[i], &text);
    }
    add_told(page, NO_EVENT, "in", &text, width);
    str_free(&text);
}

/* ---- the page ---- */

/* What it waits in, or called last. */
static size_t
event_of_party(const struct parties *parties, const struct party *party)
{
    const struct rank_call *call = waits_last_call(&parties->waits, party->first->rank);
    return party->first->stands == STANDS_RUNNING && call != NULL ? call->seq : party->first->seq;
}

static void
compose_fault(const struct scene *scene, size_t seq, int width, struct page *page)
{
    struct parties parties;
    struct str     what = { 0 };
    enum fault     fault = fault_at(scene->model, seq);
    bool           told = fault == FAULT_DEADLOCK || fault == FAULT_TIMEOUT || fault == FAULT_MISMATCH ||
                fault == FAULT_INJECTED || fault == FAULT_ERROR;
    if (!parties_take(&parties, scene->model->state)) {
        page->starved = true;
        return;
    }
    print_what(scene->model, seq, &parties, &what);
    size_t first = told && parties.count > 0 ? event_of_party(&parties, &parties.list[0]) : seq;
    add_head(page, first, faults[fault].head, &what, width);
    if (fault == FAULT_ERROR || fault == FAULT_RACE || fault == FAULT_REUSE || fault == FAULT_DIVERGENCE)
        add_place(page, scene->model, seq, width);
    if (fault == FAULT_ERROR || fault == FAULT_INJECTED)
        add_inside(page, scene->model, seq, width);
    if (told)
        parties_print(&parties, scene, width, page);
    if (told && fault != FAULT_ERROR && fault != FAULT_INJECTED)
        add_why(page, scene, seq, &parties, width);
    str_clear(&what);
    print_try(scene, seq, &parties, &what);
    add_told(page, NO_EVENT, "try", &what, width);
    str_free(&what);
    parties_free(&parties);
}

/* An error that ranks raise, and who started them, is told once: who has raised it so far is a line of it. */
static void
add_raised(struct page *page, const struct scene *scene, size_t seq, int width)
{
    struct str text = { 0 };
    raised_print_lanes(scene->model, seq, scene->view->cursor, &text);
    add_told(page, NO_EVENT, "on", &text, width);
    str_free(&text);
}

static void
compose_echo(const struct scene *scene, size_t found, int width, struct page *page)
{
    struct str text = { 0 };
    print_first_line(raised_report(scene->model, found), &text);
    add_head(page, found, faults[fault_at(scene->model, found)].head, &text, width);
    str_clear(&text);
    print_cause(raised_report(scene->model, found), &text);
    add_told(page, found, "why", &text, width);
    add_raised(page, scene, found, width);
    str_clear(&text);
    str_addf(&text, "at event %zu; Tab Enter goes there: who waits for whom", found);
    add_told(page, found, "found", &text, width);
    str_free(&text);
}

/* The report's part that the lines above have not told: behind its first lines, which say what and why. */
static void
add_rest(struct page *page, const char *report)
{
    const char *rest = strstr(report, "\n\n");
    if (rest == NULL)
        return;
    page_add(page, NO_EVENT, (struct style){ 0 }, "");
    page_lines(page, NO_EVENT, (struct style){ .ink = INK_DIM }, rest + 2);
}

/* As of the cursor: the last fault, as long as nobody has caught it. */
static void
compose(const struct scene *scene, int width, struct page *page)
{
    const struct model *model = scene->model;
    size_t seq = raised_last(model, scene->view->cursor);
    if (seq == NO_EVENT || raised_is_over(model, seq, scene->view->cursor)) {
        page_add(page, seq, (struct style){ .ink = INK_DIM },
                 seq == NO_EVENT ? "nothing has gone wrong so far" : "what went wrong was caught; E goes back to it");
        return;
    }
    size_t found = fault_at(model, seq) == FAULT_ERROR ? found_at(model, seq) : seq;
    if (found == scene->view->cursor || found == NO_EVENT)
        compose_fault(scene, seq, width, page);
    else
        compose_echo(scene, found, width, page);
    add_rest(page, raised_report(model, found != NO_EVENT ? found : seq));
}

static enum concern
concern(const struct scene *scene)
{
    const struct model *model = scene->model;
    if (fault_at(model, scene->view->cursor) != FAULT_NONE)
        return CONCERN_EVENT;
    size_t last = raised_last(model, scene->view->cursor);
    return last != NO_EVENT && !raised_is_over(model, last, scene->view->cursor) ? CONCERN_SOME : CONCERN_NONE;
}

const struct pane_kind deadlock_pane = { .name = "Fault", .least_columns = 40, .takes_band = true, .of_state = true,
                                         .concern = concern, .compose = compose };
