// Configurations are taken by their lower bounds, the fastest first, in rounds:
//
//   space -> prices, bounds of all -> a round of those that may still matter -> their times, eight at once
//         -> peaks of those that still may -> what is known now -> the next round
//
// A configuration may matter if it could be among the first `top`, could be on the front of time and memory,
// or could be the best of something that it chooses. All three are asked of its bounds first, of its time
// next; as bounds are never above the truth, the answer is that of timing everything.

#include "sim/tuning/tune.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "scenarios/architecture/architecture.hpp"
#include "scenarios/model/device_model.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "scenarios/pricing/workload.hpp"
#include "scenarios/read/scenario.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/tuning/asked_figures.hpp"
#include "sim/tuning/choice_values.hpp"
#include "sim/tuning/configuration.hpp"
#include "sim/tuning/configuration_prices.hpp"
#include "sim/tuning/known_worth.hpp"
#include "sim/tuning/lower_bounds.hpp"
#include "sim/tuning/program_library.hpp"
#include "sim/tuning/searched_orders.hpp"
#include "sim/tuning/space_size.hpp"
#include "sim/tuning/stoppable_work.hpp"
#include "sim/tuning/timed_configurations.hpp"
#include "sim/tuning/tuning_space.hpp"

namespace penstock {
namespace {

/// Rounds grow: what the first few say keeps most of the others from being timed at all. A large round has
/// programs for all cores and configurations for all lanes, but times what its own first ones would rule out.
constexpr std::size_t kFirstRound = 8;
constexpr std::size_t kLargestRound = 512;
constexpr std::size_t kMeasuredAtOnce = 4;

/// A configuration on its way.
struct Candidate {
  Configuration configuration;
  ValueNumbers::Numbers values{};
  Worth least;                        ///< its bounds
  std::optional<Ns> step_ns{};        ///< once it is timed
  std::optional<Bytes> peak_bytes{};  ///< once it is measured, which only what is timed may be
};

/// One search, run once. Candidates are numbers into candidates_, ascending by the bound of their time;
/// figures fill in as rounds go on, and only what has both is ever listed.
class TuneSearch {
 public:
  TuneSearch(const TuneRequest& request, const TuneOptions& options)
      : request_(request),
        options_(options),
        prices_(request),
        programs_(std::make_shared<ProgramLibrary>(request)),
        searched_(request, options.stopped) {
    const Workload& work = model_of(request).work;
    if (work.device.memory_bytes > 0) capacity_ = work.device.memory_bytes;
  }

  tl::expected<TuneReport, std::string> report() {
    // A tape is made once for all costs; eager messages would let sizes decide who waits for whom.
    if (request_.base.channels.eager_bytes > 0) {
      return tl::unexpected(
          std::string("tune: channels with eager messages make another program of every size; leave "
                      "schedule.channel.eager out"));
    }
    auto space = tuning_space(request_);
    if (!space) return tl::unexpected(space.error());
    if (auto refusal = space_refusal(*space)) return tl::unexpected(*std::move(refusal));
    if (auto bounded = find_bounds(*space); !bounded) return tl::unexpected(bounded.error());
    // After the bounds, which number the values.
    KnownWorth known(options_.top, capacity_, values_.count());
    known.set_possible_fits(static_cast<std::size_t>(
        std::ranges::count_if(candidates_, [&](const Candidate& c) { return known.fits(c.least.bytes); })));
    if (auto done = run(known); !done) return tl::unexpected(done.error());
    return reported(known);
  }

 private:
  bool is_stopped() const { return options_.stopped && options_.stopped(); }

  // Prices and bounds of all.

  tl::expected<void, std::string> find_bounds(const std::vector<Configuration>& space) {
    candidates_.reserve(space.size());
    for (const Configuration& configuration : space) {
      // What has no bound by then is none of the candidates.
      if (is_stopped()) return {};
      const auto outline = programs_->outline(configuration);
      if (!outline) return tl::unexpected(outline.error());
      const PricedConfiguration priced = prices_.of(configuration, (*outline)->rank_of_stage);
      if (!priced.fault.empty()) return tl::unexpected(priced.fault);
      const LowerBounds bounds = lower_bounds(priced, **outline, configuration.microbatches);
      candidates_.push_back(
          {.configuration = configuration,
           .values = values_.of(configuration),
           .least = {.time = bounds.step_ns * device_count(configuration), .bytes = bounds.peak_bytes}});
    }
    // Stable: equal bounds keep the order of the space, so that rounds are the same on any machine.
    std::ranges::stable_sort(candidates_, {}, [](const Candidate& c) { return c.least.time; });
    return {};
  }

  PricedConfiguration priced(const Configuration& configuration) {
    return prices_.of(configuration, (*programs_->outline(configuration))->rank_of_stage);
  }

  // Rounds.

