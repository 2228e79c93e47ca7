"""What users and scripts read: summary, log, timeline, table, help."""
import json
import math
import subprocess

import job

RANKS, BATCH, STEPS = 3, 20, 12
PHASES = ["load", "forward", "backward", "update"]


class Outputs(job.JobTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        test = cls("test_log")
        test.folder = cls.shared
        cls.result = test.train("--model", "softmax", "--global-batch", BATCH, "--steps", STEPS, ranks=RANKS)

    def assert_seconds(self, value):
        self.assertIsInstance(value, (int, float))
        self.assertTrue(0 <= value < 100, value)

    def test_summary(self):
        summary = self.result.summary
        self.assertEqual(summary["world_size"], RANKS)
        self.assertEqual(summary["global_batch"], BATCH)
        self.assertEqual(summary["steps"], STEPS)
        self.assertEqual(summary["samples"], 2 * (5 * BATCH + 1))  # 101 samples, two epochs of 6 steps
        self.assertEqual(summary["parameters"], 7850)
        self.assertEqual(summary["balance"], "even")
        self.assertEqual(summary["collectives_per_step"], 1)
        self.assertEqual(sum(summary["partition"]), BATCH)
        self.assertIsInstance(summary["resizes"], int)
        for name in ("wall_seconds", "balance_seconds"):
            self.assert_seconds(summary[name])
        self.assertGreater(summary["samples_per_second"], 0)
        self.assertEqual(len(summary["own_seconds"]), RANKS)
        for fraction in ("load_balance", "wait_fraction", "test_accuracy"):
            self.assertTrue(0 <= summary[fraction] <= 1, (fraction, summary[fraction]))
        self.assertGreaterEqual(summary["load_balance"], 1 / RANKS - 1e-9)
        self.assertTrue(math.isfinite(summary["final_loss"]))
        self.assertEqual(summary["final_loss"], self.result.log[-1]["loss"])
        self.assertRegex(summary["parameter_hash"], "^[0-9a-f]{16}$")

    def test_profile(self):
        steps, batch = 5, 20
        result = self.train("--model", "mlp", "--global-batch", batch, "--steps", steps, "--balance", "off",
                            "--profile", ranks=2)
        profile, rank = result.summary["profile"], result.summary["ranks"][0]
        self.assertEqual([layer["layer"] for layer in profile["layers"]],
                         ["fc1", "relu1", "fc2", "relu2", "fc3", "loss"])
        self.assertEqual(profile["samples"], steps * batch // 2)  # of rank 0, evaluation left out
        self.assertGreater(profile["peak_flops"], 1e8)
        for part in ("forward", "backward"):
            total = profile["total"][part]
            self.assertGreater(total, 0)
            self.assertAlmostEqual(sum(layer[part] for layer in profile["layers"]), total, places=6)
            self.assertLessEqual(total, rank[part])
        self.assertAlmostEqual(sum(layer["share_of_time"] for layer in profile["layers"]), 1, places=6)
        self.assertTrue(0 < profile["total"]["share_of_peak"] < 1, profile["total"])
        for word in ("backward ms", "of peak", "fc2", "total"):
            self.assertIn(word, result.stdout)
        self.assertNotIn("profile", self.result.summary)

    def test_ranks(self):
        summary = self.result.summary
        ranks = summary["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], list(range(RANKS)))
        for rank in ranks:
            self.assertTrue(rank["host"])
            self.assertTrue(0 <= rank["share"] <= BATCH)
            for name in PHASES + ["wait", "own_seconds"]:
                self.assert_seconds(rank[name])
            # Own time is the time outside of the collective, all of it in some phase.
            self.assertAlmostEqual(sum(rank[phase] for phase in PHASES), rank["own_seconds"],
                                   delta=0.1 * rank["own_seconds"] + 1e-4)
            self.assertGreater(rank["peak_bytes"], 2 ** 20)
            self.assertEqual(rank["parameter_hash"], summary["parameter_hash"])
            self.assertEqual(rank["own_seconds"], summary["own_seconds"][rank["rank"]])
        self.assertAlmostEqual(sum(rank["share"] for rank in ranks), summary["samples"] / STEPS, places=6)

    def test_log(self):
        log = self.result.log
        self.assertEqual([step["step"] for step in log], list(range(STEPS)))
        self.assertEqual(log[0]["cpu_available"], [0] * RANKS)  # nothing was reported before it
        for step in log:
            self.assertEqual(len(step["cpu_available"]), RANKS)
            self.assertTrue(all(0 <= cores < 100 for cores in step["cpu_available"]), step)
            self.assertEqual(sum(step["shares"]), 1 if step["step"] % 6 == 5 else BATCH)
            for name in ("shares", "own_seconds", "wait_seconds"):
                self.assertEqual(len(step[name]), RANKS)
            for value in step["own_seconds"] + step["wait_seconds"] + [step["step_seconds"]]:
                self.assert_seconds(value)
            self.assertTrue(math.isfinite(step["loss"]))
            self.assertIn(step["decision"], ("keep", "adopt", "return"))
        moved = sum(step["decision"] != "keep" for step in log)
        self.assertEqual(moved, self.result.summary["resizes"])

    def test_timeline(self):
        trace = self.result.timeline
        events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual({event["tid"] for event in events}, set(range(RANKS)))
        self.assertEqual({event["name"] for event in events}, {*PHASES, "wait"})
        self.assertEqual({event["args"]["step"] for event in events}, set(range(STEPS)))
        for event in events:
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)

    def test_standard_output(self):
        self.assertIn("softmax f32 with 7850 parameters", self.result.stdout)
        self.assertIn("test accuracy", self.result.stdout)
        table = self.result.stdout[self.result.stdout.index("rank host"):].splitlines()
        for column in ("share", "own ms", *PHASES, "wait"):
            self.assertIn(column, table[0])
        self.assertEqual([int(line.split()[0]) for line in table[1:1 + RANKS]], list(range(RANKS)))
        self.assertIn(f"{STEPS} steps, {self.result.summary['samples']} samples", table[-1])
        self.assertNotIn("\r", self.result.stderr)  # no live line where there is no terminal

    def test_without_evaluation(self):
        result = self.train("--model", "softmax", "--global-batch", BATCH, "--steps", 3, "--eval", "off", ranks=2)
        self.assertIsNone(result.summary["test_accuracy"])

    def test_outputs_are_not_needed(self):
        result = self.train("--model", "softmax", "--global-batch", BATCH, "--steps", 3, ranks=2, outputs={})
        self.assert_nothing_left(result)

    def test_an_older_file_is_replaced(self):
        for name in ("summary.json", "steps.jsonl"):
            (self.folder / name).write_text("older\n" * 10_000)
        result = self.train("--model", "softmax", "--global-batch", BATCH, "--steps", 3, ranks=2, outputs={},
                            *("--summary", self.folder / "summary.json", "--log", self.folder / "steps.jsonl"))
        self.assertEqual(json.loads((self.folder / "summary.json").read_text())["steps"], 3)
        self.assertEqual(len((self.folder / "steps.jsonl").read_text().splitlines()), 3)
        self.assertEqual([path.name for path in self.folder.glob("*.partial")], [], result)

    def test_standard_output_as_a_file(self):
        result = self.train("--model", "softmax", "--global-batch", BATCH, "--steps", 3, outputs={},
                            *("--log", "/dev/stdout"))
        self.assertEqual(len([line for line in result.stdout.splitlines() if line.startswith('{"step"')]), 3)


class Help(job.JobTest):
    def ask(self, flag, ranks):
        result = self.train(flag, ranks=ranks)
        self.assert_nothing_left(result)
        return result.stdout

    def test_help(self):
        for ranks in (1, 3):
            text = self.ask("--help", ranks)
            for flag in ("model data global-batch epochs steps seed eval balance wait overlap dtype threads optimizer "
                         "lr momentum nesterov weight-decay schedule warmup clip summary log timeline emulate "
                         "inject").split():
                self.assertEqual(text.count(f"--{flag} "), 1, text)

    def test_version(self):
        for ranks in (1, 3):
            self.assertRegex(self.ask("--version", ranks), r"^evenstep \d+\.\d+\.\d+\n$")

    def test_without_a_launcher(self):
        done = subprocess.run([job.TRAIN, "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("--global-batch", done.stdout)


if __name__ == "__main__":
    job.main()
