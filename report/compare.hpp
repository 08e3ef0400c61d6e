#pragma once
// A prediction held against a measurement of the same program: how wrong it is, in what, and where.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/result.hpp"
#include "schedules/action.hpp"

namespace penstock {

/// How wrong a prediction may be. Absent: reported only.
struct CompareTolerances {
  double makespan = 0.05;          ///< fraction of the measured time; also of samples per second
  double bubble = 0.05;            ///< absolute, on idle_over_total
  std::optional<double> memory{};  ///< fraction of the measured peak of the fullest rank
  std::optional<double> start{};   ///< mean over all compute actions, as a fraction of the measured makespan
  std::optional<double> duration{};  ///< mean over all compute actions, as a fraction of their measured time
};

/// One figure of both results.
struct ComparedFigure {
  std::string name;  ///< "makespan_ns", "idle_over_total", ...
  double predicted = 0;
  double measured = 0;
  double error = 0;  ///< predicted - measured; of times, rates and bytes as a fraction of the measured figure
  std::optional<double> tolerance;  ///< largest |error| that passes
  bool passed() const;

  friend bool operator==(const ComparedFigure&, const ComparedFigure&) = default;
};

/// How far the actions of one kind are off.
struct ActionErrors {
  ActionKind kind = ActionKind::forward;
  std::int64_t count = 0;
  Ns mean_start_ns = 0;  ///< of |predicted - measured|
  Ns worst_start_ns = 0;
  std::string worst_action;      ///< "rank 2: 2B5": where the start is most wrong
  Ns predicted_duration_ns = 0;  ///< means
  Ns measured_duration_ns = 0;

  friend bool operator==(const ActionErrors&, const ActionErrors&) = default;
};

/// Where the makespan's error comes from; the parts are means over the ranks and add up to it.
struct ErrorParts {
  Ns makespan_ns = 0;  ///< predicted - measured
  Ns compute_ns = 0;   ///< of busy time
  Ns transfer_ns = 0;  ///< of communication that the next compute action waited for
  Ns waiting_ns = 0;   ///< of all other idle time: waiting for other ranks, and launching

  friend bool operator==(const ErrorParts&, const ErrorParts&) = default;
};

struct Comparison {
  std::string schedule;
  std::string digest;
  std::string channel;
  std::vector<ComparedFigure> figures;
  ErrorParts parts;
  std::vector<ActionErrors> actions;  ///< empty where a result has no timeline
  bool passed() const;

  friend bool operator==(const Comparison&, const Comparison&) = default;
};

/// Compares two results. Errors, because the figures would say nothing: another program (digest), another
/// channel model, other iterations, or the two in the wrong order. Timelines must be complete or empty.
tl::expected<Comparison, std::string> compare_results(const Result& predicted, const Result& measured,
                                                      const CompareTolerances& tolerances);

/// For a terminal.
std::string comparison_to_table(const Comparison& comparison);
/// One JSON object: schema_version, passed, schedule, digest, channel, figures, parts, actions.
std::string comparison_to_json(const Comparison& comparison);

}  // namespace penstock
