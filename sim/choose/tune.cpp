// Searches a space of configurations in rounds, in the order of the lower bounds of their times:
//
//     space -> quick bounds of all -> a round of configurations that may matter by sharper bounds
//           -> their times, eight at once -> peaks of those that may still matter -> the known results -> the
//           next round
//
// A configuration may matter if it could be one of the first `top`, on the Pareto front of time and memory,
// or the best with one of its values. Its bounds are compared first, and then its exact time. Bounds never
// exceed the exact figures, so the answer is the same as if the times of all configurations were computed.
//
// For a pool of the best candidates, the search then refines figures: it searches orders, and moves balanced
// layers between stages. The pool does not depend on `top`, so the best configuration does not depend on how
// many are listed. Tests: tests/sim/tuning_test.cpp.

#include "sim/choose/tune.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/prepare/priced_scenario.hpp"
#include "scenarios/prepare/schedule_outline.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/check/user_error.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/index.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/choose/configuration.hpp"
#include "sim/choose/configuration_figures.hpp"
#include "sim/choose/configuration_prices.hpp"
#include "sim/choose/tuning_space.hpp"
#include "topology/presets.hpp"
#include "topology/size_arithmetic.hpp"

namespace penstock {

namespace {

/// The number of candidates in the first round. Rounds become larger, because the results of the first rounds
/// exclude most other candidates. A large round uses all cores and all lanes of the vector instructions. But
/// it also computes figures that its own first results would make unnecessary.
constexpr std::size_t kFirstRound = 8;
constexpr std::size_t kLargestRound = 512;
constexpr std::size_t kMeasuredAtOnce = 4;

/// Returns the error message for a space in which no configuration can run.
UserError nothing_runs(const std::vector<LeftOut>& left_out) {
  std::string message =
      "tune: no configuration can run; change what `schedule` has in the scenario, or allow other schedules "
      "(--schedule):";
  for (const LeftOut& one : left_out)
    message += fmt::format("\n  {} of {}: {}", one.configurations, one.schedule, one.reason);
  const bool all_hang = std::ranges::all_of(left_out, &LeftOut::hangs);
  return {.kind = all_hang ? ErrorKind::check_failed : ErrorKind::bad_input, .message = std::move(message)};
}

/// The function that has computed a candidate's bounds. The functions later in the list give sharper bounds
/// and take longer.
enum class BoundsFrom : std::uint8_t {
  sums,          ///< the bounds of ConfigurationPrices::quick_bounds()
  level_layers,  ///< the bounds of ConfigurationPrices::level_bounds(), or of quick_bounds() if there are
                 ///< none
  costs          ///< the bounds of lower_bounds()
};

/// A configuration with its bounds and, as soon as they are known, its exact figures.
struct Candidate {
  Configuration configuration;
  ValueNumbers::Numbers values{};
  Worth least;  ///< lower bounds of time and memory
  BoundsFrom bounds_from = BoundsFrom::sums;
  std::optional<Ns> step_ns{};  ///< absent until it is timed
  /// The levelled peak (PricedConfiguration::smaller_by). Absent until it is computed, which requires a time.
  std::optional<Bytes> peak_bytes{};
  /// The rank with this peak, if the search found it together with the order of actions.
  std::optional<std::int64_t> fullest_rank{};
  /// The number of layers of each stage, if the search found other numbers than ConfigurationPrices::of().
  /// Empty otherwise.
  std::vector<std::int64_t> layers{};
};

/// One search; each object runs it once. Candidates are indices into candidates_, in the order of the search
/// space. In each round, the search computes figures of some candidates. A candidate can be listed only if
/// both its time and its memory are known.
class TuneSearch {
 public:
  TuneSearch(const TuneRequest& request, const TuneOptions& options)
      : request_(request),
        options_(options),
        prices_(request),
        programs_(std::make_shared<ProgramLibrary>(request)),
        searched_(request, options.stopped),
        usable_(usable_of(request)) {}

