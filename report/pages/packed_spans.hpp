#pragma once
// Packs the spans of a run, that is its actions and messages with their times. See packed_spans.cpp.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/pages/packed_columns.hpp"
#include "report/print/units.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The spans (actions and messages with their times) that a page holds. If the run is long, these are the
/// first and the last spans.
struct HeldSpans {
  std::vector<Span> spans;
  std::optional<std::pair<Ns, Ns>> left_out;  ///< the time whose spans are left out
};

/// Returns the spans that a page holds if it holds at most `most_actions` compute actions.
HeldSpans held_spans(const Timeline& timeline, std::size_t most_actions);

/// All fields of an action except its microbatch and its times. Many actions of a rank have the same code.
/// The page therefore numbers the codes of each rank, and stores only these numbers.
using Code = std::tuple<ActionKind, std::int32_t, std::int32_t, std::int32_t, bool>;

Code code_of(const Span& span);

/// The spans of one rank: the number of the first span, the number after the last one, and the first spans
/// of its compute groups in the order of their starts.
struct PackedRank {
  std::size_t first = 0;
  std::size_t end = 0;
  std::vector<std::int32_t> groups{};
  std::size_t codes = 0;
};

/// Writes the spans of a run into columns.
class SpanPacker {
 public:
  /// `spans` must be sorted by rank. Both arguments must outlive the object.
  SpanPacker(const std::vector<Span>& spans, std::int32_t rank_count, PackedColumns& columns);

  /// Writes all spans. Returns the ranks. Must be called once.
  std::vector<PackedRank> pack();
  /// Returns the number of the code of a span. Each rank numbers its codes in the order of their first spans.
  std::int32_t code_number(std::size_t span) const { return code_[span]; }
  /// Returns the RECV of a compute span, or the compute span that produces a SEND. Returns -1 if there is
  /// none.
  std::int32_t input(std::size_t span) const { return input_[span]; }
  /// Returns the RECV of a SEND or the SEND of a RECV, or -1 if there is none.
  std::int32_t link(std::size_t span) const { return link_[span]; }
  /// Returns the number of the channel of a SEND, which is expected to be one for each ordered pair of ranks.
  std::int64_t channel_of(std::size_t send) const;

 private:
  /// The number and the last span of a code, with the values that the next span of this code is expected to
  /// have.
  struct LastOfCode {
    std::int32_t number = 0;
    std::int32_t microbatch = -1;
    std::int32_t version = 0;
  };
  /// The duration of the last span of a code, and the time for which it held its channel.
  struct LastTimes {
    Ns duration = 0;
    Ns hold = 0;
  };
  /// The state of a rank while its times are written.
  struct Cursor {
    std::size_t next = 0;
    std::int32_t group = -1;  // the last compute span
    std::vector<std::optional<LastTimes>> lasts{};
  };

  void link_messages();
  void pack_actions(PackedRank& rank);
  void pack_code(const Span& span, std::array<std::int32_t, 5>& before);
  void find_inputs(const PackedRank& rank);
  void pack_times();
  void advance(std::size_t rank, bool is_forced);
  bool waits(std::size_t span, std::size_t end);
  void pack_span(Cursor& cursor, std::size_t i, std::size_t end);
  void pack_receive(std::size_t send);
  Ns expected_start(const Cursor& cursor, std::size_t i, std::size_t end) const;
  bool is_linked(std::int32_t receive) const;
  bool opens_group(const Cursor& cursor, std::size_t i) const;

  const std::vector<Span>& spans_;
  PackedColumns& columns_;
  std::vector<PackedRank> ranks_;
  std::vector<std::int32_t> code_;   // of each span, the number of its code
  std::vector<std::int32_t> link_;   // of each SEND its RECV and the other way round, or -1
  std::vector<std::int32_t> input_;  // of each compute span its RECV, of each SEND its producer, or -1
  std::vector<char> is_written_;
  std::vector<char> is_awaited_;
  std::vector<Cursor> cursors_;
  std::vector<std::size_t> ready_;  // ranks that go on, in their order
  std::vector<std::array<std::int32_t, 5>> codes_before_;
  std::unordered_map<std::int64_t, std::int32_t> next_code_;  // after three codes
  std::unordered_map<std::int64_t, Ns> channel_free_;         // by channel_of()
  std::array<LastTimes, kActionKindCount> last_of_kind_{};
};

}  // namespace penstock
