/* A made trace: what a run of many ranks could have recorded, of any size, the same for the same plan. It holds exactly
 * plan->events events in the order of their times, at least events_least of them. */
#ifndef CLI_SYNTH_H
#define CLI_SYNTH_H
#include <stdbool.h>
#include <stdint.h>

struct trace_writer;

/* A flow is a message from one rank's lane of communication to another rank's: the begin and end of its hop and of its
 * receive, four events. */
struct synth_plan { uint64_t events, lanes, ranks, depth, flows, faults, seed; };
enum { FLOW_EVENTS = 4, RANK_LANES = 3 }; /* a rank's first lanes are host, compute, comm */

bool synth_write(const struct synth_plan *plan, struct trace_writer *writer); /* false: no room for it, or no memory */
#endif
