#pragma once
// Max-min fair sharing of link bandwidth among flows: the network model of the event engine.

#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// Rates of flows over shared links.
///
/// The allocation is max-min fair: sum of the rates over each link <= its capacity, and no flow's rate can
/// be raised without lowering that of a flow that has no more. Found by progressive filling: all unfixed
/// flows rise together until some link is full, rho = min over links of (free capacity / unfixed
/// flows); the flows on that link are fixed at rho, and so on (Bertsekas and Gallager, "Data Networks",
/// section 6.5.2).
///
/// `capacities`: bytes per second of each link, > 0, may be infinite. `routes`: for each flow the links that
/// it crosses, each at most once. A flow without a limiting link gets an infinite rate.
std::vector<double> max_min_share(std::span<const double> capacities,
                                  std::span<const std::vector<std::int32_t>> routes);

}  // namespace penstock
