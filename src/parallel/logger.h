/* What a DistributedDataParallel tells of itself, field by field (logged.def): c10d::Logger. One per wrapper. It only
 * notes what it is given; a field that nobody has given yet is not there. Order of use: logger_new, when the buckets are
 * laid out logger_set_construction_data, then as it comes; logger_free. */
#ifndef PARALLEL_LOGGER_H
#define PARALLEL_LOGGER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct tensor; struct module; struct process_group; struct ddp_logger;

enum logged_field {
#define LOGGED_TEXT(name, help) LOGGED_##name,
#define LOGGED_NUMBER(name, help) LOGGED_##name,
#include "parallel/logged.def"
#undef LOGGED_NUMBER
#undef LOGGED_TEXT
    LOGGED_FIELDS
};
struct log_entry { const char *name, *text; int64_t number; };    /* text NULL: it is a number */

struct ddp_logger *logger_new(struct task *me);                /* NULL: failed */
void               logger_free(struct ddp_logger *logger);

struct logger_construction {
    struct process_group *group;
    struct module        *module;              /* the wrapped one */
    struct tensor *const *params;              /* the reducer's */
    int                   params_count;
    const char           *bucket_sizes;        /* "2880, 16" */
    size_t                bucket_cap_bytes;
    const int            *device_ids;
    int                   device_count, output_device;   /* -1: none */
    bool                  broadcast_buffers, find_unused_parameters, gradient_as_bucket_view;
};
bool logger_set_construction_data(struct task *me, struct ddp_logger *logger, const struct logger_construction *data);
void logger_set_static_graph(struct ddp_logger *logger);
void logger_set_comm_hook(struct ddp_logger *logger, const char *name);
void logger_set_uneven_input_join(struct ddp_logger *logger);
/* The graph was found to be no static one; the first time counts. */
void logger_log_if_graph_static(struct ddp_logger *logger, bool is_static, int64_t iteration);
void logger_set_error(struct ddp_logger *logger, const char *message, int64_t iteration);

/* ---- an iteration's times ---- */

/* Whether the iteration of this number is noted: 1 to 10, then every sample_rate-th. */
bool logger_samples(int64_t iteration, int64_t sample_rate);
/* When the parts of an iteration began and ended. */
enum reducer_moment {
    FORWARD_START, BACKWARD_COMPUTE_START, BACKWARD_COMPUTE_END, BACKWARD_COMM_START, BACKWARD_COMM_END,
    REDUCER_MOMENTS
};
enum { MOMENT_UNSET = -1 };
struct logger_stats {
    int64_t        iteration;                  /* synchronising forwards that are over */
    int64_t        buckets_reduced, unused_bytes;
    bool           has_rebuilt;
    const char    *bucket_sizes, *bucket_indices;        /* of the rebuilt ones: "40, 24", "1 0, 3 2" */
    const char    *ready_order;                /* "3, 2, 1, 0"; empty: none came */
    const int64_t *moments;                    /* in ns, by enum reducer_moment; they stay until they are set anew */
};
/* At the start of a synchronising forward whose predecessor is sampled. */
void logger_set_runtime_stats(struct ddp_logger *logger, const struct logger_stats *stats);

/* ---- what was noted ---- */

bool logger_has_memory(const struct ddp_logger *logger);       /* false: a text was too much for it */
bool logger_field(const struct ddp_logger *logger, enum logged_field field, struct log_entry *out);   /* false: not there */
bool logger_find(const struct ddp_logger *logger, const char *name, struct log_entry *out);           /* the same, by name */
#endif
