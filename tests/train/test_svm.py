"""evenstep-svm: learns as LIBLINEAR does, the same on any number of ranks, and refuses bad files in a line."""
import gzip
import pathlib
import random

import job

HEART_SCALE = pathlib.Path("/usr/share/doc/liblinear-tools/examples/heart_scale")
# liblinear-train -s 3 -c 1 -B 1 -q heart_scale m; liblinear-predict heart_scale m o  (2.3.0)
LIBLINEAR_ACCURACY = 229 / 270
RUN = ["--global-batch", 30, "--epochs", 3, "--threads", 1]


def separable_rows(count, columns, seed):
    """Rows whose label is the side of a fixed plane they lie on."""
    draw = random.Random(seed)
    plane = [random.Random(7 + column).uniform(-1, 1) for column in range(columns)]
    lines = []
    for _ in range(count):
        row = {column: draw.uniform(-1, 1) for column in draw.sample(range(columns), 8)}
        side = sum(value * plane[column] for column, value in row.items())
        entries = " ".join(f"{column + 1}:{row[column]:.6f}" for column in sorted(row))
        lines.append(f"{'+1' if side > 0 else '-1'} {entries}\n")
    return "".join(lines)


class Svm(job.JobTest):
    program = job.SVM

    def setUp(self):
        super().setUp()
        self.rows = self.folder / "rows"
        self.rows.write_text(separable_rows(400, 40, seed=1))
        self.test_rows = self.folder / "test_rows"
        self.test_rows.write_text(separable_rows(200, 40, seed=2))

    def test_heart_scale_as_liblinear(self):
        if not HEART_SCALE.exists():
            self.skipTest("liblinear-tools is not installed")
        run = self.train("--test", HEART_SCALE, "--global-batch", 32, "--epochs", 60, "--lr", 0.2, "--threads", 1,
                         data=HEART_SCALE, ranks=2)
        print(f"accuracy {run.summary['test_accuracy']}, LIBLINEAR's {LIBLINEAR_ACCURACY}")
        self.assertGreaterEqual(run.summary["test_accuracy"], LIBLINEAR_ACCURACY - 0.01)

    def test_generalises(self):
        run = self.train(*RUN[:2], "--epochs", 30, "--test", self.test_rows, data=self.rows, ranks=2)
        self.assertGreater(run.summary["test_accuracy"], 0.9)

    def test_two_ranks_give_the_curve_of_one(self):
        alone = self.train(*RUN, data=self.rows, ranks=1)
        shared = self.train(*RUN, "--emulate", "1,0.3", data=self.rows, ranks=2)
        for one, two in zip(alone.log, shared.log, strict=True):
            self.assertAlmostEqual(one["loss"], two["loss"], delta=1e-4 * abs(one["loss"]) + 1e-6)
        self.assertEqual(shared.summary["collectives_per_step"], 1)
        self.assertEqual(shared.summary["model"], "svm")
        self.assertEqual(shared.summary["parameters"], 41)

    def test_gz_and_cache_give_the_same(self):
        fixed = [*RUN, "--balance", "off"]  # the same sums in the same order
        plain = self.train(*fixed, data=self.rows, ranks=2).summary
        packed = self.folder / "rows.gz"
        packed.write_bytes(gzip.compress(self.rows.read_bytes()))
        copy = self.folder / "copy"
        for _ in range(2):  # written, then mapped
            cached = self.train(*fixed, "--cache", copy, data=packed, ranks=2).summary
            self.assertEqual(cached["parameter_hash"], plain["parameter_hash"])
            self.assertTrue(copy.exists())
        self.assertEqual(list(self.folder.glob("*.partial")), [])

    def test_bad_use(self):
        with self.refusals(*RUN, rc=2) as refuse:
            refuse(["--c=0"], "--c", "0", data=self.rows)
            refuse(["--bias=-1"], "--bias", "-1", data=self.rows)
            refuse(["--weight-decay=0.1"], "--weight-decay", "--c", data=self.rows)
            refuse(["--model=cnn"], "--model", "--help", data=self.rows)
            refuse(["--global-batch=401"], "401", "400 samples", data=self.rows)

    def test_bad_files(self):
        bad = self.folder / "bad"
        bad.write_text("+1 1:1\n-1 2:nan\n")
        folder = self.folder / "folder"
        folder.mkdir()
        with self.refusals(*RUN, rc=1) as refuse:
            refuse([], str(bad), "line 2", "'2:nan'", data=bad)
            refuse(["--test", bad], str(bad), "line 2", data=self.rows, ranks=3)
            refuse([], str(folder), "not a regular file", data=folder)
            refuse([], "nowhere", "No such file", data=self.folder / "nowhere")
            refuse(["--cache", bad], str(bad), "no binary copy", data=self.rows)
            refuse([], "rank 1", "data", rc=2, ranks=1, data=self.rows, then=[(1, (), ["--data", self.test_rows])])


if __name__ == "__main__":
    job.main()
