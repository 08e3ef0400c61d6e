#pragma once
// Random rules, and random changes of rules. Private to schedules/.

#include <cstdint>
#include <vector>

#include "schedules/ir/mixed_bits.hpp"
#include "schedules/search/order_rules.hpp"

namespace penstock {

/// Draws that depend on the seed and on how many came before, and on nothing else.
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

/// What rules are drawn for.
struct RuleScale {
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  double units = 1;    ///< activations of a stage that fit into a rank
  double idle_ns = 1;  ///< what the best order pauses, or a guess of it
};

/// Every variable anew; those of several chunks only where there are several.
OrderRules fresh_rules(Draws& draws, const RuleScale& scale);
/// `rules` with one or two changes.
OrderRules changed_rules(OrderRules rules, Draws& draws, const RuleScale& scale);

}  // namespace penstock
