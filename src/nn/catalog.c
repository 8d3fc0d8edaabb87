/* What a script may write after nn. : each layer's parameters in PyTorch's order, with their defaults. */
#include <string.h>
#include <string.h>
#include "base/vec.h"
#include "nn/layer.h"
#include "sched/task.h"
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
    { "ReLU", "max(input, 0)", make_relu, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Tanh", "hyperbolic tangent", make_tanh, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Sigmoid", "1 / (1 + exp(-input))", make_sigmoid, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "GELU", "input times the normal distribution's share below it", make_gelu,
      { { "approximate", P_TEXT, 0, 0, "none" } } },
    { "SiLU", "input * sigmoid(input)", make_silu, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Softmax", "shares that add up to 1", make_softmax, { { "dim", P_INTEGER, 0, -1, 0 } } },
    { "LogSoftmax", "log of the softmax", make_log_softmax, { { "dim", P_INTEGER, 0, -1, 0 } } },
    { "LeakyReLU", "input, below 0 times the slope", make_leaky_relu,
      { { "negative_slope", P_NUMBER, 0, 0.01, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "ELU", "input, below 0 alpha * (exp(input) - 1)", make_elu,
      { { "alpha", P_NUMBER, 0, 1, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Softplus", "log(1 + exp(input))", make_softplus,
      { { "beta", P_NUMBER, 0, 1, 0 }, { "threshold", P_NUMBER, 0, 20, 0 } } },
    { "PReLU", "input, below 0 times a learned slope", make_prelu,
      { { "num_parameters", P_INTEGER, 0, 1, 0 }, { "init", P_NUMBER, 0, 0.25, 0 } } },
    { "Dropout", "in training elements become 0 with probability p, the others larger", make_dropout,
      { { "p", P_NUMBER, 0, 0.5, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Dropout2d", "the same of whole channels", make_dropout2d,
      { { "p", P_NUMBER, 0, 0.5, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "AlphaDropout", "dropout that keeps mean and variance", make_alpha_dropout,
      { { "p", P_NUMBER, 0, 0.5, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Flatten", "dimensions from start to end become one", make_flatten,
      { { "start_dim", P_INTEGER, 0, 1, 0 }, { "end_dim", P_INTEGER, 0, -1, 0 } } },
    { "Unflatten", "a dimension becomes several", make_unflatten,
      { { "dim", P_INTEGER, P_NEEDED, 0, 0 }, { "unflattened_size", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "Conv1d", "cross-correlation of rows", make_conv1d,
      { { "in_channels", P_INTEGER, P_NEEDED, 0, 0 }, { "out_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, 0, 1, 0 },
        { "padding", P_PADDING, 0, 0, 0 }, { "dilation", P_PAIR, 0, 1, 0 }, { "groups", P_INTEGER, 0, 1, 0 },
        { "bias", P_FLAG, 0, 1, 0 }, { "padding_mode", P_TEXT, 0, 0, "zeros" } } },
    { "Conv2d", "cross-correlation of planes", make_conv2d,
      { { "in_channels", P_INTEGER, P_NEEDED, 0, 0 }, { "out_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, 0, 1, 0 },
        { "padding", P_PADDING, 0, 0, 0 }, { "dilation", P_PAIR, 0, 1, 0 }, { "groups", P_INTEGER, 0, 1, 0 },
        { "bias", P_FLAG, 0, 1, 0 }, { "padding_mode", P_TEXT, 0, 0, "zeros" } } },
    { "ConvTranspose2d", "the way back through a Conv2d", make_conv_transpose2d,
      { { "in_channels", P_INTEGER, P_NEEDED, 0, 0 }, { "out_channels", P_INTEGER, P_NEEDED, 0, 0 },
        { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, 0, 1, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "output_padding", P_PAIR, 0, 0, 0 }, { "groups", P_INTEGER, 0, 1, 0 }, { "bias", P_FLAG, 0, 1, 0 },
        { "dilation", P_PAIR, 0, 1, 0 }, { "padding_mode", P_TEXT, 0, 0, "zeros" } } },
    { "MaxPool2d", "the largest of each window", make_max_pool2d,
      { { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, P_NONE, 0, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "dilation", P_PAIR, 0, 1, 0 }, { "ceil_mode", P_FLAG, 0, 0, 0 } } },
    { "AvgPool2d", "the average of each window", make_avg_pool2d,
      { { "kernel_size", P_PAIR, P_NEEDED, 0, 0 }, { "stride", P_PAIR, P_NONE, 0, 0 }, { "padding", P_PAIR, 0, 0, 0 },
        { "ceil_mode", P_FLAG, 0, 0, 0 }, { "count_include_pad", P_FLAG, 0, 1, 0 } } },
    { "AdaptiveAvgPool2d", "averages that make a plane of the size asked for", make_adaptive_avg_pool2d,
      { { "output_size", P_PAIR, P_NEEDED, 0, "none" } } },
    { "BatchNorm1d", "channels normalised over the batch", make_batch_norm1d,
      { { "num_features", P_INTEGER, P_NEEDED, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 },
        { "momentum", P_NUMBER, P_NONE, 0.1, 0 }, { "affine", P_FLAG, 0, 1, 0 },
        { "track_running_stats", P_FLAG, 0, 1, 0 } } },
    { "BatchNorm2d", "channels normalised over the batch and their planes", make_batch_norm2d,
      { { "num_features", P_INTEGER, P_NEEDED, 0, 0 }, { "eps", P_NUMBER, 0, 1e-5, 0 },
        { "momentum", P_NUMBER, P_NONE, 0.1, 0 }, { "affine", P_FLAG, 0, 1, 0 },
        { "track_running_stats", P_FLAG, 0, 1, 0 } } },
    { "Hardtanh", "input kept between two bounds", NULL,
      { { "min_val", P_NUMBER, 0, -1, 0 }, { "max_val", P_NUMBER, 0, 1, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "ReLU6", "input kept between 0 and 6", NULL, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "SELU", "an ELU that keeps mean and variance", NULL, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "CELU", "input, below 0 alpha * (exp(input / alpha) - 1)", NULL,
      { { "alpha", P_NUMBER, 0, 1, 0 }, { "inplace", P_FLAG, 0, 0, 0 } } },
    { "LogSigmoid", "log of the sigmoid", NULL, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Softsign", "input / (1 + |input|)", NULL, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Tanhshrink", "input - tanh(input)", NULL, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "Softshrink", "lambd nearer to 0, and 0 within it", NULL, { { "lambd", P_NUMBER, 0, 0.5, 0 } } },
    { "Hardshrink", "0 within lambd of 0", NULL, { { "lambd", P_NUMBER, 0, 0.5, 0 } } },
    { "Threshold", "input above the threshold, else the value", NULL,
      { { "threshold", P_NUMBER, P_NEEDED, 0, 0 }, { "value", P_NUMBER, P_NEEDED, 0, 0 },
        { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Hardsigmoid", "input / 6 + 1 / 2 between 0 and 1", NULL, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Hardswish", "input * hardsigmoid(input)", NULL, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Mish", "input * tanh(softplus(input))", NULL, { { "inplace", P_FLAG, 0, 0, 0 } } },
    { "Softmin", "shares of -input that add up to 1", NULL, { { "dim", P_INTEGER, 0, -1, 0 } } },
    { "GLU", "the first half of a dimension times the sigmoid of the second", NULL,
      { { "dim", P_INTEGER, 0, -1, 0 } } },
    { "Softmax2d", "shares of the channels at each place", NULL, { { NULL, P_FLAG, 0, 0, 0 } } },
    { "ConstantPad1d", "a value around rows: {left, right, ...}", NULL,
      { { "padding", P_SHAPE, P_NEEDED, 0, 0 }, { "value", P_NUMBER, P_NEEDED, 0, 0 } } },
    { "ReflectionPad1d", "rows mirrored at their edges", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "ReplicationPad1d", "the edges of rows again", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "ConstantPad2d", "a value around planes: {left, right, ...}", NULL,
      { { "padding", P_SHAPE, P_NEEDED, 0, 0 }, { "value", P_NUMBER, P_NEEDED, 0, 0 } } },
    { "ReflectionPad2d", "planes mirrored at their edges", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "ReplicationPad2d", "the edges of planes again", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "ConstantPad3d", "a value around volumes: {left, right, ...}", NULL,
      { { "padding", P_SHAPE, P_NEEDED, 0, 0 }, { "value", P_NUMBER, P_NEEDED, 0, 0 } } },
    { "ReflectionPad3d", "volumes mirrored at their edges", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "ReplicationPad3d", "the edges of volumes again", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "ZeroPad2d", "zeros around planes", NULL, { { "padding", P_SHAPE, P_NEEDED, 0, 0 } } },
    { "MaxPool1d", "the largest of each window of a row", NULL,
      { { "kernel_size", P_INTEGER, P_NEEDED, 0, 0 }, { "stride", P_INTEGER, P_NONE, 0, 0 },
        { "padding", P_INTEGER, 0, 0, 0 }, { "dilation", P_INTEGER, 0, 1, 0 }, { "ceil_mode", P_FLAG, 0, 0, 0 } } },
    { "AvgPool1d", "the average of each window of a row", NULL,
      { { "kernel_size", P_INTEGER, P_NEEDED, 0, 0 }, { "stride", P_INTEGER, P_NONE, 0, 0 },
        { "padding", P_INTEGER, 0, 0, 0 }, { "ceil_mode", P_FLAG, 0, 0, 0 },
        { "count_include_pad", P_FLAG, 0, 1, 0 } } },
    { "AdaptiveAvgPool1d", "averages that make a row of the size asked for", NULL,
      { { "output_size", P_INTEGER, P_NEEDED, 0, 0 } } },
    { "PixelShuffle", "channels become pixels", NULL, { { "upscale_factor", P_INTEGER, P_NEEDED, 0, 0 } } },
    { "PixelUnshuffle", "pixels become channels", NULL, { { "downscale_factor", P_INTEGER, P_NEEDED, 0, 0 } } },
    { "BatchNorm3d", "channels normalised over the batch and their volumes", make_batch_norm3d,
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
    { "TransformerDecoderLayer", "attention to itself, then to the memory, then a feed-forward net", make_decoder_layer,
      { { "d_model", P_INTEGER, P_NEEDED, 0, 0 }, { "nhead", P_INTEGER, P_NEEDED, 0, 0 },
        { "dim_feedforward", P_INTEGER, 0, 2048, 0 }, { "dropout", P_NUMBER, 0, 0.1, 0 },
        { "activation", P_TEXT, 0, 0, "relu" }, { "layer_norm_eps", P_NUMBER, 0, 1e-5, 0 },
        { "batch_first", P_FLAG, 0, 0, 0 }, { "norm_first", P_FLAG, 0, 0, 0 } } },
    { "Transformer", "an encoder of the source, and a decoder of the target that looks at it", make_transformer,
      { { "d_model", P_INTEGER, 0, 512, 0 }, { "nhead", P_INTEGER, 0, 8, 0 },
        { "num_encoder_layers", P_INTEGER, 0, 6, 0 }, { "num_decoder_layers", P_INTEGER, 0, 6, 0 },
        { "dim_feedforward", P_INTEGER, 0, 2048, 0 }, { "dropout", P_NUMBER, 0, 0.1, 0 },
        { "activation", P_TEXT, 0, 0, "relu" }, { "layer_norm_eps", P_NUMBER, 0, 1e-5, 0 },
        { "batch_first", P_FLAG, 0, 0, 0 }, { "norm_first", P_FLAG, 0, 0, 0 } } },
    { "MSELoss", "squared differences", make_mse_loss, { { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "L1Loss", "absolute differences", make_l1_loss, { { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "HuberLoss", "half the square up to delta, from there on straight", make_huber_loss,
      { { "reduction", P_TEXT, 0, 0, "mean" }, { "delta", P_NUMBER, 0, 1, 0 } } },
    { "SmoothL1Loss", "squares below beta, from there on straight, of slope 1", make_smooth_l1_loss,
      { { "reduction", P_TEXT, 0, 0, "mean" }, { "beta", P_NUMBER, 0, 1, 0 } } },
    { "BCELoss", "binary cross entropy of probabilities", make_bce_loss,
      { { "weight", P_TENSOR, P_NONE, 0, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "KLDivLoss", "Kullback-Leibler divergence: the input is a logarithm", make_kl_div_loss,
      { { "reduction", P_TEXT, 0, 0, "mean" }, { "log_target", P_FLAG, 0, 0, 0 } } },
    { "SoftMarginLoss", "log(1 + exp(-target * input)), targets 1 and -1", make_soft_margin_loss,
      { { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "HingeEmbeddingLoss", "the input, or what is left of the margin, by targets 1 and -1", make_hinge_embedding_loss,
      { { "margin", P_NUMBER, 0, 1, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
    { "PoissonNLLLoss", "likelihood of counts by their rate", make_poisson_nll_loss,
      { { "log_input", P_FLAG, 0, 1, 0 }, { "full", P_FLAG, 0, 0, 0 },
        { "eps", P_NUMBER, 0, 1e-8, 0 }, { "reduction", P_TEXT, 0, 0, "mean" } } },
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

/* What layer_plain makes, by name. */
static const struct layer_type *const plain_types[] = {
    &layer_hardtanh, &layer_relu6, &layer_selu, &layer_celu, &layer_log_sigmoid, &layer_softsign,
    &layer_tanhshrink, &layer_softshrink, &layer_hardshrink, &layer_threshold, &layer_hardsigmoid,
    &layer_hardswish, &layer_mish, &layer_softmin, &layer_glu, &layer_softmax2d, &layer_zero_pad2d,
    &layer_constant_pad1d, &layer_constant_pad2d, &layer_constant_pad3d, &layer_reflection_pad1d,
    &layer_reflection_pad2d, &layer_reflection_pad3d, &layer_replication_pad1d, &layer_replication_pad2d,
    &layer_replication_pad3d, &layer_max_pool1d, &layer_avg_pool1d, &layer_adaptive_avg_pool1d,
    &layer_pixel_shuffle, &layer_pixel_unshuffle,
};

struct module *
layer_plain(struct task *me, const struct layer_kind *kind, const struct arguments *a)
{
    size_t at = 0;
    while (at < countof(plain_types) && strcmp(plain_types[at]->type.name, kind->name) != 0)
        at++;
    if (at == countof(plain_types))
        return failed_null(me, E_NOT_IMPLEMENTED, "%s is not implemented", kind->name);
    struct module *module = module_new(me, &plain_types[at]->type);
    int            numbers = 0, integers = 0;
    for (int i = 0; module != NULL && i < PARAMETERS && kind->parameters[i].name != NULL; i++) {
        const struct argument *given = &a->at[i];
        int                    kept = kind->parameters[i].kind == P_SHAPE ? given->count : 1;
        if (strcmp(kind->parameters[i].name, "inplace") == 0) {
            module->integers[LAYER_INPLACE] = given->integer[0] ? INPLACE_BY_COPY : 0;
            continue;
        }
        if (kind->parameters[i].kind == P_NUMBER)
            module->numbers[numbers++] = given->number;
        if (kind->parameters[i].kind == P_SHAPE)
            module->integers[integers++] = given->count;
        if (kind->parameters[i].kind == P_NUMBER || integers + kept > LAYER_INPLACE)
            continue;
        for (int j = 0; j < kept; j++)
            module->integers[integers++] = given->none ? -1 : given->integer[j];
    }
    return module;
}

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
