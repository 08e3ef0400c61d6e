// A(i, j, m), for the layers between downsets i and j on m components, by its last stage, which begins behind
// downset k and has r components (PipeDream, SOSP'19, section 3.1):
//
//   A(i, j, m) = min( T(i, j, m),  min over k, r < m of max(A(i, k, m - r), 2 a_k / B, T(k, j, r)) )
//   T(i, j, m) = max(t(i, j), 2 (m - 1) w(i, j) / B) / m
//
// with the time t of the layers on the lowest level, and A of the level below on all its components
// elsewhere.

#include "bench/plain_recurrence.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/partition/layer_graph_downsets.hpp"
#include "scenarios/partition/pipedream_levels.hpp"
#include "schedules/ir/action.hpp"

namespace penstock {
namespace {

using Matrix = std::vector<std::vector<double>>;

constexpr double kNone = std::numeric_limits<double>::infinity();

class Recurrence {
 public:
  Recurrence(const std::vector<Downset>& downsets, Ns overhead_ns)
      : downsets_(downsets), before_(downsets.size()), t_(none()) {
    for (std::size_t j = 0; j < downsets.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        if (!downsets[j].includes(downsets[i])) continue;
        before_[j].push_back(i);
        t_[i][j] = static_cast<double>(downsets[j].time_ns - downsets[i].time_ns + 2 * overhead_ns);
      }
    }
  }

  /// Goes up by one level.
  void combine(const BandwidthLevel& level) {
    Matrix next = none();
    for (std::size_t i = 0; i < downsets_.size(); ++i) next[i] = periods_from(i, level);
    t_ = next;
  }

  /// A(i, j, all components) of the level, by j.
  std::vector<double> periods_from(std::size_t i, const BandwidthLevel& level) const {
    std::vector<std::vector<double>> a(static_cast<std::size_t>(level.components) + 1,
                                       std::vector<double>(downsets_.size(), kNone));
    for (std::size_t m = 1; m < a.size(); ++m) {
      for (std::size_t j = i + 1; j < downsets_.size(); ++j) {
        a[m][j] = stage_ns(i, j, m, level);
        for (const std::size_t k : before_[j]) {
          if (k == i || !downsets_[k].includes(downsets_[i])) continue;
          for (std::size_t r = 1; r < m; ++r)
            a[m][j] = std::min(a[m][j], std::max({a[m - r][k], cut_ns(k, level), stage_ns(k, j, r, level)}));
        }
      }
    }
    return a.back();
  }

 private:
  Matrix none() const { return {downsets_.size(), std::vector<double>(downsets_.size(), kNone)}; }

  double stage_ns(std::size_t i, std::size_t j, std::size_t m, const BandwidthLevel& level) const {
    const auto weights = static_cast<double>(downsets_[j].weights - downsets_[i].weights);
    const auto replicas = static_cast<double>(m);
    return std::max(t_[i][j], 2e9 * (replicas - 1) * weights / level.bytes_per_second) / replicas;
  }

  double cut_ns(std::size_t k, const BandwidthLevel& level) const {
    return 2e9 * static_cast<double>(downsets_[k].alive) / level.bytes_per_second;
  }

  const std::vector<Downset>& downsets_;
  std::vector<std::vector<std::size_t>> before_;  // the downsets that each one includes
  Matrix t_;
};

}  // namespace

double plain_recurrence_period_ns(const LayerGraph& graph, const std::vector<BandwidthLevel>& levels) {
  constexpr std::size_t kMostDownsets = 4096;
  const auto downsets = downsets_of(graph, kMostDownsets).value();
  Recurrence recurrence(downsets, graph.overhead_ns);
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) recurrence.combine(levels[level]);
  return recurrence.periods_from(0, levels.back()).back();
}

}  // namespace penstock
