/* The traces of a job's processes as one, and one answer for all of them. On one host they are read where they lie,
 * while they grow; from other hosts they are sent through the job's store when a spawn has ended.
 *
 * Interface in order of use: trace_job_tell, trace_job_cut, trace_job_send, trace_job_whole, trace_job_ask,
 * trace_job_forget. */
#include "lua/trace_job.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/reader.h"
#include "c10d/job.h"
#include "c10d/own_host.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "lua/pickle.h"
#include "lua/share.h"
#include "lua/spawn.h"
#include "lua/spawned.h"
#include "sched/sched.h"
#include "trace/join.h"
#include "trace/offset.h"
#include "trace/reader.h"
#include "trace/writer.h"

enum { KEY = 64 };
static const size_t SENT_MOST = (size_t)64 << 20;

/* Where a process's trace lies: the host by its kernel's boot, the file also by its number there. */
struct place { char host[HOST_ID_BYTES], path[PATH_MAX]; int64_t device, number; };

/* In the first process. */
struct job_traces {
    int            count;
    struct trace **parts;      /* NULL: not read, or its own, which rs.trace has */
    unsigned      *sent;       /* of those that were sent: at which cut */
    bool          *missing;    /* was said */
    struct trace  *whole;
    unsigned       cut;        /* of `whole` */
    size_t         own_count;  /* of the own events then */
};

static void
drop_traces(struct task *me, void *traces_)
{
    struct job_traces *traces = traces_;
    (void)me;
    for (int i = 0; traces->parts != NULL && i < traces->count; i++)
        trace_release(traces->parts[i]);
    trace_release(traces->whole);
    free(traces->parts);
    free(traces->sent);
    free(traces->missing);
    free(traces);
}

/* ---- where they are ---- */

static void
place_here(struct task *me, struct place *out)
{
    const struct lesson *lesson = lesson_of(me);
    const char          *path   = lesson != NULL ? lesson_options(lesson)->trace : NULL;
    struct stat          about;
    *out = (struct place){ .host = "", .path = "" };
    own_host_id(out->host);
    if (path == NULL || realpath(path, out->path) == NULL || stat(out->path, &about) != 0) {
        out->path[0] = '\0';
        return;
    }
    out->device = (int64_t)about.st_dev;
    out->number = (int64_t)about.st_ino;
}

static void
place_key(int process, char key[KEY])
{
    snprintf(key, KEY, "lesson/trace/%d", process);
}

bool
trace_job_tell(struct task *me, struct script *script, const struct share *share)
{
    struct place place;
    struct str   out = { 0 };
    char         key[KEY];
    if (script->trace_told)
        return true;
    place_here(me, &place);
    share_add_text(&out, place.host);
    share_add_text(&out, place.path);
    share_add_number(&out, place.device);
    share_add_number(&out, place.number);
    place_key(job_rank(share->job), key);
    bool ok = share_put(me, share, key, &out);
    str_free(&out);
    script->trace_told = ok;
    return ok;
}

/* false: not told, or failed. */
static bool
find_place(struct task *me, const struct share *share, int process, struct place *out)
{
    struct store_text text;
    char              key[KEY];
    place_key(process, key);
    if (share_look(me, share, key, &text) != SHARE_TAKEN)
        return false;
    struct reader in   = reader_of(text.bytes, text.count);
    const char   *host = share_read_text(&in), *path = share_read_text(&in);
    out->device = share_read_number(&in);
    out->number = share_read_number(&in);
    if (in.broken || host == NULL || path == NULL)
        return false;
    snprintf(out->host, sizeof out->host, "%s", host);
    snprintf(out->path, sizeof out->path, "%s", path);
    return true;
}

void
trace_job_cut(struct task *me, struct script *script)
{
    struct trace_writer *writer = sched_writer(me->sched);
    char                 key[32], text[24];
    snprintf(key, sizeof key, JOB_CUT "%u", ++script->cuts);
    snprintf(text, sizeof text, "%" PRIu64, trace_moment(writer).ticks);
    trace_option(writer, key, text);
}

