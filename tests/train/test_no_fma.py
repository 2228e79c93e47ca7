"""What all ranks repeat bit for bit has no fused multiply-add in it, even where the compiler may use AVX2 and
FMA, and calls nothing of libm, which gives other bits on other processors: the sources given are compiled as
the build does, for x86-64-v3, and disassembled."""
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ.get("EVENSTEP_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build"))
FUSED = re.compile(r"\bvfn?m(?:add|sub|addsub|subadd)\d*[ps][sd]\b")
# Not sqrt: it is rounded correctly everywhere.
LIBM = re.compile(r"\bU (a?(?:cos|sin|tan)h?|atan2|cbrt|erfc?|exp[2m]?1?|fma|hypot|log(?:2|10|1p)?|pow|l?gamma|tgamma)"
                  r"[fl]?(?:@.*)?$", re.MULTILINE)
SKIPPED = 77
# Of lb, what draws random numbers for virtual ranks: no rank of a job runs it.
SIMULATION = ("simulator.cpp", "trace.cpp")


def compile_commands(wanted):
    """The build's command for each source that `wanted` accepts, as words without its output."""
    found = {}
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if wanted(source) and source not in found:
            words = shlex.split(entry["command"])
            found[source] = words[:words.index("-o")] + words[words.index("-o") + 2:]
    return found


def run(*words):
    return subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=True, timeout=120).stdout


def build(command, folder, *more):
    target = str(pathlib.Path(folder) / "object.o")
    run(*command, "-march=x86-64-v3", *more, "-o", target)
    return target


def fused_in(target):
    text = run("objdump", "-d", "--no-show-raw-insn", target)
    assert text.count("\n") > 10, "nothing was disassembled"
    return FUSED.findall(text)


class NoFusedMultiplyAdd(unittest.TestCase):
    root = pathlib.Path(__file__).resolve().parents[2]
    sources = set()

    def is_replicated(self, source):
        in_lb = (self.root / "lb") in source.parents
        return in_lb and source.name not in SIMULATION or source in self.sources

    def test_replicated_code(self):
        commands = compile_commands(self.is_replicated)
        self.assertGreater(len(commands), len(self.sources), "lb is missing from the build")
        fused_if_allowed = 0
        with tempfile.TemporaryDirectory() as folder:
            for source, command in sorted(commands.items()):
                with self.subTest(source.relative_to(self.root)):
                    self.assertIn("-ffp-contract=off", command)
                    target = build(command, folder)
                    self.assertEqual(fused_in(target), [])
                    self.assertEqual(LIBM.findall(run("nm", "-u", target)), [])
                # The control: without our flags the same compiler does fuse, and it shows.
                if source in self.sources:
                    fused_if_allowed += len(fused_in(build(command, folder, "-O3", "-ffp-contract=fast")))
        print(f"{len(commands)} sources; fused with -ffp-contract=fast: {fused_if_allowed} instructions, as built: 0")
        self.assertGreater(fused_if_allowed, 0)


if __name__ == "__main__":
    if platform.machine() != "x86_64" or shutil.which("objdump") is None:
        print("needs an x86-64 compiler and objdump")
        sys.exit(SKIPPED)
    NoFusedMultiplyAdd.sources = {pathlib.Path(name).resolve() for name in sys.argv[1:]}
    unittest.main(argv=sys.argv[:1], verbosity=2)
