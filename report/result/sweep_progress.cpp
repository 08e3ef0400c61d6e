// The text is JSON lines, so that a crash costs at most one line:
//
//   {"schema_version":2,"kind":"sweep-progress","points":1000,"digest":"6c1f..."}
//   {"point":3,"row":{...},"counts_activations":false,"notes":[]}
//
// Version 1 is refused: it had no digest, so nobody can check that its points are of the same sweep. The file
// may have been edited, so each number must fit the range of its figure. Tested by sweep_test.cpp.

#include "report/result/sweep_progress.hpp"

#include <cstddef>
#include <istream>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/result/json_text.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

/// Returns why the file that begins with `line` is not that of the sweep; empty if it is.
std::string fault_of_head(const std::string& line, const SweepIdentity& sweep) {
  const auto head = json_of<Json>(line);
  const auto says = [&](const char* key, const Json& value) {
    return head->contains(key) && head->at(key) == value;
  };
  if (!head || !head->is_object() || !says("kind", "sweep-progress"))
    return "expected the progress of a sweep, as --resume writes it; name another file";
  if (says("schema_version", 1)) {
    return "expected schema_version 2, got 1, which does not show its scenario and flags; name another file, "
           "or remove it";
  }
  if (!says("schema_version", 2)) return "expected schema_version 2; name another file";
  if (!says("points", sweep.points)) {
    return fmt::format("the file is of a sweep of {} points, this one has {}; name another file",
                       head->contains("points") ? shown_json(head->at("points")) : "an unknown number of",
                       sweep.points);
  }
  if (says("digest", sweep.digest)) return "";
  return "the file is of another sweep: the scenario, a file that it names, the flags or penstock have "
         "changed "
         "since it began; name another file, or remove it";
}

/// The limit of lines for each point. A sweep writes one line; a file merged from several may have another.
constexpr std::size_t kMostLinesOfAPoint = 2;

/// Reads a line like std::getline(), but stops one character after the allowed length.
bool next_line(std::istream& text, std::string& line) {
  line.clear();
  for (char c = 0; line.size() <= kLongestProgressLine && text.get(c) && c != '\n';) line += c;
  return !line.empty() || text.good();
}

}  // namespace

std::string sweep_progress_head(const SweepIdentity& sweep) {
  const Json head = {
      {"schema_version", 2}, {"kind", "sweep-progress"}, {"points", sweep.points}, {"digest", sweep.digest}};
  return head.dump() + '\n';
}

tl::expected<std::map<std::size_t, SweepPoint>, std::string> read_sweep_progress(std::istream& text,
                                                                                 const std::string& file,
                                                                                 const SweepIdentity& sweep) {
  std::map<std::size_t, SweepPoint> known;
  const std::size_t most_lines = 1 + kMostLinesOfAPoint * sweep.points;
  std::string line;
  for (std::size_t number = 1; next_line(text, line); ++number) {
    if (line.size() > kLongestProgressLine) {
      return tl::unexpected(
          fmt::format("{}:{}: expected a line of at most 1 MiB; name another file", file, number));
    }
    if (number > most_lines) {
      return tl::unexpected(fmt::format("{}:{}: expected at most {} lines for {} points; name another file",
                                        file, number, most_lines, sweep.points));
    }
    // the last line has no end if a crash cut it off
    const bool is_whole = !text.eof();
    if (number == 1) {
      const std::string fault = fault_of_head(line, sweep);
      if (!fault.empty()) return tl::unexpected(fmt::format("{}: {}", file, fault));
    } else if (is_whole) {
      auto point = sweep_point_of_json(line);
      if (!point) return tl::unexpected(fmt::format("{}:{}: {}", file, number, point.error()));
      // If a point appears twice, the last line counts.
      known.insert_or_assign(point->first, std::move(point->second));
    }
  }
  if (text.bad()) return tl::unexpected(fmt::format("{}: cannot be read", file));
  return known;
}

}  // namespace penstock