  tl::expected<TuneReport, UserError> report() {
    // One tape serves all costs. With eager messages, the tape would depend on message sizes, so they are
    // refused.
    if (request_.base.channels.eager_bytes > 0) {
      return failure(
          "tune: channels with eager messages make another program of every size; leave schedule.eager out");
    }
    const auto space = tuning_space(request_);
    if (!space) return failure(space.error());
    if (const auto refusal = space_refusal(*space)) return failure(*refusal);
    auto runnable = runnable_space(*space, request_.base.channels, programs_, options_.stopped);
    if (!runnable) return failure(kNothingKnown);
    if (runnable->configurations.empty()) return tl::unexpected(nothing_runs(runnable->left_out));
    report_.left_out = std::move(runnable->left_out);
    if (auto bounded = find_bounds(runnable->configurations); !bounded) return failure(bounded.error());
    // KnownWorth needs the number of values, and find_bounds() has numbered the values.
    KnownWorth known(std::max(most_alike() * options_.top, pool_size()), usable_, values_.count());
    if (auto priced = price_first(known); !priced) return failure(priced.error());
    if (auto done = run(known); !done) return failure(done.error());
    report_.space = space->size();
    if (const DeviceModel& model = model_of(request_); model.kinds.empty()) {
      report_.usable = model.work.device.usable_memory();
      if (report_.usable) report_.capacity = model.work.device.memory_bytes;
    }
    return reported(known);
  }

 private:
  static constexpr std::string_view kNothingKnown = "interrupted before any configuration was timed";

  /// Returns an error about bad input.
  static tl::unexpected<UserError> failure(std::string_view message) {
    return bad_input(std::string(message));
  }

  bool is_stopped() const { return options_.stopped && options_.stopped(); }

  // Computes the bounds of all configurations.

  tl::expected<void, std::string> find_bounds(const std::vector<Configuration>& space) {
    candidates_.reserve(space.size());
    for (const Configuration& configuration : space) {
      // If the search is stopped here, the remaining configurations are not candidates.
      if (is_stopped()) return {};
      const auto outline = programs_->outline(configuration);
      if (!outline) return tl::unexpected(outline.error());
      Candidate candidate{.configuration = configuration, .values = values_.of(configuration), .least = {}};
      if (const auto quick = prices_.quick_bounds(configuration, **outline)) {
        candidate.least = worth_of(configuration, *quick);
      } else if (auto bounded = price(candidate); !bounded) {
        return bounded;
      }
      candidates_.push_back(std::move(candidate));
    }
    return {};
  }

  static Worth worth_of(const Configuration& configuration, const LowerBounds& bounds) {
    return {.time = bounds.step_ns * device_count(configuration), .bytes = bounds.peak_bytes};
  }

  /// Computes a candidate's costs, and replaces its quick bounds by the bounds from these costs. Returns an
  /// error if its times or bytes exceed 64 bits.
  tl::expected<void, std::string> price(Candidate& candidate) {
    const Configuration& configuration = candidate.configuration;
    const ScheduleOutline& outline = **programs_->outline(configuration);
    const PricedConfiguration priced = prices_.of(configuration, outline);
    if (!priced.fault.empty()) return tl::unexpected(priced.fault);
    candidate.least = worth_of(configuration, lower_bounds(priced, outline, configuration.microbatches));
    candidate.bounds_from = BoundsFrom::costs;
    return {};
  }

  /// Replaces the bounds of a candidate by sharper ones: those of the next function in BoundsFrom. Returns
  /// the error of price().
  tl::expected<void, std::string> sharpen(Candidate& candidate) {
    if (candidate.bounds_from == BoundsFrom::costs) return {};
    if (candidate.bounds_from == BoundsFrom::level_layers) return price(candidate);
    candidate.bounds_from = BoundsFrom::level_layers;
    const Configuration& configuration = candidate.configuration;
    const auto level = prices_.level_bounds(configuration, **programs_->outline(configuration));
    if (!level) return price(candidate);
    const Worth least = worth_of(configuration, *level);
    candidate.least = {.time = std::max(candidate.least.time, least.time),
                       .bytes = std::max(candidate.least.bytes, least.bytes)};
    return {};
  }