  tl::expected<void, std::string> run(KnownWorth& known) {
    std::size_t next = 0;
    for (std::size_t most = kFirstRound; next < candidates_.size();
         most = std::min(2 * most, kLargestRound)) {
      std::vector<std::size_t> round;
      for (; next < candidates_.size() && round.size() < most; ++next) {
        const Candidate& candidate = candidates_[next];
        if (!options_.prune || known.may_matter(candidate.values, candidate.least)) {
          round.push_back(next);
        } else {
          // What may fit was ruled out by its time, whatever else might have done it.
          ++(known.fits(candidate.least.bytes) ? report_.pruned_by_time : report_.pruned_by_memory);
        }
      }
      if (auto timed = time(round); !timed) return timed;
      if (is_stopped()) return {};  // some of the round are not timed
      if (auto measured = measure(round, known); !measured) return measured;
      if (is_stopped()) return {};
      settled_ = next;
      if (options_.progress) options_.progress(settled_, candidates_.size());
    }
    return {};
  }

  /// Puts a figure of each into its candidate; none of them where the search is stopped before they are
  /// there.
  tl::expected<void, std::string> find(std::optional<std::int64_t> Candidate::* figure,
                                       const std::vector<std::size_t>& numbers, FiguresOfProgram figures_of) {
    std::vector<AskedConfiguration> asked;
    for (const std::size_t number : numbers) {
      const Configuration& configuration = candidates_[number].configuration;
      asked.push_back({.configuration = configuration, .priced = priced(configuration)});
    }
    const auto figures = figures_of_all(std::move(asked), programs_, figures_of, options_.stopped);
    if (!figures) return tl::unexpected(figures.error());
    for (std::size_t i = 0; i < figures->size(); ++i) candidates_[numbers[i]].*figure = (*figures)[i];
    return {};
  }

  /// The steps of all of a round, whether their peaks will be asked or not.
  tl::expected<void, std::string> time(const std::vector<std::size_t>& round) {
    report_.evaluated += round.size();
    return find(&Candidate::step_ns, round, step_times);
  }

  /// The peaks of those that may matter still, now that their times are known: the fastest first and few at a
  /// time, since each peak that is known rules others out, and a peak takes longer than a time.
  tl::expected<void, std::string> measure(const std::vector<std::size_t>& round, KnownWorth& known) {
    // All times before the first peak: a time rules out by itself what is slower with every one of its
    // values.
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

  /// Of a candidate whose time is known.
  Worth worth_at_least(std::size_t number) const {
    return {.time = time_of(candidates_[number]), .bytes = candidates_[number].least.bytes};
  }

  tl::expected<void, std::string> measure_all(const std::vector<std::size_t>& numbers) {
    return find(&Candidate::peak_bytes, numbers, peak_bytes);
  }

  /// Device-nanoseconds, so that configurations on different numbers of nodes compare by tokens per second
  /// and device: all train the same global batch.
  static std::int64_t time_of(const Candidate& candidate) {
    return *candidate.step_ns * device_count(candidate.configuration);
  }

  // What is said.

  /// The order of candidates: fits, time, memory, tuple.
  void sort(std::vector<std::size_t>& measured) const {
    std::ranges::sort(measured, {}, [&](std::size_t number) {
      const Candidate& of = candidates_[number];
      return std::tuple(*of.peak_bytes > capacity_, time_of(of), *of.peak_bytes, of.configuration);
    });
  }

  /// Peaks that nobody has asked for yet, the list, the orders that are searched for it, and the report of
  /// that.
  tl::expected<TuneReport, std::string> reported(const KnownWorth& known) {
    if (auto peaks = measure_fastest(known); !peaks) return tl::unexpected(peaks.error());
    std::vector<std::size_t> listed = listed_numbers(known);
    if (listed.empty()) return tl::unexpected(std::string("interrupted before anything was settled"));
    if (auto refined = refine(listed); !refined) return tl::unexpected(refined.error());
    report_.space = candidates_.size();
    std::map<std::size_t, std::size_t> place;  // in the report, by number of the candidate
    for (const std::size_t number : listed) {
      place[number] = report_.candidates.size();
      report_.candidates.push_back(tuned(number));
    }
    report_.notes = notes_of(listed.front());
    if (is_stopped()) {
      report_.notes.push_back(
          fmt::format("interrupted: {} of {} configurations are settled", settled_, candidates_.size()));
    }
    for (const std::size_t number : front_of(listed)) report_.front.push_back(place.at(number));
    add_choices(known, place);
    return std::move(report_);
  }

  /// Peaks of what is fastest with a value, which may have been timed alone.
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

  /// The first ones, the front and the best of every value, the best first.
  std::vector<std::size_t> listed_numbers(const KnownWorth& known) const {
    std::vector<std::size_t> measured;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (candidates_[i].peak_bytes) measured.push_back(i);
    }
    sort(measured);
    std::vector<bool> is_listed(candidates_.size(), false);
    for (std::size_t i = 0; i < std::min(options_.top, measured.size()); ++i) is_listed[measured[i]] = true;
    for (const std::size_t number : front_of(measured)) is_listed[number] = true;
    for (std::size_t value = 0; value < values_.count(); ++value) {
      const BestOfValue& best = known.of_value(value);
      if (best.fitting) is_listed[*best.fitting] = true;
      if (best.fastest) is_listed[*best.fastest] = true;
    }
    std::erase_if(measured, [&](std::size_t number) { return !is_listed[number]; });
    return measured;
  }

