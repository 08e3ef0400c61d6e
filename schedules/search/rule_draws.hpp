#pragma once
// Random rules and random changes of rules. Only schedules/ includes this header.

#include <cstdint>
#include <vector>

#include "schedules/ir/mixed_bits.hpp"
#include "schedules/search/order_rules.hpp"

namespace penstock {

/// A sequence of draws that depends only on the seed.
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

/// The scale on which rules are drawn.
struct RuleScale {
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  /// The activations of a stage that fit into a rank.
  double units = 1;
  /// The idle time of the best order, or a guess of it.
  double idle_ns = 1;
};

/// Draws all variables anew; those about several chunks only if there are several.
OrderRules fresh_rules(Draws& draws, const RuleScale& scale);
/// Returns `rules` with one or two changes.
OrderRules changed_rules(OrderRules rules, Draws& draws, const RuleScale& scale);

}  // namespace penstock
