// What is read from /proc and control groups, on stored samples, and what a rank makes of it.
#include "runtime/availability.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "evenstep/availability.h"
#include "runtime/system_text.h"

using namespace evenstep;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t ms = 1'000'000;

constexpr const char* proc_stat =
    "cpu  1371845 171448 127722 731581 3473 0 1439 29379 0 0\n"
    "cpu0 100 20 30 4000 500 6 7 8 9 10\n"
    "cpu1 200 20 30 4000 500 6 7 8 0 0\n"
    "cpu10 1000 0 0 4000 0 0 0 0 0 0\n"
    "intr 12562803 0 0 0\n"
    "ctxt 42\n";

// systemd's layout of version 1, a container in it that sees the host's names.
constexpr const char* v1_cgroup =
    "4:memory:/docker/0123/job\n3:cpuset:/docker/0123/job\n2:cpu,cpuacct:/docker/0123/job\n"
    "1:name=systemd:/docker/0123/job\n";
constexpr const char* v1_mountinfo =
    "23 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
    "32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 /docker/0123 /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n";
constexpr const char* v2_cgroup = "0::/a.slice/b.scope\n";
constexpr const char* v2_mountinfo =
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 master:2 - cgroup2 cgroup2 rw,nsdelegate\n";

// A machine's files, below a folder that is gone at the end.
class FakeSystem {
 public:
  FakeSystem(const char* cgroup, const char* mountinfo) {
    char name[] = "/tmp/evenstep-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root = name;
    write("proc/self/cgroup", cgroup);
    write("proc/self/mountinfo", mountinfo);
  }
  ~FakeSystem() { fs::remove_all(root); }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }

  fs::path root;
};

// A second between two readings.
struct Second {
  CpuReading before;
  CpuReading now;

  Second(std::int64_t own_ms, std::int64_t ready_ms, std::int64_t busy_ms) {
    before = {.time_ns = 5, .own_ns = 7, .ready_ns = 11, .busy_ns = 13, .groups = {}};
    now = {5 + 1000 * ms, 7 + own_ms * ms, 11 + ready_ms * ms, 13 + busy_ms * ms, {}};
  }
  Second& group(double quota, std::int64_t used_ms) {
    const std::string name = std::to_string(now.groups.size());
    before.groups.push_back({name, 99, 17});
    now.groups.push_back({name, quota, 17 + used_ms * ms});
    return *this;
  }
  double available(int cores, int threads) const {
    return available_cores(before, now, cores, threads);
  }
};

}  // namespace

TEST_CASE("numbers alone and after a word") {
  CHECK(whole_number("123\n") == 123);
  CHECK(whole_number(" 9223372036854771712 ") == 9223372036854771712);
  for (const char* text :
       {"", "\n", "max", "-1", "12 13", "12x", "0x10", "1e3", "99999999999999999999"})
    CHECK_FALSE(whole_number(text));
  const char* meminfo = "MemTotal:       24683520 kB\nMemAvailable:   24000000 kB\nMem\n";
  CHECK(number_after(meminfo, "MemAvailable:") == 24000000);
  CHECK_FALSE(number_after(meminfo, "Mem"));
  CHECK_FALSE(number_after(meminfo, "MemFree:"));
  CHECK(number_after("user_usec 5\nusage_usec 7", "usage_usec") == 7);
}

TEST_CASE("the ticks of chosen cores, idle ones left out") {
  CHECK(busy_ticks(proc_stat, std::vector{0}) == 100 + 20 + 30 + 6 + 7 + 8);
  CHECK(busy_ticks(proc_stat, std::vector{1, 10}) == 271 + 1000);
  CHECK_FALSE(busy_ticks(proc_stat, std::vector{0, 2}));
  CHECK_FALSE(busy_ticks(proc_stat, std::vector<int>{}));
  CHECK_FALSE(busy_ticks("cpu0 1 2 3\n", std::vector{0}));
  CHECK_FALSE(busy_ticks("cpu0 1 2 3 4 5 6 x 8\n", std::vector{0}));
  CHECK_FALSE(busy_ticks("", std::vector{0}));
}

