// Computes lower bounds of a configuration's time and memory without the costs of its stages. A stage has
// consecutive parts of the model, so its costs are the difference of two prefix sums. If the numbers of
// layers are given, the bounds are those of lower_bounds() (configuration_prices.cpp) without the STEP and
// messages.
//
// If layers are balanced by price, the numbers of layers are not known yet. The following bounds hold for
// every division of n layers. Let rank r need a_r bytes for each of its n_r layers, and t_r bytes while one
// of them runs. The largest value of all ranks is at least their mean with the weights 1 / a_r:
//
//     peak >= max over r of (a_r n_r + t_r)  >=  (n + sum of t_r / a_r) / (sum of 1 / a_r)
//
// The time of a rank is w_r for a microbatch, and w = sum of w_r. The busiest rank takes at least M w / K. If
// each of the K ranks has one stage and backward passes are whole, a rank also waits for the passes of the
// stages before it. A weighted mean over the ranks, with weights that make the coefficients of all w_r equal,
// gives
//
//     step >= max over r of (M w_r + sum over i < r of w_i)  >=  w / (1 - (1 - 1/M)^K)
//
// On unlike devices, let w_r be the least time of rank r on any kind of device, and s_r the slowness of its
// own kind. Then
//
//     step >= max over r of M s_r w_r  >=  M w / (sum of 1 / s_r)
//
// If a rank's device has less memory than the largest device, the difference (smaller_by) is added to t_r.
//
// Costs are rounded to whole nanoseconds and bytes, so each bound is lowered by the largest possible effect
// of rounding. Tests: tests/sim/tuning_test.cpp.
#include "sim/choose/configuration_prices.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/stage_prices.hpp"
#include "scenarios/pricing/workload.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/extra_stages.hpp"
#include "sim/choose/configuration.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {
namespace {

/// The largest number of nanoseconds that rounding removes from the times of a stage. A stage has three
/// durations, and each is rounded to whole nanoseconds.
constexpr double kRoundedNs = 1.5;
/// The largest number of bytes that rounding removes from those bytes of a stage that are counted once.
constexpr double kRoundedBytes = 2;
/// A factor slightly below 1. The terms of a sum may be added in another order elsewhere, which changes the
/// rounding. With this factor, the sum is still a lower bound.
constexpr double kOfSum = 1 - 1e-9;

std::int64_t rounded_down(double bound, double rounding) {
  return static_cast<std::int64_t>(std::max(0.0, bound * kOfSum - rounding));
}

PartCost cost_of(const StagePrice& price) {
  return {.forward_ns = price.forward_s * kNanosecondsPerSecond,
          .input_ns = price.backward_input_s * kNanosecondsPerSecond,
          .weight_ns = price.backward_weight_s * kNanosecondsPerSecond,
          .kept = price.kept_bytes,
          .released_by_input = price.released_by_input,
          .recomputed = price.recomputed_bytes,
          .constant = price.weight_bytes + price.optimizer_bytes,
          .gradients = price.gradient_bytes};
}

/// Returns the sums for the devices of each rank.
std::vector<const PartSums*> sums_of_ranks(const PipelineSums& sums, const UnlikeRanks& unlike,
                                           std::size_t ranks) {
  std::vector<const PartSums*> of_ranks(ranks, &sums.kinds.front());
  for (std::size_t rank = 0; rank < unlike.kinds.size(); ++rank)
    of_ranks[rank] = &sums.kinds[unlike.kinds[rank]];
  return of_ranks;
}

/// Returns the costs of all stages of layers. The first stage has the embedding, and the last one the head.
/// `of_ranks` has the sums for each rank, and `ranks` the rank of each stage.
std::vector<PartCost> stages_of(const std::vector<const PartSums*>& of_ranks,
                                const std::vector<std::int32_t>& ranks,
                                const std::vector<std::int64_t>& layers) {
  std::vector<PartCost> stages;
  stages.reserve(layers.size());
  std::size_t begin = 0;
  std::size_t end = 1;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    end += static_cast<std::size_t>(layers[stage]);
    if (stage + 1 == layers.size()) ++end;
    const std::vector<PartCost>& before = of_ranks[index(ranks[stage])]->before;
    stages.push_back(before[end] - before[begin]);
    begin = end;
  }
  return stages;
}

