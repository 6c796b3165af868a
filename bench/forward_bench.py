"""Forward passes of forward_bench (its path is the argument) and of the same networks in Python's torch, one thread,
in turn: prints the ratios of their CPU times, medians of the rounds."""
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

ROUNDS = 7
RUNS = {1: 12, 8: 2}  # a round, by batch size


def load_forward(folder):
    spec = importlib.util.spec_from_file_location("network", os.path.join(folder, "network.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.forward


def run_python(forward, images, runs):
    with torch.inference_mode():
        start = time.process_time()
        for _ in range(runs):
            logit = forward(images).flatten()[0].item()
        return time.process_time() - start, logit


def measure(program, network):
    with tempfile.TemporaryDirectory() as folder:
        ours = subprocess.Popen([program, network, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert ours.stdout.readline() == "ready\n"
        forward = load_forward(folder)
        for batch, runs in RUNS.items():
            torch.manual_seed(1)
            images = torch.randn(batch, 3, 224, 224)
            times, ratios = [], []
            for round in range(ROUNDS + 1):
                ours.stdin.write(f"{batch} {runs}\n")
                ours.stdin.flush()
                seconds, logit = map(float, ours.stdout.readline().split())
                python_seconds, expected = run_python(forward, images, runs)
                assert abs(logit - expected) <= 1e-4 * max(1, abs(expected)), (logit, expected)
                if round > 0:  # the first is to warm up
                    times.append(seconds / runs / batch)
                    ratios.append(python_seconds / seconds)
            print(
                f"{network}, batch {batch}: {1000 * statistics.median(times):.1f} ms an image, "
                f"speed of detent / speed of Python's torch: {statistics.median(ratios):.3f} "
                f"({min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )
        ours.stdin.close()
        ours.wait()


def main(program):
    torch.set_num_threads(1)
    for network in "mobilenet_v2", "squeezenet", "resnet18":
        measure(program, network)


main(sys.argv[1])
