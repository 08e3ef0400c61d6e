#pragma once
// Finds a shortest cycle of waits among the positions of a stalled program, and writes the message about it.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// A function that returns the positions for which the action at a position waits.
using WaitsOf = std::function<std::vector<std::int32_t>(std::int32_t)>;
/// A function that returns the text after "A waits for B", such as ", launched before it". It is usually
/// empty.
using WordsOf = std::function<std::string_view(std::int32_t waits, std::int32_t for_that)>;

/// Returns the hang of the stalled program `flat`, with a shortest cycle of waits. `stalled` has the
/// position at which each stalled rank waits, and `waits_of` the positions that a position waits for.
/// Requires that a cycle exists.
Hang hang_of_cycle(const FlatProgram& flat, const std::vector<std::int32_t>& stalled, const WaitsOf& waits_of,
                   const ChannelOptions& channels, const WordsOf& words_of = {});

}  // namespace penstock
