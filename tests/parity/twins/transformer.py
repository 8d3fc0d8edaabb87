import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(7)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8))
        self.both = nn.Transformer(8, 2, 1, 1, 12, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 12)
    def forward(self, x, mask):
        h = self.encoder(self.embed(x), mask)
        return self.head(self.both(h, h, tgt_mask=mask))
net = Model()
x = torch.randint(0, 12, (6, 9))
mask = torch.ones(8, 8).triu(1).bool()
opt = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=0.1)
for step in range(15):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(x[:, :8], mask).reshape(48, 12), x[:, 1:].reshape(48))
    loss.backward()
    opt.step()
    print("loss", "%.9g" % loss.item())
