// No layer may run oneDNN's reference code, which takes tens of times as long as its other
// implementations. meson runs this as if the processor had AVX2 only, where oneDNN has the fewest.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include <unistd.h>
#include <dnnl.hpp>

#include "kernels/models.h"
#include "tests/kernels/harness.h"

namespace evenstep::kernels::test {
namespace {

/// What oneDNN prints of each primitive that is made while this lives: it prints to stdout.
class Primitives {
 public:
  Primitives() {
    std::fflush(stdout);
    dup2(fileno(file_), fileno(stdout));
    dnnl::set_verbose(2);
  }
  Primitives(const Primitives&) = delete;
  Primitives& operator=(const Primitives&) = delete;
  ~Primitives() {
    stop();
    close(stdout_);
    std::fclose(file_);
  }

  std::vector<std::string> lines() {
    stop();
    REQUIRE(std::fseek(file_, 0, SEEK_SET) == 0);
    std::vector<std::string> found;
    char line[4096];
    while (std::fgets(line, sizeof line, file_) != nullptr) {
      if (std::string(line).find(",create") != std::string::npos) found.emplace_back(line);
    }
    return found;
  }

 private:
  void stop() {
    dnnl::set_verbose(0);
    std::fflush(stdout);
    dup2(stdout_, fileno(stdout));
  }

  std::FILE* file_ = std::tmpfile();
  int stdout_ = dup(fileno(stdout));
};

void check(NetworkOptions options) {
  options.largest_chunk = 1;
  CAPTURE(options.model);
  CAPTURE(options.input.channels);
  std::vector<std::string> lines;
  {
    Primitives primitives;
    const auto network = make_any_network(options);
    lines = primitives.lines();
  }
  CHECK(!lines.empty());
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.find(",ref") == std::string::npos);
  }
}

TEST_CASE("no layer runs oneDNN's reference code") {
  for (const char* name : model_names()) {
    const Model& model = find_model(name);
    check({.model = name, .input = model.input, .classes = model.classes});
  }
  check({.model = "cnn", .input = {3, 32, 32}});
  check({.model = "cifarnet", .input = {1, 28, 28}});
  check({.model = "resnet20", .input = {1, 28, 28}});
  check({.model = "resnet50", .input = {3, 64, 64}});  // convolves 2x2 by 3x3
  check({.model = "gpt", .input = {}});
}

}  // namespace
}  // namespace evenstep::kernels::test
