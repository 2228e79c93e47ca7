"""Writes small data sets in the binary format of CIFAR-10."""
import random

RECORDS = 20  # in each of the five training files


def write_cifar(folder):
    """Noise with random labels."""
    folder.mkdir()
    draw = random.Random(3)
    for name in [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]:
        records = b"".join(bytes([draw.randrange(10)]) + draw.randbytes(3 * 32 * 32) for _ in range(RECORDS))
        (folder / name).write_bytes(records)
    return folder
