"""The installed library, as others use it: an outside program, built with pkg-config alone, trains its own model
on 3 ranks."""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("EVENSTEP_BUILD", ROOT / "build"))
MPIRUN = os.environ.get("EVENSTEP_MPIRUN", str(ROOT / "scripts/mpirun"))
MESON = ROOT / ".deps/bin/meson" if (ROOT / ".deps/bin/meson").exists() else "meson"
RANKS = 3


def run(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="evenstep-install-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        run(MESON, "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.folder)
        cls.pkg_config_file = next(cls.folder.rglob("evenstep.pc"))
        cls.prefix = cls.folder / cls.variable("prefix").lstrip("/")

    @classmethod
    def pkg_config(cls, *words):
        environment = {**os.environ, "PKG_CONFIG_PATH": str(cls.pkg_config_file.parent)}
        return run("pkg-config", *words, "evenstep", env=environment)

    @classmethod
    def variable(cls, name):
        return cls.pkg_config(f"--variable={name}").strip()

    def flags(self):
        """The files lie in a staging folder: their prefix moves there."""
        return shlex.split(self.pkg_config(f"--define-variable=prefix={self.prefix}", "--cflags", "--libs"))

    def build(self, source):
        program = self.folder / source.stem
        warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        run(*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", *warnings, source, "-o", program, *self.flags(),
            cwd=self.folder)
        return program

    def test_what_is_there(self):
        self.assertTrue((self.prefix / "bin/evenstep-train").exists())
        installed = {path.name for path in (self.prefix / "include/evenstep").iterdir()}
        self.assertEqual(installed, {path.name for path in (ROOT / "runtime/include/evenstep").iterdir()})
        self.assertRegex(self.pkg_config("--modversion"), r"^\d+\.\d+\.\d+$")

    def test_each_header_stands_alone(self):
        for header in sorted((self.prefix / "include/evenstep").iterdir()):
            with self.subTest(header.name):
                source = self.folder / f"only_{header.stem}.cpp"
                source.write_text(f"#include <evenstep/{header.name}>\nint main() {{}}\n")
                self.build(source)

    def test_a_program_of_ones_own(self):
        program = self.build(HERE / "consumer.cpp")
        library_folder = next(self.folder.rglob("libevenstep.so")).parent
        output = run(MPIRUN, "-n", RANKS, "env", f"LD_LIBRARY_PATH={library_folder}", program)
        lines = re.findall(r"rank (\d) of 3: loss (\S+), a (\S+), b (\S+)", output)
        self.assertEqual(sorted(line[0] for line in lines), ["0", "1", "2"], output)
        self.assertEqual(len({line[1:] for line in lines}), 1, output)  # the same bits
        loss, a, b = map(float, lines[0][1:])
        self.assertLess(loss, 1e-6)
        self.assertAlmostEqual(a, 3, places=3)
        self.assertAlmostEqual(b, -2, places=3)
        print(output)

    def test_a_collective_of_ones_own(self):
        """The tail rides on a solver's dot product; rank 1 is slow, and all ranks know it."""
        program = self.build(HERE / "conjugate_gradient.cpp")
        library_folder = next(self.folder.rglob("libevenstep.so")).parent
        output = run(MPIRUN, "-n", RANKS, "env", f"LD_LIBRARY_PATH={library_folder}", program, 1)
        print(output)
        lines = re.findall(r"rank (\d) of 3: (\d+) iterations, error (\S+), sum (\S+), share (\d+) of (\d+), "
                           r"(\d+) re-sizes", output)
        self.assertEqual(sorted(line[0] for line in lines), ["0", "1", "2"], output)
        self.assertEqual(len({line[1:4] for line in lines}), 1, output)  # the same bits
        self.assertLess(float(lines[0][2]), 1e-5)
        shares = {int(line[0]): int(line[4]) for line in lines}
        self.assertEqual(sum(shares.values()), int(lines[0][5]))
        self.assertGreaterEqual(int(lines[0][6]), 1)
        self.assertLess(shares[1], min(shares[0], shares[2]))

    def test_installed_train(self):
        """It finds its library by itself."""
        program = self.prefix / "bin/evenstep-train"
        self.assertRegex(run(program, "--version"), r"^evenstep \d")


if __name__ == "__main__":
    unittest.main(verbosity=2)
