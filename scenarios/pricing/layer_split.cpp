// Divides n layers among s stages by a rule or by one of Megatron's layouts. The rule `even` gives n/s layers
// to each stage. The rule `ends-one-less` gives (n + 2)/s, and the embedding and the head replace one layer
// each (Megatron's account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split). A layout
// is expanded, and then its layers are counted stage by stage. level_layers() divides by the times of layers.
// Tested by pricing_test.cpp.

#include "scenarios/pricing/layer_split.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/algorithm/string/split.hpp>
#include <tl/expected.hpp>

#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/index.hpp"
#include "text/numbers.hpp"

namespace penstock {

namespace {

/// The largest number of letters in an expanded layout. No model has so many layers, and such a layout takes
/// 1 MiB.
constexpr std::size_t kLongestLayout = std::size_t{1} << 20;

using NamedRule = std::pair<std::string_view, LayerSplit::Rule>;
constexpr std::array<NamedRule, 3> kSplitRules = {{{"even", LayerSplit::Rule::even},
                                                   {"ends-one-less", LayerSplit::Rule::ends_one_less},
                                                   {"balanced", LayerSplit::Rule::balanced}}};

using Text = tl::expected<std::string, std::string>;

/// A parser for a pipeline layout of Megatron-LM. It expands the repetitions "x*n" and "(..)*n".
class LayoutSpeller {
 public:
  explicit LayoutSpeller(std::string_view text) : text_(text) {}

  Text all() {
    auto spelt = sequence();
    if (spelt && at_ < text_.size()) return fault("the end or one of E t m L |");
    return spelt;
  }

 private:
  tl::unexpected<std::string> fault(std::string_view expected) const {
    const std::string found =
        at_ < text_.size() ? fmt::format("\"{}\"", text_.substr(at_, 8)) : std::string("nothing");
    return tl::unexpected(
        fmt::format("layout \"{}\", character {}: expected {}, got {}", text_, at_ + 1, expected, found));
  }

  /// Returns the expanded layout up to the end of the text or up to a closing bracket. group() reads the
  /// bracket itself.
  Text sequence() {
    std::string spelt;
    while (at_ < text_.size() && text_[at_] != ')') {
      auto part = text_[at_] == '(' ? group() : letter();
      if (!part) return part;
      const auto times = repetition();
      if (!times) return tl::unexpected(times.error());
      // The size is checked before the repetition, because nested brackets multiply it. Both factors are at
      // most 2^20, so their product fits in 64 bits.
      if (spelt.size() + part->size() * static_cast<std::size_t>(*times) > kLongestLayout) {
        return fault("fewer layers and stages");
      }
      for (std::int64_t i = 0; i < *times; ++i) spelt += *part;
    }
    return spelt;
  }

  Text group() {
    // Each bracket is a recursive call, so the depth is limited.
    if (++depth_ > 8) return fault("fewer brackets");
    ++at_;
    auto inner = sequence();
    if (!inner) return inner;
    if (at_ >= text_.size()) return fault("a closing bracket");
    ++at_;
    --depth_;
    return inner;
  }

  Text letter() {
    const char c = text_[at_];
    if (std::string_view("EtmL|, ").find(c) == std::string_view::npos) return fault("one of E t m L | ( )");
    ++at_;
    // A comma or a blank only separates letters and has no other meaning.
    return c == ',' || c == ' ' ? std::string() : std::string(1, c);
  }

  /// Returns the n of a repetition "*n". Returns 1 if there is no repetition. The n may be 0.
  tl::expected<std::int64_t, std::string> repetition() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    ++at_;
    const auto times = leading_number<std::int64_t>(text_.substr(at_));
    const bool fits =
        times.value && *times.value >= 0 && *times.value <= static_cast<std::int64_t>(kLongestLayout);
    if (!fits) return fault("a number behind *");
    at_ += times.spelling.size();
    return *times.value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

std::vector<std::string> stages_of(std::string_view layout) {
  std::vector<std::string> stages;
  boost::algorithm::split(stages, layout, [](char c) { return c == '|'; });
  return stages;
}

/// Returns the numbers of the stages whose layout contains the letter, counted from 0.
std::vector<std::size_t> stages_with(const std::vector<std::string>& stages, char letter) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].find(letter) != std::string::npos) found.push_back(i);
  }
  return found;
}