/// Divides the head of the last stage among all ranks. Appends the stages of its slices, and the stage of the
/// loss, which costs nothing. The bytes that a slice holds from its forward to its backward pass are left
/// out.
void slice_head(std::vector<PartCost>& stages, const PartSums& sums) {
  const PartCost head = sums.before.back() - sums.before[sums.before.size() - 2];
  stages.back() = stages.back() - head;
  const std::size_t ranks = stages.size();
  const double share = 1 / static_cast<double>(ranks);
  const PartCost slice{.forward_ns = head.forward_ns * share,
                       .input_ns = head.input_ns * share,
                       .weight_ns = head.weight_ns * share,
                       .constant = head.constant * share,
                       .gradients = head.gradients * share};
  stages.insert(stages.end(), ranks, slice);
  stages.emplace_back();
}

bool runs_split(const HeldMoment& moment) {
  return moment.kind == ActionKind::backward_input || moment.kind == ActionKind::backward_weight;
}

double bytes_in(const PartTransient& transient, const HeldMoment& moment) {
  return runs_split(moment) ? transient.split : transient.whole;
}

/// Returns a lower bound of the transient bytes of a stage at a moment. The parts of the stage run one
/// after the other, so it needs at least the bytes of each part. `layers` has the number of layers of each
/// stage. The last of them has the head, unless `stages`, the number of all stages, is larger.
double transient_bytes(const PartSums& sums, std::size_t stage, std::size_t stages,
                       const std::vector<std::int64_t>& layers, const HeldMoment& moment) {
  if (stage >= layers.size()) return 0;
  double bytes = layers[stage] > 0 ? bytes_in(sums.layer, moment) : 0;
  if (stage == 0) bytes = std::max(bytes, bytes_in(sums.embedding, moment));
  if (stage + 1 == stages) bytes = std::max(bytes, bytes_in(sums.head, moment));
  return bytes;
}

/// Returns a lower bound of a rank's peak memory in bytes.
double least_bytes(const PartSums& sums, const std::vector<PartCost>& stages,
                   const std::vector<std::int64_t>& layers, const RankOutline& rank) {
  double constant = 0;
  for (const std::int32_t stage : rank.stages) constant += stages[index(stage)].constant;
  double most = 0;
  for (const HeldMoment& moment : rank.moments) {
    double held =
        transient_bytes(sums, index(rank.stages[index(moment.running)]), stages.size(), layers, moment);
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      const PartCost& stage = stages[index(rank.stages[i])];
      held += moment.live[i] * stage.kept + moment.waiting[i] * (stage.recomputed - stage.released_by_input);
      if (moment.gradients[i]) held += stage.gradients;
    }
    most = std::max(most, held);
  }
  return constant + most;
}

/// Returns the largest number of microbatches that a rank holds at once, summed over its stages. It bounds
/// the rounding error of the rank's bytes.
double live_count(const RankOutline& rank) {
  double most = 0;
  for (const HeldMoment& moment : rank.moments) {
    double live = 0;
    for (std::size_t i = 0; i < rank.stages.size(); ++i) live += moment.live[i] + moment.waiting[i];
    most = std::max(most, live);
  }
  return most;
}

double rounded_bytes(const RankOutline& rank) {
  return live_count(rank) + kRoundedBytes * static_cast<double>(rank.stages.size());
}

/// Returns the smallest value of each cost over all layers. Only for the bytes that the action I releases, it
/// returns the largest value, because a lower bound subtracts them.
PartCost least_layer(const std::vector<PartCost>& before) {
  PartCost least = before[2] - before[1];
  for (std::size_t part = 2; part + 2 < before.size(); ++part) {
    const PartCost layer = before[part + 1] - before[part];
    least.kept = std::min(least.kept, layer.kept);
    least.released_by_input = std::max(least.released_by_input, layer.released_by_input);
    least.constant = std::min(least.constant, layer.constant);
    least.gradients = std::min(least.gradients, layer.gradients);
  }
  return least;
}

