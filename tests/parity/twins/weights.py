import json, struct, sys
import torch
from torch import nn
torch.set_num_threads(1)
DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "BOOL": torch.bool}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

def load(path):  # what the package safetensors does, for machines without it
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        body = bytearray(file.read())
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(body[begin:end]), dtype=DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors

def save(tensors, path):
    header, body = {}, b""
    for name, t in tensors.items():
        data = bytes(t.contiguous().flatten().view(torch.uint8).tolist()) if t.dim() else t.numpy().tobytes()
        place = [len(body), len(body) + len(data)]
        header[name] = {"dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": place}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
    def forward(self, x):
        return self.head(self.lstm(self.norm(self.embed(x).transpose(1, 2)).transpose(1, 2))[0])

def show(name, t):
    print(name, *["%.9g" % v for v in t.detach().flatten().tolist()])

folder = sys.argv[1]
x = torch.tensor([[1, 2, 3], [6, 0, 5]])
torch.manual_seed(2)
net = Tied()
net(x)
net.eval()
print("names", *net.state_dict().keys())
show("theirs", net(x))
save({name: t for name, t in net.state_dict().items()}, folder + "/theirs.safetensors")
other = Tied()
other.load_state_dict(load(folder + "/ours.safetensors"))
other.eval()
show("ours", other(x))