TEST_CASE("time ready to run") {
  CHECK(ready_ns("4480000 5450000 17\n") == 5450000);
  for (const char* text : {"", "1 2", "1 2 3 4", "x 2 3", "1 -2 3"}) CHECK_FALSE(ready_ns(text));
}

TEST_CASE("quotas of both versions") {
  CHECK(quota_of_cpu_max("50000 100000\n") == 0.5);
  CHECK(quota_of_cpu_max("400000 100000") == 4);
  for (const char* text :
       {"max 100000\n", "", "50000", "50000 0", "0 100000", "-1 100000", "a b", "1 2 3"})
    CHECK_FALSE(quota_of_cpu_max(text));
  CHECK(quota_of_cfs("4000\n", "10000\n") == 0.4);
  CHECK_FALSE(quota_of_cfs("-1\n", "100000\n"));
  CHECK_FALSE(quota_of_cfs("", ""));
}

TEST_CASE("a process's groups and their ancestors") {
  using Groups = std::vector<std::string>;
  const auto v1 = find_groups(v1_cgroup, v1_mountinfo, "cpuacct");
  REQUIRE(v1);
  CHECK(v1->mount == "/sys/fs/cgroup/cpu,cpuacct");
  CHECK(v1->groups == Groups{"/job", ""});
  CHECK(find_groups(v1_cgroup, v1_mountinfo, "memory")->mount == "/sys/fs/cgroup/my memory");
  CHECK_FALSE(find_groups(v1_cgroup, v1_mountinfo, "cpuset"));  // not mounted
  CHECK_FALSE(find_groups(v1_cgroup, v1_mountinfo, ""));
  const auto v2 = find_groups(v2_cgroup, v2_mountinfo, "");
  REQUIRE(v2);
  CHECK(v2->groups == Groups{"/a.slice/b.scope", "/a.slice", ""});
  CHECK_FALSE(find_groups(v2_cgroup, v2_mountinfo, "cpu"));
  CHECK(find_groups("0::/\n", v2_mountinfo, "")->groups == Groups{""});
  // Names of the host, and names outside the namespace, are not there.
  CHECK(find_groups("2:cpu,cpuacct:/docker/01234\n", v1_mountinfo, "cpu")->groups == Groups{""});
  CHECK(find_groups("0::/../other\n", v2_mountinfo, "")->groups == Groups{""});
  for (const char* text : {"", "0", "0:", "::", ":::\n\n", "x:cpu", "\n\n"}) {
    CHECK_FALSE(find_groups(text, v1_mountinfo, "cpu"));
    CHECK_FALSE(find_groups(v1_cgroup, text, "cpu"));
  }
  CHECK_FALSE(find_groups(v2_cgroup, "31 23 0:28 / /sys/fs/cgroup rw -\n", ""));
  CHECK_FALSE(find_groups(v2_cgroup, "- cgroup2 cgroup2 rw\n", ""));
}

TEST_CASE("texts with bytes changed anywhere are read or refused, and never crash") {
  std::mt19937 random(20);
  MESSAGE("seed 20");
  for (int round = 0; round < 20'000; ++round) {
    std::string texts[] = {proc_stat, v1_cgroup, v1_mountinfo, "50000 100000\n", "1 2 3\n"};
    for (std::string& text : texts)
      for (int change = 0; change < 3; ++change)
        text[random() % text.size()] = "0123456789 \n:,/-\\cx\0"[random() % 20];
    (void)busy_ticks(texts[0], std::vector{0, 1});
    for (const char* controller : {"", "cpu", "memory"})
      if (const auto found = find_groups(texts[1], texts[2], controller))
        CHECK(found->groups.back().empty());
    if (const auto quota = quota_of_cpu_max(texts[3])) CHECK(*quota > 0);
    if (const auto ready = ready_ns(texts[4])) CHECK(*ready >= 0);
  }
}

