"""Samples decoded ahead are the same samples: --prefetch changes no bit, whatever the shares do."""
import job
from cifar import write_cifar

# Four epochs of four steps and a short one.
RUN = ["--model", "mlp", "--global-batch", 23, "--steps", 20, "--threads", 1, "--eval", "off", "--augment", "on",
       "--momentum", 0]
SAMPLES = 100


class Prefetch(job.JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cifar = write_cifar(cls.shared / "cifar")

    def run_with(self, *flags, ranks=1, data=None):
        return self.train(*job.override(RUN, flags), ranks=ranks, data=data or self.cifar)

    def prefetching(self, run):
        return {rank["prefetch"] for rank in run.summary["ranks"]}

    def test_the_same_bits(self):
        for ranks in (1, 2, 3):
            for data in (self.cifar, "synthetic"):
                runs = [self.run_with("--prefetch", choice, "--balance", "off", ranks=ranks, data=data)
                        for choice in ("on", "off")]
                self.assertEqual([self.prefetching(run) for run in runs], [{True}, {False}])
                on, off = ([step["loss"] for step in run.log] for run in runs)
                self.assertEqual(on, off)
                self.assertEqual(*(run.summary["parameter_hash"] for run in runs))

    def test_the_same_bits_of_mapped_files(self):
        rows, cache, text = (self.folder / name for name in ("rows", "cache", "text"))
        rows.write_text("".join(f"{(-1) ** r} {1 + r % 7}:{r % 11 - 5} {9 + r % 5}:1\n" for r in range(90)))
        text.write_bytes(bytes(i * i % 251 for i in range(4000)))
        svm = (job.SVM, rows, ["--global-batch", 20, "--epochs", 3, "--cache", cache], {True})
        in_memory = (job.SVM, rows, ["--global-batch", 20, "--epochs", 3], {False})
        lm = (job.LM, text, ["--layers", 1, "--heads", 1, "--width", 16, "--context", 16, "--global-batch", 9,
                            "--steps", 30], {True})
        for program, data, flags, prefetching in (svm, in_memory, lm):
            with self.subTest(program, prefetching=prefetching):
                self.program = program
                on, off = (self.train(*flags, "--threads", 1, "--balance", "off", "--prefetch", choice, ranks=2, data=data)
                           for choice in ("on", "off"))
                self.assertEqual(self.prefetching(on), prefetching)
                self.assertEqual(self.prefetching(off), {False})
                self.assertEqual(on.summary["parameter_hash"], off.summary["parameter_hash"])

    def test_every_sample_once_while_shares_change(self):
        frozen = ["--model", "softmax", "--lr", 0]
        expected = self.run_with(*frozen, "--global-batch", SAMPLES, "--steps", 4)
        run = self.run_with(*frozen, "--prefetch", "on", "--balance", "even", "--global-batch", 9, "--steps", 48,
                            "--inject=2:load:15", "--inject=1:load:5:12-20", ranks=3)
        steps = len(run.log) // 4
        self.assertGreater(len({tuple(step["shares"]) for step in run.log if sum(step["shares"]) == 9}), 1)
        for epoch in range(4):
            total = sum(step["loss"] * sum(step["shares"]) for step in run.log[epoch * steps:(epoch + 1) * steps])
            self.assertAlmostEqual(total, expected.log[epoch]["loss"] * SAMPLES, delta=1e-5 * total)

    def test_a_late_load_is_seen_as_load(self):
        run = self.run_with("--prefetch", "on", "--balance", "off", "--inject=1:load:40", ranks=3)
        ranks = run.summary["ranks"]
        self.assertGreaterEqual(ranks[1]["load"], 0.95 * 0.040)
        for other in (0, 2):
            self.assertLess(ranks[other]["load"], 0.020)
            self.assertGreater(ranks[other]["wait"], ranks[1]["wait"] + 0.020)

    def test_auto_leaves_full_cores_alone(self):
        run = self.run_with("--prefetch", "auto", "--balance", "off", ranks=3)
        self.assertEqual(self.prefetching(run), {False})


if __name__ == "__main__":
    job.main()