/// A lower bound of the bytes of a rank, in two parts. `each` counts for each layer of the rank's stages, and
/// `once` counts once.
struct RankBytes {
  double each = 0;
  double once = 0;
};

/// Returns the bytes that a rank needs at the moment at which it stores most, if its stages have `layers`
/// layers in total.
RankBytes rank_bytes(const PartSums& sums, const PartCost& layer, const RankOutline& rank, std::size_t stages,
                     double layers) {
  RankBytes fullest;
  for (const HeldMoment& moment : rank.moments) {
    double held = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < rank.stages.size(); ++i) {
      held = std::min(held, moment.live[i] * layer.kept - moment.waiting[i] * layer.released_by_input +
                                (moment.gradients[i] ? layer.gradients : 0));
    }
    // Only the first and the last stage may have no layer.
    const std::size_t running = index(rank.stages[index(moment.running)]);
    const bool is_inner = running > 0 && running + 1 < stages;
    const RankBytes bytes{.each = layer.constant + held, .once = is_inner ? bytes_in(sums.layer, moment) : 0};
    const auto all = [&](const RankBytes& of) { return of.each * layers + of.once; };
    if (all(bytes) > all(fullest)) fullest = bytes;
  }
  return fullest;
}

Bytes smaller_by(const UnlikeRanks& unlike, std::size_t rank) {
  return unlike.smaller_by.empty() ? 0 : unlike.smaller_by[rank];
}

/// Returns a cost that is at most both costs in each member. A lower bound subtracts the bytes that I
/// releases, so the larger value of these is returned.
PartCost least_of(const PartCost& a, const PartCost& b) {
  return {.forward_ns = std::min(a.forward_ns, b.forward_ns),
          .input_ns = std::min(a.input_ns, b.input_ns),
          .weight_ns = std::min(a.weight_ns, b.weight_ns),
          .kept = std::min(a.kept, b.kept),
          .released_by_input = std::max(a.released_by_input, b.released_by_input),
          .recomputed = std::min(a.recomputed, b.recomputed),
          .constant = std::min(a.constant, b.constant),
          .gradients = std::min(a.gradients, b.gradients)};
}

PartTransient least_of(const PartTransient& a, const PartTransient& b) {
  return {.whole = std::min(a.whole, b.whole), .split = std::min(a.split, b.split)};
}

/// Returns sums whose parts cost the least of both.
PartSums least_of(const PartSums& a, const PartSums& b) {
  PartSums least{.embedding = least_of(a.embedding, b.embedding),
                 .layer = least_of(a.layer, b.layer),
                 .head = least_of(a.head, b.head)};
  for (std::size_t part = 0; part + 1 < a.before.size(); ++part) {
    least.before.push_back(least.before.back() + least_of(a.before[part + 1] - a.before[part],
                                                          b.before[part + 1] - b.before[part]));
  }
  return least;
}

/// Returns the least ratio of the times of a part in `sums` and in `least`, over all parts that take time.
double slowness_of(const PartSums& sums, const PartSums& least) {
  double slowness = std::numeric_limits<double>::infinity();
  for (std::size_t part = 0; part + 1 < sums.before.size(); ++part) {
    const double time = (sums.before[part + 1] - sums.before[part]).total_ns();
    const double shortest = (least.before[part + 1] - least.before[part]).total_ns();
    if (shortest > kRoundedNs) slowness = std::min(slowness, time / shortest);
  }
  return std::isfinite(slowness) ? std::max(1.0, slowness * kOfSum) : 1;
}

}  // namespace

PartCost PartCost::operator+(const PartCost& other) const {
  return {.forward_ns = forward_ns + other.forward_ns,
          .input_ns = input_ns + other.input_ns,
          .weight_ns = weight_ns + other.weight_ns,
          .kept = kept + other.kept,
          .released_by_input = released_by_input + other.released_by_input,
          .recomputed = recomputed + other.recomputed,
          .constant = constant + other.constant,
          .gradients = gradients + other.gradients};
}

