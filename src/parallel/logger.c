/* c10d::Logger (torch/csrc/distributed/c10d/logger.cpp): what is known when the wrapper is made, what each sampled
 * iteration has taken, and errors. The order of use is in logger.h. */
#include "parallel/logger.h"
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "c10d/group.h"
#include "nn/module.h"
#include "parallel/sync_batch_norm.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { SAMPLED_AT_FIRST = 10 };

static const struct { const char *name; bool is_text; } fields[LOGGED_FIELDS] = {
#define LOGGED_TEXT(name, help) { #name, true },
#define LOGGED_NUMBER(name, help) { #name, false },
#include "parallel/logged.def"
#undef LOGGED_NUMBER
#undef LOGGED_TEXT
};

struct ddp_logger {
    bool       has[LOGGED_FIELDS];
    int64_t    numbers[LOGGED_FIELDS];
    struct str texts[LOGGED_FIELDS];
    int64_t    sampled;                /* iterations so far: what the means are of */
};

struct ddp_logger *
logger_new(struct task *me)
{
    struct ddp_logger *logger = calloc(1, sizeof *logger);
    return logger != NULL ? logger : failed_null(me, E_MEMORY, "out of memory for logging data");
}

void
logger_free(struct ddp_logger *logger)
{
    for (int i = 0; logger != NULL && i < LOGGED_FIELDS; i++)
        str_free(&logger->texts[i]);
    free(logger);
}

static void
note(struct ddp_logger *logger, enum logged_field field, int64_t number)
{
    logger->has[field]     = true;
    logger->numbers[field] = number;
}

static struct str *
text_of(struct ddp_logger *logger, enum logged_field field)
{
    logger->has[field] = true;
    str_clear(&logger->texts[field]);
    return &logger->texts[field];
}

static void
note_text(struct ddp_logger *logger, enum logged_field field, const char *text)
{
    str_add(text_of(logger, field), text);
}

/* ---- when the wrapper is made ---- */

/* The local back-end stands where gloo would: NCCL's variables are told of NCCL alone. */
static void
note_environment(struct ddp_logger *logger)
{
    static const struct { enum logged_field field; const char *variable; } environment[] = {
        { LOGGED_master_addr, "MASTER_ADDR" },
        { LOGGED_master_port, "MASTER_PORT" },
        { LOGGED_torch_distributed_debug, "TORCH_DISTRIBUTED_DEBUG" },
        { LOGGED_cuda_visible_devices, "CUDA_VISIBLE_DEVICES" },
        { LOGGED_gloo_socket_ifname, "GLOO_SOCKET_IFNAME" },
        { LOGGED_gloo_device_transport, "GLOO_DEVICE_TRANSPORT" },
    };
    for (size_t i = 0; i < countof(environment); i++) {
        const char *value = getenv(environment[i].variable);
        note_text(logger, environment[i].field, value != NULL ? value : "N/A");
    }
}

/* As C++ calls them, in the order of these names. */
static void
note_dtypes(struct ddp_logger *logger, const struct logger_construction *data)
{
    static const struct { enum dtype dtype; const char *name; } names[] = {
        { DTYPE_BF16, "c10::BFloat16" }, { DTYPE_F16, "c10::Half" }, { DTYPE_F64, "double" }, { DTYPE_F32, "float" },
    };
    struct str *text = text_of(logger, LOGGED_dtypes);
    for (size_t i = 0; i < countof(names); i++) {
        bool found = false;
        for (int p = 0; p < data->params_count && !found; p++)
            found = data->params[p]->dtype == names[i].dtype;
        if (found)
            str_addf(text, "%s%s", text->len > 0 ? ", " : "", names[i].name);
    }
}

static void
note_params(struct ddp_logger *logger, const struct logger_construction *data)
{
    int64_t bytes   = 0;
    bool    several = false;
    for (int i = 0; i < data->params_count; i++) {
        bytes += tensor_bytes(data->params[i]);
        several = several || tensor_device(data->params[i]) != tensor_device(data->params[0]);
    }
    note(logger, LOGGED_is_multi_device_module, several);
    note(logger, LOGGED_num_parameter_tensors, data->params_count);
    note(logger, LOGGED_total_parameter_size_bytes, bytes);
    note_dtypes(logger, data);
}

static void
note_devices(struct ddp_logger *logger, const struct logger_construction *data)
{
    struct str *text = text_of(logger, LOGGED_device_ids);
    for (int i = 0; i < data->device_count; i++)
        str_addf(text, "%s%d", i > 0 ? ", " : "", data->device_ids[i]);
    note(logger, LOGGED_output_device, data->output_device);
}

static bool
note_sync_bn(struct task *me, struct ddp_logger *logger, struct module *module)
{
    struct named_modules list  = { 0 };
    bool                 found = false, done = module_named_modules(me, module, &list);
    for (int i = 0; i < list.count && done && !found; i++)
        found = module_is_sync_batch_norm(list.modules[i]);
    named_modules_free(me, &list);
    note(logger, LOGGED_has_sync_bn, found);
    return done;
}

bool
logger_set_construction_data(struct task *me, struct ddp_logger *logger, const struct logger_construction *data)
{
    note_text(logger, LOGGED_module_name, module_class_name(data->module));
    note(logger, LOGGED_world_size, process_group_size(data->group));
    note(logger, LOGGED_rank, process_group_rank(data->group));
    note(logger, LOGGED_iteration, 0);
    note_params(logger, data);
    note_text(logger, LOGGED_bucket_sizes, data->bucket_sizes);
    note_environment(logger);
    note_devices(logger, data);
    note(logger, LOGGED_broadcast_buffers, data->broadcast_buffers);
    note(logger, LOGGED_bucket_cap_bytes, (int64_t)data->bucket_cap_bytes);
    note(logger, LOGGED_find_unused_parameters, data->find_unused_parameters);
    note(logger, LOGGED_gradient_as_bucket_view, data->gradient_as_bucket_view);
    note_text(logger, LOGGED_backend_name, process_group_backend(data->group));
    return note_sync_bn(me, logger, data->module);
}

