/* The story's sentences: what a kind's part in the story is, and an event or a round of it in one sentence. The words are
 * a table of this reader's by the kinds' names (story.def), so that old traces are told, too; a kind that it does not know
 * is told by its name and its arguments.
 * Order of use: story_part_of, story_tells, then story_sentence as often as one likes. */
#ifndef ANALYSIS_STORY_WORDS_H
#define ANALYSIS_STORY_WORDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/format.h"

struct trace; struct str;

enum story_part {
    PART_ACT,       /* opens a part of training: stops at its begin */
    PART_CALL,      /* a collective: an act if the lesson itself calls it, else a detail */
    PART_SCENE,     /* stops where it has happened */
    PART_OPENING,   /* a scene that stops at its begin: what it starts lies inside it */
    PART_DETAIL,    /* happens inside of scenes, never stops by itself */
    PART_WORD,      /* the lesson speaks, or something failed */
    PART_QUIET      /* only `step` sees it */
};

enum { STORY_WORDS_MOST = 16 };      /* in a sentence; a longer one is cut, but for what the lesson itself says */

/* What a sentence is about: a stop of the story, or one event by itself. */
struct told {
    size_t      at, first, last;     /* the event whose arguments are told; the first and the last event of its round */
    const int  *ranks;               /* who came, ascending; none: a run without ranks, or the event's own */
    int         rank_count;
    int         step, steps;         /* of a collective's algorithm; 0: none */
    int64_t     bucket;              /* of a bucket's all-reduce; -1: none */
    const char *own;                 /* the lesson's own sentence for the kind; NULL: none */
};

enum story_part story_part_of(const char *kind);          /* PART_DETAIL if the table has it not */
/* Whether the kind's sentence is true of an event of that phase: an act's at its begin, what has happened at its end. */
bool            story_tells(const char *kind, enum trace_phase phase);
/* One line without its newline. Nothing that could steer a terminal is in it. Without memory `out` is broken. */
void            story_sentence(struct trace *trace, const struct told *told, struct str *out);
#endif
