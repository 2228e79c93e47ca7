"""evenstep-bench: that it measures what it says, as JSON; how fast anything is, is not tested."""
import json
import os

import job

BENCH = os.environ.get("EVENSTEP_BENCH", str(job.ROOT / "build/apps/evenstep-bench"))


class Bench(job.JobTest):
    def bench(self, *flags, ranks=2):
        summary = self.folder / "bench.json"
        folder = self.folder / "run" / "outputs"
        folder.mkdir(parents=True)
        running = job.Job([job.MPIRUN, "-n", ranks, BENCH, "--summary", summary, *flags], folder)
        result = running.end(120)
        self.assertEqual(result.rc, 0, result)
        return json.loads(summary.read_text())

    def test_all_parts(self):
        results = self.bench("--most-mb", 0.01, "--pairs", 2, "--step-ms", 1, "--gradients", 1000, ranks=3)
        self.assertEqual(results["ranks"], 3)
        sizes = results["allreduce"]["sizes"]
        self.assertEqual([size["bytes"] for size in sizes], [256, 1024, 4096])
        for size in sizes:
            self.assertTrue(all(size[what] > 0 for what in ("ours_f32", "mpi_f32", "mpi_f64", "mpi_i64")), size)
        tails = {(tail["ranks"], tail["tail"]): tail for tail in results["tail"]["in_process"]}
        self.assertEqual(tails[4096, "rotating"]["bytes"], tails[1024, "rotating"]["bytes"])
        self.assertEqual(tails[1024, "slots"]["bytes"] // 4 - 2, 16 * (tails[64, "slots"]["bytes"] // 4 - 2))
        self.assertEqual(len(results["balance"]["ratios"]), 2)
        self.assertEqual(results["balance"]["collectives_per_step"], 1)

    def test_bad_input(self):
        for flag, value in (("--what", "speed"), ("--pairs", "0"), ("--most-mb", "nan"), ("--wait", "long")):
            folder = self.folder / flag / "outputs"
            folder.mkdir(parents=True)
            result = job.Job([job.MPIRUN, "-n", 2, BENCH, flag, value], folder).end(60)
            self.assert_one_error(result, flag, value, rc=2)


if __name__ == "__main__":
    job.main()
