/* What things cost in virtual time: numbers in, picoseconds out. A preset plus what the lesson says in `costs`.
 * All prices are computed in double and rounded half up to whole picoseconds once per priced action. */
#ifndef HW_COST_H
#define HW_COST_H
#include <stdbool.h>
#include <stdint.h>
#include "hw/topology.h"

struct cost_item { char name[48]; double us; };

struct cost_model {
    const char      *preset;           /* "classroom" */
    double           host_us;          /* a host op or the launch of a kernel */
    double           kernel_us;        /* a kernel without a price of its own */
    double           latency_us;       /* a copy or hop: latency_us + bytes / bytes_per_us */
    double           bytes_per_us;
    struct cost_item items[64];        /* by op or module: "Linear", "Linear_backward", "embedding" */
    int              item_count;
    struct topology  topology;         /* of ranks */
};

bool     cost_preset(struct cost_model *model, const char *name); /* false: no such preset */
/* name: "host", "kernel", "latency", "bandwidth" (bytes per us), or an op or module. false: table full, name
 * too long, or us is negative, not finite or over 1e12. */
bool     cost_set(struct cost_model *model, const char *name, double us);
uint64_t cost_host(const struct cost_model *model);
/* A kernel by its op's name, else by the module's name it belongs to, else the plain kernel price. Names may be
 * NULL. `found` (may be NULL) tells whether a named price was used. */
uint64_t cost_kernel(const struct cost_model *model, const char *op, const char *module, bool *found);
uint64_t cost_copy(const struct cost_model *model, uint64_t bytes);
/* What a message between two ranks of the world costs, in ps, if nothing else is under way. */
struct link_price cost_link(const struct cost_model *model, int from, int to);
uint64_t cost_hop(const struct cost_model *model, int from, int to, uint64_t bytes);
uint64_t cost_us(double us);           /* microseconds to ps, half up; saturates */
/* "classroom: host 1 us, kernel 10 us, hop 10 us + bytes / (10000 B/us), Linear_backward 500 us" */
void     cost_print(const struct cost_model *model, char *out, unsigned long size);
const char *const *cost_presets(void); /* names, NULL at the end */
#endif