/* ---- as it comes ---- */

void
logger_set_static_graph(struct ddp_logger *logger)
{
    note(logger, LOGGED_static_graph, 1);
}

void
logger_set_comm_hook(struct ddp_logger *logger, const char *name)
{
    note_text(logger, LOGGED_comm_hook, name);
}

void
logger_set_uneven_input_join(struct ddp_logger *logger)
{
    note(logger, LOGGED_join_uneven_inputs, 1);
}

void
logger_log_if_graph_static(struct ddp_logger *logger, bool is_static, int64_t iteration)
{
    if (logger->has[LOGGED_can_set_static_graph])
        return;
    note(logger, LOGGED_can_set_static_graph, is_static);
    note(logger, LOGGED_iteration, iteration);
}

void
logger_set_error(struct ddp_logger *logger, const char *message, int64_t iteration)
{
    note(logger, LOGGED_has_error, 1);
    note_text(logger, LOGGED_error, message);
    note(logger, LOGGED_iteration, iteration);
}

/* ---- an iteration's times ---- */

bool
logger_samples(int64_t iteration, int64_t sample_rate)
{
    return iteration > 0 && (iteration <= SAMPLED_AT_FIRST || iteration % sample_rate == 0);
}

struct duration { enum logged_field time, average; enum reducer_moment start, end; };
static const struct duration durations[] = {
    { LOGGED_forward_compute_time, LOGGED_avg_forward_compute_time,
      FORWARD_START, BACKWARD_COMPUTE_START },
    { LOGGED_backward_compute_time, LOGGED_avg_backward_compute_time,
      BACKWARD_COMPUTE_START, BACKWARD_COMPUTE_END },
    { LOGGED_backward_comm_time, LOGGED_avg_backward_comm_time,
      BACKWARD_COMM_START, BACKWARD_COMM_END },
    { LOGGED_backward_compute_comm_overlap_time, LOGGED_avg_backward_compute_comm_overlap_time,
      BACKWARD_COMM_START, BACKWARD_COMPUTE_END },
};

/* A mean of whole numbers, rounded down at each step. What ended before it began did not happen in this iteration (a
 * static graph's first bucket is started after the last gradient): the time is 0 and the mean stays. */
static void
note_duration(struct ddp_logger *logger, const struct duration *duration, const int64_t *moments)
{
    int64_t start = moments[duration->start], end = moments[duration->end];
    int64_t average = logger->numbers[duration->average];
    note(logger, duration->time, 0);
    note(logger, duration->average, average);
    if (end < start)
        return;
    note(logger, duration->time, end - start);
    note(logger, duration->average, (end - start + average * (logger->sampled - 1)) / logger->sampled);
}

static void
note_moments(struct ddp_logger *logger, const int64_t *moments)
{
    static const enum logged_field starts_and_ends[REDUCER_MOMENTS] = {
        [FORWARD_START]          = LOGGED_forward_compute_time_start,
        [BACKWARD_COMPUTE_START] = LOGGED_backward_compute_time_start,
        [BACKWARD_COMPUTE_END]   = LOGGED_backward_compute_time_end,
        [BACKWARD_COMM_START]    = LOGGED_backward_comm_time_start,
        [BACKWARD_COMM_END]      = LOGGED_backward_comm_time_end,
    };
    for (int i = 0; i < REDUCER_MOMENTS; i++)
        note(logger, starts_and_ends[i], moments[i] != MOMENT_UNSET ? moments[i] : 0);
}

void
logger_set_runtime_stats(struct ddp_logger *logger, const struct logger_stats *stats)
{
    logger->sampled++;
    note(logger, LOGGED_iteration, stats->iteration);
    note(logger, LOGGED_num_buckets_reduced, stats->buckets_reduced);
    note(logger, LOGGED_unused_parameter_size, stats->unused_bytes);
    note(logger, LOGGED_has_rebuilt_buckets, stats->has_rebuilt);
    if (stats->has_rebuilt) {
        note_text(logger, LOGGED_rebuilt_bucket_sizes, stats->bucket_sizes);
        note_text(logger, LOGGED_rebuilt_per_bucket_param_indices, stats->bucket_indices);
    }
    if (stats->ready_order[0] != '\0')
        note_text(logger, LOGGED_prev_iteration_grad_ready_order_indices, stats->ready_order);
    for (size_t i = 0; i < countof(durations); i++)
        note_duration(logger, &durations[i], stats->moments);
    note_moments(logger, stats->moments);
}

/* ---- what was noted ---- */

bool
logger_has_memory(const struct ddp_logger *logger)
{
    bool has = true;
    for (int i = 0; i < LOGGED_FIELDS && has; i++)
        has = str_ok(&logger->texts[i]);
    return has;
}

bool
logger_field(const struct ddp_logger *logger, enum logged_field field, struct log_entry *out)
{
    *out = (struct log_entry){ .name   = fields[field].name, .number = logger->numbers[field],
                            .text   = fields[field].is_text ? str_text(&logger->texts[field]) : NULL };
    return logger->has[field];
}

bool
logger_find(const struct ddp_logger *logger, const char *name, struct log_entry *out)
{
    for (int i = 0; i < LOGGED_FIELDS; i++)
        if (strcmp(fields[i].name, name) == 0)
            return logger_field(logger, (enum logged_field)i, out);
    return false;
}