  /// Computes sharper bounds for candidates until it is known how many of them may fit in memory. It counts
  /// at most as many as the answer lists. It begins with the candidates that have the lowest bounds of
  /// memory. Without pruning, it computes the sharpest bounds of all candidates.
  tl::expected<void, std::string> price_first(KnownWorth& known) {
    std::vector<std::size_t> smallest_first(candidates_.size());
    std::iota(smallest_first.begin(), smallest_first.end(), 0);
    std::ranges::stable_sort(smallest_first, {}, [&](std::size_t n) { return candidates_[n].least.bytes; });
    std::size_t fitting = 0;
    for (const std::size_t number : smallest_first) {
      Candidate& candidate = candidates_[number];
      if (options_.prune && (fitting == known.top() || !known.fits(candidate.least.bytes))) break;
      if (auto bounded = sharpen(candidate); !bounded) return bounded;
      if (known.fits(candidate.least.bytes)) ++fitting;
    }
    known.set_possible_fits(fitting);
    for (std::size_t number = 0; number < candidates_.size(); ++number)
      queue_.emplace(candidates_[number].least.time, number);
    return {};
  }

  PricedConfiguration priced(const Candidate& candidate) {
    const ScheduleOutline& outline = **programs_->outline(candidate.configuration);
    if (candidate.layers.empty()) return prices_.of(candidate.configuration, outline);
    return prices_.of(candidate.configuration, outline, candidate.layers);
  }

  // Runs the rounds.

  tl::expected<void, std::string> run(KnownWorth& known) {
    for (std::size_t most = kFirstRound; !queue_.empty(); most = std::min(2 * most, kLargestRound)) {
      const auto round = next_round(known, most);
      if (!round) return tl::unexpected(round.error());
      if (auto timed = time(*round); !timed) return timed;
      if (is_stopped()) return {};  // the times of the round are incomplete
      if (auto measured = measure(*round, known); !measured) return measured;
      if (is_stopped()) return {};
      decided_ = candidates_.size() - queue_.size();
      if (options_.progress) options_.progress(decided_, candidates_.size());
    }
    return {};
  }

  /// Returns the next candidates that may matter, at most `most` of them. The candidate with the lowest bound
  /// of the time comes first; among equal ones, the first in the search space. If a candidate's bounds do not
  /// rule it out, they are sharpened, and the candidate goes back into the queue. A candidate also goes back
  /// if other candidates of this round will probably rule it out, because exact figures are rarely far above
  /// their bounds.
  tl::expected<std::vector<std::size_t>, std::string> next_round(const KnownWorth& known, std::size_t most) {
    std::vector<std::size_t> round;
    std::vector<std::size_t> waiting;
    KnownWorth expected = known;  // the known figures, if those of the round equal their bounds
    while (!queue_.empty() && round.size() + waiting.size() < most && !is_stopped()) {
      const std::size_t number = queue_.top().second;
      queue_.pop();
      Candidate& candidate = candidates_[number];
      if (options_.prune && !known.may_matter(candidate.values, candidate.least)) {
        // A candidate that may fit in memory counts as excluded by its time.
        ++(known.fits(candidate.least.bytes) ? report_.pruned_by_time : report_.pruned_by_memory);
      } else if (candidate.bounds_from != BoundsFrom::costs) {
        if (auto bounded = sharpen(candidate); !bounded) return tl::unexpected(bounded.error());
        queue_.emplace(candidate.least.time, number);
      } else if (options_.prune && !expected.may_matter(candidate.values, candidate.least)) {
        waiting.push_back(number);
      } else {
        round.push_back(number);
        expected.note_time(number, candidate.values, candidate.least.time);
        expected.note(number, candidate.values, candidate.least);
      }
    }
    for (const std::size_t number : waiting) queue_.emplace(candidates_[number].least.time, number);
    return round;
  }

  /// Computes one figure for each of the candidates `numbers` and stores it. If the search is stopped
  /// before all figures are known, none is stored.
  tl::expected<void, std::string> find(std::optional<std::int64_t> Candidate::* figure,
                                       const std::vector<std::size_t>& numbers, FiguresOfProgram figures_of) {
    std::vector<AskedConfiguration> asked;
    for (const std::size_t number : numbers) {
      const Candidate& candidate = candidates_[number];
      asked.push_back({.configuration = candidate.configuration, .priced = priced(candidate)});
    }
    const auto figures = figures_of_all(std::move(asked), programs_, figures_of, options_.stopped);
    if (!figures) return tl::unexpected(figures.error());
    for (std::size_t i = 0; i < figures->size(); ++i) candidates_[numbers[i]].*figure = (*figures)[i];
    return {};
  }

