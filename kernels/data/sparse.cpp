#include "kernels/data/sparse.h"

#include <zlib.h>

namespace evenstep::kernels {
namespace {

template <typename T>
uLong add(uLong sum, std::span<const T> values) {
  return crc32_z(sum, reinterpret_cast<const Bytef*>(values.data()), values.size_bytes());
}

}  // namespace

std::uint32_t checksum(const SparseRows& rows) {
  uLong sum = add(0, std::span(&rows.columns, 1));
  sum = add(sum, std::span<const double>(rows.label_values));
  sum = add(sum, rows.starts);
  sum = add(sum, rows.entries);
  return static_cast<std::uint32_t>(add(sum, rows.labels));
}

}  // namespace evenstep::kernels
