/* What the files of rs.distributed's collectives share: reading their arguments, and a call's end. Order of use:
 * take_rank_call (rank.h), check_..., coalesce_call, open_..., the collective, close_collective. Shared by collectives.c,
 * single.c, coalesced.c and objects.c only. */
#ifndef LUA_COLLECTIVE_H
#define LUA_COLLECTIVE_H
#include "lua/rank.h"

/* "SUM" ...: the operation, and PREMUL_SUM's factor. */
struct collective_options check_reduce_op(lua_State *L, const char *name);

/* Where the root stands among the arguments: as a rank of the world, as one of the group. optional: rank 0 of the world
 * if none is given. */
struct root_places { int global, own; bool optional, is_source; };
int check_root(lua_State *L, const struct rank_call *r, const struct root_places *places); /* in the group; may be wrong */

/* A list of a tensor for each rank. */
struct tensor **check_rank_list(lua_State *L, const struct rank_call *r, int index, const char *name);

struct collective_call { struct call call; bool later; };
/* `keep` is a value, `tensor` one that the Work keeps alive. */
struct collective_call open_collective(lua_State *L, const struct rank_call *r, bool later, int keep);
struct collective_call open_tensor_collective(lua_State *L, const struct rank_call *r, bool later,
                                              struct tensor *tensor);
int close_collective(lua_State *L, struct collective_call *call, struct work *work);

/* Inside a coalescing manager of this group: the call is noted for its end. */
enum coalesced_kind { COALESCED_ALL_REDUCE, COALESCED_ALL_GATHER, COALESCED_REDUCE_SCATTER };
bool coalesce_call(lua_State *L, const struct rank_call *r, enum coalesced_kind kind);

void lua_open_singles(lua_State *L);      /* single.c */
void lua_open_coalesced(lua_State *L);    /* coalesced.c */
#endif
