// Divides layers among stages so that all ranks have nearly equal work. Bisection finds the smallest time T
// that no stage needs to exceed. Then each stage ends at its share of the whole work, rounded up, but T and
// later stages limit it:
//
//   5 layers that cost the same on 4 stages, T = 2:   0 | 1 . 2 | 3 . 4 | 5         2 1 1 1
//   40 layers on 16 stages, T = 3:                    3 2 3 2 3 2 .. 3 2, the longer ones first
//
// The rounding may give all longer stages to one rank. Therefore layers move from the busiest rank to the
// least busy rank while this makes the ranks more equal. layer_split.cpp divides by rules. Tested by
// pricing_test.cpp.

#include "scenarios/pricing/level_layers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "scenarios/pricing/layer_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/index.hpp"

namespace penstock {
namespace {

double seconds_of(const PassTimes& times) {
  return times.forward_s + times.backward_input_s + times.backward_weight_s;
}

class Levelling {
 public:
  Levelling(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
            std::span<const std::int64_t> most_of_rank)
      : times_(times), rank_of_stage_(rank_of_stage), stages_(rank_of_stage.size()), layers_(index_of_end()) {
    set_most(most_of_rank);
    least_.assign(stages_, 1);
    least_.front() = 0;
    least_.back() = 0;
    // least_from_ has, for each stage, the least number of layers of this stage and all later stages.
    least_from_.assign(stages_ + 1, 0);
    for (std::size_t s = stages_; s-- > 0;) least_from_[s] = least_from_[s + 1] + least_[s];
  }

  std::vector<std::int64_t> layers() const {
    const double all = total() + times_.embedding + times_.head;
    if (!can_stay_below(all)) return {};
    double low = all / static_cast<double>(stages_);
    double high = 2 * low;
    while (!can_stay_below(high)) {
      low = high;
      high *= 2;
    }
    // The result is exact to about 1e-5 of a stage's time, and the times of different layers differ by more.
    constexpr int kHalvings = 16;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (can_stay_below(middle) ? high : low) = middle;
    }
    std::vector<std::int64_t> counts = rounded_up(high);
    if (stages_ > static_cast<std::size_t>(std::ranges::max(rank_of_stage_)) + 1) level_ranks(counts);
    return counts;
  }

 private:
  std::int64_t index_of_end() const { return static_cast<std::int64_t>(times_.before.size()) - 1; }
  double total() const { return times_.before.back(); }

  /// Divides the limit of each rank among the rank's stages.
  void set_most(std::span<const std::int64_t> most_of_rank) {
    most_.assign(stages_, layers_);
    if (most_of_rank.empty()) return;
    std::vector<std::int64_t> stages_of(most_of_rank.size(), 0);
    for (const std::int32_t rank : rank_of_stage_) ++stages_of[index(rank)];
    std::vector<std::int64_t> seen(most_of_rank.size(), 0);
    for (std::size_t s = 0; s < stages_; ++s) {
      const std::size_t rank = index(rank_of_stage_[s]);
      const std::int64_t most = most_of_rank[rank];
      most_[s] = most * (seen[rank] + 1) / stages_of[rank] - most * seen[rank] / stages_of[rank];
      ++seen[rank];
    }
  }

  /// Returns the time of the embedding and the head on a stage.
  double ends_of(std::size_t stage) const {
    return (stage == 0 ? times_.embedding : 0) + (stage + 1 == stages_ ? times_.head : 0);
  }

  /// Returns the furthest layer before which a stage that starts at `begin` may end. Returns nothing if even
  /// the least number of layers takes too long.
  std::optional<std::int64_t> farthest_end(std::size_t stage, std::int64_t begin, double longest) const {
    const std::int64_t last = std::min(begin + most_[stage], layers_ - least_from_[stage + 1]);
    const double room = times_.before[index(begin)] + longest - ends_of(stage);
    const auto behind = std::ranges::upper_bound(times_.before, room);
    const std::int64_t end = std::min(last, static_cast<std::int64_t>(behind - times_.before.begin()) - 1);
    if (end < begin + least_[stage]) return std::nullopt;
    return end;
  }

  bool can_stay_below(double longest) const {
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const auto end = farthest_end(s, begin, longest);
      if (!end) return false;
      begin = *end;
    }
    return begin == layers_;
  }

  /// Returns, for each stage, the first layer with which it may begin. Then this stage and all later stages
  /// take at most `longest`.
  std::vector<std::int64_t> earliest_begins(double longest) const {
    std::vector<std::int64_t> begins(stages_ + 1, layers_);
    for (std::size_t s = stages_; s-- > 0;) {
      const std::int64_t end = begins[s + 1];
      const double needed = times_.before[index(end)] + ends_of(s) - longest;
      const auto first = std::ranges::lower_bound(times_.before, needed);
      begins[s] = std::max(static_cast<std::int64_t>(first - times_.before.begin()), end - most_[s]);
      begins[s] = std::max<std::int64_t>(0, std::min(begins[s], end - least_[s]));
    }
    return begins;
  }

