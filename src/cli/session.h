/* A debugging session: a cursor over the recorded trace and, in a child process, the engine that records it.
 * What lies in the past comes from the trace alone; the engine is asked only to go on, to print and to edit.
 *
 * A run is a list of edits and its record. Changing something in its past makes another run: the engine starts again
 * (lesson, options, seed, schedule, edits), stops there, is changed and goes on; the run that was there is kept with its
 * record. There is one engine at a time: of a run that was left it starts again when somebody asks for more than the
 * record holds.
 *
 *   session.c  opened, closed       session_engine.c  the engine's process    session_runs.c  the runs
 *   session_move.c  stepping        session_look.c  looking and changing      session_command.c  a line
 *
 * Order of use: session_open, session_command ..., session_close. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "analysis/moves.h"
#include "base/runtime_folder.h"
#include "base/str.h"
#include "control/commands.h"
#include "sched/debugger.h"

struct trace; struct state;

/* Runs the lesson in the child: writes `trace`, serves the debugger on fd. Its answer is the exit status. */
struct session_engine {
    int (*run)(void *context, int fd, const char *trace, const struct debugger_edit *edits, size_t edit_count);
    void       *context;
    const char *record;  /* NULL: nobody wants the record afterwards */
    int         watched; /* closed at its other end: nobody waits for the first event any more; -1: none */
};

/* One that is kept. What it knows while it is the present one lies in the session itself, under the same names. */
struct session_run {
    int                   number, parent;  /* parent 0: none, or it was dropped */
    size_t                inherited;       /* so many of its edits are its parent's */
    char                  trace_path[300]; /* "": there was no room for it */
    struct debugger_edit *edits;
    size_t                edit_count, edit_room;
    uint64_t              head, cursor;
    bool                  ended, died;
    int                   status;
};

struct session {
    struct session_engine engine;
    struct runtime_folder folder;         /* holds the traces, where nobody named a place, and those of kept runs */
    struct session_run   *runs;           /* all that are kept, the present one too, by number */
    size_t                run_count, run_room;
    int                   run, last_run;  /* the present one's number; how many there were */
    char                  trace_path[300]; /* of the present run: a new file, also under an old name */
    int                   shown;          /* how often that changed */
    int                   generation;     /* engines started */
    char                  engine_path[300]; /* what the engine records */
    int                   engine_run;     /* whose engine it is */
    int                   engine_status;
    bool                  engine_ended, replays; /* replays: not to the place that was named */
    uint64_t              engine_head;    /* its last event */
    pid_t                 child;
    struct control_reader reader;         /* fd -1: no engine */
    int                   viewer;         /* its connection: who waits for the engine must see it close; -1: none */
    bool                  ended, died;
    int                   words;          /* a nameless file: what the engine wrote to stderr beside a viewer; -1 none */
    int                   death;          /* how the engine that died ended, as waitpid says; -1: it has not been seen */
    int64_t               again_ms;       /* what it cost to run again up to the cursor; -1: it was not needed */
    bool                  starved;        /* there was no memory for what the engine said, or for its record */
    int                   status;         /* the run's exit status once it ended */
    uint64_t              head, cursor;   /* the record's last event; where the user looks */
    struct trace         *trace;
    struct state         *state;
    struct debugger_edit *edits;
    size_t                edit_count, edit_room;
    struct move_rules     rules;
    struct story         *story;
    bool                  quit;
};

/* Records to engine->record, if that is not NULL, by the rules of `run --trace`. */
bool session_open(struct session *session, const struct session_engine *engine, char *why, size_t why_size);
void session_close(struct session *session);
/* Carries out one command line; what it shows is appended to `out` (whole lines). false: it failed, `out` says why. */
bool session_command(struct session *session, const char *line, struct str *out);
const char *session_state_name(const struct session *session);   /* paused, finished, failed, dead */

/* Why the run failed: the kind of error ("" none), in which rank (-1 none), at which line of the lesson (0 none), and the
 * message, which is "" when the trace does not say. */
struct session_failure { const char *kind, *message; int rank; uint32_t line; };
struct session_failure session_failure(const struct session *session);
/* On stderr, as run tells it: what a lesson raised itself is its own text. */
void session_tell_failure(const struct session *session, const char *lesson);
/* The last line that the engine wrote to stderr, "" none; of a viewer's session alone. */
void session_last_words(const struct session *session, char *line, size_t room);
/* "engine gone (signal 9) after event 31207", of one that died, and its last words. */
void session_print_death(const struct session *session, struct str *out);
/* The exit status of an engine that died, if it is an error that the engine has told itself; 0: nobody has told. */
int session_told_status(struct session *session);

/* ---- between the session's own files ---- */
bool session_start(struct session *session, char *why, size_t why_size);   /* the first engine, and its record */
void session_stop(struct session *session, bool keep);           /* the engine; keep: its record will be read */
bool session_reach(struct session *session, uint64_t seq);       /* records up to seq; false: the run ended before */
bool session_bring(struct session *session, struct str *out);    /* the engine stands at the record's end and adds to it */
bool session_wind(struct session *session, struct str *out);     /* the engine stands at the cursor, by re-running if it must */
bool session_show(struct session *session, char *why, size_t why_size); /* reads the record at trace_path */
void session_hide(struct session *session);                      /* the record is no longer read */
void session_forget_file(struct session *session, const char *path);    /* unless it was named */
bool session_interrupted(const struct session *session);         /* the viewer has said "pause" meanwhile */
bool session_ask(struct session *session, const char *request, struct str *reply); /* false: it said no, or is gone */
bool session_move(struct session *session, const struct command_line *line, struct str *out);
bool session_look(struct session *session, const struct command_line *line, struct str *out);
bool session_change(struct session *session, const struct command_line *line, struct str *out);
bool session_run_begin(struct session *session);                 /* the first one; false: no memory */
bool session_run_edited(struct session *session, const char *request, struct str *out); /* the engine took it, at the cursor */
bool session_run_undo(struct session *session, struct str *out); /* edits behind the cursor are none of this run's */
/* A line for each run that is kept, as control/commands.h says: for viewers. */
void session_tell_branches(struct session *session, struct str *out);
bool session_runs(struct session *session, const struct command_line *line, struct str *out);
void session_runs_free(struct session *session);
#endif
