#pragma once
// How many gradient buckets each stage of a scenario has.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "scenarios/scenario.hpp"
#include "schedules/cost_table.hpp"

namespace penstock {

/// One number for each stage of the model, of `schedule.buckets`; none where the scenario has none. One
/// number for all stages is at most the layers of each. Errors: a list of another length, layers that cannot
/// be cut, a program file or stage edges of the model beside buckets.
tl::expected<std::vector<std::int32_t>, std::string> stage_buckets(const Scenario& scenario);

/// Bucket i of a stage that is cut into n equal ones, whose figures add up to the stage's.
StageCost bucket_of(const StageCost& stage, std::int32_t i, std::int32_t n);

}  // namespace penstock
