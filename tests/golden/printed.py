"""The modules of printed.json: PyTorch's texts of them, read by scripts/golden_printed.lua. parallel.py writes the file."""
import collections
from torch import nn


def modules(layer, models):
    """(module, attrs) one after the other. layer: makes an encoder's layer; models: those of dp_models-more."""
    yield nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Sequential(nn.LayerNorm((4,), eps=1e-3), nn.GELU("tanh"))), None
    yield nn.Sequential(nn.Conv2d(2, 4, (3, 1), stride=(2, 1), padding="valid", padding_mode="reflect", groups=2, bias=False),
                        nn.GroupNorm(2, 4), nn.ReLU(inplace=True), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d((1, None)),
                        nn.Flatten(), nn.Dropout2d(0.1)), None
    yield nn.Sequential(nn.Conv2d(1, 2, 3, padding="same"), nn.MaxPool2d((2, 2)), nn.MaxPool2d((3, 2), stride=1)), None
    yield nn.Conv1d(3, 6, 5, dilation=2, padding=4), None
    yield nn.ConvTranspose2d(2, 3, 3, stride=2, output_padding=1), None
    yield nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.BatchNorm2d(3, momentum=None),
                        nn.BatchNorm3d(2, track_running_stats=False, eps=0.01)), None
    yield nn.GRU(3, 5, num_layers=2, dropout=0.5, bias=False), None
    yield nn.RNN(3, 5, nonlinearity="relu"), {"nonlinearity": "relu"}
    yield nn.LSTM(3, 5, proj_size=2), None
    yield nn.ModuleList([nn.LSTMCell(3, 2, bias=False), nn.RNNCell(3, 2, nonlinearity="relu"), nn.GRUCell(3, 2)]), None
    yield layer(activation="gelu", norm_first=True, layer_norm_eps=1e-4), {
        "nhead": 2, "activation": "gelu", "batch_first": True, "norm_first": True}
    yield nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2), 3, norm=nn.LayerNorm(8)), {"layers.0": {"nhead": 2}}
    yield nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 1, 8), 2), {"nhead": 1}
    yield nn.Transformer(8, 4, 1, 2, 16, dropout=0), {"nhead": 4}
    yield nn.MultiheadAttention(6, 3, bias=False), {"num_heads": 3}
    yield nn.MultiheadAttention(6, 3, kdim=4, vdim=5, add_bias_kv=True), {"num_heads": 3, "kdim": 4, "vdim": 5, "add_bias_kv": True}
    yield nn.Sequential(nn.Embedding(7, 4, max_norm=1.0, norm_type=1.0, scale_grad_by_freq=True),
                        nn.TransformerEncoderLayer(4, 2, 8)), {"1": {"nhead": 2}}
    yield nn.Sequential(nn.ELU(0.5), nn.LeakyReLU(0.2), nn.PReLU(3), nn.Softplus(2, 10), nn.Hardtanh(-2, 2), nn.ReLU6(),
                        nn.SELU(), nn.CELU(), nn.LogSigmoid(), nn.Softsign(), nn.Tanhshrink(), nn.Softshrink(0.25),
                        nn.Hardshrink(), nn.Threshold(0.1, 20), nn.Hardsigmoid(), nn.Hardswish(), nn.Mish(), nn.Softmin(1),
                        nn.GLU(), nn.Softmax2d(), nn.Softmax(dim=-1), nn.LogSoftmax(dim=1), nn.Sigmoid(), nn.SiLU(),
                        nn.Identity()), None
    yield nn.Sequential(nn.Unflatten(1, (2, 3)), nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ConstantPad1d(2, 0.5),
                        nn.ConstantPad2d((1, 2, 3, 4), 1.5), nn.ConstantPad3d(1, 0), nn.ReflectionPad1d(1),
                        nn.ReflectionPad2d(1), nn.ReflectionPad3d(1), nn.ReplicationPad1d(1), nn.ReplicationPad2d((1, 0, 1, 0)),
                        nn.ReplicationPad3d(1), nn.ZeroPad2d(1), nn.MaxPool1d(2), nn.AvgPool1d(2), nn.AdaptiveAvgPool1d(3),
                        nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.AlphaDropout(0.2), nn.AdaptiveAvgPool2d(2)), None
    yield nn.Bilinear(2, 3, 4, bias=False), None
    yield nn.ModuleDict({"a": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU()]), "b": nn.Linear(1, 1)}), None
    yield nn.Sequential(collections.OrderedDict(first=nn.Linear(1, 2), then=nn.Sequential())), None
    yield nn.BatchNorm2d(2, bias=False), None
    for make, attrs, *_ in models.values():
        yield make(), attrs
