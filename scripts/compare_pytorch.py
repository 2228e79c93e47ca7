#!/usr/bin/env python3
"""Training steps a second, and memory, of Evenstep beside PyTorch, in alternating runs.

One thread a rank, 128 samples a rank, real Fashion-MNIST images, plain SGD. A step is forward, loss,
backward and update, with fp32 masters in both types (PyTorch's bf16 is autocast). One rank of ours is
evenstep-bench-network, several are evenstep-train; of PyTorch's, several are DistributedDataParallel on
gloo. Evenstep's time includes normalising its images from bytes; PyTorch's are normalised beforehand.
PyTorch runs as it comes, with malloc kept from giving memory back, and so in channels last as well;
its best is the fastest of these. Every run is a job of its own; the table has medians, and ratios are
medians of the ratios within a round. Memory is the peak resident size of the largest process.
"""
import argparse
import gzip
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "4294967296",
               "MALLOC_TOP_PAD_": "268435456"}
VARIANTS = {"default": {}, "malloc": KEEP_MEMORY, "channels_last": KEEP_MEMORY}
TORCH_SAMPLES = 8192  # so that its images do not count as memory of its own


def mlp(nn):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                         nn.Linear(512, 10))


def cnn(nn):
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def resnet20(nn):
    class Block(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            stride = outputs // inputs
            self.branch = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.relu(self.branch(x) + self.shortcut(x))

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True),
        *[Block(a, b) for a, b in zip(widths, widths[1:])],
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


# Evenstep's name of a model: PyTorch's model on 1x28x28 images.
MODELS = {"cnn": cnn, "mlp": mlp, "resnet20": resnet20,
          "softmax": lambda nn: nn.Sequential(nn.Flatten(), nn.Linear(784, 10))}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build", help="build directory (build)")
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--models", default="cnn,mlp")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--batch", type=int, default=128, help="samples a rank")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each run")
    parser.add_argument("--torch-run", choices=VARIANTS, help=argparse.SUPPRESS)
    return parser.parse_args()


def read_idx(path, header):
    import numpy as np
    opened = gzip.open(f"{path}.gz") if not os.path.exists(path) else open(path, "rb")
    with opened as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def torch_run(options):
    """What a child process does: times PyTorch and prints one line of JSON on the first rank."""
    import torch
    from torch import distributed
    torch.set_num_threads(1)
    torch.manual_seed(1)
    ranks = int(options.ranks)
    data = pathlib.Path(options.data)
    pixels = read_idx(data / "train-images-idx3-ubyte", 16)[:TORCH_SAMPLES * 784].reshape(-1, 1, 28, 28)
    labels = torch.tensor(read_idx(data / "train-labels-idx1-ubyte", 8)[:TORCH_SAMPLES].astype("int64"))
    images = torch.tensor(pixels).float() / 255
    images = (images - images.mean()) / images.std()
    model = MODELS[options.models](torch.nn)
    if options.torch_run == "channels_last":
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    if ranks > 1:
        distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    bf16 = options.dtypes == "bf16"

    def step(k):
        first = k * options.batch % (len(labels) - options.batch + 1)
        batch = slice(first, first + options.batch)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(images[batch])
        loss = torch.nn.functional.cross_entropy(logits.float(), labels[batch])
        loss.backward()
        optimizer.step()

    def seconds_of(steps):
        start = time.perf_counter()
        for k in range(steps):
            step(k)
        longest = torch.tensor(time.perf_counter() - start)
        if ranks > 1:
            distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        return longest.item()

    seconds_of(5)
    steps = max(5, int(options.seconds / seconds_of(5) * 5))  # the same on all ranks
    rate = ranks * steps * options.batch / seconds_of(steps)
    if not ranks > 1 or distributed.get_rank() == 0:
        print(json.dumps({"samples_per_second": rate}))


def run_all(commands, environments):
    """Runs the processes of one job together: the output of the first, and the largest peak in MB."""
    processes = [subprocess.Popen([str(word) for word in command], env=dict(os.environ, **environment),
                                  stdout=subprocess.PIPE, text=True)
                 for command, environment in zip(commands, environments)]
    output = processes[0].stdout.read()
    peak = 0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"error: {process.args[0]} failed with exit code {process.returncode}")
        peak = max(peak, usage.ru_maxrss / 1024)
    return output, peak