PartCost PartCost::operator-(const PartCost& other) const {
  return {.forward_ns = forward_ns - other.forward_ns,
          .input_ns = input_ns - other.input_ns,
          .weight_ns = weight_ns - other.weight_ns,
          .kept = kept - other.kept,
          .released_by_input = released_by_input - other.released_by_input,
          .recomputed = recomputed - other.recomputed,
          .constant = constant - other.constant,
          .gradients = gradients - other.gradients};
}

namespace {

/// Returns for each kind of layer the number of its first layer in the model.
std::vector<std::size_t> first_layers_of_kinds(const LayerPrices& prices, std::size_t layers) {
  std::vector<std::size_t> first;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (prices.kind_of_layer(layer) == first.size()) first.push_back(layer);
  }
  return first;
}

}  // namespace

// Each part is priced as a separate stage: the embedding and the head as stages without layers. Layers of one
// kind have one price, so only the first layers of the model up to the last new kind are priced.
PartSums part_sums(const Workload& work, const LayerPrices& prices, bool one_rank_has_both_ends) {
  PartSums sums;
  const std::size_t all_layers = work.model.layers.size();
  sums.before.reserve(all_layers + 3);
  const bool is_partial =
      work.recompute == LayerRecompute::full && work.recomputed_layers != RecomputedLayers{};
  if (is_partial || !work.predictions.empty()) {
    sums.before.resize(all_layers + 3);
    return sums;
  }
  const std::vector<std::size_t> first = first_layers_of_kinds(prices, all_layers);
  const std::size_t priced_layers = first.empty() ? 0 : first.back() + 1;
  std::vector<std::int64_t> layers(priced_layers + 2, 1);
  layers.front() = 0;
  layers.back() = 0;
  std::vector<std::int32_t> ranks(layers.size());
  for (std::size_t part = 0; part < ranks.size(); ++part) ranks[part] = static_cast<std::int32_t>(part);
  // The two ends of the model may share a matrix. A rank with both ends stores this matrix only once.
  if (one_rank_has_both_ends) ranks.back() = 0;
  const std::vector<StagePrice> parts = price_stages(work, prices, layers, ranks);
  const auto transient_of = [](const StagePrice& part) {
    return PartTransient{.whole = part.transient_bytes,
                         .split = part.transient_bytes - part.recomputed_at_once};
  };
  const auto add = [&sums](const PartCost& cost) { sums.before.push_back(sums.before.back() + cost); };
  std::vector<PartCost> kinds;
  kinds.reserve(first.size());
  for (const std::size_t layer : first) kinds.push_back(cost_of(parts[layer + 1]));
  add(cost_of(parts.front()));
  for (std::size_t layer = 0; layer < all_layers; ++layer) add(kinds[prices.kind_of_layer(layer)]);
  add(cost_of(parts.back()));
  sums.embedding = transient_of(parts.front());
  sums.head = transient_of(parts.back());
  sums.layer = transient_of(parts[1]);
  for (const std::size_t layer : first) {
    const PartTransient of_kind = transient_of(parts[layer + 1]);
    sums.layer = {.whole = std::min(sums.layer.whole, of_kind.whole),
                  .split = std::min(sums.layer.split, of_kind.split)};
  }
  return sums;
}

PipelineSums pipeline_sums(std::vector<PartSums> kinds) {
  PipelineSums sums{.kinds = std::move(kinds), .slowness = {}};
  for (std::size_t kind = 1; kind < sums.kinds.size(); ++kind)
    sums.least_of_kinds = least_of(sums.least(), sums.kinds[kind]);
  for (const PartSums& kind : sums.kinds)
    sums.slowness.push_back(sums.kinds.size() == 1 ? 1 : slowness_of(kind, sums.least()));
  return sums;
}

