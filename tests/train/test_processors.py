"""Ranks on processors of different models end with the same bits: one rank runs as if its processor had
neither FMA nor AVX, as far as the C library (libm) can tell. oneDNN looks for itself, and may: gradients are
summed and shared."""
import os
import platform
import subprocess
import unittest

import job

MASKED = ",".join(f"-{feature}" for feature in
                  ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ", "AVX512CD", "AVX2", "FMA", "FMA4", "AVX", "ERMS"))
TUNABLES = f"GLIBC_TUNABLES=glibc.cpu.hwcaps={MASKED}"
LIBM_BITS = """
import math
print(hash(tuple(math.exp(i / 997) + math.sin(i) + math.pow(i + 1, 0.3) for i in range(20_000))))
"""
ON_X86 = platform.machine() == "x86_64"


def processor_has_fma():
    with open("/proc/cpuinfo") as lines:
        return any(line.startswith("flags") and " fma " in line for line in lines)


@unittest.skipUnless(ON_X86, "glibc's names are those of x86")
class Processors(job.JobTest):
    def check(self, model, steps, ranks, masked_first=False):
        flags = ["--model", model, "--global-batch", 33, "--steps", steps, "--eval", "off", "--optimizer", "adamw",
                 "--lr", 0.001, "--clip", 1, "--schedule", "cosine", "--warmup", 10, "--weight-decay", 0.01,
                 "--threads", 1]
        masked, plain = ("env", TUNABLES), ()
        first, second = (masked, plain) if masked_first else (plain, masked)
        result = self.train(*flags, ranks=1, wrap=first, then=[(ranks - 1, second, [])], seconds=120)
        hashes = [rank["parameter_hash"] for rank in result.summary["ranks"]]
        self.assertEqual(len(hashes), ranks)
        self.assertEqual(len(set(hashes)), 1, result)
        self.assertLess(result.log[-1]["loss"], result.log[0]["loss"])

    def test_the_mask_works(self):
        """libm itself gives other bits under it; otherwise these tests would show nothing."""
        if not processor_has_fma():
            self.skipTest("this processor has no FMA to mask")
        name, _, value = TUNABLES.partition("=")
        bits = [subprocess.run(["python3", "-c", LIBM_BITS], env={**os.environ, **more}, capture_output=True,
                               text=True, check=True, timeout=60).stdout for more in ({}, {name: value})]
        self.assertNotEqual(*bits)

    def test_softmax(self):
        self.check("softmax", steps=500, ranks=3)

    def test_softmax_masked_rank_0(self):
        self.check("softmax", steps=500, ranks=2, masked_first=True)

    def test_mlp(self):
        self.check("mlp", steps=500, ranks=2)

    def test_cnn(self):
        self.check("cnn", steps=40, ranks=3)


if __name__ == "__main__":
    job.main()