/* ---- from other hosts ---- */

static void
bytes_key(int process, char key[KEY])
{
    snprintf(key, KEY, "lesson/trace/%d/bytes", process);
}

bool
trace_job_send(struct task *me, struct script *script, const struct share *share)
{
    struct place first, own;
    size_t       size = 0;
    const char  *why  = NULL;
    char         key[KEY];
    int          rank = job_rank(share->job);
    if (rank == 0 || !find_place(me, share, 0, &first))
        return !task_failed(me);
    place_here(me, &own);
    if (own.path[0] == '\0' || (strcmp(own.host, first.host) == 0 && own.host[0] != '\0'))
        return true;
    char      *bytes = file_read(own.path, SENT_MOST, &size, &why);
    struct str out   = { 0 };
    share_add_number(&out, script->cuts);
    if (bytes != NULL)
        str_add_bytes(&out, bytes, size);
    free(bytes);
    bytes_key(rank, key);
    bool ok = share_put(me, share, key, &out);
    str_free(&out);
    return ok;
}

/* A trace that was sent, in a file without a name. NULL: it was not, or is too large. */
static struct trace *
open_sent(struct task *me, const struct share *share, int process, unsigned *cut)
{
    struct store_text text;
    char              key[KEY], why[300];
    bytes_key(process, key);
    if (share_look(me, share, key, &text) != SHARE_TAKEN)
        return NULL;
    struct reader in    = reader_of(text.bytes, text.count);
    unsigned      at    = (unsigned)share_read_number(&in);
    int           fd    = memfd_create("ringside trace", MFD_CLOEXEC);
    size_t        left  = text.count - in.at;
    const char   *bytes = (const char *)text.bytes + in.at;
    while (fd >= 0 && left > 0) {
        ssize_t done = write(fd, bytes, left);
        if (done <= 0 && errno != EINTR)
            break;
        bytes += done > 0 ? done : 0;
        left -= done > 0 ? (size_t)done : 0;
    }
    struct trace *trace = fd >= 0 && left == 0 && text.count > in.at ? trace_open_fd(fd, why, sizeof why) : NULL;
    if (fd >= 0)
        close(fd);
    if (trace != NULL)
        *cut = at;
    return trace;
}

/* ---- as one ---- */

static struct trace *
open_there(const struct place *place)
{
    struct stat about;
    char        why[300];
    if (place->path[0] == '\0' || stat(place->path, &about) != 0 || (int64_t)about.st_dev != place->device ||
        (int64_t)about.st_ino != place->number)
        return NULL;
    return trace_open(place->path, why, sizeof why);
}

static void
say_missing(struct task *me, struct job_traces *traces, int process)
{
    char text[160];
    if (traces->missing[process] || lesson_of(me) == NULL)
        return;
    traces->missing[process] = true;
    snprintf(text, sizeof text, "rs.trace does not see rank %d: its trace cannot be read from here, or is larger than "
             "64 MiB", process);
    lesson_note(lesson_of(me), -1, "note", text);
}

static void
refresh_part(struct task *me, const struct share *share, struct job_traces *traces, int process, unsigned cut)
{
    struct place own, place;
    place_here(me, &own);
    if (!find_place(me, share, process, &place))
        return;
    bool here = strcmp(own.host, place.host) == 0 && own.host[0] != '\0';
    if (here && traces->parts[process] == NULL)
        traces->parts[process] = open_there(&place);
    else if (here)
        trace_refresh(traces->parts[process]);
    if (!here && (traces->parts[process] == NULL || traces->sent[process] != cut)) {
        struct trace *sent = open_sent(me, share, process, &traces->sent[process]);
        if (sent != NULL)
            trace_release(traces->parts[process]);
        traces->parts[process] = sent != NULL ? sent : traces->parts[process];
    }
    if (traces->parts[process] == NULL)
        say_missing(me, traces, process);
}

