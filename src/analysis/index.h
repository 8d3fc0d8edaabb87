/* A trace arranged by lane, so that whoever draws or asks never walks over all events: per lane and level its spans,
 * in blocks of 64 with a pyramid of sums above them; its marks; flows by both of their ends; which kinds and
 * iterations lie where. Of a million events on it is built in slices and kept in a file (index_file.c); below, at once
 * and in memory. As long as it is not whole, sums of a sample stand for it and questions search near where they are
 * asked. What comes from a file is believed nowhere: answers may be wrong then, places are always within bounds.
 * Order of use: index_open, index_build until it is whole, then the questions; index_refresh while the trace grows;
 * index_close. */
#ifndef ANALYSIS_INDEX_H
#define ANALYSIS_INDEX_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analysis/work.h"

struct trace; struct index; struct track;

enum { LEVELS = 24, INDEX_BLOCK = 64, INDEX_FAN = 16, INDEX_HEIGHTS = 5 };  /* deeper spans are part of the ones around them */
#define STILL_OPEN UINT64_MAX                  /* end of a span that has not ended */
#define NO_EVENT   SIZE_MAX
#define INDEX_FROM 1000000                     /* events; below, no file is worth its name */

/* Times in ps. Spans of one level of one lane do not overlap and are in order. */
struct span { uint64_t begin, end; uint32_t seq; uint8_t work; };
struct mark { uint64_t time; uint32_t seq; uint8_t work; };
struct flow { size_t from, to; };              /* seq; NO_EVENT: that end is not there (yet) */

/* What 64 spans, or 16 nodes below, are in sum. */
struct node {
    uint64_t from, last;                       /* first and last instant touched; last STILL_OPEN: one goes on */
    uint64_t longest;                          /* ps, of those that ended */
    uint64_t busy[WORK_COUNT - 1];             /* ps by class, [class - 1]; of those that ended */
    uint64_t kinds;                            /* a bit for each kind in it, by kind % 64 */
    uint16_t works;                            /* a bit for each class in it */
    uint8_t  longest_work;
    uint8_t  unused;
    uint32_t count;                            /* spans that begin in it */
};

/* The same of marks. */
struct mark_node { uint64_t from, last, kinds; uint32_t count; uint16_t works, unused; };

/* NULL: no memory. The trace is borrowed. */
struct index *index_open(struct trace *trace);
struct index *index_open_from(struct trace *trace, size_t events); /* a file from so many events on, not from INDEX_FROM */
void          index_close(struct index *index);
/* Looks at up to that many events more; true: there is more to do. Harmless once it is whole. */
bool          index_build(struct index *index, size_t events);
bool          index_is_whole(const struct index *index);
/* After trace_refresh: takes in what is new; false: no memory. */
bool          index_refresh(struct index *index);

size_t          index_count(const struct index *index);            /* events that it knows of */
uint64_t        index_end(const struct index *index);              /* ps: time of the last */
const uint32_t *index_faults(const struct index *index, size_t *count);  /* fault events and failed checks, in order */
const uint32_t *index_lessons(const struct index *index, size_t *count); /* what the lesson says, and faults */

size_t index_lanes(const struct index *index);
int    index_depth(const struct index *index, size_t lane);        /* levels in use */
size_t index_events(const struct index *index, size_t lane);       /* how many events it has */
size_t index_spans(const struct index *index, size_t lane, int level);
size_t index_marks(const struct index *index, size_t lane);

/* Asked one by one. false: there is none. */
bool   index_span(const struct index *index, size_t lane, int level, size_t i, struct span *out);
bool   index_mark(const struct index *index, size_t lane, size_t i, struct mark *out);
/* Its begin event alone, at no look at the trace; NO_EVENT: there is none. */
size_t index_begin(const struct index *index, size_t lane, int level, size_t i);
/* An upper bound of its length that costs no look at the trace; 0: it is still open, so ask. */
uint64_t index_length(const struct index *index, size_t lane, int level, size_t i);
/* The first span that ends at that time or behind it; its place, or their number. */
size_t index_find_span(const struct index *index, size_t lane, int level, uint64_t time);
size_t index_find_mark(const struct index *index, size_t lane, uint64_t time);  /* the first at or behind it */
/* The span that this begin event begins; false: it begins none. */
bool   index_span_of(const struct index *index, size_t seq, struct span *out, int *level);

/* The pyramid. Node i of height 0 holds spans [64 i, 64 i + 64), of height h nodes [16 i, 16 i + 16) of the one below.
 * Heights from 0 to index_heights - 1; NULL behind the last. */
int    index_heights(const struct index *index, size_t lane, int level);
const struct node      *index_node(const struct index *index, size_t lane, int level, int height, size_t i);
int    index_mark_heights(const struct index *index, size_t lane);
const struct mark_node *index_mark_node(const struct index *index, size_t lane, int height, size_t i);
/* Until it is whole: stretches of a sample, each of which stands for all up to the next. NULL behind the last. */
const struct node      *index_sample(const struct index *index, size_t lane, size_t i);

/* Other ends; NO_EVENT: none (yet). */
size_t index_partner(const struct index *index, size_t seq);
size_t index_flow_end(const struct index *index, size_t seq);
/* The flows with an end in events [from, to), those that leave there first; at most `room`. How many there are in all:
 * those that have both ends there are counted twice from `room` on. */
size_t index_flows(const struct index *index, size_t from, size_t to, struct flow *out, size_t room);

/* The nearest event behind `seq` (direction 1) or before it (-1); NO_EVENT: none. seq may be NO_EVENT for the ends. */
size_t index_next_on_lane(const struct index *index, size_t lane, size_t seq, int direction);
size_t index_next_of_kind(const struct index *index, unsigned kind, size_t seq, int direction); /* no ends of spans */
size_t index_next_of_work(const struct index *index, size_t lane, enum work work, size_t seq, int direction);
size_t index_next_iteration(const struct index *index, size_t seq, int direction); /* backwards: a first event of one */
size_t index_seq_at(const struct index *index, uint64_t time);   /* the first event at that time or behind it */
#endif
