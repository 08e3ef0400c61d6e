#pragma once
// A shortest cycle among the positions of a stalled program, and what it says.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "schedules/check/channel_check.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

/// The positions that a position waits for.
using WaitsOf = std::function<std::vector<std::int32_t>(std::int32_t)>;
/// Words behind "A waits for B", as ", launched before it"; mostly none.
using WordsOf = std::function<std::string_view(std::int32_t waits, std::int32_t for_that)>;

/// The hang of `flat` where `stalled`, a position a rank that stands still, wait for others, and these again:
/// a shortest cycle of them. Requires that there is one.
Hang hang_of_cycle(const FlatProgram& flat, const std::vector<std::int32_t>& stalled, const WaitsOf& waits_of,
                   const ChannelOptions& channels, const WordsOf& words_of = {});

}  // namespace penstock
