#pragma once
// Regression tests of schedules, for CI without GPUs. A committed file, the baseline, stores figures of
// scenarios. A check computes the figures again and compares them. baseline_file.cpp reads and writes the
// file, and baseline_explain.cpp explains why a figure has changed.
//
// The bill of a run and the longest path through it explain its makespan. The path is a chain of compute
// actions. Each action started when the action before it had ended, or when the message of that action had
// arrived.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/why/explanation.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {

struct PathStep {
  std::int32_t rank = 0;
  std::string action;  ///< for example "1F3"; for an overlapped pair, its first action
  Ns start_ns = 0;
  Ns end_ns = 0;

  friend bool operator==(const PathStep&, const PathStep&) = default;
};

/// Returns the compute actions on the critical path of a run, in order of time.
std::vector<PathStep> longest_path(const Explanation& explanation);

/// Returns text such as "0 1F3 1000000 2000000": rank, action, start and end in nanoseconds.
std::string to_text(const PathStep& step);
/// Reads a path step from the text that to_text() returns. Returns an error if the text has another form.
tl::expected<PathStep, std::string> path_step_of_text(const std::string& text);

/// Returns the index of the first step in which two paths differ. Returns the length of the shorter path if
/// they do not differ. Steps are equal if they are the same action on the same rank, at any time.
std::size_t parting_step(const std::vector<PathStep>& before, const std::vector<PathStep>& after);

/// The amounts by which figures may become worse. An improvement never fails. A changed digest fails only if
/// `digest` is true. A changed amount of work always fails.
struct BaselineTolerance {
  double makespan = 0;  ///< largest increase, as a fraction of the baseline's makespan; 0.01 is one percent
  /// Largest increase of idle_over_total. A larger increase passes if ranks are idle for less time than
  /// before.
  double bubble = 0;
  double peak_bytes = 0;  ///< largest increase, as a fraction of the baseline's peak
  bool digest = false;    ///< true if a changed digest of the lowered program is a failure

  friend bool operator==(const BaselineTolerance&, const BaselineTolerance&) = default;
};

/// The rates that a model reaches on named devices. They decrease if the makespan increases, so the tolerance
/// of the makespan also applies to them.
struct ReachedRates {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double mfu = 0;

  friend bool operator==(const ReachedRates&, const ReachedRates&) = default;
};

/// The figures of one simulation of a scenario.
struct StoredRun {
  Ns makespan_ns = 0;
  double idle_over_total = 0;
  /// Peak of the fullest rank, in bytes, or in activations if the scenario counts memory in activations.
  double peak_bytes = 0;
  /// The rates of the model. Absent if the model has no rates, or if an older version of Penstock wrote the
  /// file.
  std::optional<ReachedRates> rates{};

  friend bool operator==(const StoredRun&, const StoredRun&) = default;
};

/// The figures that the baseline stores for one scenario or program file.
struct BaselineFigures {
  bool valid = true;
  /// For each channel model, true if the program hangs with it. The other channel options are those of the
  /// scenario. Empty if the program is invalid.
  std::map<ChannelModel, bool> hangs{};
  std::set<ChannelModel> crosses{};  ///< channel models with which messages are crossed
  std::string digest{};              ///< digest of the lowered program; empty if invalid
  std::int64_t forwards = 0;         ///< amount of work: the number of F on all ranks in all iterations
  /// The figures of the simulated run. Absent if the program is invalid, or if it hangs or has crossed
  /// messages with the scenario's channels.
  std::optional<StoredRun> run{};

  friend bool operator==(const BaselineFigures&, const BaselineFigures&) = default;
};

/// The moment at which the fullest rank holds the most memory.
struct HeldPeak {
  std::int32_t rank = 0;
  std::string action;  ///< action that reaches the peak; empty if the peak exists before the first action
  MemoryUnit unit = MemoryUnit::bytes;
  MemoryByCategory held{};

  friend bool operator==(const HeldPeak&, const HeldPeak&) = default;
};

/// The data of a run from which a change of its figures can be explained. A baseline stores them, so that
/// users need not run the earlier version again.
struct HeldRun {
  /// The text of the lowered program. Empty if Baseline::holds_programs is false.
  std::string program;
  /// The longest path of the run. Empty if the program hangs or Baseline::holds_programs is false.
  std::vector<PathStep> path;
  /// Absent if the program hangs or has more than kMostExplained compute actions, or if an older version of
  /// Penstock wrote the file.
  std::optional<MeanBill> bill{};
  /// Absent if the program hangs, or if an older version of Penstock wrote the file.
  std::optional<HeldPeak> peak{};

  friend bool operator==(const HeldRun&, const HeldRun&) = default;
};

struct BaselineEntry {
  std::string scenario;                    ///< path relative to the baseline file
  std::optional<BaselineFigures> figures;  ///< absent if the entry is listed but not measured yet
  /// Absent if the program is invalid, or if an older version of Penstock wrote the file.
  std::optional<HeldRun> held{};
  /// The notes on a program file. Only updated() fills them in; the baseline file does not contain them.
  std::vector<std::string> notes{};
  /// The unit of the peak memory. Only updated() fills it in; the baseline file does not contain it.
  MemoryUnit memory_unit = MemoryUnit::bytes;

