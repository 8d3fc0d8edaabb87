/* What the transformer's layers are made of. */
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H
#include "nn/layer.h"

struct heads {
    int64_t    embed, heads, keys, values;
    bool       bias, bias_kv, zero, batch_first;
    double     dropout;
    enum dtype dtype;
};
struct module *nn_attention(struct task *me, const struct heads *heads);
/* xavier_uniform_, xavier_normal_ by the tensor's own shape; NULL is none. */
bool draw_xavier(struct task *me, struct tensor *tensor, bool normal);

/* torch.nn.TransformerEncoder and TransformerDecoder: `count` deep copies of `layer`, then `norm` (NULL: none). */
struct module *nn_transformer_encoder(struct task *me, struct module *layer, int64_t count, struct module *norm);
struct module *nn_transformer_decoder(struct task *me, struct module *layer, int64_t count, struct module *norm);
#endif
