/* rs.trace where several processes run the lesson: the first reads the traces of all as one and answers for all, so that the
 * lesson goes the same way everywhere. Their traces are cut (trace/join.h) where a spawn begins and ends.
 * Order of use: trace_job_tell once in each process; trace_job_cut between two meetings; trace_job_whole, trace_job_ask. */
#ifndef LUA_TRACE_JOB_H
#define LUA_TRACE_JOB_H
#include <lua.h>
#include <stdbool.h>

struct script; struct share; struct task; struct trace;

/* Where this process's trace is. false: failed. */
bool trace_job_tell(struct task *me, struct script *script, const struct share *share) __attribute__((warn_unused_result));
void trace_job_cut(struct task *me, struct script *script);
/* From another host what is recorded so far goes to the first process. false: failed. */
bool trace_job_send(struct task *me, struct script *script, const struct share *share) __attribute__((warn_unused_result));
/* All of them, in the first process; `own` is its own, up to date. NULL: they are not read as one here. Raises. */
struct trace *trace_job_whole(lua_State *L, struct trace *own);
/* Calls `answer`, whose results are plain values; or takes what the first process was answered. */
int trace_job_ask(lua_State *L, lua_CFunction answer);
/* What was answered before is not asked for any more: all have come to the same place. */
void trace_job_forget(struct task *me, struct script *script, const struct share *share);
#endif