/// Returns the rule of Megatron-LM that a layout breaks, or nothing. The embedding must come first and the
/// loss last. Layers of multi-token prediction must follow all other layers, because they read their
/// results.
std::optional<std::string> layout_fault(const std::vector<std::string>& stages) {
  const auto embedding = stages_with(stages, 'E');
  if (embedding != std::vector<std::size_t>{0} || stages.front().rfind('E') != 0)
    return "expected E once, at the front of the first stage";
  const auto losses = stages_with(stages, 'L');
  if (losses.size() > 1) {
    return fmt::format(
        "expected L once, at the end of the last stage, got it on the stages {}; one stage computes the "
        "loss, "
        "and all layers are before it",
        fmt::join(losses, " and "));
  }
  if (losses != std::vector<std::size_t>{stages.size() - 1} ||
      stages.back().find('L') + 1 != stages.back().size())
    return "expected L once, at the end of the last stage";
  const auto predictions = stages_with(stages, 'm');
  if (predictions.empty()) return std::nullopt;
  const std::size_t first = predictions.front();
  const auto layers = stages_with(stages, 't');
  const bool is_in_front =
      stages[first].rfind('t') != std::string::npos && stages[first].rfind('t') > stages[first].find('m');
  if (is_in_front || (!layers.empty() && layers.back() > first)) {
    return fmt::format(
        "expected the multi-token-prediction layers (m) behind all layers (t), which they read, got them on "
        "stage {} before a layer",
        first);
  }
  return std::nullopt;
}

tl::expected<LayerSplit, std::string> parse_layout(std::string_view text) {
  const auto spelt = LayoutSpeller(text).all();
  if (!spelt) return tl::unexpected(spelt.error());
  const std::vector<std::string> stages = stages_of(*spelt);
  if (const auto fault = layout_fault(stages))
    return tl::unexpected(fmt::format("layout \"{}\": {}", text, *fault));
  LayerSplit split{.rule = LayerSplit::Rule::listed};
  // Only layers are counted, because the costs of the embedding and the head are computed separately.
  for (const std::string& stage : stages) split.counts.push_back(std::ranges::count(stage, 't'));
  if (stages_with(stages, 'm').empty()) return split;
  for (const std::string& stage : stages) split.predictions.push_back(std::ranges::count(stage, 'm'));
  return split;
}

/// Returns the layout text for `count` equal letters: "t*3" for three, "t" for one, and an empty text for
/// none.
std::string repeated(char letter, std::int64_t count) {
  if (count == 0) return "";
  return count == 1 ? std::string(1, letter) : fmt::format("{}*{}", letter, count);
}

}  // namespace

tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text) {
  for (const auto& [name, rule] : kSplitRules) {
    if (text == name) return LayerSplit{.rule = rule};
  }
  // Every layout has an L for the loss, while the names of rules have no capital letter.
  if (text.find('L') != std::string_view::npos) return parse_layout(text);
  return tl::unexpected(
      fmt::format("expected even, ends-one-less, balanced, a Megatron layout such as \"Et*3|t*4|t*3L\" or a "
                  "list of layers a stage, got \"{}\"",
                  text));
}

std::string to_text(const LayerSplit& split) {
  if (!split.predictions.empty()) return layout_of(split, 0);
  if (split.rule == LayerSplit::Rule::listed) return fmt::format("[{}]", fmt::join(split.counts, ", "));
  const auto named = std::ranges::find(kSplitRules, split.rule, &NamedRule::second);
  return named == kSplitRules.end() ? "even, or balanced where the layers do not divide"
                                    : std::string(named->first);
}

std::int64_t prediction_count(const LayerSplit& split) {
  return std::accumulate(split.predictions.begin(), split.predictions.end(), std::int64_t{0});
}

std::string layout_of(const LayerSplit& split, std::int64_t on_last) {
  std::vector<std::string> stages;
  for (std::size_t i = 0; i < split.counts.size(); ++i) {
    const bool is_last = i + 1 == split.counts.size();
    const std::int64_t of_last = is_last ? on_last : 0;
    const std::int64_t predictions = split.predictions.empty() ? of_last : split.predictions[i];
    stages.push_back(fmt::format("{}{}{}{}", i == 0 ? "E" : "", repeated('t', split.counts[i]),
                                 repeated('m', predictions), is_last ? "L" : ""));
  }
  return fmt::format("{}", fmt::join(stages, "|"));
}

LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages) {
  if (split.rule != LayerSplit::Rule::unstated) return split.rule;
  return layers % stages == 0 ? LayerSplit::Rule::even : LayerSplit::Rule::balanced;
}

tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages) {
  const LayerSplit::Rule rule = rule_in_force(split, layers, stages);
  if (rule == LayerSplit::Rule::balanced) throw std::logic_error("layers are balanced without their prices");
  const std::int64_t ends = rule == LayerSplit::Rule::ends_one_less ? 1 : 0;
  if (rule == LayerSplit::Rule::listed) {
    if (split.counts.size() != static_cast<std::size_t>(stages)) {
      return tl::unexpected(
          fmt::format("layer_split lists {} stages, the schedule has {}", split.counts.size(), stages));
    }
    const std::int64_t sum = std::accumulate(split.counts.begin(), split.counts.end(), std::int64_t{0});
    if (sum != layers) {
      return tl::unexpected(fmt::format("layer_split lists {} layers, the model has {}", sum, layers));
    }
    return split.counts;
  }
  // Embedding and head each count as one layer.
  const std::int64_t all = layers + 2 * ends;
  if (all % stages != 0) {
    // The message suggests the other rule if this rule can divide the layers.
    const std::int64_t others = ends > 0 ? layers : layers + 2;
    const std::string_view other = ends > 0 ? "even" : "ends-one-less";
    const std::string hint =
        others % stages == 0
            ? fmt::format("take {}, which divides ({})", other,
                          ends > 0 ? fmt::format("{} = {} x {}", layers, layers / stages, stages)
                                   : fmt::format("{} + 2 = {}", layers, others))
            : std::string("choose other stages or virtual stages");
    return tl::unexpected(
        fmt::format("{} layers{} do not divide over {} stages (layer_split: {}); {}, take balanced, or list "
                    "the layers of each stage",
                    layers, ends > 0 ? " and the two ends" : "", stages, to_text(split), hint));
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), all / stages);
  counts.front() -= ends;
  counts.back() -= ends;
  // No count becomes negative: an end is subtracted from a stage that has at least one layer, and from a
  // single stage both ends are subtracted.
  return counts;
}

// Divides layers among stages so that all ranks have nearly equal work. Bisection finds the smallest time T
// with which all stages can contain the layers. Then each stage ends at its share of the whole work, rounded
// up. The time T and the least layers of later stages limit this end:
//
//   5 layers that cost the same on 4 stages, T = 2:   0 | 1 . 2 | 3 . 4 | 5         2 1 1 1
//   40 layers on 16 stages, T = 3:                    3 2 3 2 3 2 .. 3 2, the longer ones first
//
// On unlike devices, the room of a stage is T divided by the slowness of its device, and its share of the
// work is smaller by the same factor.
//
// Because of the rounding, one rank may have all longer stages. So layers are moved from the busiest rank to
// the least busy rank as long as this makes the ranks more equal. Tested by pricing_test.cpp.

namespace {

double seconds_of(const PassTimes& times) {
  return times.forward_s + times.backward_input_s + times.backward_weight_s;
}

class Levelling {
 public:
  Levelling(const LayerTimes& times, std::span<const std::int32_t> rank_of_stage,
            std::span<const std::int64_t> most_of_rank, std::span<const double> slowness)
      : times_(times), rank_of_stage_(rank_of_stage), stages_(rank_of_stage.size()), layers_(index_of_end()) {
    set_most(most_of_rank);
    slowness_.assign(stages_, 1);
    for (std::size_t s = 0; s < stages_ && !slowness.empty(); ++s)
      slowness_[s] = slowness[index(rank_of_stage_[s])];
    speed_before_ = {0};
    for (const double slower : slowness_) speed_before_.push_back(speed_before_.back() + 1 / slower);
    least_.assign(stages_, 1);
    least_.front() = 0;
    least_.back() = 0;
    // least_from_ has, for each stage, the least number of layers of this stage and all later stages.
    least_from_.assign(stages_ + 1, 0);
    for (std::size_t s = stages_; s-- > 0;) least_from_[s] = least_from_[s + 1] + least_[s];
  }

