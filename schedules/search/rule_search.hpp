#pragma once
// Searches for good rules of order_builder.hpp, from one seed. Only schedules/ includes this header.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/search_effort.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/order_rules.hpp"
#include "schedules/search/rule_draws.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// A set of rules, and the length of the order that they give.
struct RatedRules {
  OrderRules rules{};
  Ns length = kUnknownLength;

  static constexpr Ns kUnknownLength = std::numeric_limits<Ns>::max() / 4;
};

/// A search that starts from one seed.
class RuleSearch {
 public:
  /// Stores no reference. `bound` is a lower bound on the length of every order. An order of this length ends
  /// the search.
  RuleSearch(const OrderCosts& costs, Objective objective, std::uint64_t seed, Ns bound);

  /// Continues the search until it has placed `actions` more actions.
  void go_on(std::int64_t actions);
  void try_rules(const OrderRules& rules);
  const RatedRules& best() const { return best_; }
  bool is_optimal() const { return best_.length <= bound_; }
  std::int64_t placed_actions() const { return whole_.placed_actions() + part_.placed_actions(); }
  std::int64_t actions_of_a_pass() const { return whole_.actions(); }
  /// Returns the order of the best rules. Requires that the search has found an order.
  std::vector<std::vector<Action>> lists();

 private:
  OrderRules next_rules();
  bool is_promising(const OrderRules& rules);

  RuleScale scale_;
  Ns busiest_ = 0;
  Ns bound_ = 0;
  Draws draws_;
  OrderBuilder whole_;
  OrderBuilder part_;  // builds fewer microbatches, which already show warm-up, steady state and drain
  bool has_part_ = false;
  RatedRules best_;
  RatedRules best_of_part_;
};

}  // namespace penstock
