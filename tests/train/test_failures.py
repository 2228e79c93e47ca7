"""Ranks that die, stop, or stop making sense: the job ends, and says why."""
import os
import signal
import time

import job


class Failures(job.JobTest):
    def start_long_job(self, *flags, ranks=3, steps=1_000_000):
        running = self.start("--model", "softmax", "--global-batch", 12, "--steps", steps, "--eval", "off",
                             "--inject=0:load:2", *flags, ranks=ranks)
        log = running.folder / "steps.jsonl"
        job.wait_until(lambda: running.process.poll() is not None or log.exists() and log.stat().st_size > 0)
        return running

    def test_a_killed_rank_ends_the_job(self):
        for wait in ("spin", "sleep"):
            for rank in (0, 2):
                with self.subTest(wait=wait, rank=rank):
                    running = self.start_long_job("--wait", wait)
                    os.kill(running.rank_process(rank), signal.SIGKILL)
                    running.process.wait(30)
                    job.wait_until(lambda: not running.processes(), 30)  # no orphans
                    result = running.end(0)
                    self.assertNotEqual(result.rc, 0, result)

    def test_a_terminated_job_leaves_no_process(self):
        running = self.start_long_job()
        running.process.terminate()
        running.process.wait(30)
        job.wait_until(lambda: not running.processes(), 30)
        self.assertNotEqual(running.end(0).rc, 0)

    def test_a_stopped_rank_may_go_on(self):
        for balance in ("off", "even"):
            with self.subTest(balance=balance):
                running = self.start_long_job("--balance", balance, steps=600)
                process = running.rank_process(1)
                os.kill(process, signal.SIGSTOP)
                time.sleep(1.5)
                os.kill(process, signal.SIGCONT)
                result = running.end(60)
                self.assertEqual(result.rc, 0, result)
                self.assertEqual(len(result.log), 600)
                self.assertEqual(len({rank["parameter_hash"] for rank in result.summary["ranks"]}), 1)
                # All ranks were kept waiting for as long as rank 1 was away.
                self.assertGreater(max(step["step_seconds"] for step in result.log), 1.0)

    def test_not_finite(self):
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                result = self.run_job("--model", "mlp", "--global-batch", 12, "--steps", 50, "--lr", 1e30,
                                      ranks=ranks)
                self.assert_one_error(result, "step ", "rank ", "not finite", "1e+30", "--lr", rc=1)
                # What led there can be read; what was to be whole is not there.
                self.assertEqual([path.name for path in result.folder.iterdir()], ["steps.jsonl"], result)
                failed_step = int(result.error_lines[0].split("step ")[1].split(":")[0])
                self.assertEqual([step["step"] for step in result.log], list(range(failed_step + 1)))


if __name__ == "__main__":
    job.main()
