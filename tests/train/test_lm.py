"""evenstep-lm: learns a text, the same on any number of ranks, and refuses what does not fit in a line."""
import gzip
import random
import struct
import unittest

import job

MODEL = ["--layers", 2, "--heads", 2, "--width", 32, "--context", 16]
RUN = [*MODEL, "--global-batch", 12, "--steps", 8, "--threads", 1]
SAMPLES = 3599 // 16  # of a text of 4000 bytes, a tenth of which is held out; the last byte is only predicted


def text_of(count, seed):
    words = ["the", "rank", "that", "waits", "is", "late", "a", "step", "ends", "when", "all", "have", "done"]
    draw = random.Random(seed)
    text = ""
    while len(text) < count:
        text += draw.choice(words) + " "
    return text[:count]


class LanguageModel(job.JobTest):
    program = job.LM

    def setUp(self):
        super().setUp()
        self.text = self.folder / "text"
        self.text.write_text(text_of(4000, seed=1))

    def write_tokens(self, name, tokens):
        path = self.folder / name
        path.write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
        return path

    def test_learns(self):
        run = self.train(*job.override(RUN, ["--steps", 150]), "--lr", 0.003, data=self.text, ranks=2, seconds=120)
        print(f"loss {run.log[0]['loss']}, then {run.summary['final_loss']}; test loss {run.summary['test_loss']}")
        self.assertAlmostEqual(run.log[0]["loss"], 5.55, delta=0.1)  # ln(256): it knows nothing
        self.assertLess(run.summary["final_loss"], 2)
        self.assertLess(run.summary["test_loss"], 2)
        self.assertGreater(run.summary["test_accuracy"], 0.4)
        self.assertIn("nats a byte, test loss", run.stdout)

    def test_any_number_of_ranks_gives_the_same_curve(self):
        alone = self.train(*RUN, data=self.text, ranks=1)
        self.assertEqual(alone.summary["model"], "gpt")
        self.assertEqual(alone.summary["samples"], 8 * 12)
        self.assertEqual(alone.summary["parameters"], 256 * 32 + 16 * 32 + 2 * (12 * 32 ** 2 + 13 * 32) + 2 * 32)
        for ranks, flags in ((2, []), (3, []), (2, ["--emulate", "1,0.3", "--balance", "static"])):
            with self.subTest(ranks=ranks, flags=flags):
                shared = self.train(*RUN, *flags, data=self.text, ranks=ranks)
                self.assertEqual(shared.summary["collectives_per_step"], 1)
                self.assertEqual(len({rank["parameter_hash"] for rank in shared.summary["ranks"]}), 1)
                for one, many in zip(alone.log, shared.log, strict=True):
                    self.assertAlmostEqual(one["loss"], many["loss"], delta=2e-5 * one["loss"])
                self.assertAlmostEqual(alone.summary["test_loss"], shared.summary["test_loss"], delta=1e-4)

    def test_every_sample_once_an_epoch(self):
        run = self.train(*MODEL, "--global-batch", 100, "--epochs", 2, data=self.text, ranks=2)
        self.assertEqual(run.summary["samples"], 2 * SAMPLES)
        self.assertEqual([sum(step["shares"]) for step in run.log], [100, 100, SAMPLES - 200] * 2)

    def test_a_packed_text_and_its_bytes_as_tokens_are_the_same(self):
        fixed = [*RUN, "--balance", "off", "--eval", "off"]
        plain = self.train(*fixed, data=self.text).summary
        packed = self.folder / "text.gz"
        packed.write_bytes(gzip.compress(self.text.read_bytes()))
        tokens = self.write_tokens("tokens.bin", self.text.read_bytes())
        self.assertIsNone(plain["test_loss"])
        for flags, data in (([], packed), (["--tokens", "uint16", "--vocabulary", 256], tokens)):
            self.assertEqual(self.train(*fixed, *flags, data=data).summary["parameter_hash"], plain["parameter_hash"])

    @unittest.skipIf("bf16" not in job.dtypes(), "no AVX-512")
    def test_bf16(self):
        runs = [self.train(*RUN, "--dtype", dtype, data=self.text, ranks=2).summary for dtype in ("f32", "bf16")]
        self.assertAlmostEqual(runs[0]["final_loss"], runs[1]["final_loss"], delta=0.02 * runs[0]["final_loss"])

    def test_bad_use(self):
        with self.refusals(*RUN, "--data", self.text, rc=2) as refuse:
            refuse(["--width", 30, "--heads", 4], "--width is 30", "--heads 4")
            refuse(["--width", 30, "--heads", 4], "--width is 30", "--heads 4", ranks=3)
            refuse(["--context", 4000], "--context is 4000", "3600 tokens", str(self.text))
            refuse(["--context", 500], "--context is 500", "--held-out 0.1", "400 tokens")
            refuse(["--global-batch", 225], "225", "224 samples")
            for flag in ("--layers", "--heads", "--width", "--context"):
                for value in ("0", "-1", "x", "65537"):
                    refuse([f"{flag}={value}"], flag, value, ranks=1)
            for value in ("-0.1", "1", "nan"):
                refuse([f"--held-out={value}"], "--held-out", value, ranks=1)
            refuse(["--vocabulary=65537"], "--vocabulary", "65537")
            refuse(["--tokens=words"], "--tokens", "words", "text, uint16")
            refuse(["--dtype=f16"], "--dtype", "f16", "f32, bf16")
            refuse(["--model=cnn"], "--model", "--help")

    def test_bad_files(self):
        odd = self.folder / "odd"
        odd.write_bytes(b"123")
        empty = self.folder / "empty"
        empty.touch()
        large = self.write_tokens("large", [1, 2, 300] * 100)
        other = self.folder / "other"
        other.write_text(text_of(4000, seed=2))
        with self.refusals(*RUN, rc=1) as refuse:
            refuse(["--tokens", "uint16"], str(odd), "3 bytes", data=odd)
            refuse([], str(empty), "empty", data=empty)
            refuse(["--tokens", "uint16", "--vocabulary", 300], str(large), "token 300 at byte 4", data=large, ranks=3)
            refuse(["--vocabulary", 100], str(self.text), "256", "100", data=self.text)
            refuse([], str(self.folder), "not a regular file", data=self.folder)
            refuse([], "nowhere", "No such file", data=self.folder / "nowhere")
            refuse([], "rank 1", "data", rc=2, ranks=1, data=self.text, then=[(1, (), ["--data", other])])


if __name__ == "__main__":
    job.main()
