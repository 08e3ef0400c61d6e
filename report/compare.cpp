// Figures are compared one by one; actions by their place in the lists, which are the same in both.

#include "report/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "report/result.hpp"
#include "report/timeline.hpp"
#include "schedules/action.hpp"

namespace penstock {
namespace {

constexpr std::array kComparedKinds = {
    ActionKind::forward,   ActionKind::backward,   ActionKind::backward_input, ActionKind::backward_weight,
    ActionKind::recompute, ActionKind::step,       ActionKind::send_forward,   ActionKind::send_backward,
    ActionKind::unshard,   ActionKind::reduce_grad};

double relative(double predicted, double measured) {
  if (predicted == measured) return 0;
  return (predicted - measured) / measured;
}

ComparedFigure in_proportion(std::string name, double predicted, double measured,
                             std::optional<double> tolerance) {
  return {.name = std::move(name),
          .predicted = predicted,
          .measured = measured,
          .error = relative(predicted, measured),
          .tolerance = tolerance};
}

double fullest_rank(const Result& result) {
  Bytes most = 0;
  for (const RankReport& rank : result.ranks) most = std::max(most, rank.memory.peak_bytes);
  return static_cast<double>(most);
}

std::vector<ComparedFigure> figures_of(const Result& predicted, const Result& measured,
                                       const CompareTolerances& tolerances) {
  std::vector<ComparedFigure> figures;
  figures.push_back(in_proportion("makespan_ns", static_cast<double>(predicted.makespan_ns),
                                  static_cast<double>(measured.makespan_ns), tolerances.makespan));
  figures.push_back({.name = "idle_over_total",
                     .predicted = predicted.bubble.idle_over_total,
                     .measured = measured.bubble.idle_over_total,
                     .error = predicted.bubble.idle_over_total - measured.bubble.idle_over_total,
                     .tolerance = tolerances.bubble});
  figures.push_back(in_proportion("samples_per_second", predicted.throughput.samples_per_second,
                                  measured.throughput.samples_per_second, tolerances.makespan));
  if (fullest_rank(measured) > 0) {
    figures.push_back(
        in_proportion("peak_bytes", fullest_rank(predicted), fullest_rank(measured), tolerances.memory));
  }
  return figures;
}

ErrorParts parts_of(const Result& predicted, const Result& measured) {
  const auto mean = [](const Result& result, Ns RankReport::* figure) {
    Ns sum = 0;
    for (const RankReport& rank : result.ranks) sum += rank.*figure;
    return result.ranks.empty() ? 0 : sum / static_cast<Ns>(result.ranks.size());
  };
  const auto error = [&](Ns RankReport::* figure) {
    return mean(predicted, figure) - mean(measured, figure);
  };
  ErrorParts parts{.makespan_ns = predicted.makespan_ns - measured.makespan_ns,
                   .compute_ns = error(&RankReport::busy_ns),
                   .transfer_ns = error(&RankReport::exposed_communication_ns)};
  parts.waiting_ns = parts.makespan_ns - parts.compute_ns - parts.transfer_ns;
  return parts;
}

// --- actions --------------------------------------------------------------------------------------

bool have_same_actions(const Timeline& a, const Timeline& b) {
  return a.spans.size() == b.spans.size() &&
         std::ranges::equal(a.spans, b.spans, [](const Span& x, const Span& y) {
           return x.rank == y.rank && to_text(x.action) == to_text(y.action);
         });
}

Ns length(const Span& span) { return span.end_ns - span.start_ns; }

ActionErrors errors_of(ActionKind kind, const Timeline& predicted, const Timeline& measured) {
  ActionErrors errors{.kind = kind, .worst_start_ns = -1, .worst_action = {}};
  for (std::size_t i = 0; i < predicted.spans.size(); ++i) {
    const Span& expected = predicted.spans[i];
    if (expected.action.kind != kind) continue;
    const Span& actual = measured.spans[i];
    const Ns off = std::abs(expected.start_ns - actual.start_ns);
    ++errors.count;
    errors.mean_start_ns += off;
    errors.predicted_duration_ns += length(expected);
    errors.measured_duration_ns += length(actual);
    if (off <= errors.worst_start_ns) continue;
    errors.worst_start_ns = off;
    errors.worst_action = fmt::format("rank {}: {}", expected.rank, to_text(expected.action));
  }
  if (errors.count == 0) return errors;
  errors.mean_start_ns /= errors.count;
  errors.predicted_duration_ns /= errors.count;
  errors.measured_duration_ns /= errors.count;
  return errors;
}

/// Means over all compute actions but STEP, which usually takes no time.
void add_action_figures(std::vector<ComparedFigure>& figures, const Timeline& predicted,
                        const Timeline& measured, const CompareTolerances& tolerances) {
  double start_error = 0;
  double duration_error = 0;
  double duration = 0;
  double count = 0;
  for (std::size_t i = 0; i < predicted.spans.size(); ++i) {
    const Span& expected = predicted.spans[i];
    const Span& actual = measured.spans[i];
    if (!has_weight_version(expected.action.kind)) continue;
    start_error += static_cast<double>(std::abs(expected.start_ns - actual.start_ns));
    duration_error += static_cast<double>(std::abs(length(expected) - length(actual)));
    duration += static_cast<double>(length(actual));
    count += 1;
  }
  if (count == 0 || measured.makespan_ns == 0) return;
  const auto add = [&](const char* name, double error, std::optional<double> tolerance) {
    figures.push_back({.name = name, .error = error, .tolerance = tolerance});
  };
  add("action_start", start_error / count / static_cast<double>(measured.makespan_ns), tolerances.start);
  add("action_duration", duration > 0 ? duration_error / duration : 0, tolerances.duration);
}

std::optional<std::string> why_not_comparable(const Result& predicted, const Result& measured) {
  if (predicted.kind == ResultKind::measured && measured.kind == ResultKind::predicted) {
    return "the first result is a measurement and the second a prediction: give the prediction first";
  }
  if (predicted.program.digest != measured.program.digest) {
    return fmt::format("the results are of different programs: {} (digest {:.12}) and {} (digest {:.12})",
                       predicted.program.schedule, predicted.program.digest, measured.program.schedule,
                       measured.program.digest);
  }
  if (predicted.channel != measured.channel) {
    return fmt::format(
        "the results are of different channel models: {} and {}; predict again with --channel {}",
        predicted.channel, measured.channel, measured.channel);
  }
  return std::nullopt;
}

}  // namespace

bool ComparedFigure::passed() const { return !tolerance || std::abs(error) <= *tolerance; }

bool Comparison::passed() const { return std::ranges::all_of(figures, &ComparedFigure::passed); }

tl::expected<Comparison, std::string> compare_results(const Result& predicted, const Result& measured,
                                                      const CompareTolerances& tolerances) {
  if (auto why = why_not_comparable(predicted, measured)) return tl::unexpected(*std::move(why));
  Comparison comparison{.schedule = measured.program.schedule,
                        .digest = measured.program.digest,
                        .channel = measured.channel,
                        .figures = figures_of(predicted, measured, tolerances),
                        .parts = parts_of(predicted, measured),
                        .actions = {}};
  if (predicted.timeline.spans.empty() || measured.timeline.spans.empty()) return comparison;
  if (!have_same_actions(predicted.timeline, measured.timeline)) {
    return tl::unexpected<std::string>("the timelines are not of the same actions, although the digest is");
  }
  add_action_figures(comparison.figures, predicted.timeline, measured.timeline, tolerances);
  for (const ActionKind kind : kComparedKinds) {
    ActionErrors errors = errors_of(kind, predicted.timeline, measured.timeline);
    if (errors.count > 0) comparison.actions.push_back(std::move(errors));
  }
  return comparison;
}

}  // namespace penstock
