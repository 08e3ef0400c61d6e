#pragma once
// Finds out why a pipeline hangs: which rank hangs, and at which action. The input is the flight
// recorder's dumps of all ranks.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "schedules/ir/program.hpp"
#include "sim/autopsy/flight_recorder.hpp"
#include "text/enum_words.hpp"  // IWYU pragma: export

namespace penstock {

enum class HangKind : std::uint8_t {
  order,       // the rank posted other messages than its list has
  gone,        // the rank has no dump, and others wait for it
  stuck,       // the rank waits for nobody and does not end an action
  cycle,       // ranks wait for each other
  collective,  // the rank has not joined a collective
};
template <>
inline constexpr auto kEnumWords<HangKind> =
    std::to_array<EnumWord<HangKind>>({{HangKind::order, "order"},
                                       {HangKind::gone, "gone"},
                                       {HangKind::stuck, "stuck"},
                                       {HangKind::cycle, "cycle"},
                                       {HangKind::collective, "collective"}});

/// The reason why a pipeline hangs.
struct HangVerdict {
  HangKind kind = HangKind::stuck;
  std::int64_t rank = 0;
  std::string
      action;  ///< for order the message that is missing, otherwise the action that does not end or start
  std::int64_t iteration = 0;
  std::string why;                   ///< one sentence
  std::vector<std::string> waits{};  ///< "rank 1 waits at 1F3 for 0SEND_F3 of rank 0", one line a rank
};

/// Returns the reason why the pipeline hangs, or nothing if the dumps show no hang. `lowered` has the lists
/// that the ranks should have run. Returns an error if the dumps have more ranks than `lowered`.
tl::expected<std::optional<HangVerdict>, std::string> find_recorded_hang(const std::vector<RankDump>& dumps,
                                                                         const Program& lowered);

/// Returns the number of ranks of the pipeline. It is the size of the process group of the messages. If no
/// dump states the group, it follows from the largest rank number in the dumps.
std::int64_t ranks_of_dumps(const std::vector<RankDump>& dumps);

/// Return the reason of a hang: to_text() as text, hang_to_json() as the JSON object {"hang": {...}}.
std::string to_text(const std::optional<HangVerdict>& verdict);
std::string hang_to_json(const std::optional<HangVerdict>& verdict);

}  // namespace penstock
