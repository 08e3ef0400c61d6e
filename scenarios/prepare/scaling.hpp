#pragma once
// The rule that scales figures from one number of samples to another: figure * wanted / own, rounded to the
// nearest. Used by stage_costs.cpp and planned_scenario.cpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// The number of samples for which figures hold, and the number for which they are wanted. Both are >= 1.
struct Scaling {
  std::int64_t own = 1;
  std::int64_t wanted = 1;
};

/// Scales figures >= 0 and records if one exceeded 64 bits. After an overflow its results have no meaning.
class Scaler {
 public:
  explicit Scaler(Scaling scaling) : scaling_(scaling) {}

  std::int64_t operator()(std::int64_t figure);
  /// Adds overhead to a duration that is already scaled.
  Ns with_overhead(Ns scaled_ns, Ns overhead_ns);

  bool overflowed() const { return overflowed_; }
  /// Returns the error message for an overflow.
  std::string overflow() const;

 private:
  Scaling scaling_;
  bool overflowed_ = false;
};

// --- scaled layers ---------------------------------------------------------------------------------------

/// Returns the layers with times and bytes scaled to another number of samples. Error: a figure that exceeds
/// 2^63.
tl::expected<LayerGraph, std::string> scaled_layers(LayerGraph graph, Scaling scaling);

}  // namespace penstock
