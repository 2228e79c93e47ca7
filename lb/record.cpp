#include "lb/record.h"

#include <algorithm>

namespace evenstep::lb {
namespace {

constexpr std::int64_t digit_base = std::int64_t{1} << 24;

// One list of the fields serves both directions: Coder is a Writer or a Reader.
template <typename Coder, typename RecordRef>
void each_field(Coder& coder, RecordRef& record) {
  coder.one_digit(record.step);
  coder.one_digit(record.partition_hash);
  coder.one_digit(record.parameter_hash);
  coder.one_digit(record.flags);
  coder.two_digits(record.samples);
  coder.two_digits(record.own_ns);
  coder.two_digits(record.wait_ns);
  coder.two_digits(record.fixed_ns);
  coder.two_digits(record.per_sample_ps);
  coder.two_digits(record.floor_ns);
  coder.two_digits(record.least);
  coder.two_digits(record.most);
  coder.one_digit(record.cpu_available);
  coder.one_digit(record.memory_available);
}

template <typename Real>
struct Writer {
  Real* next;

  void put(std::int64_t digit) { *next++ = static_cast<Real>(digit); }
  void one_digit(std::uint32_t field) { put(std::min<std::int64_t>(field, digit_base - 1)); }
  void two_digits(std::int64_t field) {
    const std::int64_t clamped = std::clamp<std::int64_t>(field, 0, largest_field);
    put(clamped / digit_base);
    put(clamped % digit_base);
  }
};

template <typename Real>
struct Reader {
  const Real* next;
  bool valid = true;

  std::int64_t get() {
    const Real number = *next++;
    if (!(number >= 0 && number < static_cast<Real>(digit_base))) return reject();
    const auto digit = static_cast<std::int64_t>(number);
    return static_cast<Real>(digit) == number ? digit : reject();
  }
  std::int64_t reject() {
    valid = false;
    return 0;
  }
  void one_digit(std::uint32_t& field) { field = static_cast<std::uint32_t>(get()); }
  void two_digits(std::int64_t& field) {
    const std::int64_t high = get();
    field = high * digit_base + get();
  }
};

constexpr double largest_digit = static_cast<double>(digit_base - 1);

}  // namespace

constexpr double cores_unit = 65536;

std::uint32_t encode_cores(double cores) { return encode_mebibytes(cores * cores_unit); }
double cores_of(std::uint32_t cpu_available) { return cpu_available / cores_unit; }

std::uint32_t encode_mebibytes(double mebibytes) {
  // Also where it is not a number.
  return mebibytes > 0 ? static_cast<std::uint32_t>(std::min(mebibytes, largest_digit)) : 0;
}

template <typename Real>
void encode(const Record& record, std::span<Real> digits) {
  Writer<Real> writer{digits.data()};
  each_field(writer, record);
}

template <typename Real>
std::optional<Record> decode(std::span<const Real> digits) {
  Record record;
  Reader<Real> reader{digits.data()};
  each_field(reader, record);
  return reader.valid ? std::optional(record) : std::nullopt;
}

template void encode(const Record&, std::span<float>);
template void encode(const Record&, std::span<double>);
template std::optional<Record> decode(std::span<const float>);
template std::optional<Record> decode(std::span<const double>);

}  // namespace evenstep::lb
