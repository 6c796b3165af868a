"""From a torch module and a DataLoader to an int8 ONNX model, with its accuracy."""

import torch
from torch.utils.data import DataLoader, TensorDataset

import detent

torch.manual_seed(0)
module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(800, 10))
images = torch.randn(256, 3, 12, 12)
with torch.no_grad():
    labels = module(images).argmax(dim=1)
loader = DataLoader(TensorDataset(images, labels), batch_size=32)

net = detent.from_torch(module, torch.zeros(1, 3, 12, 12))
result = net.quantize(loader, test=loader)
print(result)
result.network.export("int8.onnx", overwrite=True)
assert result.accuracy_after is not None and result.accuracy_after.accuracy > 0.9
