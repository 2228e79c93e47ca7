"""--data synthetic: every image model trains from the command line, without a file."""
import math

import job

RUN = ["--threads", 1, "--balance", "off", "--eval", "off"]
IMAGENET_CLASSES = 1000


class Synthetic(job.JobTest):
    def run_with(self, *flags, ranks=2, **options):
        return self.train(*job.override(RUN, flags), ranks=ranks, data="synthetic", **options)

    def test_networks_for_imagenet(self):
        # Batch norm takes groups of 16: both ranks have one. inception3 is three times as dear.
        for model, batch, parameters in (("resnet50", 32, 25_557_032), ("inception3", 2, 23_834_568)):
            with self.subTest(model):
                run = self.run_with("--model", model, "--global-batch", batch, "--steps", 2, "--lr", 0.01, seconds=300)
                print(f"{model}: losses {[step['loss'] for step in run.log]}")
                self.assertEqual(run.summary["parameters"], parameters)
                self.assertEqual(run.summary["samples"], 2 * batch)
                self.assertEqual(len({rank["parameter_hash"] for rank in run.summary["ranks"]}), 1)
                self.assertAlmostEqual(run.log[0]["loss"], math.log(IMAGENET_CLASSES), delta=3)
                self.assertNotEqual(run.log[0]["loss"], run.log[1]["loss"])

    def test_small_networks_learn(self):
        for model in ("mlp", "resnet20"):
            with self.subTest(model):
                run = self.run_with("--model", model, "--global-batch", 32, "--steps", 60, "--eval", "on", "--lr", 0.02)
                self.assertLess(run.summary["final_loss"], 0.5 * math.log(10))
                self.assertGreater(run.summary["test_accuracy"], 0.5)  # on images that are not trained on

    def test_any_number_of_ranks_sees_the_same_images(self):
        runs = [self.run_with("--model", "mlp", "--global-batch", 30, "--steps", 4, "--momentum", 0, *shares,
                              ranks=ranks)
                for ranks, shares in ((1, []), (3, ["--balance", "static", "--emulate", "1,0.5,0.25"]))]
        self.assertNotEqual(len(set(runs[1].log[-1]["shares"])), 1)
        for one, three in zip(*(run.log for run in runs), strict=True):
            self.assertAlmostEqual(one["loss"], three["loss"], delta=1e-5)

    def test_the_seed_decides(self):
        losses = [self.run_with("--model", "softmax", "--lr", 0, "--global-batch", 30, "--steps", 2, "--seed", seed)
                  .log[1]["loss"] for seed in (1, 1, 2)]
        self.assertEqual(losses[0], losses[1])
        self.assertNotEqual(losses[0], losses[2])

    def test_other_data_on_another_rank(self):
        with self.refusals(*RUN, "--model", "softmax", "--steps", 1, "--global-batch", 12, rc=2) as refuse:
            refuse([], "rank 1", "data", data="synthetic", ranks=1, then=[(1, (), ["--data", self.tiny_data])])


if __name__ == "__main__":
    job.main()