static struct job_traces *
traces_of(struct task *me, struct script *script, int count)
{
    struct job_traces *traces = script->parts[SCRIPT_JOB_TRACE];
    if (traces != NULL)
        return traces;
    traces = calloc(1, sizeof *traces);
    if (traces != NULL) {
        traces->count   = count;
        traces->parts   = calloc((size_t)count, sizeof *traces->parts);
        traces->sent    = calloc((size_t)count, sizeof *traces->sent);
        traces->missing = calloc((size_t)count, sizeof *traces->missing);
    }
    if (traces != NULL && (traces->parts == NULL || traces->sent == NULL || traces->missing == NULL)) {
        drop_traces(me, traces);
        traces = NULL;
    }
    script->parts[SCRIPT_JOB_TRACE]     = traces;
    script->drop_part[SCRIPT_JOB_TRACE] = drop_traces;
    return traces != NULL ? traces : failed_null(me, E_MEMORY, "out of memory for the trace");
}

static bool
join_traces(struct task *me, struct job_traces *traces, struct trace *own, bool is_cut, unsigned cut)
{
    struct join_part *parts = calloc((size_t)traces->count, sizeof *parts);
    struct join_wish  wish  = { .clock = JOIN_JOB, .is_cut = is_cut, .cut = cut, .own = own };
    size_t            count = 0;
    char              why[300] = "";
    if (parts == NULL)
        return failed(me, E_MEMORY, "out of memory for the trace");
    for (int i = 0; i < traces->count; i++)
        if (i == 0 || traces->parts[i] != NULL)
            parts[count++] = (struct join_part){ i == 0 ? "rank 0" : "another rank", i == 0 ? own : traces->parts[i] };
    struct trace *whole = trace_join(parts, count, &wish, why, sizeof why);
    free(parts);
    if (whole == NULL)
        return failed(me, E_RUNTIME, "the traces of the job's processes cannot be read as one: %s", why);
    trace_release(traces->whole);
    traces->whole     = whole;
    traces->cut       = cut;
    traces->own_count = trace_count(own);
    return true;
}

static bool
make_whole(struct task *me, struct script *script, struct job *job, struct trace *own)
{
    struct share      *share  = share_of(me, script, job);
    struct job_traces *traces = share != NULL ? traces_of(me, script, job_size(job)) : NULL;
    bool               is_cut = lesson_of(me) == NULL || !lesson_is_rank(lesson_of(me));
    if (traces == NULL)
        return false;
    if (is_cut && traces->whole != NULL && traces->cut == script->cuts && traces->own_count == trace_count(own))
        return true;
    for (int i = 1; i < traces->count && !task_failed(me); i++)
        if (!is_cut || traces->whole == NULL || traces->cut != script->cuts)
            refresh_part(me, share, traces, i, script->cuts);
    if (script->parts[SCRIPT_STATE] != NULL)
        script->drop_part[SCRIPT_STATE](me, script->parts[SCRIPT_STATE]); /* of what the whole was */
    script->parts[SCRIPT_STATE] = NULL;
    return !task_failed(me) && join_traces(me, traces, own, is_cut, script->cuts);
}

/* The lesson's own script asks of all; a rank that a spawn has started, of its own process. */
static bool
asks_of_all(const struct task *me, const struct script *script)
{
    const struct job *job = share_job(me);
    return job != NULL && job_has_joined(job) && script_rank(script) < 0 && script->rank < 0;
}

struct trace *
trace_job_whole(lua_State *L, struct trace *own)
{
    struct script *script = script_of(L);
    struct task   *me     = script->holder;
    if (!asks_of_all(me, script) || job_rank(share_job(me)) > 0 || !script->trace_told)
        return NULL;
    struct call call = call_open(L, me, CALL_PLAIN);
    call_done(&call, make_whole(me, script, share_job(me), own));
    return ((struct job_traces *)script->parts[SCRIPT_JOB_TRACE])->whole;
}

