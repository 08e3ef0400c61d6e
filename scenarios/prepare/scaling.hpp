#pragma once
// The one rule by which figures that hold for some samples become those of others: figure * wanted / own,
// rounded to the nearest. Used by stage_costs.cpp and planned_scenario.cpp.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "scenarios/model/model.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {

/// Figures hold for `own` samples and are wanted for `wanted`; both >= 1.
struct Scaling {
  std::int64_t own = 1;
  std::int64_t wanted = 1;
};

/// Scales figures, which are >= 0, and remembers whether one went beyond 64 bits; what it returned then means
/// nothing.
class Scaler {
 public:
  explicit Scaler(Scaling scaling) : scaling_(scaling) {}

  std::int64_t operator()(std::int64_t figure);
  /// Of a duration that is scaled already.
  Ns with_overhead(Ns scaled_ns, Ns overhead_ns);

  bool overflowed() const { return overflowed_; }
  /// Says so to the user.
  std::string overflow() const;

 private:
  Scaling scaling_;
  bool overflowed_ = false;
};

// --- scaled layers ---------------------------------------------------------------------------------------

/// Times and bytes scaled to other samples. Error: a figure beyond 2^63.
tl::expected<LayerGraph, std::string> scaled_layers(LayerGraph graph, Scaling scaling);

}  // namespace penstock
