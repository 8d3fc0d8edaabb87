/* What the files of rs.utils.data share. */
#ifndef LUA_DATA_H
#define LUA_DATA_H
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>
#include "data/sampler.h"

struct script;

/* ---- dataset.c ---- */
int64_t dataset_length(lua_State *L, int index);             /* of a data set, a tensor or a list; raises */
void    dataset_item(lua_State *L, int index, int64_t item);  /* pushes sample `item`, counted from 0 */
/* An error: the object's class has no function of that name. */
void    refuse_without(lua_State *L, int object, const char *name);
/* A TensorDataset whose getitem is its own: pushes its list of tensors. */
bool    dataset_tensors(lua_State *L, int index);
/* Is it an IterableDataset, which has samples in its own order and no indices? */
bool    dataset_is_stream(lua_State *L, int index);
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

/* ---- batches.c: where a pass gets the indices of its batches from ---- */
struct index_source {
    int64_t batch_size;     /* 0: one index a batch, and no batch around it */
    int64_t at;             /* in a list */
    bool    drop_last, lists, over; /* lists: whoever is asked gives whole batches */
};
/* Of the sampler or batch_sampler of the loader at `loader`; pushes what gives the indices. */
void    indices_open(lua_State *L, int loader, struct index_source *source);
/* Pushes memory with the next batch's indices, how many it answers. -1: there are no more, and nothing is pushed. */
int64_t indices_next(lua_State *L, int at, struct index_source *source, int64_t **indices);
void    indices_skip(lua_State *L, int at, struct index_source *source, int64_t batches);  /* unless a sampler of ours
                                                                                          goes on by itself */
/* The sampler of ours that the loader draws from, pushed; nil: it is another thing. */
void    push_own_sampler(lua_State *L, int loader);
void    check_batch_size(lua_State *L, int64_t size);
void    lua_open_batches(lua_State *L);

/* ---- fetch.c: batches as results. `loader`: a table with dataset and, maybe, collate_fn ---- */
int  fetch_batch(lua_State *L, int loader, int64_t *indices, int64_t count);   /* the indices may change */
int  fetch_sample(lua_State *L, int loader, int64_t index);
void fetch_open_stream(lua_State *L, int loader);             /* pushes the function that gives the next sample */
struct fetch { int64_t count; /* 0: one sample, and no batch around it */ bool drop_last, ended; };
int  fetch_of_stream(lua_State *L, int loader, int iterator, struct fetch *wanted);  /* 0: there was no batch left */

/* ---- workers.c: tasks that fetch ahead, each with a script of its own ---- */
struct crew_options {
    int64_t      base_seed;
    int          count;
    bool         stream, batched;
    struct fetch fetch;         /* of a stream */
    double       timeout;       /* seconds, 0: none */
};
struct crew;
/* Pushes a box that keeps it, and closes it when nobody keeps the box; NULL in it: it has ended. The loader is at
 * `loader`. Raises. */
struct crew **push_crew(lua_State *L, int loader, const struct crew_options *options);
int64_t crew_base_seed(const struct crew *crew);
int crew_count(const struct crew *crew);                       /* workers */
void crew_again(lua_State *L, struct crew *crew);             /* another pass, by workers that persist */
struct crew_order { int64_t batch, count; const int64_t *indices; /* NULL: of a stream */ };
void crew_send(lua_State *L, struct crew *crew, int worker, const struct crew_order *order);
/* Waits for that batch. true: there is none, the worker's stream has ended. Raises what the wait has met. */
bool crew_receive(lua_State *L, struct crew *crew, int worker, int64_t batch);
int  crew_open(lua_State *L, struct crew *crew, int worker);  /* it, as results; raises the worker's error */
void crew_dismiss(lua_State *L, struct crew *crew, int worker);
void crew_end(lua_State *L, struct crew *crew);               /* closes it and waits for its workers */
/* Of a worker's script: which one it is; -1: this is no worker's. */
int  script_worker(const struct script *script);
void lua_open_workers(lua_State *L);

/* Each fills its part of rs; lua_open_data calls them all. */
void lua_open_loader(lua_State *L);
void lua_open_save(lua_State *L);
void lua_open_progress(lua_State *L);
#endif