  /// Computes the times of all candidates of a round.
  tl::expected<void, std::string> time(const std::vector<std::size_t>& round) {
    report_.evaluated += round.size();
    return find(&Candidate::step_ns, round, step_times);
  }

  /// Computes the peak memory of candidates that may still matter now that their exact times are known. It
  /// computes a few peaks at a time, those of the fastest candidates first. A peak takes longer to compute
  /// than a time, and each known peak may exclude other candidates.
  tl::expected<void, std::string> measure(const std::vector<std::size_t>& round, KnownWorth& known) {
    // All times are recorded before the first peak is computed, so that they exclude as many candidates as
    // possible.
    for (const std::size_t number : round)
      known.note_time(number, candidates_[number].values, time_of(candidates_[number]));
    std::vector<std::size_t> left = round;
    std::ranges::stable_sort(left, {}, [&](std::size_t number) { return worth_at_least(number); });
    for (std::size_t next = 0; next < left.size() && !is_stopped();) {
      std::vector<std::size_t> wanted;
      for (; next < left.size() && wanted.size() < kMeasuredAtOnce; ++next) {
        const Candidate& candidate = candidates_[left[next]];
        if (!options_.prune || known.may_matter(candidate.values, worth_at_least(left[next])))
          wanted.push_back(left[next]);
      }
      if (auto measured = measure_all(wanted); !measured || is_stopped()) return measured;
      for (const std::size_t number : wanted) {
        const Candidate& candidate = candidates_[number];
        known.note(number, candidate.values, {.time = time_of(candidate), .bytes = *candidate.peak_bytes});
      }
    }
    return {};
  }

  /// Returns the exact time of a candidate and the lower bound of its memory. The time must be known.
  Worth worth_at_least(std::size_t number) const {
    return {.time = time_of(candidates_[number]), .bytes = candidates_[number].least.bytes};
  }

  tl::expected<void, std::string> measure_all(const std::vector<std::size_t>& numbers) {
    return find(&Candidate::peak_bytes, numbers, peak_bytes);
  }

  /// Returns the step time times the number of devices. All configurations have the same global batch, so
  /// this product orders them by tokens per second and device.
  static std::int64_t time_of(const Candidate& candidate) {
    return *candidate.step_ns * device_count(candidate.configuration);
  }

  // The report.

  /// Sorts candidates, the best first. Those that fit in memory come first. Then the time decides, then the
  /// memory, then the choices.
  void sort(std::vector<std::size_t>& measured) const {
    std::ranges::sort(measured, {}, [&](std::size_t number) {
      const Candidate& of = candidates_[number];
      return std::tuple(*of.peak_bytes > usable_, time_of(of), *of.peak_bytes, of.configuration);
    });
  }

  /// Computes missing peaks, refines the best candidates (the pool), and makes the report.
  tl::expected<TuneReport, UserError> reported(const KnownWorth& known) {
    if (auto peaks = measure_fastest(known); !peaks) return failure(peaks.error());
    const std::vector<std::size_t> measured = measured_numbers();
    std::vector<std::size_t> pool = listed_numbers(known, measured, std::min(pool_size(), measured.size()));
    std::vector<std::size_t> listed = listed_numbers(known, measured, count_of_first(measured, options_.top));
    if (listed.empty()) return failure(kNothingKnown);
    refine(pool);
    complete(listed, pool);
    if (listed.empty()) return tl::unexpected(nothing_runs(report_.left_out));
    std::map<std::size_t, std::size_t> place;  // index in the report for each listed candidate
    for (std::size_t i = 0; i < listed.size(); ++i) {
      // If several candidates have the same layers and figures, the report contains only the first of them.
      if (const auto twin = twin_before(listed, i)) {
        place[listed[i]] = place.at(*twin);
        continue;
      }
      place[listed[i]] = report_.candidates.size();
      report_.candidates.push_back(tuned(listed[i]));
    }
    report_.notes = notes_of(listed.front());
    if (const std::int32_t iterations = request_.base.shape.iterations; iterations > 1) {
      report_.notes.push_back(fmt::format(
          "a step is one iteration: training.iterations is {} in the scenario, and 1 in what is timed and in "
          "what -o writes",
          iterations));
    }
    if (is_stopped()) {
      report_.notes.push_back(
          fmt::format("interrupted: {} of {} configurations are decided", decided_, candidates_.size()));
    }
    for (const std::size_t number : front_of(listed)) report_.front.push_back(place.at(number));
    add_choices(listed, place);
    return std::move(report_);
  }

