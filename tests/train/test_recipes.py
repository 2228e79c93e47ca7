"""What published recipes ask for beside the network: accumulation, label smoothing, LARS with warm-up."""
import math

import job

RUN = ["--model", "mlp", "--global-batch", 12, "--steps", 16, "--threads", 1, "--balance", "off"]


class Recipes(job.JobTest):
    def run_with(self, *flags, ranks=2):
        return self.train(*job.override(RUN, flags), ranks=ranks)

    def test_accumulation_is_a_larger_step(self):
        whole = self.run_with("--global-batch", 36)
        summed = self.run_with("--accumulate", 3)
        self.assertEqual([step["loss"] for step in summed.log], [step["loss"] for step in whole.log])
        for field in ("parameter_hash", "global_batch", "samples", "collectives_per_step"):
            self.assertEqual(summed.summary[field], whole.summary[field], field)
        self.assertEqual(summed.summary["global_batch"], 36)
        # Epochs of 101 samples: steps of 36, 36 and 29.
        self.assertEqual(summed.summary["samples"], 5 * 101 + 36)

    def test_label_smoothing_bounds_the_loss_from_below(self):
        smoothing, classes = 0.2, 10
        run = self.run_with("--steps", 60, "--label-smoothing", smoothing)
        part = smoothing / classes
        label = 1 - smoothing + part
        least = -label * math.log(label) - (classes - 1) * part * math.log(part)
        self.assertGreater(run.summary["final_loss"], least)
        self.assertLess(run.summary["final_loss"], least + 0.3)  # but near it: it has learnt

    def test_lars_learns(self):
        run = self.run_with("--steps", 60, "--optimizer", "lars", "--lr", 2, "--trust", 0.02, "--warmup", 10,
                            "--weight-decay", 1e-4)
        self.assertLess(run.summary["final_loss"], 0.2 * run.log[0]["loss"])
        still = self.run_with("--optimizer", "lars", "--lr", 0.01, "--trust", 0, ranks=1)
        self.assertGreater(still.summary["final_loss"], 0.8 * still.log[0]["loss"])  # biases alone learn little


if __name__ == "__main__":
    job.main()
