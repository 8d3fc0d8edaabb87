/* What the files of rs.utils.data share. */
#ifndef LUA_DATA_H
#define LUA_DATA_H
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include "data/sampler.h"

/* ---- dataset.c ---- */
int64_t dataset_length(lua_State *L, int index);             /* of a data set, a tensor or a list; raises */
void    dataset_item(lua_State *L, int index, int64_t item);  /* pushes sample `item`, counted from 0 */
/* A TensorDataset whose getitem is its own: pushes its list of tensors. */
bool    dataset_tensors(lua_State *L, int index);
/* Likewise a Subset: pushes the data set below and its list of indices. */
bool    dataset_subset(lua_State *L, int index);
void    lua_open_dataset(lua_State *L);

/* ---- sampler.c ---- */
bool                 is_sampler(lua_State *L, int index);
/* An object of kind `name` over `length` samples, at the top. */
void                 push_sampler(lua_State *L, const char *name, int64_t length);
struct index_stream *push_stream(lua_State *L, int sampler);  /* one pass of it, as userdata that keeps it alive */
bool                 next_of_stream(lua_State *L, int stream, int64_t *index);   /* false: there are no more; raises */
/* What sampler:state_dict() answers, of the pass at `stream` (0: the last one) as if it had yielded so many indices
 * (-1: as many as it has). */
void                 push_sampler_state(lua_State *L, int sampler, int stream, int64_t yielded);
void                 load_sampler_state(lua_State *L, int sampler, int state);   /* its next pass goes on there */
int64_t              check_yielded(lua_State *L, int state, const char *name);   /* of a state_dict; raises */
void                 lua_open_sampler(lua_State *L);

/* ---- collate.c ---- */
/* The list of samples at the top becomes their batch, as torch's default_collate; raises. */
void collate(lua_State *L);
/* Of samples that are lists: the batch's parts as results. Answers how many. */
int  push_batch(lua_State *L);

/* Each fills its part of rs; lua_open_data calls them all. */
void lua_open_loader(lua_State *L);
void lua_open_save(lua_State *L);
void lua_open_progress(lua_State *L);
#endif
