#!/usr/bin/env python3
"""Training steps a second, Evenstep's kernels beside PyTorch, in alternating runs.

One thread each, batch 128, real Fashion-MNIST images, plain SGD. A step is forward, loss, backward
and update, with fp32 masters in both types (PyTorch's bf16 is autocast). Evenstep's time includes
normalising its images from bytes; PyTorch's are normalised beforehand. PyTorch runs twice: as it
comes, and at its best: channels last, with malloc kept from giving memory back. Every run is a
process of its own; the table has medians, and ratios are medians of the ratios within a round.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEST_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296",
               "MALLOC_TOP_PAD_": "268435456"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build", help="build directory (build)")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--models", default="cnn,mlp")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each run")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                        help="cpu: per second of processor time, for a machine that is shared")
    parser.add_argument("--torch-run", choices=("default", "best"), help=argparse.SUPPRESS)
    return parser.parse_args()


def read_idx(path, header):
    import numpy as np
    opened = gzip.open(f"{path}.gz") if not os.path.exists(path) else open(path, "rb")
    with opened as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def torch_model(name):
    from torch import nn
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512),
                             nn.ReLU(), nn.Linear(512, 10))
    if name == "softmax":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def torch_run(options):
    """What a child process does: times PyTorch and prints one line of JSON."""
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    data = pathlib.Path(options.data)
    pixels = read_idx(data / "train-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    labels = torch.tensor(read_idx(data / "train-labels-idx1-ubyte", 8).astype("int64"))
    images = torch.tensor(pixels).float() / 255
    images = (images - images.mean()) / images.std()
    model = torch_model(options.models)
    if options.torch_run == "best":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    bf16 = options.dtypes == "bf16"

    def step(k):
        first = k * options.batch % (len(labels) - options.batch)
        batch = slice(first, first + options.batch)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(images[batch])
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[batch])
        loss.backward()
        optimizer.step()
        return loss

    for k in range(5):
        step(k)
    wall, cpu, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - wall < options.seconds:
        loss = step(steps)
        steps += 1
    samples = steps * options.batch
    print(json.dumps({"samples_per_second": samples / (time.perf_counter() - wall),
                      "samples_per_cpu_second": samples / (time.process_time() - cpu),
                      "final_loss": loss.item()}))


def timed(command, options, extra={}):
    environment = dict(os.environ, OMP_NUM_THREADS="1", **extra)
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {command[0]} failed with exit code {done.returncode}")
    key = "samples_per_second" if options.clock == "wall" else "samples_per_cpu_second"
    return json.loads(done.stdout)[key]


def one_round(options, bench, model, dtype):
    """Samples a second of: ours, PyTorch as it comes, PyTorch at its best."""
    common = ["--data", options.data, "--batch", str(options.batch), "--seconds",
              str(options.seconds)]
    ours = [str(bench), "--model", model, "--dtype", dtype] + common
    theirs = [sys.executable, __file__, "--models", model, "--dtypes", dtype] + common
    return (timed(ours, options),
            timed(theirs + ["--torch-run", "default"], options),
            timed(theirs + ["--torch-run", "best"], options, BEST_MALLOC))


def compare(options, bench, model, dtype):
    rounds = [one_round(options, bench, model, dtype) for _ in range(options.rounds)]
    ours, default, best = (statistics.median(column) for column in zip(*rounds))
    to_default = statistics.median(r[0] / r[1] for r in rounds)
    to_best = statistics.median(r[0] / r[2] for r in rounds)
    print(f"{model:8} {dtype:5} {ours:12,.0f} {default:12,.0f} {best:12,.0f} {to_default:10.2f} "
          f"{to_best:10.2f}", flush=True)


def main():
    options = parse()
    if options.torch_run:
        torch_run(options)
        return
    bench = (pathlib.Path.cwd() / options.build / "kernels/evenstep-bench-network")
    if not bench.exists():
        bench = ROOT / options.build / "kernels/evenstep-bench-network"
    if not bench.exists():
        sys.exit(f"error: {bench} is not there; build Evenstep first, or name the build directory")
    print(f"samples a second of {options.clock} time, one thread, batch {options.batch}, median "
          f"of {options.rounds} alternating runs of {options.seconds:g} s")
    print(f"{'model':8} {'type':5} {'evenstep':>12} {'pytorch':>12} {'its best':>12} "
          f"{'x pytorch':>10} {'x best':>10}")
    for model in options.models.split(","):
        for dtype in options.dtypes.split(","):
            compare(options, bench, model, dtype)


if __name__ == "__main__":
    main()