  std::vector<std::int64_t> rounded_up(double longest) const {
    const std::vector<std::int64_t> begins = earliest_begins(longest);
    const double all = total() + times_.embedding + times_.head;
    std::vector<std::int64_t> counts;
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const double share = all * static_cast<double>(s + 1) / static_cast<double>(stages_) - times_.embedding;
      // A rounding error in the sum of equal layers must not add a layer.
      const auto ideal = std::ranges::lower_bound(times_.before, share - 1e-9 * all) - times_.before.begin();
      const std::int64_t least = std::max(begins[s + 1], begin + least_[s]);
      const std::int64_t most = std::max(least, farthest_end(s, begin, longest).value_or(least));
      const std::int64_t end = s + 1 == stages_ ? layers_ : std::clamp<std::int64_t>(ideal, least, most);
      counts.push_back(end - begin);
      begin = end;
    }
    return counts;
  }

  /// Returns the unevenness of the ranks, plus a small multiple of the unevenness of the stages.
  double unevenness(const std::vector<std::int64_t>& counts) const {
    constexpr double kOfStages = 1e-3;
    std::vector<double> ranks(static_cast<std::size_t>(std::ranges::max(rank_of_stage_)) + 1, 0);
    double sum = 0;
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const double own = times_.before[index(begin + counts[s])] - times_.before[index(begin)] + ends_of(s);
      begin += counts[s];
      ranks[index(rank_of_stage_[s])] += own;
      sum += kOfStages * own * own;
    }
    for (const double rank : ranks) sum += rank * rank;
    return sum;
  }

  /// Moves layers from the longest stage of the busiest rank to the shortest stage of the least busy rank.
  void level_ranks(std::vector<std::int64_t>& counts) const {
    double now = unevenness(counts);
    for (std::size_t moves = 0; moves < stages_; ++moves) {
      const std::vector<double> ranks = rank_times(times_, counts, rank_of_stage_);
      const auto busiest = static_cast<std::int32_t>(std::ranges::max_element(ranks) - ranks.begin());
      const auto idlest = static_cast<std::int32_t>(std::ranges::min_element(ranks) - ranks.begin());
      std::optional<std::size_t> from;
      std::optional<std::size_t> to;
      for (std::size_t s = 0; s < stages_; ++s) {
        if (rank_of_stage_[s] == busiest && counts[s] > least_[s] && (!from || counts[s] > counts[*from]))
          from = s;
        if (rank_of_stage_[s] == idlest && counts[s] < most_[s] && (!to || counts[s] < counts[*to])) to = s;
      }
      if (!from || !to) return;
      std::vector<std::int64_t> moved = counts;
      --moved[*from];
      ++moved[*to];
      const double then = unevenness(moved);
      if (then >= now) return;
      now = then;
      counts = std::move(moved);
    }
  }

  const LayerTimes& times_;
  std::span<const std::int32_t> rank_of_stage_;
  std::size_t stages_;
  std::int64_t layers_;
  std::vector<std::int64_t> most_;  // the most layers of each stage
  std::vector<std::int64_t> least_;
  std::vector<std::int64_t> least_from_;
};

}  // namespace

LayerTimes layer_times(const Workload& work, const LayerPrices& prices) {
  LayerTimes times{.before = {0}};
  for (std::size_t layer = 0; layer < work.model.layers.size(); ++layer)
    times.before.push_back(times.before.back() + seconds_of(prices.of_layer(layer).times));
  times.embedding = seconds_of(prices.embedding().times);
  const HeadPrice& head = prices.head();
  times.head = seconds_of(head.times);
  // Work that is deferred to the end of the step does not belong to a microbatch.
  if (work.deferred_head) times.head -= head.times.backward_weight_s;
  for (const LayerPrice& layer : head.multi_token) times.head += seconds_of(layer.times);
  return times;
}

std::vector<double> rank_times(const LayerTimes& times, std::span<const std::int64_t> layers,
                               std::span<const std::int32_t> rank_of_stage) {
  std::vector<double> ranks(static_cast<std::size_t>(std::ranges::max(rank_of_stage)) + 1, 0);
  ranks[index(rank_of_stage.front())] += times.embedding;
  ranks[index(rank_of_stage.back())] += times.head;
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    ranks[index(rank_of_stage[s])] += times.before[index(begin + layers[s])] - times.before[index(begin)];
    begin += layers[s];
  }
  return ranks;
}

bool has_layers_for(std::int64_t layers, std::int32_t stages) { return stages <= layers + 2; }

std::vector<std::int64_t> level_layers(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
                                       std::span<const std::int64_t> most_of_rank) {
  return Levelling(times, rank_of_stage, most_of_rank).layers();
}

}  // namespace penstock
