#pragma once
// Searches for good rules for order_builder.hpp, with random numbers from one seed. synthesis.cpp runs
// several of these searches. Only schedules/ includes this header.

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "schedules/ir/mixed_bits.hpp"
#include "schedules/ir/shape.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

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

/// The quantities of a search problem that determine in which ranges the constants of rules are drawn.
struct RuleScale {
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  /// The number of activations of one stage that fit into the memory of a rank.
  double units = 1;
  /// The idle time in ns of a rank in the best order so far, or an estimate of it.
  double idle_ns = 1;
};

/// Returns rules in which all constants are drawn at random. Constants that matter only for several chunks
/// are drawn only if a rank has several chunks.
OrderRules fresh_rules(Draws& draws, const RuleScale& scale);
/// Returns `rules` with one or two of the constants changed at random.
OrderRules changed_rules(OrderRules rules, Draws& draws, const RuleScale& scale);

/// A set of rules, and the length of the order that they give.
struct RatedRules {
  OrderRules rules{};
  Ns length = kUnknownLength;

  static constexpr Ns kUnknownLength = std::numeric_limits<Ns>::max() / 4;
};

/// A search for good rules that starts from one seed.
class RuleSearch {
 public:
  /// Prepares a search, and stores no reference to its arguments. `bound` is a lower bound on the length of
  /// every order. The search ends when it finds an order of this length.
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
