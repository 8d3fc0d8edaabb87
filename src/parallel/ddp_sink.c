/* _DDPSink of torch/nn/parallel/distributed.py. Interface in order of use: ddp_find_tensors, ddp_sink. */
#include "parallel/ddp_sink.h"
#include "autograd/node.h"
#include "device/cells.h"
#include "nn/value.h"
#include "tensor/op.h"

/* ---- which tensors ---- */

static bool
count_tensor(void *context, struct tensor *tensor)
{
    *(int *)context += tensor->grad_fn != NULL;
    return true;
}

static bool
list_tensor(void *context, struct tensor *tensor)
{
    struct tensor_list *list = context;
    if (tensor->grad_fn != NULL)
        list->tensors[list->count++] = tensor;
    return true;
}

bool
ddp_find_tensors(struct task *me, struct value *output, struct tensor_list *out)
{
    int count = 0;
    value_each_tensor(output, count_tensor, &count);
    *out = (struct tensor_list){ .tensors = scratch_new(me, (size_t)(count > 0 ? count : 1), sizeof *out->tensors) };
    if (out->tensors != NULL)
        value_each_tensor(output, list_tensor, out);
    return out->tensors != NULL;
}

/* ---- the node ---- */


/* Undefined gradients pass unchanged: what only an unused output needs is not filled with zeros. */
static bool
sink_backward(struct task *me, struct node *node, struct tensor *const *grad_out, struct tensor **grad_in)
{
    struct ddp_sink *sink = node->context;
    for (int i = 0; i < node->edge_count; i++)
        grad_in[i] = grad_out[i];
    return sink == NULL || sink->began(me, sink->context);
}

static void
sink_drop(struct task *me, void *context)
{
    struct ddp_sink *sink = context;
    sink->drop(me, sink->context);
    host_return(me, sink, sizeof *sink);
}

struct replacing { struct tensor *const *clones; int next; };

static struct tensor *
replace_tensor(struct task *me, void *context, struct tensor *tensor)
{
    (void)me;
    struct replacing *replacing = context;
    return tensor->grad_fn != NULL ? replacing->clones[replacing->next++] : tensor;
}

static struct node *
sink_node(struct task *me, int count, const struct ddp_sink *sink)
{
    struct node     *node = node_new(me, "_DDPSinkBackward", sink_backward, count, count);
    struct ddp_sink *own  = node != NULL && sink->began != NULL ? host_take(me, sizeof *own) : NULL;
    if (own != NULL) {
        *own               = *sink;
        node->context      = own;
        node->drop_context = sink_drop;
    } else if (sink->began != NULL) {
        sink->drop(me, sink->context);
    }
    if (node == NULL || sink->began == NULL || own != NULL)
        return node;
    node_unref(me, node);
    return NULL;
}

struct value *
ddp_sink(struct task *me, struct value *output, const struct tensor_list *list, const struct ddp_sink *sink)
{
    struct tensor **clones = scratch_new(me, (size_t)list->count + 1, sizeof *clones);
    struct node    *node   = sink_node(me, list->count, sink);
    bool            done   = node != NULL && clones != NULL;
    for (int i = 0; i < list->count && done; i++) {
        node_connect(me, node, i, list->tensors[i]);
        clones[i] = sink->clone ? tensor_clone(me, list->tensors[i]) : tensor_alias(me, list->tensors[i]);
        done      = clones[i] != NULL;
        if (done)
            node_output(me, node, clones[i], i);
    }
    if (node != NULL)
        node_unref(me, node);
    struct replacing replacing = { clones, 0 };
    return done ? value_map(me, output, replace_tensor, &replacing) : NULL;
}