LowerBounds quick_bounds(const PipelineSums& sums, const UnlikeRanks& unlike,
                         const std::vector<std::int64_t>& layers, const ScheduleOutline& outline,
                         std::int32_t microbatches) {
  const std::vector<const PartSums*> of_ranks = sums_of_ranks(sums, unlike, outline.ranks.size());
  std::vector<PartCost> stages = stages_of(of_ranks, outline.rank_of_stage, layers);
  if (divides_output(outline.extra)) slice_head(stages, *of_ranks[index(outline.rank_of_stage.back())]);
  // For each stage, `there` is the forward time of one microbatch through all stages before it. `back` is the
  // time of the gradient from this stage back to the first stage.
  std::vector<double> there(stages.size() + 1, 0);
  std::vector<double> back(stages.size() + 1, 0);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    there[i + 1] = there[i] + stages[i].forward_ns;
    back[i + 1] = back[i] + (outline.splits_backward ? stages[i].input_ns : stages[i].backward_ns());
  }
  double step_ns = 0;
  double peak = 0;
  double lost_bytes = 0;
  std::size_t most_stages = 0;
  for (std::size_t number = 0; number < outline.ranks.size(); ++number) {
    const RankOutline& rank = outline.ranks[number];
    double needed = 0;  // work that must run before the last gradient returns to the first stage
    double work = 0;
    for (const std::int32_t stage : rank.stages) {
      const PartCost& cost = stages[index(stage)];
      work += cost.total_ns();
      needed += cost.forward_ns;
      // The backward pass of a slice of the output layer is not counted, because the gradient may return
      // before it runs.
      if (index(stage) < layers.size())
        needed += outline.splits_backward ? cost.input_ns : cost.backward_ns();
    }
    const std::size_t first = index(rank.stages.front());
    step_ns =
        std::max(step_ns, there[first] + std::max(microbatches * needed + back[first], microbatches * work));
    peak = std::max(peak, least_bytes(*of_ranks[number], stages, layers, rank) +
                              static_cast<double>(smaller_by(unlike, number)));
    lost_bytes = std::max(lost_bytes, rounded_bytes(rank));
    most_stages = std::max(most_stages, rank.stages.size());
  }
  const double rounded_stages =
      static_cast<double>(most_stages) * microbatches + static_cast<double>(stages.size());
  // Overlapped pairs take less time than the sum of their parts. These sums do not contain the saved time, so
  // the bound of the time is 0.
  return {.step_ns = outline.overlaps_pairs ? 0 : rounded_down(step_ns, kRoundedNs * rounded_stages),
          .peak_bytes = rounded_down(peak, lost_bytes)};
}

Bytes least_bytes_of_ranks(const PartSums& sums, const std::vector<std::int64_t>& layers,
                           const ScheduleOutline& outline) {
  const std::vector<const PartSums*> of_ranks(outline.ranks.size(), &sums);
  const std::vector<PartCost> stages = stages_of(of_ranks, outline.rank_of_stage, layers);
  Bytes bytes = 0;
  for (const RankOutline& rank : outline.ranks)
    bytes += rounded_down(least_bytes(sums, stages, layers, rank), rounded_bytes(rank));
  return bytes;
}

LowerBounds quick_bounds(const PipelineSums& sums, const UnlikeRanks& unlike, const ScheduleOutline& outline,
                         std::int32_t microbatches) {
  const PartSums& least = sums.least();
  const auto ranks = static_cast<double>(outline.ranks.size());
  const auto stages = static_cast<double>(outline.rank_of_stage.size());
  const double work = least.before.back().total_ns();
  const bool is_whole_chain = !outline.splits_backward && ranks == stages;
  double speed = 0;
  for (std::size_t rank = 0; rank < outline.ranks.size(); ++rank)
    speed += unlike.kinds.empty() ? 1 : 1 / sums.slowness[unlike.kinds[rank]];
  const double even = microbatches / speed;
  const double passes =
      is_whole_chain ? std::max(even, 1 / (1 - std::pow(1 - 1.0 / microbatches, ranks))) : even;
  const PartCost layer = least_layer(least.before);
  // All parts except the embedding and the head.
  const auto layers = static_cast<double>(least.before.size() - 3);
  double weights = 0;
  double once = 0;
  double lost_bytes = 0;
  for (std::size_t number = 0; number < outline.ranks.size(); ++number) {
    const RankOutline& rank = outline.ranks[number];
    const RankBytes bytes = rank_bytes(least, layer, rank, outline.rank_of_stage.size(), layers / ranks);
    weights += 1 / bytes.each;
    once += (bytes.once + static_cast<double>(smaller_by(unlike, number))) / bytes.each;
    lost_bytes = std::max(lost_bytes, rounded_bytes(rank));
  }
  return {.step_ns = outline.overlaps_pairs ? 0 : rounded_down(passes * work, kRoundedNs * stages * passes),
          .peak_bytes = rounded_down((layers + once) / weights, lost_bytes)};
}

