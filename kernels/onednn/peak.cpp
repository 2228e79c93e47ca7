#include <algorithm>
#include <chrono>

#include "kernels/onednn/context.h"
#include "kernels/profile.h"

namespace evenstep::kernels {

double measure_peak_flops(Dtype dtype) {
  using onednn::Call;
  using Desc = dnnl::memory::desc;
  using Tag = dnnl::memory::format_tag;
  constexpr int size = 1024;
  constexpr int repetitions = 10;
  onednn::Context context(ChunkMenu(1), dtype);
  const dnnl::memory::dims square{size, size};
  const Desc plain(square, context.type, Tag::ab);
  const dnnl::matmul::primitive_desc desc(
      context.engine, plain, Desc(square, context.type, Tag::any), plain, context.attributes);
  const auto view = [&](const Desc& of) {
    return context.plan.view(context.plan.new_region(), of);
  };
  const Call product = context.bind(desc, {{DNNL_ARG_SRC, view(plain)},
                                           {DNNL_ARG_WEIGHTS, view(desc.weights_desc())},
                                           {DNNL_ARG_DST, view(plain)}});
  context.plan.commit();
  double best_seconds = 1e9;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    product.run(context.stream);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best_seconds = std::min(best_seconds, time.count());
  }
  return 2.0 * size * size * size / best_seconds;
}

}  // namespace evenstep::kernels
