#pragma once
// Regression of schedules in a CI without GPUs: a committed file of figures for a list of scenarios, and the
// comparison with what they are now.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "schedules/action.hpp"

namespace penstock {

/// How much worse a figure may become, as a fraction of the baseline's (0.01: one percent). Getting better is
/// reported but never fails; the digest is compared only where `digest` says so.
struct BaselineTolerance {
  double makespan = 0;
  double bubble = 0;      ///< absolute, on idle_over_total
  double peak_bytes = 0;
  bool digest = false;

  friend bool operator==(const BaselineTolerance&, const BaselineTolerance&) = default;
};

/// What is remembered of one scenario or program file.
struct BaselineFigures {
  bool valid = true;
  std::map<std::string, bool> hangs;  ///< by channel model
  Ns makespan_ns = 0;
  double idle_over_total = 0;
  Bytes peak_bytes = 0;               ///< of the fullest rank
  std::string digest;

  friend bool operator==(const BaselineFigures&, const BaselineFigures&) = default;
};

struct BaselineEntry {
  std::string scenario;  ///< a path relative to the baseline file
  std::optional<BaselineFigures> figures;  ///< absent: listed, not measured yet

  friend bool operator==(const BaselineEntry&, const BaselineEntry&) = default;
};

struct Baseline {
  BaselineTolerance tolerance;
  std::vector<BaselineEntry> entries;

  friend bool operator==(const Baseline&, const Baseline&) = default;
};

/// One comparison that a user reads: what was expected, what is, and whether it is within tolerance.
struct BaselineFinding {
  std::string scenario;
  std::string figure;   ///< "makespan_ns", "hangs under pair", ...
  std::string expected;
  std::string actual;
  bool failed = false;  ///< false: changed for the better, or within tolerance
};

/// The findings of one entry; none means unchanged.
struct BaselineVerdict {
  std::string scenario;
  std::vector<BaselineFinding> findings;
  std::optional<std::string> error;  ///< the scenario could not be read or simulated
  bool failed() const;
};

/// Reads a baseline file (JSON). Errors name the file, the place and what was expected.
tl::expected<Baseline, std::string> read_baseline(const std::filesystem::path& file);
/// The text of the file: stable order and formatting, so that a diff shows what changed.
std::string to_json(const Baseline& baseline);

/// The figures of a scenario or program file as they are now.
tl::expected<BaselineFigures, std::string> measure(const std::filesystem::path& scenario);

/// Compares every entry with its figures now.
std::vector<BaselineVerdict> compare(const Baseline& baseline, const std::filesystem::path& directory);
/// The same entries with the figures of now. Error: an entry that cannot be measured.
tl::expected<Baseline, std::string> updated(const Baseline& baseline, const std::filesystem::path& directory);

/// JUnit XML, one test case an entry, for CI servers.
std::string to_junit(const std::vector<BaselineVerdict>& verdicts);

}  // namespace penstock
