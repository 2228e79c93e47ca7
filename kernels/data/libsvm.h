// Reader for the sparse text of LIBSVM, LIBLINEAR and SVMlight, plain or gzipped: a line a row,
//     label index:value index:value ...
// with ascending indices from 1. Blank lines, text after a #, CRLF and a last line without an end
// are taken; absent indices are zero.
#pragma once

#include <filesystem>

#include "kernels/data/sparse.h"

namespace evenstep::kernels {

/// Reads a training set: exactly two different labels, and as many columns as its highest index,
/// numbered by their entries (sparse.h).
/// Throws DataError with file, line, what is there and what was expected.
SparseRows read_libsvm(const std::filesystem::path& path);

/// Reads a test set for a model of `training`: the same labels; what lies in columns that the
/// training set does not have is left out, as in LIBLINEAR.
SparseRows read_libsvm_test(const std::filesystem::path& path, const SparseRows& training);

/// As read_libsvm, from the binary copy `cache` where that is of the file as it is now (size and
/// time of change); else reads the text and writes the copy, aside and renamed. The copy is mapped,
/// so that the ranks of a node share it. Throws DataError also for a `cache` that is something else
/// or corrupt.
SparseRows read_libsvm_cached(const std::filesystem::path& path,
                              const std::filesystem::path& cache);

}  // namespace evenstep::kernels
