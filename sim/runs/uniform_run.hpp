#pragma once
// A generated program on links that nobody shares: what figures of papers and tables of schedules are made
// of.

#include <string>
#include <tl/expected.hpp>

#include "report/result/result.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"
#include "sim/runs/simulate.hpp"

namespace penstock {

/// Lowers a compute program and predicts it on one device a rank, with links of unlimited bandwidth and the
/// given latency. Error: it cannot be lowered, has more ranks than a uniform cluster has devices, or hangs.
tl::expected<Result, std::string> simulate_uniform(const Program& program, const CostTable& costs,
                                                   Ns latency_ns, SteadyState steady);

}  // namespace penstock
