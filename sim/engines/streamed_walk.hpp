#pragma once
// A program timed while its lists are spelled out from loops (action_loops.hpp), with nothing stored. Where
// its state repeats, it jumps. Held against the other engines by tests/sim/streamed_walk_test.cpp.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "report/result/metrics.hpp"
#include "report/result/result.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/action_loops.hpp"
#include "sim/engines/period.hpp"

namespace penstock {

/// What a rank sends another over all of a run.
struct RankTraffic {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Bytes bytes = 0;
};

/// What a streamed walk says. The figures are those of a stored run, but for what needs its spans.
struct StreamedRun {
  Ns makespan_ns = 0;
  std::vector<RankFigures> ranks;  ///< with their memory, without names of devices
  std::vector<RankTraffic> traffic;
  std::int64_t messages = 0;  ///< between ranks
  std::int64_t actions = 0;   ///< compute actions that were walked
  std::int64_t jumped = 0;    ///< and that were jumped over
  /// Of the last jump: by how much time and by how many microbatches the state repeats.
  std::optional<Ns> period_ns;
  std::int64_t period_microbatches = 0;
};

enum class Jumps : std::uint8_t {
  taken,
  left_out,  // every action is walked
};

/// Walks through the lists, whose program is the experiment's but for its own lists, which are not read.
/// Every transfer has its route to itself. Memory is of the order of the stored loops and of the messages
/// under way. Requires that not_streamed() (streamable.hpp) says nothing. Error: the order cannot be
/// executed, or collectives have none.
tl::expected<StreamedRun, std::string> stream(const Experiment& experiment,
                                              std::span<const ActionLoops> lists, Jumps jumps = Jumps::taken);

/// The period of a synchronous program that is repeated without end, as steady_period(). Empty where none
/// shows within 64 passes or 2^22 actions that had to be walked. Requires what stream() does.
std::optional<Period> streamed_period(const Experiment& experiment, std::span<const ActionLoops> lists);

}  // namespace penstock