TEST_CASE("version 1: quotas, use and memory of nested groups, each where its controller is") {
  const FakeSystem system(v1_cgroup, v1_mountinfo);
  const fs::path cpu = "sys/fs/cgroup/cpu,cpuacct";
  const fs::path memory = "sys/fs/cgroup/my memory";
  system.write(cpu / "cpu.cfs_quota_us", "150000\n");
  system.write(cpu / "cpu.cfs_period_us", "100000\n");
  system.write(cpu / "job/cpu.cfs_quota_us", "-1\n");
  system.write(cpu / "job/cpu.cfs_period_us", "100000\n");
  system.write(cpu / "cpuacct.usage", "123456789\n");
  system.write(memory / "memory.limit_in_bytes", "8000000\n");
  system.write(memory / "memory.usage_in_bytes", "7000000\n");
  system.write(memory / "memory.stat", "cache 9\ntotal_inactive_file 500000\n");
  system.write(memory / "job/memory.limit_in_bytes", "9223372036854771712\n");
  system.write(memory / "job/memory.usage_in_bytes", "1000000\n");
  const ControlGroups groups(system.root);
  auto limited = groups.cpu();
  REQUIRE(limited.size() == 1);
  CHECK(limited[0].quota_cores == 1.5);
  CHECK(limited[0].used_ns == 123456789);
  CHECK(groups.free_bytes() == 1500000);
  // Limits that change while a job runs.
  system.write(cpu / "job/cpu.cfs_quota_us", "4000\n");
  system.write(cpu / "job/cpu.cfs_period_us", "10000\n");
  system.write(memory / "memory.limit_in_bytes", "6000000\n");
  limited = groups.cpu();
  REQUIRE(limited.size() == 2);
  CHECK(limited[0].quota_cores == 0.4);
  CHECK_FALSE(limited[0].used_ns);  // no file of it
  CHECK(groups.free_bytes() == 0);
}

TEST_CASE("version 2: quotas, use and memory of nested groups") {
  const FakeSystem system(v2_cgroup, v2_mountinfo);
  const fs::path outer = "sys/fs/cgroup/a.slice";
  system.write(outer / "cpu.max", "300000 100000\n");
  system.write(outer / "cpu.stat", "usage_usec 5000\nuser_usec 4000\n");
  system.write(outer / "memory.max", "4000000\n");
  system.write(outer / "memory.current", "1000000\n");
  system.write(outer / "memory.stat", "anon 1\ninactive_file 250000\n");
  system.write(outer / "b.scope/cpu.max", "max 100000\n");
  system.write(outer / "b.scope/memory.max", "max\n");
  system.write(outer / "b.scope/memory.current", "900000\n");
  const ControlGroups groups(system.root);
  REQUIRE(groups.cpu().size() == 1);
  CHECK(groups.cpu()[0].quota_cores == 3);
  CHECK(groups.cpu()[0].used_ns == 5'000'000);
  CHECK(groups.free_bytes() == 3'250'000);
  system.write(outer / "cpu.max", "lots\n");
  CHECK(groups.cpu().empty());
}

TEST_CASE("a system without any of these files") {
  const FakeSystem system("", "");
  CHECK(ControlGroups(system.root).cpu().empty());
  CHECK_FALSE(ControlGroups(system.root).free_bytes());
  CHECK(ControlGroups("/nowhere").cpu().empty());
  CHECK(text_of("/nowhere").empty());
  CHECK(text_of("/proc").empty());
}

