/* What a script may write after nn. : each layer's parameters in PyTorch's order, with their defaults. */
#include <string.h>
#include "base/vec.h"
#include "nn/layer.h"
#include "sched/task.h"

static const struct layer_kind kinds[] = {
    { "Linear", "input @ weight.t() + bias", make_linear,
      { { "in_features", P_INTEGER, P_NEEDED, 0, 0 }, { "out_features", P_INTEGER, P_NEEDED, 0, 0 },
        { "bias", P_FLAG, 0, 1, 0 } } },
    { "Embedding", "rows of its weight, by index", make_embedding,
      { { "num_embeddings", P_INTEGER, P_NEEDED, 0, 0 }, { "embedding_dim", P_INTEGER, P_NEEDED, 0, 0 },
        { "padding_idx", P_INTEGER, P_NONE, 0, 0 }, { "max_norm", P_NUMBER, P_NONE, 0, 0 },
        { "norm_type", P_NUMBER, 0, 2, 0 }, { "scale_grad_by_freq", P_FLAG, 0, 0, 0 },
        { "sparse", P_FLAG, 0, 0, 0 } } },
    { "Bilinear", "input1 @ A @ input2 + bias, one A for each output", make_bilinear,
      { { "in1_features", P_INTEGER, P_NEEDED, 0, 0 }, { "in2_features", P_INTEGER, P_NEEDED, 0, 0 },
        { "out_features", P_INTEGER, P_NEEDED, 0, 0 }, { "bias", P_FLAG, 0, 1, 0 } } },
    { "Identity", "its input", make_identity, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "ReLU", "max(input, 0)", make_relu, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Tanh", "hyperbolic tangent", make_tanh, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Sigmoid", "1 / (1 + exp(-input))", make_sigmoid, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "GELU", "input times the normal distribution's share below it", make_gelu,
      { { "approximate", P_TEXT, 0, 0, "none" } } },
    { "SiLU", "input * sigmoid(input)", make_silu, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Softmax", "shares that add up to 1", make_softmax, { { "dim", P_INTEGER, 0, -1, 0 } } },
    { "LogSoftmax", "log of the softmax", make_log_softmax, { { "dim", P_INTEGER, 0, -1, 0 } } },
    { "LeakyReLU", "input, below 0 times the slope", make_leaky_relu, { { "negative_slope", P_NUMBER, 0, 0.01, 0 } } },
    { "ELU", "input, below 0 alpha * (exp(input) - 1)", make_elu, { { "alpha", P_NUMBER, 0, 1, 0 } } },
    { "Softplus", "log(1 + exp(input))", make_softplus, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "PReLU", "input, below 0 times a learned slope", make_prelu,
      { { "num_parameters", P_INTEGER, 0, 1, 0 }, { "init", P_NUMBER, 0, 0.25, 0 } } },
    { "Dropout", "in training elements become 0 with probability p, the others larger", make_dropout,
      { { "p", P_NUMBER, 0, 0.5, 0 } } },
    { "Dropout2d", "the same of whole channels", make_dropout2d, { { "p", P_NUMBER, 0, 0.5, 0 } } },
    { "AlphaDropout", "dropout that keeps mean and variance", make_alpha_dropout, { { "p", P_NUMBER, 0, 0.5, 0 } } },
    { "Flatten", "dimensions from start to end become one", make_flatten,
      { { "start_dim", P_INTEGER, 0, 1, 0 }, { "end_dim", P_INTEGER, 0, -1, 0 } } },
    { "Unflatten", "a dimension becomes several", make_unflatten,
      { { "dim", P_INTEGER, P_NEEDED, 0, 0 }, { "unflattened_size", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "Conv1d", "cross-correlation of rows", make_conv1d,
      { { "in_channels", P_INTEGER, P_NEEDED, 0, 0 }, { "out_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, 0, 1, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "dilation", P_PAIR, 0, 1, 0 }, { "groups", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 } } },
    { "Conv2d", "cross-correlation of planes", make_conv2d,
      { { "in_channels", P_INTEGER, P_NEEDED, 0, 0 }, { "out_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, 0, 1, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "dilation", P_PAIR, 0, 1, 0 }, { "groups", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 } } },
    { "ConvTranspose2d", "the way back through a Conv2d", make_conv_transpose2d,
      { { "in_channels", P_INTEGER, P_NEEDED, 0, 0 }, { "out_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, 0, 1, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "output_padding", P_PAIR, 0, 0, 0 }, { "groups", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 },
        { "dilation", P_PAIR, 0, 1, 0 } } },
    { "MaxPool2d", "the largest of each window", make_max_pool2d,
      { { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, P_NONE, 0, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "dilation", P_PAIR, 0, 1, 0 }, { "ceil_mode", P_FLAG, 0, 0, 0 } } },
    { "AvgPool2d", "the average of each window", make_avg_pool2d,
      { { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, P_NONE, 0, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "ceil_mode", P_FLAG, 0, 0, 0 }, { "count_include_pad", P_FLAG, 0, 1, 0 } } },
    { "AdaptiveAvgPool2d", "averages that make a plane of the size asked for", make_adaptive_avg_pool2d,
      { { "output_size", P_PAIR, P_NEEDED, 0, 0 } } },
    { "BatchNorm1d", "channels normalised over the batch", make_batch_norm1d,
      { { "num_features", P_INTEGER, P_NEEDED, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 },
        { "momentum", P_NUMBER, P_NONE, 0.1, 0 }, { "affine", P_FLAG, 0, 1, 0 },
        { "track_running_stats", P_FLAG, 0, 1, 0 } } },
    { "BatchNorm2d", "channels normalised over the batch and their planes", make_batch_norm2d,
      { { "num_features", P_INTEGER, P_NEEDED, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 },
        { "momentum", P_NUMBER, P_NONE, 0.1, 0 }, { "affine", P_FLAG, 0, 1, 0 },
        { "track_running_stats", P_FLAG, 0, 1, 0 } } },
    { "LayerNorm", "the last dimensions normalised", make_layer_norm,
      { { "normalized_shape", P_SHAPE, P_NEEDED, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 },
        { "elementwise_affine", P_FLAG, 0, 1, 0 } } },
    { "GroupNorm", "groups of channels normalised", make_group_norm,
      { { "num_groups", P_INTEGER, P_NEEDED, 0, 0 }, { "num_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "eps", P_NUMBER, 0, 1e-5, 0 }, { "affine", P_FLAG, 0, 1, 0 } } },
    { "RNN", "layers of h' = tanh(W x + b + W h + b)", make_rnn,
      { { "input_size", P_INTEGER, P_NEEDED, 0, 0 }, { "hidden_size", P_INTEGER, P_NEEDED, 0, 0 },
        { "num_layers", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 }, { "batch_first", P_FLAG, 0, 0, 0 },
        { "dropout", P_NUMBER, 0, 0, 0 }, { "bidirectional", P_FLAG, 0, 0, 0 },
        { "nonlinearity", P_TEXT, 0, 0, "tanh" } } },
    { "LSTM", "long short-term memory; answers output, (h, c)", make_lstm,
      { { "input_size", P_INTEGER, P_NEEDED, 0, 0 }, { "hidden_size", P_INTEGER, P_NEEDED, 0, 0 },
        { "num_layers", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 }, { "batch_first", P_FLAG, 0, 0, 0 },
        { "dropout", P_NUMBER, 0, 0, 0 }, { "bidirectional", P_FLAG, 0, 0, 0 }, { "proj_size", P_INTEGER, 0, 0, 0 } } },
    { "GRU", "gated recurrent units; answers output, h", make_gru,
      { { "input_size", P_INTEGER, P_NEEDED, 0, 0 }, { "hidden_size", P_INTEGER, P_NEEDED, 0, 0 },
        { "num_layers", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 }, { "batch_first", P_FLAG, 0, 0, 0 },
        { "dropout", P_NUMBER, 0, 0, 0 }, { "bidirectional", P_FLAG, 0, 0, 0 } } },
    { "RNNCell", "one step of an RNN", make_rnn_cell,
      { { "input_size", P_INTEGER, P_NEEDED, 0, 0 }, { "hidden_size", P_INTEGER, P_NEEDED, 0, 0 },
        { "bias", P_FLAG, 0, 1, 0 }, { "nonlinearity", P_TEXT, 0, 0, "tanh" } } },
    { "LSTMCell", "one step of an LSTM; answers h, c", make_lstm_cell,
      { { "input_size", P_INTEGER, P_NEEDED, 0, 0 }, { "hidden_size", P_INTEGER, P_NEEDED, 0, 0 },
        { "bias", P_FLAG, 0, 1, 0 } } },
    { "GRUCell", "one step of a GRU", make_gru_cell,
      { { "input_size", P_INTEGER, P_NEEDED, 0, 0 }, { "hidden_size", P_INTEGER, P_NEEDED, 0, 0 },
        { "bias", P_FLAG, 0, 1, 0 } } },
    { "MultiheadAttention", "attention(query, key, value, key_padding_mask, need_weights, attn_mask)", make_attention,
      { { "embed_dim", P_INTEGER, P_NEEDED, 0, 0 }, { "num_heads", P_INTEGER, P_NEEDED, 0, 0 },
        { "dropout", P_NUMBER, 0, 0, 0 }, { "bias", P_FLAG, 0, 1, 0 }, { "add_bias_kv", P_FLAG, 0, 0, 0 },
        { "add_zero_attn", P_FLAG, 0, 0, 0 }, { "kdim", P_INTEGER, P_NONE, 0, 0 }, { "vdim", P_INTEGER, P_NONE, 0, 0 },
        { "batch_first", P_FLAG, 0, 0, 0 } } },
    { "TransformerEncoderLayer", "attention to itself, then a feed-forward net", make_encoder_layer,
      { { "d_model", P_INTEGER, P_NEEDED, 0, 0 }, { "nhead", P_INTEGER, P_NEEDED, 0, 0 },
        { "dim_feedforward", P_INTEGER, 0, 2048, 0 }, { "dropout", P_NUMBER, 0, 0.1, 0 },
        { "activation", P_TEXT, 0, 0, "relu" }, { "layer_norm_eps", P_NUMBER, 0, 1e-5, 0 },
        { "batch_first", P_FLAG, 0, 0, 0 }, { "norm_first", P_FLAG, 0, 0, 0 } } },
    { "MSELoss", "squared differences", make_mse_loss, { { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "L1Loss", "absolute differences", make_l1_loss, { { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "HuberLoss", "half the square up to delta, from there on straight", make_huber_loss,
      { { "reduction", P_TEXT, 0, 0, "mean" }, { "delta", P_NUMBER, 0, 1, 0 } } },
    { "NLLLoss", "negative log likelihood of classes by index", make_nll_loss,
      { { "weight", P_TENSOR, P_NONE, 0, 0 }, { "ignore_index", P_INTEGER, 0, -100, 0 },
        { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "CrossEntropyLoss", "log_softmax and the likelihood of classes, by index or by their shares",
      make_cross_entropy_loss,
      { { "weight", P_TENSOR, P_NONE, 0, 0 }, { "ignore_index", P_INTEGER, 0, -100, 0 },
        { "reduction", P_TEXT, 0, 0, "mean" }, { "label_smoothing", P_NUMBER, 0, 0, 0 } } },
    { "BCEWithLogitsLoss", "binary cross entropy of logits", make_bce_with_logits_loss,
      { { "weight", P_TENSOR, P_NONE, 0, 0 }, { "reduction", P_TEXT, 0, 0, "mean" },
        { "pos_weight", P_TENSOR, P_NONE, 0, 0 } } },
};

const struct layer_kind *
layer_kinds(int *count)
{
    *count = (int)countof(kinds);
    return kinds;
}

struct module *
nn_layer(struct task *me, const char *name, const int64_t *numbers, int count)
{
    for (size_t k = 0; k < countof(kinds); k++) {
        struct arguments given = { .dtype = DTYPE_F32 };
        if (strcmp(kinds[k].name, name) != 0)
            continue;
        for (int i = 0; i < PARAMETERS && kinds[k].parameters[i].name != NULL; i++) {
            const struct parameter *p = &kinds[k].parameters[i];
            double                  number = i < count ? (double)numbers[i] : p->otherwise;
            given.at[i] = (struct argument){ .none = i >= count && p->how == P_NONE && number == 0, .number = number,
                                             .count = 1, .text = p->text,
                                             .integer = { (int64_t)number, (int64_t)number } };
        }
        return kinds[k].make(me, &given);
    }
    return failed_null(me, E_VALUE, "nn has no layer '%s'", name);
}