// Decides whether a configuration may still change the answer of a search. It compares lower bounds of the
// configuration's figures with exact figures of others. A bound never exceeds the true value, so a
// configuration of the answer is never excluded. There are three questions:
//
//     among the first n?   no if n others are faster
//     on the front?        no if another one is as fast and as small
//     best of a value?     no if another one with the value is faster

namespace {

/// Returns true if `one` is neither faster nor smaller than `other`.
bool is_beaten_or_equal(const Worth& one, const Worth& other) {
  return other.time <= one.time && other.bytes <= one.bytes;
}

}  // namespace

bool KnownWorth::may_matter(const ValueNumbers::Numbers& numbers, const Worth& least) const {
  return may_be_first(least) || may_be_on_front(least) || may_be_best_of_value(numbers, least);
}

// Configurations that do not fit in memory are listed after all that fit, so they count only if too few may
// fit. If two times are equal, the memory and then the choices decide the order. So a configuration with an
// equal time may still be listed.
bool KnownWorth::may_be_first(const Worth& least) const {
  const auto is_among = [&](const std::vector<std::int64_t>& times) {
    return times.size() < top_ || least.time <= times.back();
  };
  return fits(least.bytes) ? is_among(fitting_times_) : others_count_ && is_among(other_times_);
}

// If time and memory are both equal, the choices decide, so a configuration may replace an equal one on the
// front.
bool KnownWorth::may_be_on_front(const Worth& least) const {
  return std::ranges::none_of(front_, [&](const Worth& known) {
    return is_beaten_or_equal(least, known) && (known.time < least.time || known.bytes < least.bytes);
  });
}

// The fastest configuration with a value is needed even if it does not fit, because the report names it.
bool KnownWorth::may_be_best_of_value(const ValueNumbers::Numbers& numbers, const Worth& least) const {
  return std::ranges::any_of(numbers, [&](std::uint16_t value) {
    const BestOfValue& best = values_[value];
    if (least.time < best.fastest_time) return true;
    return fits(least.bytes) && (!best.fitting || least.time <= best.fitting_worth.time);
  });
}

void KnownWorth::note_time(std::size_t number, const ValueNumbers::Numbers& numbers, std::int64_t time) {
  for (const std::uint16_t value : numbers) {
    BestOfValue& best = values_[value];
    // If two times are equal, the configuration that was found first remains.
    if (time >= best.fastest_time) continue;
    best.fastest = number;
    best.fastest_time = time;
  }
}

void KnownWorth::note(std::size_t number, const ValueNumbers::Numbers& numbers, const Worth& worth) {
  // Only the `top_` shortest times are stored. The longest of them is the limit for other configurations.
  auto& times = fits(worth.bytes) ? fitting_times_ : other_times_;
  times.insert(std::ranges::upper_bound(times, worth.time), worth.time);
  if (times.size() > top_) times.pop_back();
  add_to_front(worth);
  if (!fits(worth.bytes)) return;
  for (const std::uint16_t value : numbers) {
    BestOfValue& best = values_[value];
    const bool is_better = !best.fitting || std::tie(worth.time, worth.bytes) <
                                                std::tie(best.fitting_worth.time, best.fitting_worth.bytes);
    if (!is_better) continue;
    best.fitting = number;
    best.fitting_worth = worth;
  }
}

void KnownWorth::add_to_front(const Worth& worth) {
  const auto beats = [&](const Worth& known) { return is_beaten_or_equal(worth, known); };
  if (std::ranges::any_of(front_, beats)) return;
  std::erase_if(front_, [&](const Worth& known) { return is_beaten_or_equal(known, worth); });
  front_.push_back(worth);
}

}  // namespace penstock