TEST_CASE("what cores give: a rank's own use is not taken from it") {
  CHECK(Second(1000, 0, 1000).available(1, 1) == 1);
  CHECK(Second(500, 500, 1000).available(1, 1) == doctest::Approx(0.5));
  CHECK(Second(250, 750, 1000).available(1, 1) == doctest::Approx(0.25));
  // Half of the time it waits for other ranks, and a competitor uses that.
  CHECK(Second(250, 250, 1000).available(1, 1) == doctest::Approx(0.5));
  // It is alone, and waits.
  CHECK(Second(300, 0, 300).available(1, 1) == 1);
  // Several threads; never more than threads or cores.
  CHECK(Second(2000, 2000, 2000).available(2, 4) == doctest::Approx(2));
  CHECK(Second(3000, 1000, 4000).available(4, 4) == doctest::Approx(3));
  CHECK(Second(1000, 0, 1000).available(64, 1) == 1);
  CHECK(Second(1000, 0, 1000).available(1, 8) == 1);
}

TEST_CASE("a rank that hardly runs can have what others leave") {
  CHECK(Second(0, 0, 0).available(1, 1) == 1);
  CHECK(Second(10, 5, 800).available(1, 1) == doctest::Approx(0.21));
  CHECK(Second(10, 5, 1100).available(2, 2) == doctest::Approx(0.91));
  CHECK(Second(10, 5, 1100).available(2, 1) == doctest::Approx(0.91));
  CHECK(Second(0, 0, 1100).available(1, 1) == doctest::Approx(0.01));  // 0 would be: not known
}

TEST_CASE("where the kernel does not tell who waits, what others left counts") {
  Second second(500, 0, 1000);
  second.now.ready_ns.reset();
  CHECK(second.available(1, 1) == doctest::Approx(0.5));
  second.now.busy_ns.reset();
  CHECK(second.available(1, 1) == 0);
  // A thread ended, and took its time along.
  second = Second(500, -3, 700);
  CHECK(second.available(1, 1) == doctest::Approx(0.8));
  second.now.time_ns = second.before.time_ns;
  CHECK(second.available(1, 1) == 0);
}

TEST_CASE("the tightest group counts, less what its other processes use") {
  CHECK(Second(400, 600, 400).group(0.4, 400).available(1, 1) == doctest::Approx(0.4));
  CHECK(Second(200, 0, 200).group(0.4, 200).available(1, 1) == doctest::Approx(0.4));
  CHECK(Second(900, 0, 900).group(1.5, 1400).available(1, 1) == doctest::Approx(1));
  CHECK(Second(500, 0, 900).group(1.2, 900).available(2, 2) == doctest::Approx(0.8));
  CHECK(Second(500, 0, 900).group(4, 900).group(0.7, 500).group(9, 1).available(2, 2) ==
        doctest::Approx(0.7));
  Second unknown(500, 0, 900);
  unknown.now.groups.push_back({"new", 0.3, std::nullopt});
  CHECK(unknown.available(2, 2) == doctest::Approx(0.3));
}

TEST_CASE("memory: the least of the machine's and the group's") {
  const char* meminfo = "MemFree: 1 kB\nMemAvailable:  2097152 kB\n";
  CHECK(available_mebibytes(meminfo, std::nullopt) == 2048);
  CHECK(available_mebibytes(meminfo, std::int64_t{512} << 20) == 512);
  CHECK(available_mebibytes(meminfo, std::int64_t{1} << 40) == 2048);
  CHECK(available_mebibytes("", std::int64_t{512} << 20) == 512);
  CHECK(available_mebibytes("MemAvailable: lots\n", std::nullopt) == 0);
}

TEST_CASE("the probe sees this machine, and ends when told to") {
  const AvailabilityProbe probe(1);
  volatile double work = 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (probe.cpu_cores() == 0 && std::chrono::steady_clock::now() < end)
    for (int i = 0; i < 1000; ++i) work = work * 1.0000001;
  CHECK(probe.cpu_cores() > 0);
  CHECK(probe.cpu_cores() <= 1);
  CHECK(probe.memory_mib() > 0);
}
