"""Ranks that were started differently, or that a launcher left alone, are refused before they train."""
import os
import subprocess

import job

RUN = ["--model", "softmax", "--global-batch", 12, "--steps", 3]


class DifferentOptions(job.JobTest):
    def test_options(self):
        """Rank 2 of 3 is started with another value."""
        different = [("--lr", 0.1, 0.2), ("--model", "softmax", "mlp"), ("--model", "cnn", "softmax"),
                     ("--global-batch", 12, 24), ("--balance", "even", "off"), ("--balance", "off", "even"),
                     ("--balance", "static", "even"), ("--wait", "sleep", "spin"), ("--tail", "rotating", "slots"),
                     ("--seed", 1, 2), ("--eval", "on", "off"), ("--steps", 3, 4), ("--optimizer", "sgd", "adamw"),
                     ("--clip", 0, 1), ("--momentum", 0.9, 0.8), ("--emulate", "1,1,1", "1,1,0.5"),
                     ("--inject", "0:load:1", "0:load:2")]
        if "bf16" in job.dtypes():
            different.append(("--dtype", "f32", "bf16"))
        with self.refusals(*RUN, rc=2) as refuse:
            for flag, first, other in different:
                refuse([flag, first], flag, str(first), str(other), "rank 2", "rank 0", then=[(1, (), [flag, other])])

    def test_a_flag_on_one_rank_only(self):
        with self.refusals(*RUN, rc=2) as refuse:
            refuse([], "rank 2", "--nesterov", then=[(1, (), ["--nesterov"])])
            refuse([], "1 of 3 ranks", "--help", then=[(1, (), ["--help"])])

    def test_a_wrong_flag_on_one_rank_only(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for first, other in (("0.1", "nan"), ("nan", "0.1")):
                refuse(["--lr", first], "--lr", "nan", then=[(1, (), ["--lr", other])])

    def test_threads_may_differ(self):
        self.train(*RUN, "--threads", 1, ranks=1, then=[(1, (), ["--threads", 2])])


class LeftAlone(job.JobTest):
    """A launcher that MPI does not understand starts each process as a job of its own. All would train the
    whole job and write the same files."""

    def start_as(self, settings):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("OMPI_", "PMI_", "PMIX_", "PRTE_", "SLURM_"))}
        words = self.command(*RUN, folder=self.folder)
        program = words[words.index(job.TRAIN):]
        return subprocess.run([str(word) for word in program], env={**environment, **settings}, capture_output=True,
                              text=True, timeout=job.SHORT_SECONDS)

    def check(self, size_name, rank_name):
        runs = [self.start_as({size_name: "4", rank_name: str(rank)}) for rank in range(4)]
        result = job.Result(runs[0].returncode, runs[0].stdout, "".join(run.stderr for run in runs), self.folder)
        self.assert_one_error(result, "srun --mpi=pmix", "1 process", "4", rc=2)
        self.assertEqual([run.returncode for run in runs], [2] * 4)
        self.assert_nothing_left(result)

    def test_by_srun(self):
        self.check("SLURM_STEP_NUM_TASKS", "SLURM_PROCID")

    def test_by_another_mpirun(self):
        self.check("PMI_SIZE", "PMI_RANK")

    def test_one_process_is_fine(self):
        for settings in ({}, {"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
                         {"SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}):  # in an allocation of 4, without srun
            run = self.start_as(settings)
            self.assertEqual(run.returncode, 0, run)


if __name__ == "__main__":
    job.main()