def time_torch(options, model, dtype, ranks, variant):
    command = [sys.executable, __file__, "--models", model, "--dtypes", dtype, "--data", options.data,
               "--batch", options.batch, "--seconds", options.seconds, "--ranks", ranks, "--torch-run", variant]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
              "WORLD_SIZE": str(ranks), **VARIANTS[variant]}
    output, peak = run_all([command] * ranks, [{**common, "RANK": str(rank)} for rank in range(ranks)])
    return json.loads(output)["samples_per_second"], peak


def time_one_rank(options, model, dtype):
    command = [options.folder / "kernels/evenstep-bench-network", "--model", model, "--dtype", dtype, "--data",
               options.data, "--batch", options.batch, "--seconds", options.seconds]
    output, peak = run_all([command], [{"OMP_NUM_THREADS": "1"}])
    return json.loads(output)["samples_per_second"], peak


def time_ranks(options, model, dtype, ranks):
    rate, peak = time_one_rank(options, model, dtype)  # for a number of steps; memory is that of each rank
    steps = max(20, int(options.seconds * rate / options.batch))
    with tempfile.NamedTemporaryFile(suffix=".json") as summary:
        run_all([[ROOT / "scripts/mpirun", "-n", ranks, options.folder / "apps/evenstep-train", "--model", model,
                  "--dtype", dtype, "--data", options.data, "--global-batch", ranks * options.batch, "--steps",
                  steps, "--momentum", 0, "--eval", "off", "--threads", 1, "--summary", summary.name]], [{}])
        return json.loads(pathlib.Path(summary.name).read_text())["samples_per_second"], peak


def compare(options, model, dtype, ranks):
    ours, theirs = [], {variant: [] for variant in VARIANTS}
    for _ in range(options.rounds):
        ours.append(time_one_rank(options, model, dtype) if ranks == 1
                    else time_ranks(options, model, dtype, ranks))
        for variant in VARIANTS:
            theirs[variant].append(time_torch(options, model, dtype, ranks, variant))

    def median(runs):
        return statistics.median(rate for rate, _ in runs)

    best = max(theirs, key=lambda variant: median(theirs[variant]))
    ratios = {variant: statistics.median(our[0] / their[0] for our, their in zip(ours, theirs[variant]))
              for variant in ("default", best)}
    memory, torch_memory = (statistics.median(peak for _, peak in runs) for runs in (ours, theirs[best]))
    print(f"{model:8} {dtype:5} {ranks:5} {median(ours):9,.0f} {median(theirs['default']):9,.0f} "
          f"{median(theirs[best]):9,.0f} {best:13} {ratios['default']:9.2f} {ratios[best]:7.2f} {memory:7.0f} "
          f"{torch_memory:11.0f}", flush=True)


def has_bf16():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return "avx512_bf16" in flags or "amx_bf16" in flags


def main():
    options = parse()
    if options.torch_run:
        torch_run(options)
        return
    folders = [pathlib.Path.cwd() / options.build, ROOT / options.build]
    options.folder = next((f for f in folders if (f / "kernels/evenstep-bench-network").exists()), None)
    if options.folder is None:
        sys.exit(f"error: {folders[0]}/kernels/evenstep-bench-network is not there; build Evenstep first, or name "
                 "the build directory")
    print(f"samples a second, {options.batch} a rank, one thread each; median of {options.rounds} alternating runs "
          f"of {options.seconds:g} s")
    print(f"{'model':8} {'type':5} {'ranks':>5} {'evenstep':>9} {'pytorch':>9} {'its best':>9} {'which is':13} "
          f"{'x pytorch':>9} {'x best':>7} {'MB':>7} {'pytorch MB':>11}")
    for dtype in options.dtypes.split(","):
        if dtype == "bf16" and not has_bf16():
            print("bf16: left out, this processor has no instructions for it")
            continue
        for model in options.models.split(","):
            for ranks in map(int, options.ranks.split(",")):
                compare(options, model, dtype, ranks)


if __name__ == "__main__":
    main()