  /// Computes the missing peaks of memory. It does so for those candidates that are the fastest ones with
  /// some value of a choice.
  tl::expected<void, std::string> measure_fastest(const KnownWorth& known) {
    std::vector<std::size_t> wanted;
    for (std::size_t value = 0; value < values_.count(); ++value) {
      const auto& fastest = known.of_value(value).fastest;
      if (fastest && !candidates_[*fastest].peak_bytes) wanted.push_back(*fastest);
    }
    std::ranges::sort(wanted);
    const auto repeated = std::ranges::unique(wanted);
    wanted.erase(repeated.begin(), repeated.end());
    return measure_all(wanted);
  }

  /// Returns the number of sorted candidates to list. They are the first `top` different candidates and their
  /// twins. A twin has the same layers and figures as an earlier candidate, but by another split rule
  /// (has_twin_before()).
  std::size_t count_of_first(const std::vector<std::size_t>& sorted, std::size_t top) const {
    std::size_t different = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (!twin_before(sorted, i) && ++different > top) return i;
    }
    return sorted.size();
  }

  /// Returns the candidates with a known time and memory, the best first.
  std::vector<std::size_t> measured_numbers() const {
    std::vector<std::size_t> measured;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].peak_bytes) measured.push_back(i);
    }
    sort(measured);
    return measured;
  }

  /// Returns the candidates to list, sorted: the first `first` of `measured`, the Pareto front, and the
  /// best candidates for every value of every choice.
  std::vector<std::size_t> listed_numbers(const KnownWorth& known, std::vector<std::size_t> measured,
                                          std::size_t first) const {
    std::vector<bool> is_listed(candidates_.size(), false);
    for (std::size_t i = 0; i < first; ++i) is_listed[measured[i]] = true;
    for (const std::size_t number : front_of(measured)) is_listed[number] = true;
    for (std::size_t value = 0; value < values_.count(); ++value) {
      const BestOfValue& best = known.of_value(value);
      if (best.fitting) is_listed[*best.fitting] = true;
      if (best.fastest) is_listed[*best.fastest] = true;
    }
    std::erase_if(measured, [&](std::size_t number) { return !is_listed[number]; });
    return measured;
  }

  /// Returns the Pareto front: the candidates to which no other is superior in time and memory. The fastest
  /// is first.
  std::vector<std::size_t> front_of(std::vector<std::size_t> numbers) const {
    std::ranges::stable_sort(numbers, {}, [&](std::size_t n) {
      return std::pair(time_of(candidates_[n]), *candidates_[n].peak_bytes);
    });
    std::vector<std::size_t> front;
    for (const std::size_t number : numbers) {
      // The candidates are sorted by time, so a candidate is on the front if it needs less memory than the
      // last one on the front.
      if (front.empty() || *candidates_[number].peak_bytes < *candidates_[front.back()].peak_bytes)
        front.push_back(number);
    }
    return front;
  }

  /// Returns the largest number of configurations that can have equal layers and figures. Different split
  /// rules may give the same layers, so it is the number of rules.
  std::size_t most_alike() const { return request_.layer_splits.size(); }

  /// Returns the size of the pool of best candidates. It is large enough for `options_.refined` different
  /// candidates and their twins.
  std::size_t pool_size() const { return most_alike() * options_.refined; }

  /// Refines candidates of the pool until next_to_refine() finds no more. If the schedule searches its
  /// order, the order that simulate() uses is found. If the layers are balanced, they become those of
  /// simulate(). Then sorts the pool and removes candidates that cannot run.
  void refine(std::vector<std::size_t>& pool) {
    refined_.assign(candidates_.size(), false);
    refused_.assign(candidates_.size(), false);
    sort(pool);
    while (!is_stopped()) {
      const auto next = next_to_refine(pool);
      if (!next) return;
      refine_one(*next);
      // After a refinement, the sorted pool may begin with other candidates, so the loop looks again from the
      // start.
      std::erase_if(pool, [&](std::size_t number) { return refused_[number]; });
      sort(pool);
    }
  }

  /// Returns the first candidate of the sorted pool that must still be refined, or nothing. The first
  /// TuneOptions::refined different candidates must be refined. A later candidate must be refined if its
  /// schedule searches its order and its time bound is below the time of the best candidate.
  std::optional<std::size_t> next_to_refine(const std::vector<std::size_t>& pool) const {
    std::size_t different = 0;
    std::size_t searching = 0;
    for (std::size_t i = 0; i < pool.size(); ++i) {
      const std::size_t number = pool[i];
      if (!twin_before(pool, i)) {
        ++different;
        if (weighs_costs(number)) ++searching;
      }
      const bool is_first = different <= options_.refined;
      const bool may_be_best = weighs_costs(number) && searching <= options_.refined &&
                               candidates_[number].least.time < time_of(candidates_[pool.front()]);
      if (may_be_refined(number) && (is_first || may_be_best)) return number;
    }
    return std::nullopt;
  }

  /// Returns the twin of a candidate: an earlier one in the list that has the same figures and differs only
  /// in the rule of the layer split. Returns the first such candidate, or nothing. In a sorted list, all
  /// candidates between the two have the same figures.
  std::optional<std::size_t> twin_before(const std::vector<std::size_t>& sorted, std::size_t i) const {
    const Candidate& own = candidates_[sorted[i]];
    std::optional<std::size_t> twin;
    while (i-- > 0) {
      const Candidate& other = candidates_[sorted[i]];
      if (other.step_ns != own.step_ns || other.peak_bytes != own.peak_bytes) break;
      Configuration alike = other.configuration;
      alike.layer_split = own.configuration.layer_split;
      if (alike == own.configuration) twin = sorted[i];
    }
    return twin;
  }

  /// Adds the first candidates of the refined pool to `listed`. Removes from `listed` all candidates that
  /// cannot run, and sorts it.
  void complete(std::vector<std::size_t>& listed, const std::vector<std::size_t>& pool) const {
    const std::size_t first = count_of_first(pool, options_.top);
    for (std::size_t i = 0; i < first; ++i) {
      if (std::ranges::find(listed, pool[i]) == listed.end()) listed.push_back(pool[i]);
    }
    std::erase_if(listed, [&](std::size_t number) { return refused_[number]; });
    sort(listed);
  }

  bool weighs_costs(std::size_t number) const {
    return find_schedule(candidates_[number].configuration.schedule)->weighs_costs;
  }

  /// Returns true if the candidate's schedule searches its order by costs, and the candidate is not refined
  /// yet. Its figures are then those of the order for stages of equal cost.
  bool is_constructed(std::size_t number) const { return weighs_costs(number) && !refined_[number]; }

  bool is_balanced(std::size_t number) const {
    const Configuration& of = candidates_[number].configuration;
    return of.stages > 1 && request_.layer_splits[of.layer_split].rule == LayerSplit::Rule::balanced;
  }
  bool may_be_refined(std::size_t number) const {
    return (weighs_costs(number) || is_balanced(number)) && !refined_[number];
  }

  /// Refines one candidate. First it moves layers between stages, and then it searches an order of actions,
  /// because this search uses the costs of the stages.
  void refine_one(std::size_t number) {
    if (is_balanced(number)) move_layers(candidates_[number]);
    if (is_stopped()) return;
    if (weighs_costs(number)) {
      search_order(number);
    } else {
      refined_[number] = true;
    }
  }

  /// Replaces the candidate's numbers of layers by those of simulate() if the step becomes faster.
  void move_layers(Candidate& candidate) {
    const auto found = done_unless(
        options_.stopped,
        [scenario = scenario_of(request_, candidate.configuration)] { return price_on_devices(scenario); });
    if (!found || !*found) return;
    // Equal layers have equal figures.
    if ((*found)->layers == priced(candidate).layers) return;
    Candidate moved = candidate;
    moved.layers = (*found)->layers;
    const std::vector<AskedConfiguration> asked = {
        {.configuration = moved.configuration, .priced = priced(moved)}};
    const auto steps = figures_of_all(asked, programs_, step_times, options_.stopped);
    const auto peaks = figures_of_all(asked, programs_, peak_bytes, options_.stopped);
    if (!steps || !peaks || steps->empty() || peaks->empty()) return;
    moved.step_ns = steps->front();
    moved.peak_bytes = peaks->front();
    moved.fullest_rank.reset();
    const auto order_of = [&](const Candidate& one) {
      return std::tuple(*one.peak_bytes > usable_, *one.step_ns, *one.peak_bytes);
    };
    if (order_of(moved) < order_of(candidate)) candidate = std::move(moved);
  }

  /// Searches the order of actions for one candidate. If the resulting program cannot run, the candidate is
  /// marked as refused.
  void search_order(std::size_t number) {
    Candidate& candidate = candidates_[number];
    auto searched = searched_.of(candidate.configuration, priced(candidate));
    if (!searched) {
      refused_[number] = true;
      add_left_out(report_.left_out, candidate.configuration.schedule, searched.error().message,
                   searched.error().hang.has_value());
      return;
    }
    if (!*searched) return;  // the search was stopped
    candidate.step_ns = (*searched)->step_ns;
    candidate.peak_bytes = (*searched)->peak_bytes;
    candidate.fullest_rank = (*searched)->fullest_rank;
    refined_[number] = true;
  }

  /// Returns the notes that simulate() would make for the candidate. If the search was stopped, no order is
  /// searched for these notes.
  std::vector<std::string> notes_of(std::size_t number) {
    const Configuration& of = candidates_[number].configuration;
    const PricedConfiguration costs = priced(candidates_[number]);
    if (refined_[number] && weighs_costs(number)) return (*searched_.of(of, costs))->notes;
    Scenario scenario = scenario_of(with_layers(request_, of, costs.layers), of);
    if (is_stopped()) scenario.shape.effort.passes = 0;
    auto experiment =
        done_unless(options_.stopped, [scenario] { return prepare(scenario, ProgramForm::lists); });
    if (!experiment || !*experiment) return {};
    return std::move((*experiment)->notes);
  }

  TunedConfiguration tuned(std::size_t number) {
    const Candidate& candidate = candidates_[number];
    const PricedConfiguration costs = priced(candidate);
    const std::int64_t rank = fullest_rank(candidate, costs);
    const Bytes peak = *candidate.peak_bytes - (costs.smaller_by.empty() ? 0 : costs.smaller_by[index(rank)]);
    TunedConfiguration tuned =
        tuned_configuration(request_, candidate.configuration, *candidate.step_ns,
                            device_with_peak(request_, candidate.configuration, rank, peak));
    tuned.layers = costs.layers;
    tuned.constructed = is_constructed(number);
    tuned.estimated = may_be_refined(number);
    return tuned;
  }

  /// Returns the rank with the least free memory. On devices of one kind, all ranks have the same limit, so
  /// the rank is not computed, and 0 is returned.
  std::int64_t fullest_rank(const Candidate& candidate, const PricedConfiguration& costs) {
    if (costs.smaller_by.empty()) return 0;
    if (candidate.fullest_rank) return *candidate.fullest_rank;
    // This program was timed before, so it can be made again.
    const auto program = programs_->program(candidate.configuration);
    return fullest_ranks(**program, {&costs, 1}).front();
  }

  /// Adds to the report each value of each choice, in ascending order, with the best configuration that has
  /// this value. The name of a value comes from the first candidate with it. `place` maps each listed
  /// candidate to its index in the report.
  void add_choices(const std::vector<std::size_t>& listed, const std::map<std::size_t, std::size_t>& place) {
    using ChoiceAndCode = std::pair<std::size_t, std::int64_t>;
    std::map<ChoiceAndCode, std::pair<std::uint16_t, std::string>> named;
    for (const Candidate& candidate : candidates_) {
      const ChoiceCodes codes = choice_codes(candidate.configuration);
      for (std::size_t choice = 0; choice < kChoices.size(); ++choice) {
        const auto [entry, fresh] = named.try_emplace({choice, codes[choice]});
        if (!fresh) continue;
        entry->second = {candidate.values[choice], choice_texts(request_, candidate.configuration)[choice]};
      }
    }
    for (const auto& [choice, value] : named) {
      ChoiceCost cost{.choice = kChoices[choice.first], .value = value.second, .best = {}, .faster = {}};
      set_best_of_value(cost, value.first, listed, place);
      report_.choices.push_back(std::move(cost));
    }
  }

  /// Sets the best candidates for a value of a choice. `best` is the first in the sorted list that fits in
  /// memory. `faster` is the first that does not fit, if it is faster than `best`.
  void set_best_of_value(ChoiceCost& cost, std::uint16_t value, const std::vector<std::size_t>& listed,
                         const std::map<std::size_t, std::size_t>& place) const {
    std::optional<std::size_t> fitting;
    std::optional<std::size_t> other;
    for (const std::size_t number : listed) {
      const Candidate& candidate = candidates_[number];
      if (std::ranges::find(candidate.values, value) == candidate.values.end()) continue;
      auto& first = *candidate.peak_bytes <= usable_ ? fitting : other;
      if (!first) first = number;
    }
    if (fitting) cost.best = place.at(*fitting);
    const bool is_faster =
        other && (!fitting || time_of(candidates_[*other]) < time_of(candidates_[*fitting]));
    if (is_faster) cost.faster = place.at(*other);
  }

  const TuneRequest& request_;
  const TuneOptions& options_;
  ConfigurationPrices prices_;
  // The ownership of the library is shared, because work may continue after the search was stopped.
  std::shared_ptr<ProgramLibrary> programs_;
  SearchedOrders searched_;
  ValueNumbers values_;
  Bytes usable_;  // bytes that a configuration may use on the largest device
  std::vector<Candidate> candidates_;
  std::vector<bool> refined_;
  std::vector<bool> refused_;  // true for candidates with a searched order that cannot run
  /// The undecided candidates as pairs of the lower bound of the time and the candidate's number. The lowest
  /// bound is at the top.
  std::priority_queue<std::pair<std::int64_t, std::size_t>, std::vector<std::pair<std::int64_t, std::size_t>>,
                      std::greater<>>
      queue_;
  std::size_t decided_ = 0;  // number of decided candidates
  TuneReport report_;
};

}  // namespace

