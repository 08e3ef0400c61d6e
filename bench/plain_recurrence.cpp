// Computes A_l(i, j, m) for the layers between downsets i and j on m components of level l. It chooses the
// last stage, which begins after downset k and has r components:
//
//     A_l(i, j, m) = min( U_l(i, j, m),
//                         min over k, r < m of max( A_l(i, k, m - r), S_l(k, j, r), C_l(k, j, r) ) )
//
// U, S and C are the formulas of pipedream_levels.cpp for each objective. At the lowest level, T is the time
// of the layers. At a higher level, T is A of the next lower level on all its components. L is the number of
// bytes that each device of such a component reduces.

#include "bench/plain_recurrence.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/partition.hpp"
#include "scenarios/partition/pipedream_partition.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using Matrix = std::vector<std::vector<LevelPlan>>;

constexpr LevelPlan kNoPlan = {.period_ns = std::numeric_limits<double>::infinity(), .ring_bytes = 0};

bool is_better(const LevelPlan& a, const LevelPlan& b) {
  return a.period_ns < b.period_ns || (a.period_ns == b.period_ns && a.ring_bytes < b.ring_bytes);
}

class Recurrence {
 public:
  Recurrence(const std::vector<Downset>& downsets, Ns overhead_ns, const PlanOptions& options)
      : downsets_(downsets), options_(options), before_(downsets.size()), t_(none()) {
    for (std::size_t j = 0; j < downsets.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        if (!downsets[j].includes(downsets[i])) continue;
        before_[j].push_back(i);
        t_[i][j] = {
            .period_ns = static_cast<double>(downsets[j].time_ns - downsets[i].time_ns + 2 * overhead_ns),
            .ring_bytes = weights(i, j)};
      }
    }
  }

  /// Computes the next higher level.
  void combine(const BandwidthLevel& level) {
    Matrix next = none();
    for (std::size_t i = 0; i < downsets_.size(); ++i) next[i] = plans_from(i, level);
    t_ = next;
    d_ = level.components;
  }

  /// Returns A(i, j, all components) of the level for each j.
  std::vector<LevelPlan> plans_from(std::size_t i, const BandwidthLevel& level) const {
    const bool straight = options_.form == PlanForm::straight;
    Matrix a(static_cast<std::size_t>(level.components) + 1,
             std::vector<LevelPlan>(downsets_.size(), kNoPlan));
    for (std::size_t m = 1; m < a.size(); ++m) {
      for (std::size_t j = i + 1; j < downsets_.size(); ++j) {
        if (m == 1 || !straight) a[m][j] = stage(i, j, m, level, d_);
        for (const std::size_t k : before_[j]) {
          if (k == i || !downsets_[k].includes(downsets_[i])) continue;
          for (std::size_t r = 1; r < (straight ? std::min<std::size_t>(m, 2) : m); ++r) {
            const LevelPlan split = stage(k, j, r, level, 1);
            const LevelPlan plan = {
                .period_ns = std::max({a[m - r][k].period_ns, split.period_ns, cuts_ns(k, j, r, level)}),
                .ring_bytes = a[m - r][k].ring_bytes + split.ring_bytes};
            if (is_better(plan, a[m][j])) a[m][j] = plan;
          }
        }
      }
    }
    return a.back();
  }

 private:
  Matrix none() const { return {downsets_.size(), std::vector<LevelPlan>(downsets_.size(), kNoPlan)}; }

  double weights(std::size_t i, std::size_t j) const {
    return static_cast<double>(downsets_[j].weights - downsets_[i].weights);
  }

  /// Returns the plan with layers i .. j as one stage on m components. It is U if d is the number of
  /// components of the next lower level, and S if d is 1.
  LevelPlan stage(std::size_t i, std::size_t j, std::size_t m, const BandwidthLevel& level, double d) const {
    const auto replicas = static_cast<double>(m);
    const double b = level.bytes_per_second / 1e9;
    const LevelPlan t = t_[i][j];
    const double w = weights(i, j);
    switch (options_.objective) {
      case PlanObjective::sum:
        return {.period_ns = (t.period_ns + 4 * (replicas - 1) * w / (b * replicas * d)) / replicas,
                .ring_bytes = 0};
      case PlanObjective::maximum_printed:
        return {.period_ns = std::max(t.period_ns, 2 * (replicas - 1) * w / b) / replicas, .ring_bytes = 0};
      case PlanObjective::maximum:
        return {.period_ns = std::max(t.period_ns / replicas,
                                      2 * (replicas - 1) * t.ring_bytes / (b * replicas * replicas)),
                .ring_bytes = t.ring_bytes / replicas};
    }
    return kNoPlan;
  }

  /// Returns C, the time of the cut before the stage k .. j on r components. With the objective `sum`, it
  /// also includes the cut after the stage.
  double cuts_ns(std::size_t k, std::size_t j, std::size_t r, const BandwidthLevel& level) const {
    if (options_.transfers == CutTransfers::free) return 0;
    const double b = level.bytes_per_second / 1e9;
    const double into = 2 * static_cast<double>(downsets_[k].alive) / b;
    if (options_.objective != PlanObjective::sum) return into;
    const double out_of = j + 1 == downsets_.size() ? 0 : 2 * static_cast<double>(downsets_[j].alive) / b;
    return std::max(into, out_of) / static_cast<double>(r);
  }

  const std::vector<Downset>& downsets_;
  const PlanOptions options_;
  std::vector<std::vector<std::size_t>> before_;  // for each downset, the downsets that it includes
  // T by i and j; kNoPlan if downset j does not include i
  Matrix t_;
  double d_ = 1;  // the number of components of the next lower level
};

}  // namespace

double plain_recurrence_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels,
                                  const PlanOptions& options) {
  constexpr std::size_t kMostDownsets = 4096;
  const auto downsets = downsets_of(graph, kMostDownsets).value();
  Recurrence recurrence(downsets, graph.overhead_ns, options);
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) recurrence.combine(levels[level]);
  return recurrence.plans_from(0, levels.back()).back().period_ns;
}

}  // namespace penstock