  /// Compares all members except the unit, because the file does not contain it.
  friend bool operator==(const BaselineEntry& one, const BaselineEntry& other) {
    return std::tie(one.scenario, one.figures, one.held, one.notes) ==
           std::tie(other.scenario, other.figures, other.held, other.notes);
  }
};

struct Baseline {
  BaselineTolerance tolerance;
  bool holds_programs = false;
  std::vector<BaselineEntry> entries;

  friend bool operator==(const Baseline&, const Baseline&) = default;
};

/// One difference between the stored and the current figures. The texts are for people ("33.000 ms"), and the
/// numbers are for programs (33000000).
struct BaselineFinding {
  std::string figure;  ///< for example "makespan_ns" or "hangs under pair"
  std::string expected;
  std::string actual;
  bool failed = false;  ///< false for an improvement, and for a difference within the tolerance
  std::optional<double> expected_number{};  ///< absent if the figure is not a number
  std::optional<double> actual_number{};

  friend bool operator==(const BaselineFinding&, const BaselineFinding&) = default;
};

/// Returns the name of a figure in texts for people, such as "makespan" for "makespan_ns". Most figures have
/// the same name in both.
std::string_view shown_figure(std::string_view figure);

/// The result of the comparison of one entry. `findings` is empty if no figure has changed.
struct BaselineVerdict {
  std::string scenario;
  std::vector<BaselineFinding> findings;
  /// The error message. Present if the scenario could not be read or simulated, or was never measured.
  std::optional<std::string> error;
  /// Lines that explain the findings. They contain the complete message about an invalid or hanging
  /// program. They also name changes of the program, its longest path and its peak.
  std::vector<std::string> reasons{};
  std::vector<std::string> notes{};  ///< repairs and assumptions from reading a program file
  bool failed() const;
};

/// The current figures of a scenario. `problem` is the reason why the program is invalid, hangs or has
/// crossed messages. It is empty if the program runs.
struct Measurement {
  BaselineFigures figures;
  std::string problem;
  /// The message for each channel model with which the program hangs or its messages are crossed.
  std::map<ChannelModel, std::string> hangs{};
  /// The data that explain the figures. For an invalid program file, they are only the text of the program.
  /// They are absent for an invalid program of a scenario, and if the caller passed RunHeld::none.
  std::optional<HeldRun> run{};
  std::vector<std::string> notes{};            ///< repairs and assumptions from reading a program file
  MemoryUnit memory_unit = MemoryUnit::bytes;  ///< unit of the peak
};

/// The data that a measurement stores to explain its figures (HeldRun). They need a graph of every action.
enum class RunHeld : std::uint8_t {
  none,
  bill,     ///< the bill and the peak of memory
  program,  ///< also the text of the program and its longest path
};

/// Reads a baseline file (JSON). An error message names the file, the position, the expected value and the
/// found value.
tl::expected<Baseline, std::string> read_baseline(const std::filesystem::path& file);
/// Reads a baseline from `text` in the same way as read_baseline(). Error messages use `name` as the file's
/// name.
tl::expected<Baseline, std::string> parse_baseline(const std::string& text, const std::string& name);
/// Returns the baseline as the text of its file. Order and format are fixed, so that a diff of two files
/// shows only real changes.
std::string to_json(const Baseline& baseline);

/// Computes the current figures of a scenario or program file. Returns an error if the file cannot be read,
/// if its shape is impossible, or if this machine has too little memory.
tl::expected<Measurement, std::string> measure(const std::filesystem::path& scenario,
                                               RunHeld held = RunHeld::none);

/// Returns the differences between the stored figures (`expected`) and the current figures (`now`).
std::vector<BaselineFinding> findings_of(const BaselineFigures& expected, const Measurement& now,
                                         const BaselineTolerance& tolerance);
/// Compares the stored figures of every entry with its current figures. `directory` is the folder of the
/// baseline file.
std::vector<BaselineVerdict> compare(const Baseline& baseline, const std::filesystem::path& directory);
/// Returns the baseline with the current figures of all entries. Returns an error if an entry cannot be
/// measured.
tl::expected<Baseline, std::string> updated(const Baseline& baseline, const std::filesystem::path& directory);

/// Returns lines that explain how `now` differs from the stored run `then`.
std::vector<std::string> explanation_of(const HeldRun& then, const HeldRun& now);
/// Returns the changes that a user accepts by replacing the baseline `before` by `after`, as one verdict
/// for each entry. The tolerance is 0.
std::vector<BaselineVerdict> accepted_by(const Baseline& before, const Baseline& after);

/// Returns the verdicts as JUnit XML for CI servers, with one test case for each entry.
std::string to_junit(const std::vector<BaselineVerdict>& verdicts);

}  // namespace penstock
