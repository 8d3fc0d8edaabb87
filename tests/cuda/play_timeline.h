/* What the parts of play_timeline share: a run with three streams of one GPU, and what each part plays. */
#ifndef TESTS_CUDA_PLAY_TIMELINE_H
#define TESTS_CUDA_PLAY_TIMELINE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake_cupti.h"
#include "plugins/cuda/timeline.h"

enum { STREAMS = 3, ROOM = 2 * TIMED_RECORDS, MS = 1000000 };

/* Its name is what it proves. `fake`: RINGSIDE_FAKE_CUDA for it, or NULL. */
struct play_test { void (*run)(void); const char *name, *fake; };
extern const struct play_test play_cupti[], play_choice[], play_pairs[], play_ranges[];  /* each ends with NULLs */

void check(bool holds, const char *what, int line);      /* else the test ends here */
#define CHECK(holds) check((holds), #holds, __LINE__)

/* The clock answers `now`, or, while there are `steps`, the next of them. Once the run is over nobody may ask. */
struct play_run { uint64_t now, asked; uint64_t steps[16]; int step_count, step; bool is_over; };
extern struct play_run       run;
extern struct backend_stream streams[STREAMS];
extern struct backend_record records[ROOM];              /* what `fetch` answered */
extern char                 *pinned;                     /* a megabyte that may be copied about */

bool   device_open(bool timeline);                       /* false: nobody measures */
void   stream_open(int index);
void   stream_close(int index);                          /* when it has done all */
void   open_all(const char *source);                     /* RINGSIDE_CUDA_TIMELINE; all streams are measured */
void   close_all(void);                                  /* and the run is over */
size_t fetch(uint64_t *lost);
bool   says(const char *words);                          /* the line of timeline_probe */
void   queue_copy(int stream, uint64_t ticket, size_t bytes);
#endif
