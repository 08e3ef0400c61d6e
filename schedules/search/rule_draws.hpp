#pragma once
// Draws random rules and random changes of rules. Only schedules/ includes this header.

#include <cstdint>
#include <vector>

#include "schedules/ir/mixed_bits.hpp"
#include "schedules/search/order_rules.hpp"

namespace penstock {

/// A sequence of random draws that depends only on the seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_(mixed(seed)) {}

  double between(double least, double most) { return least + (most - least) * even_draw(key_, count_++); }
  std::int32_t from_to(std::int32_t least, std::int32_t most) {
    return least + static_cast<std::int32_t>(between(0, most - least + 1));
  }
  bool happens(double share) { return between(0, 1) < share; }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

/// The quantities that set the ranges of the draws.
struct RuleScale {
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  /// The number of activations of a stage that fit into a rank's memory.
  double units = 1;
  /// The idle time of the best order in ns, or an estimate.
  double idle_ns = 1;
};

/// Draws all constants anew. Those for several chunks are drawn only if a rank has several chunks.
OrderRules fresh_rules(Draws& draws, const RuleScale& scale);
/// Returns `rules` with one or two random changes.
OrderRules changed_rules(OrderRules rules, Draws& draws, const RuleScale& scale);

}  // namespace penstock