  /// Of measured configurations those that none beats.
  std::vector<std::size_t> front_of(std::vector<std::size_t> numbers) const {
    std::ranges::stable_sort(numbers, {}, [&](std::size_t n) {
      return std::pair(time_of(candidates_[n]), *candidates_[n].peak_bytes);
    });
    std::vector<std::size_t> front;
    for (const std::size_t number : numbers) {
      // By time, so that each one on the front has to be smaller than the last.
      if (front.empty() || *candidates_[number].peak_bytes < *candidates_[front.back()].peak_bytes)
        front.push_back(number);
    }
    return front;
  }

  /// Schedules that weigh costs search their order for these, as simulate() has it; until the first ones are
  /// all settled.
  tl::expected<void, std::string> refine(std::vector<std::size_t>& listed) {
    refined_.assign(candidates_.size(), false);
    while (!is_stopped()) {
      sort(listed);
      const auto firsts = std::span(listed).first(std::min(options_.refined, listed.size()));
      const auto first =
          std::ranges::find_if(firsts, [&](std::size_t number) { return is_constructed(number); });
      // A better order may carry a configuration forward, and another one into the first ones: all over
      // again.
      if (first == firsts.end()) return {};
      if (auto refined = refine_one(*first); !refined) return refined;
    }
    sort(listed);
    return {};
  }

  /// Whether its figures are those of an order for equal stages, which a search has not replaced.
  bool is_constructed(std::size_t number) const {
    return find_schedule(candidates_[number].configuration.schedule)->weighs_costs && !refined_[number];
  }

  tl::expected<void, std::string> refine_one(std::size_t number) {
    Candidate& candidate = candidates_[number];
    auto searched = searched_.of(candidate.configuration, priced(candidate.configuration));
    if (!searched) return tl::unexpected(searched.error());
    if (!*searched) return {};  // stopped
    candidate.step_ns = (*searched)->step_ns;
    candidate.peak_bytes = (*searched)->peak_bytes;
    refined_[number] = true;
    return {};
  }

  /// What simulate() assumes of it. Which order a search would find is none of it, once nobody waits for
  /// that.
  std::vector<std::string> notes_of(std::size_t number) {
    const Configuration& of = candidates_[number].configuration;
    if (refined_[number]) return (*searched_.of(of, priced(of)))->notes;
    Scenario scenario = scenario_of(request_, of);
    if (is_stopped()) scenario.shape.effort.passes = 0;
    auto experiment = done_unless(options_.stopped, [scenario] { return prepare_as_generated(scenario); });
    if (!experiment || !*experiment) return {};
    return std::move((*experiment)->notes);
  }

  TunedConfiguration tuned(std::size_t number) const {
    const Candidate& candidate = candidates_[number];
    const Workload& work = model_of(request_).work;
    // Of all devices together: rates are those of one of them.
    const double device_seconds = static_cast<double>(time_of(candidate)) * 1e-9;
    const auto samples = static_cast<double>(request_.global_batch_size);
    return {.configuration = candidate.configuration,
            .step_ns = *candidate.step_ns,
            .peak_bytes = *candidate.peak_bytes,
            .fits = *candidate.peak_bytes <= capacity_,
            .constructed = is_constructed(number),
            .tokens_per_second_per_device = samples * static_cast<double>(work.sequence) / device_seconds,
            .mfu = samples * flops_per_sample(work.model, work.sequence) / device_seconds /
                   peak_flops(work.device, work.precision)};
  }

  /// Each value of each choice, ascending, with the best that it leaves. A value is named by the first
  /// candidate that has it.
  void add_choices(const KnownWorth& known, const std::map<std::size_t, std::size_t>& place) {
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
      const BestOfValue& best = known.of_value(value.first);
      ChoiceCost cost{.choice = kChoices[choice.first], .value = value.second, .best = {}, .faster = {}};
      if (best.fitting) cost.best = place.at(*best.fitting);
      const bool is_other = best.fastest && best.fastest != best.fitting;
      // Nobody has measured it where the search was stopped.
      if (is_other && candidates_[*best.fastest].peak_bytes.value_or(0) > capacity_)
        cost.faster = place.at(*best.fastest);
      report_.choices.push_back(std::move(cost));
    }
  }

  const TuneRequest& request_;
  const TuneOptions& options_;
  ConfigurationPrices prices_;
  std::shared_ptr<ProgramLibrary> programs_;  // which work that was given up may still use
  SearchedOrders searched_;
  ValueNumbers values_;
  Bytes capacity_ = std::numeric_limits<Bytes>::max();
  std::vector<Candidate> candidates_;
  std::vector<bool> refined_;
  std::size_t settled_ = 0;  // of the candidates, the first so many
  TuneReport report_;
};

}  // namespace

tl::expected<TuneReport, std::string> tune(const TuneRequest& request, const TuneOptions& options) {
  return TuneSearch(request, options).report();
}

}  // namespace penstock
