/* Many tensors from one rank to all, few messages: dist._broadcast_coalesced. */
#ifndef PARALLEL_STATE_SYNC_H
#define PARALLEL_STATE_SYNC_H
#include <stdbool.h>
#include <stddef.h>

struct task; struct tensor; struct process_group;

/* What arrives is a change of the tensors, but for buffers in front of a forward (keeps_versions): two forwards and then
 * one backward shall not find them "modified by an inplace operation", as they were in PyTorch 1.13 (issue 22095,
 * PR 175851). */
struct state_sync { struct tensor *const *tensors; int count; int root; size_t bucket_bytes; bool keeps_versions; };
/* Each group of one dtype and device in flat tensors of bucket_bytes (0: 250 MiB), two on their way at a time. In every
 * rank's tensors is then what the root has. false: failed. */
bool broadcast_coalesced(struct task *me, struct process_group *group, const struct state_sync *sync);
#endif