tl::expected<TuneReport, UserError> tune(const TuneRequest& request, const TuneOptions& options) {
  return TuneSearch(request, options).report();
}

FullestDevice device_with_peak(const TuneRequest& request, const Configuration& configuration,
                               std::int64_t rank, Bytes peak_bytes) {
  Workload work = model_of(request).work;
  set_choices(work, configuration);
  choose_devices(work, request, configuration);
  return {.peak_bytes = peak_bytes,
          .usable_bytes = device_of_rank(work, static_cast<std::int32_t>(rank)).usable_memory()};
}

namespace {

/// Returns the mean peak rate of the request's devices.
double mean_peak_flops(const DeviceModel& model) {
  if (model.kinds.empty()) return peak_flops(model.work.device, model.work.precision);
  double sum = 0;
  double devices = 0;
  for (const DeviceKind& kind : model.kinds) {
    sum += static_cast<double>(kind.devices) * peak_flops(kind.type, model.work.precision);
    devices += static_cast<double>(kind.devices);
  }
  return sum / devices;
}

}  // namespace

TunedConfiguration tuned_configuration(const TuneRequest& request, const Configuration& configuration,
                                       Ns step_ns, const FullestDevice& fullest) {
  const Workload& work = model_of(request).work;
  // The result has rates for each device, so the time is multiplied by the number of devices.
  const double device_seconds =
      static_cast<double>(step_ns * device_count(configuration)) * kSecondsPerNanosecond;
  const auto samples = static_cast<double>(request.global_batch_size);
  return {.configuration = configuration,
          .step_ns = step_ns,
          .peak_bytes = fullest.peak_bytes,
          .usable_bytes = fullest.usable_bytes,
          .fits = !fullest.usable_bytes || fullest.peak_bytes <= *fullest.usable_bytes,
          .tokens_per_second_per_device = samples * static_cast<double>(work.sequence) / device_seconds,
          .mfu = samples * flops_per_sample(work.model, work.sequence) / device_seconds /
                 mean_peak_flops(model_of(request))};
}

}  // namespace penstock
