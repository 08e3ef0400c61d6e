#pragma once
// Checks the limits of a partitioner before it fills a table. A table has an entry for each downset, each
// downset that may follow it, and each number of components:
//
//   entries of a level = downsets * (downsets, or 1 at the highest level) * components
//
// Used by pipedream_partition.cpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns an error if a table has more than 2^25 entries, which take 512 MiB.
tl::expected<void, std::string> check_tables(std::size_t downsets, std::span<const BandwidthLevel> levels);

/// Returns an error if no device can hold some layer, even alone and with one minibatch in flight.
tl::expected<void, std::string> check_layers(const LayerGraph& graph, Bytes limit,
                                             std::int64_t state_bytes_per_weight_byte);

}  // namespace penstock
