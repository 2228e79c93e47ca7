#include "lb/sizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <stdexcept>

#include "lb/sizers/sizers.h"

namespace evenstep::lb {
namespace {

constexpr std::array<std::string_view, 10> names = {"off",
                                                    "static",
                                                    "static-functional",
                                                    "lbbsp-cpu",
                                                    "lbbsp-gpu-2018",
                                                    "lbbsp-gpu-2020",
                                                    "proportional",
                                                    "lbb",
                                                    "dbs",
                                                    "even"};

}  // namespace

std::unique_ptr<Sizer> make_sizer(std::string_view name, int ranks, std::string_view predictor) {
  if (name == "off") return make_off();
  if (name == "static") return make_static();
  if (name == "static-functional") return make_static_functional(ranks);
  if (name == "lbbsp-cpu") return make_lbbsp_cpu(ranks, predictor);
  if (name == "lbbsp-gpu-2018") return make_lbbsp_gpu_2018(ranks);
  if (name == "lbbsp-gpu-2020") return make_lbbsp_gpu_2020(ranks);
  if (name == "proportional") return make_proportional(ranks);
  if (name == "lbb") return make_lbb(ranks);
  if (name == "dbs") return make_dbs(ranks);
  if (name == "even") return make_even(ranks);
  throw std::invalid_argument(
      fmt::format("unknown balance '{}'; choose one of {}", name, fmt::join(names, ", ")));
}

std::span<const std::string_view> sizer_names() { return names; }

}  // namespace evenstep::lb
