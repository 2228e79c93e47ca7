// A second, naive implementation of the forward pass in double precision, for central differences.
#pragma once

#include <span>
#include <vector>

#include "kernels/layers.h"

namespace evenstep::kernels::test {

/// Sum of cross-entropy losses of `labels.size()` targets; parameters as the network has them.
/// Tokens are given as images.
/// `groups`: the sizes of the successive groups that batch norm takes together.
double reference_loss(std::span<const LayerSpec> layers, SampleShape input, int classes,
                      std::span<const double> parameters, std::span<const double> images,
                      std::span<const std::int32_t> labels, std::span<const int> groups);

}  // namespace evenstep::kernels::test