  std::vector<std::int64_t> layers() const {
    if (!can_stay_below(std::numeric_limits<double>::infinity())) return {};
    double low = (total() + times_.embedding + times_.head) / speed_before_.back();
    double high = 2 * low;
    while (!can_stay_below(high)) {
      low = high;
      high *= 2;
    }
    // The result is exact to about 1e-5 of a stage's time. The times of different layers differ by more than
    // that.
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

  /// Sets the largest number of layers of each stage. Each rank's limit is divided among the stages of the
  /// rank. Without limits, each stage may have all layers.
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

  /// Returns the time of the embedding and the head, if they are on this stage.
  double ends_of(std::size_t stage) const {
    return (stage == 0 ? times_.embedding : 0) + (stage + 1 == stages_ ? times_.head : 0);
  }

  /// Returns the latest end of a stage that begins at layer `begin`, so that it takes at most `longest`.
  /// Returns nothing if even the least number of layers takes too long. The search starts at layer `near`.
  /// Stages have similar numbers of layers, so a good start is the end of an equally large stage.
  std::optional<std::int64_t> farthest_end(std::size_t stage, std::int64_t begin, double longest,
                                           std::int64_t near) const {
    const std::int64_t last = std::min(begin + most_[stage], layers_ - least_from_[stage + 1]);
    const double room = times_.before[index(begin)] + longest / slowness_[stage] - ends_of(stage);
    // The prefix sums never fall, so the walk ends at the last layer count whose time is within the room.
    std::int64_t end = std::min(last, near);
    while (end >= begin && times_.before[index(end)] > room) --end;
    while (end < last && times_.before[index(end + 1)] <= room) ++end;
    if (end < begin + least_[stage]) return std::nullopt;
    return end;
  }

  bool can_stay_below(double longest) const {
    std::int64_t begin = 0;
    std::int64_t count = 0;  // number of layers of the stage before
    for (std::size_t s = 0; s < stages_; ++s) {
      const auto end = farthest_end(s, begin, longest, begin + count);
      if (!end) return false;
      count = *end - begin;
      begin = *end;
    }
    return begin == layers_;
  }

  /// Returns, for each stage, the first layer at which it may begin. From there, this stage and all later
  /// stages can each take at most `longest`.
  std::vector<std::int64_t> earliest_begins(double longest) const {
    std::vector<std::int64_t> begins(stages_ + 1, layers_);
    for (std::size_t s = stages_; s-- > 0;) {
      const std::int64_t end = begins[s + 1];
      const double needed = times_.before[index(end)] + ends_of(s) - longest / slowness_[s];
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
      const double share = all * speed_before_[s + 1] / speed_before_.back() - times_.embedding;
      // A rounding error in the sum of equal layers must not add a layer.
      const auto ideal = std::ranges::lower_bound(times_.before, share - 1e-9 * all) - times_.before.begin();
      const std::int64_t least = std::max(begins[s + 1], begin + least_[s]);
      const std::int64_t most = std::max(least, farthest_end(s, begin, longest, least).value_or(least));
      const std::int64_t end = s + 1 == stages_ ? layers_ : std::clamp<std::int64_t>(ideal, least, most);
      counts.push_back(end - begin);
      begin = end;
    }
    return counts;
  }

  /// Returns a measure of how unequal the times of the ranks are, which is the sum of their squares. A
  /// small multiple of the same sum for the stages is added.
  double unevenness(const std::vector<std::int64_t>& counts) const {
    constexpr double kOfStages = 1e-3;
    std::vector<double> ranks(static_cast<std::size_t>(std::ranges::max(rank_of_stage_)) + 1, 0);
    double sum = 0;
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < stages_; ++s) {
      const double own =
          slowness_[s] * (times_.before[index(begin + counts[s])] - times_.before[index(begin)] + ends_of(s));
      begin += counts[s];
      ranks[index(rank_of_stage_[s])] += own;
      sum += kOfStages * own * own;
    }
    for (const double rank : ranks) sum += rank * rank;
    return sum;
  }

  /// Moves layers from the longest stage of the busiest rank to the shortest stage of the least busy rank, as
  /// long as unevenness() falls.
  void level_ranks(std::vector<std::int64_t>& counts) const {
    double now = unevenness(counts);
    for (std::size_t moves = 0; moves < stages_; ++moves) {
      std::vector<double> ranks = rank_times(times_, counts, rank_of_stage_);
      std::vector<double> slowness(ranks.size(), 1);
      for (std::size_t s = 0; s < stages_; ++s) slowness[index(rank_of_stage_[s])] = slowness_[s];
      std::ranges::transform(ranks, slowness, ranks.begin(), std::multiplies<>());
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
  std::vector<double> slowness_;      // slowness of each stage's device
  std::vector<double> speed_before_;  // prefix sums over the stages of 1 / slowness
  std::vector<std::int64_t> most_;    // the most layers of each stage
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
  for (const LayerPrice& layer : head.multi_token)
    times.head += seconds_of(layer.times) + seconds_of(head.times);
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
                                       std::span<const std::int64_t> most_of_rank,
                                       std::span<const double> slowness) {
  return Levelling(times, rank_of_stage, most_of_rank, slowness).layers();
}

}  // namespace penstock
