/* What distributed.c and its neighbours share about ranks: who a script belongs to, and functions that travel. */
#ifndef LUA_SPAWN_H
#define LUA_SPAWN_H
#include <lua.h>
#include <stdbool.h>

struct task; struct sched; struct script; struct parcel;

/* The rank that a spawn gave this script; -1: the lesson's own script. */
int script_rank(const struct script *script);
/* Raises in a rank: `name` is for the lesson's own script. */
void refuse_in_rank(lua_State *L, const char *name);

/* copy.c. A parcel holds Lua values outside any state: what torch.multiprocessing pickles. Packing and unpacking run
 * where Lua may raise; a parcel may be unpacked in several states at once. */
struct parcel *parcel_new(struct sched *sched);            /* NULL: no memory */
void           parcel_free(struct parcel *parcel);
/* The `count` values from stack index `first` on; `globals`: and what the lesson made global, as far as it can be
 * copied. Raises an error that names what cannot. */
void parcel_pack(lua_State *L, struct parcel *parcel, int first, int count, bool globals);
int  parcel_unpack(lua_State *L, const struct parcel *parcel); /* pushes the values; answers how many */
#endif
