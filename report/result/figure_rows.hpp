#pragma once
// The figures of a result, one row a figure. JSON and its reader, CSV, the table of ranks (text and page),
// invariants and docs/reference/figures.md loop over the rows: a new figure is one row and one member.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "report/result/result.hpp"

namespace penstock {

/// What the number of a figure counts.
enum class FigureUnit : std::uint8_t {
  nanoseconds,
  bytes,   // also of messages
  memory,  // bytes, or activations where the model has no bytes (MemoryUnit)
  count,   // things
  part,    // a fraction of 1
  per_second,
  money,
};

/// What holds for a figure of every result. A measurement may pass a bound by what its clocks are apart.
enum class FigureBound : std::uint8_t {
  not_negative,
  within_run,        // from 0 to the makespan
  up_to_makespan,    // the makespan less a time that may be measured too long
  part,              // from 0 to 1
  part_if_predicted  // not negative, and at most 1 in a prediction
};

/// A whole number of each rank.
struct RankFigure {
  std::string_view key;    ///< in JSON and CSV
  std::string_view title;  ///< the column in tables
  FigureUnit unit;
  FigureBound bound;
  std::string_view meaning;  ///< one sentence
  std::int64_t (*get)(const RankReport& rank);
  void (*set)(RankReport& rank, std::int64_t value);
  std::int64_t least = 0;  ///< that JSON may state
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// Returns the figures of a rank in the order in which they are written.
std::span<const RankFigure> figures_of_ranks();

/// What JSON has for a figure that a result lacks.
enum class AbsentFigure : std::uint8_t {
  never,     // all results have it
  null,      // the key with null
  left_out,  // no key
};

/// A real number of the whole run.
struct RunFigure {
  std::string_view section;  ///< the object of the document: "bubble" or "throughput"
  std::string_view key;
  FigureUnit unit;
  FigureBound bound;
  std::string_view meaning;  ///< one sentence
  std::optional<double> (*get)(const Result& result);
  void (*set)(Result& result, double value);
  AbsentFigure absent = AbsentFigure::never;
  /// The key that all results have that have this one; empty: its own.
  std::string_view comes_with{};
};

/// Returns the figures of a run in the order in which they are written.
std::span<const RunFigure> figures_of_runs();

}  // namespace penstock
