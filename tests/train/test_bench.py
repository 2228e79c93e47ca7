"""evenstep-bench: that it measures what it says, as JSON; how fast anything is, is not tested."""
import json
import os

import job

BENCH = os.environ.get("EVENSTEP_BENCH", str(job.ROOT / "build/apps/evenstep-bench"))


class Bench(job.JobTest):
    def bench(self, *flags, ranks=2, folder="run"):
        folder = self.folder / folder / "outputs"
        summary = folder / "bench.json"
        folder.mkdir(parents=True)
        running = job.Job([job.MPIRUN, "-n", ranks, BENCH, "--summary", summary, *flags], folder)
        result = running.end(120)
        self.assertEqual(result.rc, 0, result)
        return json.loads(summary.read_text())

    def test_all_parts(self):
        results = self.bench("--most-mb", 0.01, "--pairs", 2, "--gradients", 1000, "--model", "softmax", "--batch", 12,
                             "--bucket-mb", 0.01, ranks=3)
        self.assertEqual(results["ranks"], 3)
        algorithms = [part["algorithm"] for part in results["allreduce"]]
        self.assertEqual(algorithms[0], "MPI's choice")
        self.assertEqual(len(set(algorithms)), len(algorithms))
        for part in results["allreduce"]:
            self.assertEqual([size["bytes"] for size in part["sizes"]], [256, 1024, 4096])
            for size in part["sizes"]:
                self.assertTrue(all(size[what] > 0 for what in ("ours_f32", "ours_bf16", "ours_f16", "mpi_f32", "mpi_f64",
                                                                "mpi_i64")), size)
        tails = {(tail["ranks"], tail["tail"]): tail for tail in results["tail"]["in_process"]}
        self.assertEqual(tails[4096, "rotating"]["bytes"], tails[1024, "rotating"]["bytes"])
        self.assertEqual(tails[1024, "slots"]["bytes"] // 4 - 2, 16 * (tails[64, "slots"]["bytes"] // 4 - 2))
        *ways, auto = results["overlap"]["ways"]
        off = [way for way in ways if way["overlap"] == "off"]
        self.assertEqual([way["buckets"] for way in off], [1] * len(off))
        self.assertEqual(off, ways[:len(off)])
        self.assertEqual([way["last_chunk"] for way in ways if way["overlap"] == "tests"],
                         [way["last_chunk"] for way in off])
        for way in ways[len(off):]:
            self.assertEqual((way["runs"], way["buckets"]), (way["overlap"], 3))
            self.assertIsNotNone(way["hidden"])
        self.assertEqual(auto["overlap"], "auto")
        self.assertEqual(auto["hidden"] is None, auto["runs"] == "off")
        self.assertIn(results["overlap"]["auto"]["settled"][0], ("off", "tests", "thread"))
        self.assertEqual(len(results["balance"]["ratios"]), 2)

    def test_a_steady_step(self):
        """Nothing allocated, one call of MPI, no system call but MPI's and the wait strategy's, for each way to wait."""
        for wait in ("spin", "yield", "sleep"):
            with self.subTest(wait):
                step = self.bench("--what", "balance", "--pairs", 1, "--model", "mlp", "--batch", 12, "--wait", wait,
                                  ranks=3, folder=wait)["balance"]["steady_step"]
                self.assertEqual(step["allocations"], 0)
                self.assertEqual(step["all_reduces"], 1)
                self.assertGreater(step["allocations_in_onednn"], 0)
                if wait == "spin":
                    self.assertEqual(step["mpi_tests_and_waits"], 0)
                else:
                    self.assertGreaterEqual(step["mpi_tests_and_waits"], 1)
                if step["system_calls"] is not None:  # as on Linux, x86-64
                    self.assertEqual(step["system_calls"], 0)
                    if wait == "spin":
                        self.assertEqual(step["system_calls_waiting"], 0)

    def test_sizers_take_turns(self):
        results = self.bench("--what", "sizers", "--balance", "static,even", "--pairs", 3, "--block-seconds", 0.05,
                             "--model", "softmax", "--batch", 12, ranks=3)["sizers"]
        self.assertEqual([row["balance"] for row in results["sizers"]], ["off", "static", "even", "off"])
        for row in results["sizers"]:
            self.assertEqual(len(row["seconds"]), 3)
            self.assertEqual(sum(row["partition"]), 36)
        self.assertEqual(results["sizers"][0]["resizes"], 0)

    def test_communication(self):
        found = self.bench("--what", "communication", "--pairs", 2, "--block-seconds", 0.05, "--model", "softmax", "--batch",
                           12, ranks=3)["communication"]
        self.assertLess(found["share"], 1)
        self.assertGreaterEqual(found["steps"], 4)
        self.assertEqual(sum(found["partition"]), 36)

    def test_waits_take_turns(self):
        rows = self.bench("--what", "waits", "--pairs", 2, "--block-seconds", 0.05, "--model", "softmax", "--batch", 12,
                          ranks=3)["waits"]["waits"]
        self.assertEqual([(row["wait"], len(row["seconds"])) for row in rows], [("sleep", 2), ("yield", 2), ("spin", 2)])
        self.assertEqual(rows[0]["speed"], 1)

    def test_sizers_overlap(self):
        rows = self.bench("--what", "sizers", "--overlap", "tests", "--pairs", 1, "--block-seconds", 0.05, "--model", "mlp",
                          "--batch", 12)["sizers"]["sizers"]
        self.assertEqual([row["overlap"] for row in rows], ["tests"] * 3)

    def test_bad_input(self):
        for flag, value in (("--balance", "odd"), ("--overlap", "on"), ("--bucket-mb", "0"), ("--block-seconds", "0"), ("--what", "speed"), ("--pairs", "0"), ("--model", "gpt9"), ("--batch", "0"), ("--most-mb", "nan"), ("--wait", "long")):
            folder = self.folder / flag / "outputs"
            folder.mkdir(parents=True)
            result = job.Job([job.MPIRUN, "-n", 2, BENCH, flag, value], folder).end(60)
            self.assert_one_error(result, flag, value, rc=2)


if __name__ == "__main__":
    job.main()
