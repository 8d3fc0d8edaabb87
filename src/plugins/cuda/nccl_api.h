/* As much of NCCL's C interface as the plug-in uses, declared here, so that it is built without NCCL's header and works
 * with any libnccl.so.2 from 2.14 on. Numbers are NCCL's own and have never changed; nccl_load.c compares them with the
 * header where there is one. The functions are reached through a table, which nccl_load fills: from the library, or in
 * the tests from a NCCL of their own (tests/cuda/fake/nccl.c). */
#ifndef CUDA_NCCL_API_H
#define CUDA_NCCL_API_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include "c10d/nccl_table.h"

typedef struct ncclComm *nccl_handle;

enum { RESULT_SUCCESS = 0, RESULT_CUDA = 1, RESULT_SYSTEM = 2, RESULT_INTERNAL = 3, RESULT_ARGUMENT = 4,
      RESULT_USAGE = 5,
       RESULT_REMOTE = 6, RESULT_IN_PROGRESS = 7 };
enum { TYPE_INT8 = 0, TYPE_UINT8 = 1, TYPE_INT32 = 2, TYPE_INT64 = 4, TYPE_FLOAT16 = 6, TYPE_FLOAT32 = 7,
      TYPE_FLOAT64 = 8,
       TYPE_BFLOAT16 = 9 };
enum { OP_SUM = 0, OP_PRODUCT = 1, OP_MAX = 2, OP_MIN = 3, OP_AVG = 4 };
enum { SCALAR_DEVICE = 0, SCALAR_HOST = 1 };

/* What a communicator may be told. NCCL takes as much as `size` says and looks at what `version` had: so the first
 * members serve 2.14, all of them 2.27 and later. */
struct nccl_config {
    size_t       size;
    unsigned int magic, version;
    int          blocking;
    int          cluster, least_blocks, most_blocks;   /* 2.17 */
    const char  *net;
    int          split_share;                          /* 2.18 */
    int          traffic;                              /* 2.25 */
    const char  *name;                                 /* 2.27: what the profiler hears */
};
enum { CONFIG_MAGIC = (int)0xcafebeef, CONFIG_OLD = 21400, CONFIG_NAMED = 22700 };

/* All answer a result, but for `text`, `last_error`. */
struct nccl_api {
    char        title[32];                              /* "NCCL 2.28.9" */
    int         (*version)(int *version);
    int         (*unique_id)(struct nccl_id *id);
    int         (*join)(nccl_handle *comm, int ranks, struct nccl_id id, int rank, struct nccl_config *config);
    int         (*async_error)(nccl_handle comm, int *result);
    int         (*destroy)(nccl_handle comm);
    int         (*abort)(nccl_handle comm);
    const char *(*text)(int result);
    const char *(*last_error)(nccl_handle comm);
    int         (*group_start)(void);
    int         (*group_end)(void);
    int         (*all_reduce)(const void *send, void *recv, size_t count, int type, int op, nccl_handle comm,
                              cudaStream_t stream);
    int         (*broadcast)(const void *send, void *recv, size_t count, int type, int root, nccl_handle comm,
                             cudaStream_t stream);
    int         (*reduce)(const void *send, void *recv, size_t count, int type, int op, int root, nccl_handle comm,
                          cudaStream_t stream);
    int         (*all_gather)(const void *send, void *recv, size_t count, int type, nccl_handle comm,
                              cudaStream_t stream);
    int         (*reduce_scatter)(const void *send, void *recv, size_t count, int type, int op, nccl_handle comm,
                                  cudaStream_t stream);
    int         (*send)(const void *send, size_t count, int type, int peer, nccl_handle comm, cudaStream_t stream);
    int         (*recv)(void *recv, size_t count, int type, int peer, nccl_handle comm, cudaStream_t stream);
    int         (*premul)(int *op, void *factor, int type, int residence, nccl_handle comm);
    int         (*premul_free)(int op, nccl_handle comm);
};

/* NULL: there is no NCCL here, or none that fits: `why`. The same table each time. */
const struct nccl_api *nccl_load(struct backend_why *why);

/* ---- nccl_error.c ---- */
/* false: says what NCCL's result means for who called, and what to do; `what` is what was tried: "all_reduce". */
bool nccl_failed(const struct nccl_api *api, int result, nccl_handle comm, const char *what, struct backend_why *why);

/* ---- profiler.c ---- */
/* The profiler that NCCL calls; its name for a group, which `number` is read from again. */
bool   profiler_open(const struct backend_host *host, struct backend_why *why);
size_t profiler_records(struct nccl_record *out, size_t room, uint64_t *lost);
void   profiler_name(int number, char out[NCCL_NAME]);
#endif
