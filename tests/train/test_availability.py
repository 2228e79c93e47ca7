"""What ranks see of the CPU that they can get, under a real quota and beside a real competitor. A busy machine makes
it less, never more: no more than bounds from above are asserted."""
import os
import pathlib
import statistics
import subprocess
import sys

import job

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import control_groups

LONG_ENOUGH = ["--model", "mlp", "--global-batch", 100, "--steps", 500, "--eval", "off", "--threads", 1, "--balance", "off"]


class Availability(job.JobTest):
    def seen(self, result, rank):
        cores = [step["cpu_available"][rank] for step in result.log]
        seen = [value for value in cores if value > 0]
        self.assertGreater(len(seen), 0, "the run was too short to see anything")
        self.assertLessEqual(max(seen), 1, result)
        return seen

    def test_a_quota(self):
        try:
            with control_groups.quotas((0.3, 1.5), 10_000) as (join, _):
                result = self.train(*LONG_ENOUGH, ranks=2, wrap=join, mpirun=["--bind-to", "none"], seconds=120)
        except control_groups.Unavailable as why:
            self.skipTest(str(why))
        self.assertLessEqual(max(self.seen(result, 0)), 0.3 + 1e-4)
        self.assertGreater(max(self.seen(result, 1)), 0)
        self.assertIn("wait sleep", result.stdout)  # auto: a quota is seen

    def test_a_competitor(self):
        core = str(min(os.sched_getaffinity(0)))
        busy = subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"])
        try:
            result = self.train(*LONG_ENOUGH, ranks=1, wrap=["taskset", "-c", core], mpirun=["--bind-to", "none"],
                                seconds=120)
        finally:
            busy.kill()
            busy.wait()
        self.assertLess(statistics.median(self.seen(result, 0)), 0.8)


if __name__ == "__main__":
    job.main()
