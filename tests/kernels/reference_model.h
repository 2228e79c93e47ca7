// A second, naive implementation of the forward pass in double precision, for central differences.
#pragma once

#include <span>
#include <vector>

#include "kernels/models.h"

namespace evenstep::kernels::test {

/// Sum of cross-entropy losses of `labels.size()` samples; parameters as the network has them.
double reference_loss(std::span<const LayerSpec> layers, SampleShape input, int classes,
                      std::span<const double> parameters, std::span<const double> images,
                      std::span<const std::int32_t> labels);

}  // namespace evenstep::kernels::test
