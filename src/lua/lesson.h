/* A lesson's voice: what it says, asks and checks, where that is printed and how it is counted. One per run, in
 * sched_part(PART_LESSON); ranks of every spawn share it, so all of it is safe under threads.
 * Order of use: lesson_new, then in the run's tasks lesson_begin, _say, _ask, _check; lesson_end; lesson_failed;
 * lesson_free. */
#ifndef LUA_LESSON_H
#define LUA_LESSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct task; struct lesson; struct script; struct debugger_names; struct sched; struct str; struct reader; struct error;

struct lesson_options {
    const char *name;          /* stands before its checks' names: "01-six-rows"; copied */
    FILE       *out;           /* NULL: nowhere */
    bool        tap, quiet, teacher;
    bool        trusted;       /* --trust: its words go out as they are, else through base/visible.h */
    const char *path;          /* the lesson's file, for what lies beside it; NULL: unknown. Must outlive the run */
    const char *hardware;      /* --hardware, over the lesson's own; NULL. Must outlive the run */
    bool        has_seed;      /* --seed: for what the lesson does not seed */
    uint64_t    seed;
    int         world;         /* --world: 0 none */
    bool        hops;          /* --hops */
    bool        check_ranks;   /* --check-ranks */
    const char *trace;         /* the file of this process's trace; NULL: none. Must outlive the run */
    int         process;       /* of a job: which one this is; 0 without a job */
    struct exercise_report *report; /* checks and hints go there and are not printed; NULL: printed. Must outlive the run */
};

/* How the checks of an exercise went. Plain bytes of a fixed size: it may lie in memory that two processes share. */
struct exercise_report {
    int  checks, failed;
    bool completed;
    int  endless;                  /* the exercise's line at which the run had used up its steps; 0: none */
    char name[400], detail[1000];  /* of the first check that fails */
    char hints[4000];              /* its hints, a line for each, then those of rs.hint */
};

struct lesson *lesson_new(const struct lesson_options *options);   /* NULL: no memory */
void           lesson_free(struct lesson *lesson);
const struct lesson_options *lesson_options(const struct lesson *lesson);
void           lesson_runs_in(struct lesson *lesson, struct sched *sched);   /* it is that run's from now on */
struct lesson *lesson_of(const struct task *me);                   /* of this run; NULL: none */

/* The checks of an exercise, whose file is called `name` in messages: from here on a failed check tells no line and no
 * expected value, and an error of the run is a check that fails. */
void lesson_examine(struct lesson *lesson, const char *name);
bool lesson_examines(const struct lesson *lesson);
/* At the end of a run that has failed: an error that the exercise can have caused becomes a failed check, and the task
 * is as if nothing had been. false: it stays an error. */
bool lesson_forgive(struct task *me, struct lesson *lesson);

/* What rs.lesson declared. */
struct lesson_head {
    const char *title;
    int         devices, world;      /* world 0: not said */
    bool        has_seed;
    uint64_t    seed;
    bool        hops;                /* hops are recorded above 64 ranks too */
    bool        check_ranks;         /* replicas of a model are compared, see parallel/check_ranks.h */
    bool        other_hardware;      /* --hardware named another one than the lesson: its times do not hold */
    const char *prefix;              /* before the checks' names; NULL: the lesson's name and "/" */
};
bool lesson_begun(const struct lesson *lesson);
void lesson_begin(struct task *me, struct lesson *lesson, const struct lesson_head *head); /* once */
const struct lesson_head *lesson_head(const struct lesson *lesson);

/* rank -1: the lesson itself; else the rank of a spawn: a prefix for narration, and checks wait for lesson_join. */
bool lesson_say(struct task *me, struct lesson *lesson, int rank, const char *text);
/* What print says, piece by piece between an open and its close: its lines, behind "# " in TAP; NULs may be in it. Nobody
 * else prints meanwhile, so nothing between the two may raise or wait. */
void lesson_print_open(struct lesson *lesson, int rank);
void lesson_print_text(struct lesson *lesson, const char *text, size_t length);
void lesson_print_close(struct lesson *lesson);
bool lesson_hint(struct task *me, struct lesson *lesson, int rank, const char *text); /* after a check that failed */
/* Prints only: word is "teacher", "hint" or "warning". */
bool lesson_note(struct lesson *lesson, int rank, const char *word, const char *text);
/* Of a question. wrong: what is said of each choice when it is given, NULL: nothing of its own; hides: kinds that the
 * screen keeps back until it is answered, with blanks between; NULL: none. */
struct lesson_choice { const char *text, *wrong; };
struct lesson_question { const char *question, *answer, *why, *hides; struct lesson_choice *choices; int choice_count; };
bool lesson_ask(struct task *me, struct lesson *lesson, struct lesson_question *question); /* puts the choices in their order */
/* skip: why it did not run, NULL: it ran. hints: of a check that fails, a line for each; NULL: none. */
struct lesson_check { int rank; uint32_t line; bool ok; const char *name, *detail, *skip, *hints; };
bool lesson_check(struct task *me, struct lesson *lesson, const struct lesson_check *check);
void lesson_join(struct task *me, struct lesson *lesson);          /* prints what ranks kept, by (rank, line) */
/* All processes of a job run the lesson, and the first alone says what the lesson itself says. From here on this process is a
 * rank as a whole, as under torchrun: it prints, and its checks wait for lesson_end of the first. */
void lesson_becomes_rank(struct lesson *lesson);
bool lesson_is_rank(const struct lesson *lesson);
/* What the script of a process that is not the first prints. It may be a lesson, for which the first prints, or a rank of a
 * program: that shows with the first spawn, or with init_process_group, or the end. Until then its lines are kept, 64 KiB of
 * them; when it is known they are shown or dropped, as all that follow. */
enum lesson_prints { PRINTS_KEPT, PRINTS_SHOWN, PRINTS_DROPPED };
void lesson_set_prints(struct lesson *lesson, enum lesson_prints prints);
/* What ranks kept, for another process; then it is kept here no more. And what another wrote. false: failed. */
void lesson_write_checks(struct task *me, struct lesson *lesson, struct str *out);
bool lesson_read_checks(struct task *me, struct lesson *lesson, struct reader *in);
/* An error that all processes of a job raise: the first tells it. */
void lesson_share_error(struct lesson *lesson, const struct error *error);
bool lesson_is_told(const struct lesson *lesson, const struct error *error);   /* elsewhere */
/* gather.c: the lesson's own script has failed with me's error; whether the first process says the same, which ends soon then. */
void lesson_compare_error(struct task *me, struct lesson *lesson);
/* gather.c, at the end of processes that are ranks: the checks of all become the first one's, if all go well. */
void lesson_gather(struct task *me, struct lesson *lesson, bool completed);
/* The end: `completed` prints the plan. */
void lesson_end(struct task *me, struct lesson *lesson, bool completed);
int  lesson_failed(const struct lesson *lesson);                   /* checks that do not hold */
int  lesson_write_error(const struct lesson *lesson);              /* errno of the first failed write, 0 none */

/* The scripts of the run, by rank (-1: the lesson's own), for the debugger. */
bool           lesson_add_script(struct lesson *lesson, int rank, struct script *script); /* false: no memory */
void           lesson_remove_script(struct lesson *lesson, struct script *script);
struct script *lesson_script(struct lesson *lesson, int rank);     /* NULL: none now */

/* names.c: how the debugger finds tensors and locals. */
struct debugger_names lesson_names(struct lesson *lesson);
void lesson_names_tensors(struct sched *sched);   /* what a lesson calls its tensors, for messages */
#endif
