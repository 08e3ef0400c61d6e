// Adds up the causes of an explanation.

#include "report/why/explanation.hpp"

#include <numeric>

#include "schedules/ir/action.hpp"

namespace penstock {

Ns sum_of(const CauseTimes& causes) { return std::accumulate(causes.begin(), causes.end(), Ns{0}); }

}  // namespace penstock
