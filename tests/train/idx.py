"""Writes small data sets in the IDX format."""
import gzip
import pathlib
import random
import struct

IMAGES_MAGIC, LABELS_MAGIC = 0x00000803, 0x00000801
PREFIXES = {"train": "train", "test": "t10k"}


def labels_of(count):
    return [index * 7 % 10 for index in range(count)]


def images_bytes(count, side=28, seed=1):
    """Noise with a bright bar where the label says: it can be learnt, and no two images are alike."""
    noise = random.Random(seed)
    pixels = []
    for label in labels_of(count):
        image = bytearray(noise.randbytes(side * side))
        at = label * len(image) // 10
        image[at:at + side] = b"\xff" * len(image[at:at + side])
        pixels.append(bytes(image))
    return struct.pack(">IIII", IMAGES_MAGIC, count, side, side) + b"".join(pixels)


def labels_bytes(count):
    return struct.pack(">II", LABELS_MAGIC, count) + bytes(labels_of(count))


def images_name(which):
    return f"{PREFIXES[which]}-images-idx3-ubyte"


def labels_name(which):
    return f"{PREFIXES[which]}-labels-idx1-ubyte"


def write_dataset(folder, train=101, test=30, compress=False):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    for which, count in (("train", train), ("test", test)):
        write(folder / images_name(which), images_bytes(count, seed=count), compress)
        write(folder / labels_name(which), labels_bytes(count), compress)
    return folder


def write(path, data, compress=False):
    path = pathlib.Path(str(path) + ".gz") if compress else path
    path.write_bytes(gzip.compress(data) if compress else data)
    return path
