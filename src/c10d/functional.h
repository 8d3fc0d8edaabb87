/* Collectives that answer new tensors and have a backward, which is a collective, too: all ranks call theirs. The first
 * list is torch.distributed.nn.functional, the second torch.distributed._functional_collectives. They differ where the
 * gradient of a MIN or MAX is concerned: the first reduces gradients by the forward's op, the second gives the sum of
 * them to who had the extreme. None divides a sum: only AVG divides, forwards and backwards.
 * All answers are in me's scope; NULL, false: failed. Ranks are those of the group, lists have a tensor for each. */
#ifndef C10D_FUNCTIONAL_H
#define C10D_FUNCTIONAL_H
#include <stdbool.h>
#include "c10d/group.h"

struct functional { struct process_group *group; struct collective_options options; };

/* ---- torch.distributed.nn.functional ---- */
struct tensor *functional_all_reduce(struct task *me, const struct functional *call, struct tensor *tensor);
struct tensor *functional_broadcast(struct task *me, const struct functional *call, struct tensor *tensor);
struct tensor *functional_reduce(struct task *me, const struct functional *call, struct tensor *tensor);
/* Zeros on ranks that are not the root. */
bool           functional_gather(struct task *me, const struct functional *call, struct tensor *tensor,
                                 struct tensor **out);
struct tensor *functional_scatter(struct task *me, const struct functional *call, struct tensor *const *inputs);
bool           functional_all_gather(struct task *me, const struct functional *call, struct tensor *tensor,
                                     struct tensor **out);
/* Those that take the tensors to be filled answer others of the same elements, with history. */
struct tensor *functional_reduce_scatter(struct task *me, const struct functional *call, struct tensor *output,
                                         struct tensor *const *inputs);
bool           functional_all_to_all(struct task *me, const struct functional *call, struct tensor *const *outputs,
                                     struct tensor *const *inputs, struct tensor **out);
struct tensor *functional_all_to_all_single(struct task *me, const struct functional *call, struct tensor *output,
                                            struct tensor *input, const struct splits *splits);

/* ---- torch.distributed._functional_collectives ---- */
/* SUM, AVG, PREMUL_SUM, MIN and MAX have a backward. */
struct tensor *functional_reduced(struct task *me, const struct functional *call, struct tensor *tensor);
/* The gradient goes to this rank's own tensor as it is. */
struct tensor *functional_sent(struct task *me, const struct functional *call, struct tensor *tensor);
/* One tensor, joined along dim, or cut along it. */
struct tensor *functional_gathered(struct task *me, const struct functional *call, struct tensor *tensor, int dim);
struct tensor *functional_scattered(struct task *me, const struct functional *call, struct tensor *tensor, int dim);
/* splits NULL: equal parts. */
struct tensor *functional_exchanged(struct task *me, const struct functional *call, struct tensor *tensor,
                                    const struct splits *splits);
#endif
