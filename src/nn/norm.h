/* BatchNorm's module for what is made of it elsewhere: parallel/sync_batch_norm.c, which needs process groups. */
#ifndef NN_NORM_H
#define NN_NORM_H
#include "base/dtype.h"
#include "nn/module.h"

struct batch_norm_options;

/* What every BatchNorm shows of its settings; by it one is known. */
extern const struct module_attribute batch_norm_attributes[];
bool module_is_batch_norm(const struct module *module);    /* of any dimensions, SyncBatchNorm too */
void batch_norm_describe(const struct module *self, struct str *out);

struct batch_norm_settings {
    int64_t    num_features;
    double     eps, momentum;
    bool       cumulative;         /* instead of the momentum 1 / batches so far */
    bool       affine, bias, track_running_stats;
    enum dtype dtype;
};
/* In me's scope; NULL: failed. */
struct module *batch_norm_new(struct task *me, const struct module_type *type,
                              const struct batch_norm_settings *settings);
/* Another with the same settings, mode and name, and the very parameters and buffers of `module`. */
struct module *batch_norm_sharing(struct task *me, const struct module_type *type, const struct module *module);

/* The input has as many channels as the layer: false: failed. */
bool batch_norm_check_channels(struct task *me, const struct module *self, const struct tensor *input);
/* What a forward needs; in training it counts the batch. */
bool batch_norm_begin(struct task *me, struct module *self, struct batch_norm_options *out);
#endif
