// The tail of a step's all-reduce: which numbers travel behind the gradients, and where. It is
// always there and always the same size, balancing on or off, since it moves the chunk edges of
// ring algorithms and with them the gradients' last bits. It takes no part in scaling, clipping or
// averaging.
//
// Slots, for few ranks: everyone's record in every step.
//
//     [ plain sums: weight, loss, the user's metrics ][ slot of rank 0 ] ... [ slot of rank N-1 ]
//
// Rotating, for many: as long as for a few hundred ranks, whatever their number.
//
//     [ plain sums ][ ranks with each flag ][ digest ][ W rotating slots ][ U contention slots ]
//
// Everyone's turn in the rotating slots comes round. Whose record is news contends in between: it
// picks a contention slot by a hash of its rank and the turn, and adds (1, rank, record). A slot
// that sums to a count of 1 holds a record; at more, records collided and their ranks try again.
// The counts tell everyone how many contended, and so how many should at the next step (slotted
// ALOHA with a known backlog: about U/e get through a step, however many wait). A rank knows that
// it got through where its record is fresh. A record stands until a newer one comes.
//
// All ranks put the same hash of step, partition and parameters into the digest. Its sum is N times
// that, or someone differs.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

#include "lb/record.h"

namespace evenstep::lb {

enum class TailForm { slots, rotating };

/// More ranks than this rotate unless told otherwise.
inline constexpr int most_slots = 256;
/// Counts must stay whole numbers that fp32 holds.
inline constexpr int most_ranks_of_tail = 1 << 18;

/// "slots", "rotating" or "auto", which goes by the number of ranks. Throws std::invalid_argument
/// for another name, and for more ranks than a tail can have.
TailForm tail_form(std::string_view name, int ranks);
std::span<const std::string_view> tail_names();

/// What a step's tail says, other than records and sums.
struct News {
  std::array<std::int64_t, flag_bits> flags{};  ///< ranks with each Flag bit
  bool agree = true;    ///< all ranks are at one step, with the same partition and parameters
  int unreadable = -1;  ///< the lowest rank whose record is no record, or -1
  /// So many ranks wait to tell their news that what is known of all is not to be acted upon yet:
  /// what is taken from ranks known to be slow would go to such as are slow, too.
  bool much_to_come = false;

  std::int64_t count(Flag flag) const {
    return flags[static_cast<std::size_t>(std::countr_zero(std::uint32_t{flag}))];
  }
};

/// The layout, and what all ranks know of who waits for a slot. Replicated: the same calls of read
/// on all ranks.
class Tail {
 public:
  /// `sums`: how many plain sums travel, the same on all ranks.
  Tail(TailForm form, int ranks, int sums);

  int ranks() const { return ranks_; }
  TailForm form() const { return form_; }
  /// Length in elements.
  std::size_t size() const;

  /// Before the all-reduce: this rank's sums and record, zeros elsewhere. `is_news`: the record
  /// should not wait for the rank's turn.
  template <typename Real>
  void write(std::span<Real> tail, int rank, const Record& record, bool is_news,
             std::span<const double> sums) const;

  /// After the all-reduce: the sums over all ranks, and the records that came; the others get
  /// flag_stale and are left as they were. A rank whose record cannot be read has none.
  template <typename Real>
  News read(std::span<const Real> tail, std::span<double> sums, std::span<Record> records);

 private:
  bool is_turn(int rank) const;
  int rank_in_turn(int slot) const;
  bool contends(int rank) const;
  int copies() const;
  int contention_slot(int rank, int copy) const;
  std::size_t rotating_at(int slot) const;
  std::size_t contention_at(int slot) const;
  template <typename Real>
  void write_rotating(std::span<Real> tail, int rank, const Record& record, bool is_news) const;
  template <typename Real>
  News read_slots(std::span<const Real> tail, std::span<Record> records) const;
  template <typename Real>
  News read_rotating(std::span<const Real> tail, std::span<Record> records);
  template <typename Real>
  void read_contended(std::span<const Real> tail, std::span<Record> records, News& news);
  bool is_much_to_come();

  TailForm form_;
  int ranks_;
  int sums_;
  int rotating_ = 0;             // W
  int contended_ = 0;            // U
  std::int64_t turn_ = 0;        // steps read
  std::int64_t waiting_ = 0;     // ranks thought to wait for a contention slot
  std::int64_t much_waits_ = 0;  // steps in a row
};

}  // namespace evenstep::lb
