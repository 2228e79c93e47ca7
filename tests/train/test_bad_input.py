"""Wrong options: one line that says what was given and what would do, on any number of ranks."""
import job

RUN = ["--model", "softmax", "--global-batch", 12, "--steps", 3]


class BadOptions(job.JobTest):
    def test_unknown_names(self):
        with self.refusals(*RUN, rc=2) as refuse:
            refuse(["--model", "resent"], "--model", "resent", "softmax, mlp, cnn")
            refuse(["--balance", "evne"], "--balance", "evne", "even")
            refuse(["--wait", "rest"], "--wait", "rest", "auto, spin, yield, sleep")
            refuse(["--dtype", "f16"], "--dtype", "f16", "f32, bf16")
            refuse(["--optimizer", "adam"], "--optimizer", "adam", "sgd, adamw, lars")
            refuse(["--schedule", "linear"], "--schedule", "linear", "constant, cosine, step")
            refuse(["--eval", "yes"], "--eval", "yes", "on, off")
            refuse(["--overlap", "on"], "--overlap", "on", "auto, off")
            refuse(["--augment", "yes"], "--augment", "yes", "auto, on, off")
            refuse(["--prefetch", "yes"], "--prefetch", "yes", "auto, on, off")
            refuse(["--wire", "fp16"], "--wire", "fp16", "f32, bf16, f16")
            refuse(["--bucket-mb", "-1"], "--bucket-mb", "-1")
            refuse(["--last-chunk", "-1"], "--last-chunk", "-1")
            refuse(["--bucket-mb", "2000"], "--bucket-mb", "2000", "1024")
            refuse(["--ballance", "even"], "--ballance", "--help")
            refuse(["stray"], "stray", "--help")
            refuse(["-x"], "-x", "--help")

    def test_on_any_number_of_ranks(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for ranks in (1, 3, 5):
                refuse(["--balance", "evne"], "--balance", "evne", "even", ranks=ranks)

    def test_what_is_not_built_yet(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for flag in ("checkpoint", "checkpoint-every", "resume", "on-failure", "reproducible", "time-limit"):
                refuse([f"--{flag}=1"], f"--{flag}", "not built yet", ranks=1)
            refuse(["--model", "gpt"], "--model", "gpt", "evenstep-lm", ranks=1)

    def test_global_batch(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for batch in ("0", "-3", "99999999999999999999", "1e3", "12.5", "many", ""):
                refuse([f"--global-batch={batch}"], "--global-batch", batch)
            refuse(["--global-batch", 102], "--global-batch", "102", "101 samples")
            refuse(["--accumulate", 9], "--global-batch", "108", "101 samples")
            refuse(["--accumulate", 2 ** 30], "--global-batch 12", f"--accumulate {2 ** 30}", "2^31")
            refuse(["--global-batch", 1_000_000_000], "--global-batch", "1000000000", "101 samples")

    def test_whole_numbers(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for flag in ("--epochs", "--steps", "--threads", "--accumulate"):
                for value in ("0", "-1", "x", "99999999999999999999"):
                    refuse([f"{flag}={value}"], flag, value, ranks=1)
            refuse(["--seed=-1"], "--seed", "-1")
            refuse(["--warmup=-1"], "--warmup", "-1")
            refuse(["--epochs", 2, "--steps", 3], "--epochs", "--steps")

    def test_a_flag_without_its_value_or_twice(self):
        with self.refusals(*RUN, rc=2) as refuse:
            refuse(["--lr"], "--lr", "--help")
            refuse(["--lr=0.1", "--lr=0.2"], "--lr", "--help")

    def test_real_numbers(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for flag in ("--lr", "--momentum", "--weight-decay", "--clip", "--trust", "--label-smoothing"):
                for value in ("nan", "inf", "-0.1", "fast"):
                    refuse([f"{flag}={value}"], flag, value, ranks=1)
            for flag in ("--momentum", "--label-smoothing"):
                refuse([f"{flag}=1.5"], flag, "1.5", "at most 1")
            refuse(["--lr=nan"], "--lr", "nan", ranks=3)

    def test_emulate(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for speeds, named in (("1,0", "'0'"), ("1,-0.5", "'-0.5'"), ("1,1.5", "'1.5'"), ("1,fast", "'fast'"),
                                  ("1,nan", "'nan'"), ("1,1e-300", "'1e-300'"), ("1,", "''"), (",1", "''"),
                                  ("1,,1", "''"), ("1;1", "'1;1'")):
                refuse([f"--emulate={speeds}"], "--emulate", named, "one speed a rank")
            for speeds, count in (("1", 1), ("1,1,1", 3)):
                refuse([f"--emulate={speeds}"], f"--emulate has {count}", "2 ranks")
            refuse(["--emulate="], "--emulate")
            refuse(["--emulate", ""], "--emulate", "''", "one speed a rank")

    def test_inject(self):
        with self.refusals(*RUN, rc=2) as refuse:
            for spec in ("1", "1:load", "1:load:", "1:sleep:5", "x:load:5", "-1:load:5", "1:load:x", "1:load:-5",
                         "1:load:5:", "1:load:5:x", "1:load:5:3-", "1:load:5:-3", "1:load:5:7-3", "1:load:5:1-2:3", ""):
                refuse([f"--inject={spec}"], "--inject", spec)
            refuse(["--inject=2:load:5"], "--inject", "rank 2", "2 ranks")

    def test_more_steps_than_memory_for_their_trace(self):
        result = self.run_job("--model", "mlp", "--global-batch", 12, "--steps", 2 ** 40, "--lr", 1e30,
                              seconds=job.SHORT_SECONDS)
        self.assert_one_error(result, "not finite")


class UnwritableOutputs(job.JobTest):
    def test_paths(self):
        missing, folder, file = (self.folder / name for name in ("missing/file", "folder", "file"))
        folder.mkdir()
        file.write_text("older")
        with self.refusals(*RUN, rc=1) as refuse:
            for flag in ("--summary", "--log", "--timeline"):
                refuse([flag, missing], "cannot write", str(missing), "No such file")
                refuse([flag, folder], "cannot write", str(folder), "Is a directory")
                refuse([flag, file / "inside"], "cannot write", str(file / "inside"), "Not a directory")
                refuse([flag, "/proc/version"], "cannot write", "/proc/version")
            refuse(["--log", missing], "cannot write", str(missing), ranks=3)
        self.assertEqual(list(folder.iterdir()), [])
        self.assertEqual(file.read_text(), "older")

    def test_no_space(self):
        for flag, whole in (("--log", set()), ("--summary", {"steps.jsonl"}),
                            ("--timeline", {"steps.jsonl", "summary.json"})):
            with self.subTest(flag):
                result = self.run_job(*RUN, flag, "/dev/full", ranks=2, seconds=job.SHORT_SECONDS)
                self.assert_one_error(result, "cannot write /dev/full", "No space left", rc=1)
                # What was written before is whole.
                self.assertEqual({path.name for path in result.folder.iterdir()}, whole, result)
                self.assertTrue("steps.jsonl" not in whole or len(result.log) == 3)
                self.assertTrue("summary.json" not in whole or result.summary["steps"] == 3)

    def test_one_file_for_two(self):
        with self.refusals(*RUN, rc=2) as refuse:
            both = self.folder / "both"
            refuse(["--summary", both, "--log", both], "--summary", "--log", str(both))


if __name__ == "__main__":
    job.main()