/* ---- one answer ---- */

static void
question_key(unsigned number, char key[KEY])
{
    snprintf(key, KEY, "lesson/question/%u", number);
}

struct answered { struct str bytes; };

static int
answered_gc(lua_State *L)
{
    str_free(&((struct answered *)lua_touserdata(L, 1))->bytes);
    return 0;
}

/* The results from index `first` on, as bytes behind the number of them. */
static void
write_results(lua_State *L, int first, struct str *out)
{
    int count = lua_gettop(L) - first + 1;
    share_add_number(out, count);
    for (int i = 0; i < count; i++) {
        size_t size  = pickle_size(L, first + i);
        void  *bytes = lua_newuserdatauv(L, size + 1, 0);
        pickle(L, first + i, bytes, size);
        share_add_block(out, bytes, size);
        lua_pop(L, 1);
    }
}

static void
publish(lua_State *L, struct task *me, const char *key, const struct str *answer)
{
    struct call   call  = call_open(L, me, CALL_PLAIN);
    struct share *share = share_of(me, script_of(L), share_job(me));
    call_done(&call, share != NULL && share_put(me, share, key, answer));
}

static int
answer_all(lua_State *L, lua_CFunction answer, const char *key)
{
    struct task     *me     = script_of(L)->holder;
    int              count  = lua_gettop(L);
    struct answered *answered = push_owned(L, sizeof *answered, "ringside.answered", answered_gc);
    lua_insert(L, 1);
    lua_pushcfunction(L, answer);
    lua_insert(L, 2);
    bool         ok    = script_call(L, me, count, LUA_MULTRET);
    struct error error = ok ? (struct error){ 0 } : me->error;
    task_clear_error(me);
    share_add_error(&answered->bytes, &error);
    if (ok)
        write_results(L, 2, &answered->bytes);
    publish(L, me, key, &answered->bytes);
    if (!ok) {
        me->error = error;
        return raise(L, me);
    }
    return lua_gettop(L) - 1;
}

static int
take_answer(lua_State *L, const char *key)
{
    struct task      *me = script_of(L)->holder;
    struct store_text text = { 0 };
    struct error      error = { 0 };
    struct call       call  = call_open(L, me, CALL_BACK);
    struct share     *share = share_of(me, script_of(L), share_job(me));
    enum share_got    got   = share != NULL ? share_take(me, share, 0, key, &text) : SHARE_FAILED;
    struct reader     in    = reader_of(text.bytes, text.count);
    if (got == SHARE_GONE)
        failed(me, E_RUNTIME, "the process of rank 0, which answers for rs.trace, has ended");
    if (got == SHARE_TAKEN)
        share_read_error(&in, &error);
    if (error.kind != E_NONE)
        spawn_fail_as(me, &error);
    call_end(&call, !task_failed(me));
    int     first = lua_gettop(L);
    int64_t count = share_read_number(&in);
    for (int64_t i = 0; i < count && !in.broken; i++) {
        size_t      size;
        const void *bytes = share_read_block(&in, &size);
        stack_room(L, 4);
        unpickle(L, bytes, size);
    }
    return call_leave(&call, lua_gettop(L) - first);
}

int
trace_job_ask(lua_State *L, lua_CFunction answer)
{
    struct task   *me     = script_task(L);
    struct script *script = script_of(L);
    char           key[KEY];
    if (!asks_of_all(me, script) || (lesson_of(me) != NULL && lesson_is_rank(lesson_of(me))))
        return answer(L);
    question_key(script->questions++, key);
    return job_rank(share_job(me)) == 0 ? answer_all(L, answer, key) : take_answer(L, key);
}

void
trace_job_forget(struct task *me, struct script *script, const struct share *share)
{
    char key[KEY];
    for (; script->questions_forgotten < script->questions; script->questions_forgotten++) {
        question_key(script->questions_forgotten, key);
        share_forget(me, share, key);
    }
}
