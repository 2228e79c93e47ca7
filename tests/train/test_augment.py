"""Random crops and mirror images of CIFAR: keyed by the sample, whichever rank has it."""
import job
from cifar import RECORDS, write_cifar

# With a learning rate of 0, a step's loss tells what its images look like.
RUN = ["--model", "softmax", "--lr", 0, "--global-batch", 23, "--epochs", 2, "--threads", 1, "--eval", "off"]

class Augment(job.JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cifar = write_cifar(cls.shared / "cifar")

    def losses(self, *flags, ranks=1, data=None):
        run = self.train(*job.override(RUN, flags), ranks=ranks, data=data or self.cifar)
        return [step["loss"] for step in run.log], run

    def assert_same(self, some, others):
        for one, other in zip(some, others, strict=True):
            self.assertAlmostEqual(one, other, delta=2e-6 * one)

    def assert_all_differ(self, some, others):
        for one, other in zip(some, others, strict=True):
            self.assertGreater(abs(one - other), 1e-4 * one)

    def test_any_ranks_and_shares_see_the_same(self):
        alone, _ = self.losses()
        plain, _ = self.losses("--augment", "off")
        self.assert_all_differ(alone, plain)  # CIFAR is augmented unless told otherwise
        even, _ = self.losses("--augment", "on", "--balance", "off", ranks=3)
        self.assert_same(alone, even)
        uneven, run = self.losses("--emulate", "1,0.5,0.25", "--balance", "static", ranks=3)
        self.assertGreater(len(set(run.log[0]["shares"])), 1)
        self.assert_same(alone, uneven)

    def test_each_epoch_has_other_crops(self):
        # One step is all samples, whose order does not show.
        plain, _ = self.losses("--augment", "off", "--global-batch", 5 * RECORDS)
        self.assert_same(plain[:1], plain[1:])
        augmented, _ = self.losses("--global-batch", 5 * RECORDS)
        self.assert_all_differ(augmented[:1], augmented[1:])

    def test_only_cifar_unless_asked(self):
        flags = ["--global-batch", 12, "--augment"]
        auto, off, on = (self.losses(*flags, choice, data=self.tiny_data)[0] for choice in ("auto", "off", "on"))
        self.assertEqual(auto, off)
        self.assert_all_differ(on, off)

    def test_testing_is_without(self):
        runs = [self.train(*job.override(RUN, ["--eval", "on", "--augment", choice]), data=self.cifar)
                for choice in ("on", "off")]
        self.assertEqual(*(run.summary["test_accuracy"] for run in runs))

    def test_published_recipe(self):
        # The flags of He et al. 2016, section 4.2, as in the README, for a few steps.
        run = self.train("--model", "resnet20", "--global-batch", 50, "--epochs", 2, "--lr", 0.1, "--weight-decay",
                         1e-4, "--schedule", "step", "--balance", "off", data=self.cifar, ranks=2)
        self.assertEqual(run.summary["steps"], 4)
        self.assertEqual(run.summary["parameters"], 272_474)


if __name__ == "__main__":
    job.main()
