"""Data files that are missing, spoilt, or do not belong together: the line names the file and what is wrong."""
import gzip

import cifar
import idx
import job

RUN = ["--model", "softmax", "--global-batch", 12, "--steps", 3]
IMAGES, LABELS = idx.images_name("train"), idx.labels_name("train")
IMAGES_END = 16 + 101 * 784


class BadData(job.JobTest):
    def new_data(self):
        return idx.write_dataset(self.folder / f"data{len(list(self.folder.iterdir()))}")

    def spoilt(self, name, spoil, compress=False):
        """A data set one of whose files holds what `spoil` makes of its bytes."""
        folder = self.new_data()
        data = (folder / name).read_bytes()
        if compress:
            (folder / name).unlink()
            name, data = name + ".gz", gzip.compress(data)
        (folder / name).write_bytes(spoil(data))
        return folder

    def test_missing(self):
        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], str(self.folder / "nowhere"), "--data", data=self.folder / "nowhere")
            for which in ("train", "test"):
                for name in (idx.images_name(which), idx.labels_name(which)):
                    folder = self.new_data()
                    (folder / name).unlink()
                    refuse([], str(folder / name), f"{name}.gz", "--data", data=folder)

    def test_no_file_or_no_folder(self):
        folder = self.new_data()
        (folder / IMAGES).unlink()
        (folder / IMAGES).mkdir()
        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], IMAGES, "not a regular file", data=folder)
            refuse([], str(folder / LABELS), "--data", data=folder / LABELS)

    def test_compressed(self):
        self.train(*RUN, data=idx.write_dataset(self.folder / "whole", compress=True), ranks=2)
        truncated = self.spoilt(IMAGES, lambda data: data[:-1000], compress=True)
        corrupt = self.spoilt(IMAGES, lambda data: data[:5000] + bytes(20) + data[5020:], compress=True)
        longer = self.spoilt(LABELS, lambda data: data + b"more", compress=True)
        with self.refusals(*RUN, rc=1) as refuse:
            for ranks in (1, 3):
                refuse([], IMAGES + ".gz", "end early", "download it again", data=truncated, ranks=ranks)
            refuse([], IMAGES + ".gz", "corrupt gzip data", data=corrupt)
            refuse([], LABELS + ".gz", "not gzip data", data=longer)

    def test_length(self):
        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], IMAGES, f"ends at byte {IMAGES_END - 100}", str(IMAGES_END),
                   data=self.spoilt(IMAGES, lambda data: data[:-100]))
            refuse([], LABELS, "ends at byte 6", data=self.spoilt(LABELS, lambda data: data[:6]))
            refuse([], IMAGES, "ends at byte 0", data=self.spoilt(IMAGES, lambda data: b""))
            refuse([], IMAGES, f"goes on after byte {IMAGES_END}", data=self.spoilt(IMAGES, lambda data: data + b"x"))
            # A header that claims 3 TB: memory must not be taken before the bytes are there.
            refuse([], IMAGES, str(16 + 0xFFFFFFFF * 784),
                   data=self.spoilt(IMAGES, lambda data: data[:4] + b"\xff" * 4 + data[8:]))

    def test_magic(self):
        exchanged = self.new_data()
        (exchanged / IMAGES).rename(exchanged / "aside")
        (exchanged / LABELS).rename(exchanged / IMAGES)
        (exchanged / "aside").rename(exchanged / LABELS)
        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], IMAGES, "0x01020304", "0x00000803",
                   data=self.spoilt(IMAGES, lambda data: b"\1\2\3\4" + data[4:]))
            refuse([], IMAGES, "0x00000801", "0x00000803", data=exchanged)

    def test_what_does_not_belong_together(self):
        other_size = self.new_data()
        (other_size / idx.images_name("test")).write_bytes(idx.images_bytes(30, side=14))
        tiny_images = self.new_data()
        for which, count in (("train", 101), ("test", 30)):
            (tiny_images / idx.images_name(which)).write_bytes(idx.images_bytes(count, side=2))
        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], "101 images", "100 labels", data=self.spoilt(LABELS, lambda data: idx.labels_bytes(100)))
            refuse([], LABELS, "label 10 at byte 108", "0 to 9",
                   data=self.spoilt(LABELS, lambda data: data[:-1] + b"\n"))
            refuse([], "14x14", "28x28", data=other_size)
            refuse(["--model", "cnn"], "2x2", data=tiny_images)

    def test_cifar(self):
        def spoilt(name, data):
            folder = cifar.write_cifar(self.folder / name)
            (folder / "data_batch_2.bin").write_bytes(data((folder / "data_batch_2.bin").read_bytes()))
            return folder

        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], "data_batch_2.bin", "ends at byte 61459", data=spoilt("cut", lambda data: data[:-1]))
            refuse([], "data_batch_2.bin", "label 10 at byte 3073", "0 to 9", ranks=3,
                   data=spoilt("label", lambda data: data[:3073] + b"\n" + data[3074:]))
            refuse([], "data_batch_2.bin", "ends at byte 61461", data=spoilt("longer", lambda data: data + b"x"))

    def test_on_one_rank_only(self):
        good, bad = self.new_data(), self.spoilt(IMAGES, lambda data: data[:-100])
        other = idx.write_dataset(self.folder / "other", train=102)
        with self.refusals(*RUN, rc=1) as refuse:
            for first, second in ((good, bad), (bad, good)):
                refuse([], str(bad / IMAGES), "ends at byte", data=first, ranks=1, then=[(1, (), ["--data", second])])
            refuse([], "rank 1", "rank 0", "data", data=good, ranks=1, rc=2, then=[(1, (), ["--data", other])])


if __name__ == "__main__":
    job.main()
