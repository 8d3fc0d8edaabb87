/* How a run is told: the stops of `next`. Every kind has a part (story.def): a word of the lesson or a fault, an act that
 * opens a part of training, a scene that one thing is about, a detail inside of scenes, or none (quiet).
 *
 *   a round       is one stop: the same kind on all ranks, of the same spawn, iteration and thing (bucket, call), the
 *                 n-th on its lane. An act stops at the last begin, a scene at the last end: the story goes at the pace
 *                 of the last one. A rank counts as come, too, when it has ended, has begun a later act on that lane, has
 *                 left or passed the act around, or, of scenes, has finished one on that lane that comes later on another
 *                 rank. Who comes after all is told in a round of its own; a fault closes all rounds for good, and its
 *                 sentence says who stood where
 *   what repeats  is told once: an act like that of the iteration before (in iteration 0: of the spawn before) is no
 *                 stop, and its scenes are none as long as they are that one's, each lane's in order. From the first
 *                 other one on all are told; an act that lacks some is told itself, unless one of its spawn was like it
 *   collectives   of a bucket are scenes at their ends; those that the lesson calls itself are acts, and the steps of
 *                 their algorithm scenes, for the first call of an algorithm; others are details
 *
 * It is a fold over the events, so a live run, a batch and a saved trace have the same stops; a round that may still get
 * members keeps back the stops behind it.
 * Order of use: story_new; story_read as the trace grows; story_close once no more comes; stops by index; story_free. */
#ifndef ANALYSIS_STORY_H
#define ANALYSIS_STORY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct story;
struct str;
struct trace;

struct story_stop {
    size_t   at, first;                       /* where one stands; the round's first event */
    uint32_t round;
};

/* What `story --count` tells of the events so far. untold: acts and scenes that no stop tells, that did not run as before
 * and that no fault has cut. loose: details of a rank that no stop tells of; all others lie in one, or on the way from
 * one of its rank's to the next. */
struct story_figures { size_t stops, questions, alike, untold, loose; };

struct story *story_new(struct trace *trace);            /* borrows it; NULL: no memory */
void          story_free(struct story *story);
/* How many events it has read; 0 again if others came before them, behind its end, or if there was no memory. */
size_t        story_seen(struct story *story);
bool          story_read(struct story *story, size_t count);   /* events 0 to count - 1; false: no memory */
bool          story_close(struct story *story);                /* no more comes: all rounds are over */
size_t        story_count(const struct story *story);          /* of stops, in the order of events */
size_t        story_settled(const struct story *story);        /* stops before that event do not change any more */
const struct story_stop *story_at(const struct story *story, size_t index);
size_t        story_index(const struct story *story, size_t seq);  /* of the first stop at `seq` or behind it */
/* What ran as before, above a stop: "Iterations 2 to 13 ran as iteration 1."; of iterations that were told in part, that
 * what lies between did. Nothing where nothing did. */
void          story_again(const struct story *story, const struct story_stop *stop, struct str *out);
/* The stop's sentence; no newline. */
void          story_tell(struct story *story, const struct story_stop *stop, struct str *out);
/* The same of one event, whether one stops there or not; below what ran as before, where one stops. Nothing of what is
 * quiet, or of which the sentence is not true there (story_tells). */
void          story_tell_event(struct story *story, size_t seq, struct str *out);
void          story_tell_line(struct story *story, size_t seq, struct str *out);  /* the same as a line, "story: ..." */
void          story_figures(struct story *story, struct story_figures *out);
#endif
