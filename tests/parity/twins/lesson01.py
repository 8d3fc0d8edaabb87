import torch
from torch import nn
from twin import show
torch.set_num_threads(1)
torch.manual_seed(1)
embedding, rnn = nn.Embedding(1000, 10), nn.Linear(10, 10)
out = rnn(embedding(torch.tensor([1, 2, 3, 4, 5, 6])))
out.sum().backward()
digest = 0
for byte in " ".join("%.9g" % v for v in embedding.weight.flatten().tolist()).encode():
    digest = (digest * 31 + byte) % 2147483647
print("embedding.weight.digest=", digest)
show("embedding.weight=", embedding.weight[:8])
show("rnn.weight=", rnn.weight)
show("rnn.bias=", rnn.bias)
show("out", out)
show("rnn.weight.grad", rnn.weight.grad)
show("embedding.weight.grad", embedding.weight.grad[:8])
