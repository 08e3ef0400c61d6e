#pragma once
// Regression of schedules in a CI without GPUs: a committed file of figures for a list of scenarios, and the
// comparison with what they are now. baseline_file.cpp reads and writes the file.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/baseline/longest_path.hpp"

namespace penstock {

/// How much worse a figure may become. Getting better is reported but never fails; another digest is
/// reported, and fails where `digest` says so; another amount of work always fails.
struct BaselineTolerance {
  double makespan = 0;    ///< fraction of the baseline's: 0.01 is one percent
  double bubble = 0;      ///< absolute, on idle_over_total
  double peak_bytes = 0;  ///< fraction of the baseline's
  bool digest = false;    ///< true: the lowered program must be the same

  friend bool operator==(const BaselineTolerance&, const BaselineTolerance&) = default;
};

/// What a model on named devices reaches. They fall as the makespan grows, and have its tolerance.
struct ReachedRates {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double mfu = 0;

  friend bool operator==(const ReachedRates&, const ReachedRates&) = default;
};

/// What a simulation of the scenario gives.
struct RunFigures {
  Ns makespan_ns = 0;
  double idle_over_total = 0;
  double peak_bytes = 0;                ///< of the fullest rank; without a model in activations
  std::optional<ReachedRates> rates{};  ///< absent: no such model, or an older file

  friend bool operator==(const RunFigures&, const RunFigures&) = default;
};

/// What is remembered of one scenario or program file.
struct BaselineFigures {
  bool valid = true;
  std::map<ChannelModel, bool> hangs{};  ///< with the scenario's other channel options; empty when invalid
  std::set<ChannelModel> crosses{};      ///< models under which messages cross
  std::string digest{};                  ///< of the lowered program; empty when invalid
  std::int64_t forwards = 0;             ///< F actions of all ranks and iterations: the amount of work
  std::optional<RunFigures> run{};       ///< absent: invalid, hanging or crossing under its own channels

  friend bool operator==(const BaselineFigures&, const BaselineFigures&) = default;
};

/// The moment at which the fullest rank holds most.
struct HeldPeak {
  std::int32_t rank = 0;
  std::string action;  ///< the text of what caused it; empty: there from the start
  MemoryUnit unit = MemoryUnit::bytes;
  MemoryByCategory held{};

  friend bool operator==(const HeldPeak&, const HeldPeak&) = default;
};

/// What explains a change without the checkout that the figures are of.
struct HeldRun {
  std::string program;             ///< the lowered program's text
  std::vector<PathStep> path;      ///< of its run; empty: it hangs
  std::optional<HeldPeak> peak{};  ///< absent: it hangs, or an older file

  friend bool operator==(const HeldRun&, const HeldRun&) = default;
};

struct BaselineEntry {
  std::string scenario;                    ///< a path relative to the baseline file
  std::optional<BaselineFigures> figures;  ///< absent: listed, not measured yet
  std::optional<HeldRun> held{};           ///< where Baseline::holds_programs, and the program is valid
  std::vector<std::string>
      notes{};  ///< what updated() repaired or assumed where it read a program; in no file

  friend bool operator==(const BaselineEntry&, const BaselineEntry&) = default;
};

struct Baseline {
  BaselineTolerance tolerance;
  bool holds_programs = false;
  std::vector<BaselineEntry> entries;

  friend bool operator==(const Baseline&, const Baseline&) = default;
};

/// One difference that a user reads: what was expected and what is.
struct BaselineFinding {
  std::string figure;  ///< "makespan_ns", "hangs under pair", ...
  std::string expected;
  std::string actual;
  bool failed = false;  ///< false: changed for the better, or within tolerance

  friend bool operator==(const BaselineFinding&, const BaselineFinding&) = default;
};

/// The findings of one entry; none means unchanged.
struct BaselineVerdict {
  std::string scenario;
  std::vector<BaselineFinding> findings;
  std::optional<std::string> error;  ///< the scenario could not be read or simulated, or was never measured
  /// Why, in lines: the whole message of what is invalid or hangs; what changed in the program and on its
  /// longest path.
  std::vector<std::string> reasons{};
  std::vector<std::string> notes{};  ///< what was repaired or assumed where a program was read
  bool failed() const;
};

/// Figures of now, and why the program is invalid, hangs or crosses (empty when it runs).
struct Measurement {
  BaselineFigures figures;
  std::string problem;
  /// The message of each model under which it hangs or its messages cross.
  std::map<ChannelModel, std::string> hangs{};
  /// Where it was asked for; of an invalid program its own text alone, as far as there is one.
  std::optional<HeldRun> run{};
  std::vector<std::string> notes{};  ///< what was repaired or assumed where a program was read
};

/// Whether a measurement keeps what explains it; that takes the span of every action.
enum class RunHeld : std::uint8_t { no, yes };

/// Reads a baseline file (JSON). Errors name the file, the place and what was expected.
tl::expected<Baseline, std::string> read_baseline(const std::filesystem::path& file);
/// The same from text; `name` is what messages call it.
tl::expected<Baseline, std::string> parse_baseline(const std::string& text, const std::string& name);
/// The text of the file: stable order and formatting, so that a diff shows what changed.
std::string to_json(const Baseline& baseline);

/// The figures of a scenario or program file as they are now. Error: it cannot be read or has an impossible
/// shape.
tl::expected<Measurement, std::string> measure(const std::filesystem::path& scenario,
                                               RunHeld held = RunHeld::no);

/// What has changed from `expected` to `now`.
std::vector<BaselineFinding> findings_of(const BaselineFigures& expected, const Measurement& now,
                                         const BaselineTolerance& tolerance);
/// Compares every entry with its figures now. `directory` is the baseline file's.
std::vector<BaselineVerdict> compare(const Baseline& baseline, const std::filesystem::path& directory);
/// The same entries with the figures of now. Error: an entry that cannot be measured.
tl::expected<Baseline, std::string> updated(const Baseline& baseline, const std::filesystem::path& directory);

/// What `now` does differently, where the baseline holds what was.
std::vector<std::string> explanation_of(const HeldRun& then, const HeldRun& now);
/// What an update from `before` to `after` accepts: a verdict an entry, without tolerance.
std::vector<BaselineVerdict> accepted_by(const Baseline& before, const Baseline& after);

/// JUnit XML, one test case an entry, for CI servers.
std::string to_junit(const std::vector<BaselineVerdict>& verdicts);

}  // namespace penstock
