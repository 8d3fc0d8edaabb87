/* delay_all_reduce_named_params: parameters that travel outside of the reducer, in one flat buffer that is all-reduced when
 * the gradient of another parameter comes. PyTorch: DistributedDataParallel._register_delay_all_reduce_hook. */
#ifndef PARALLEL_DELAYED_PARAMS_H
#define PARALLEL_DELAYED_PARAMS_H
#include <stdbool.h>

struct task; struct module; struct process_group; struct delayed; struct delayed_params;

/* Broadcasts the parameters from rank 0, and hooks given->hooked. `owner`, not a reference, lives on while a backward needs
 * this. NULL: failed. */
struct delayed *delayed_new(struct task *me, struct module *owner, struct process_group *group,
                            const struct delayed_params *given);
void            delayed_update_process_group(struct delayed *delayed, struct process_group *group);  /* of NULL: nothing */
void            delayed_free(struct task *me, struct delayed *delayed);
/* In a Join: its all-reduce waits for the end of the backward, behind those of the buckets, where ranks without inputs
 * look for it. */
void            delayed_wait_for_buckets(struct delayed *delayed, bool wait);    /* of NULL: nothing */
bool            delayed_shadow(struct task *me, struct delayed *delayed);        /* such a rank's part; false: failed */
int             delayed_device(const struct delayed *delayed);
/* Before each backward: whose .grad is nil gets its piece of the buffer, zeroed. false: failed. */
bool            delayed_clear(struct task *me, struct delayed *delayed);
#endif
