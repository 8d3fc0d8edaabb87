/* The tasks that load batches ahead of whoever trains. Each has a queue of orders and one of what it has loaded; orders
 * are carried out one after the other, so of one worker batches come as they were ordered. What loading is, is the
 * owner's business: a table of functions. In PyTorch: torch/utils/data/_utils/worker.py, a process each.
 *
 * Order of use, by the owner: load_pool_new, load_pool_start; load_order_new, load_pool_send and load_pool_take, once
 * for each order; load_pool_close at any time, load_pool_free last. */
#ifndef DATA_WORKERS_H
#define DATA_WORKERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct error; struct load_pool;

/* It travels to the worker and, filled, back: nobody has to find memory for an answer. */
struct load_order {
    struct load_order *next;
    int64_t            batch, count;   /* of samples; -1: pass number `batch` begins, nothing is loaded */
    bool               stream;         /* there are no indices: the next samples, whichever they are */
    bool               ended;          /* filled: of a stream, there were none left */
    void              *data;           /* filled: what was loaded; NULL: it has failed, or ended */
    struct error      *error;          /* filled; NULL: none */
    int64_t            indices[];
};
struct load_order *load_order_new(int64_t batch, int64_t count, const int64_t *indices); /* NULL: no memory; indices
                                                                                           NULL: of a stream */

/* Called in the worker's task, but for the last two; `context` is load_pool_options'. What they record as their task's
 * error goes back with an order. */
struct load_work {
    bool (*begin)(struct task *me, void *context, int worker);
    bool (*load)(struct task *me, void *context, int worker, struct load_order *order);
    void (*end)(struct task *me, void *context, int worker);    /* also after a begin that has failed */
    void (*drop)(void *data);
    void (*leave)(struct task *me, void *context);              /* nobody needs the context any more */
};
struct load_pool_options {
    const struct load_work *work;
    void *context;
    int   count;
    int   pool;            /* 0: the only one; else part of its workers' names, since each has a lane of its own */
};

/* The context is the pool's from here on, and let go if it answers NULL: failed. */
struct load_pool *load_pool_new(struct task *me, const struct load_pool_options *options);
bool load_pool_start(struct task *me, struct load_pool *pool);                /* false: failed; free it */
void load_pool_send(struct task *me, struct load_pool *pool, int worker, struct load_order *order);
/* The next one that this worker has carried out: the caller's to free, by load_order_free. NULL: failed. */
struct load_wanted { int worker; int64_t batch; double timeout; /* seconds, 0: none */ };
struct load_order *load_pool_take(struct task *me, struct load_pool *pool, const struct load_wanted *wanted);
void load_order_free(struct load_pool *pool, struct load_order *order);       /* NULL is fine */
void load_pool_dismiss(struct task *me, struct load_pool *pool, int worker);  /* it ends after the order at hand */
void load_pool_close(struct task *me, struct load_pool *pool);                /* all of them; waits for nobody */
void load_pool_free(struct task *me, struct load_pool *pool);                 /* closes, waits for them; NULL is fine */
#endif
