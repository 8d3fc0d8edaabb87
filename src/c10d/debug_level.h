/* How much DistributedDataParallel tells of what goes wrong: TORCH_DISTRIBUTED_DEBUG, c10d::debug_level. Each rank has
 * its own, as each process of PyTorch does; a rank begins with its spawner's.
 *
 *   OFF      errors name parameters by their indices
 *   INFO     and by their names
 *   DETAIL   and no collective begins before all ranks have called it: calls that differ are errors on all of them. (The
 *            ledger compares calls at every level, but a root that has sent may have gone on.) */
#ifndef C10D_DEBUG_LEVEL_H
#define C10D_DEBUG_LEVEL_H
#include <stdbool.h>

struct task;

enum debug_level { DEBUG_OFF, DEBUG_INFO, DEBUG_DETAIL };

const char      *debug_level_name(enum debug_level level);                       /* "OFF" */
bool             debug_level_parse(const char *text, enum debug_level *out);     /* in any case; false: there is no such */
/* What the environment says; OFF where it says nothing. false: a ValueError. */
bool             debug_level_from_environment(struct task *me, enum debug_level *out);
enum debug_level debug_level(const struct task *me);                             /* of me's rank; outside of one OFF */
#endif
