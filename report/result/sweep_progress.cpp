// Stores the finished points of a sweep as lines of JSON, so that a crash loses at most one line:
//
//   {"schema_version":3,"kind":"sweep-progress","points":1000,"digest":"6c1f...","shard":1,"shards":4,...}
//   {"point":4,"row":{...},"counts_activations":false,"notes":[]}
//   {"bill_of":4,"makespan_ns":12000000,"lines":[["work",9000000],["fill",3000000]]}
//
// Another program may have written the file, so every number is checked against the range of its type.

#include "report/result/sweep_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/units.hpp"
#include "report/result/result_json.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kPartVersion = 3;
constexpr std::int64_t kMostPoints = 1'000'000'000;
constexpr std::int64_t kMostShards = 1 << 20;

/// Returns the integer at a key. Returns nothing if the key is missing or its value is not an integer from
/// `least` to `most`.
std::optional<std::int64_t> number_at(const Json& head, const char* key, std::int64_t least,
                                      std::int64_t most) {
  if (!head.contains(key) || !head.at(key).is_number_integer()) return std::nullopt;
  // A number of 2^63 or more becomes negative here. The check below then refuses it.
  const auto number = head.at(key).get<std::int64_t>();
  return number >= least && number <= most ? std::optional(number) : std::nullopt;
}

std::string text_at(const Json& head, const char* key) {
  return head.contains(key) && head.at(key).is_string() ? head.at(key).get<std::string>() : "";
}

tl::expected<SweepHead, std::string> head_of(const std::string& line) {
  const auto head = json_of<Json>(line);
  if (!head || !head->is_object() || text_at(*head, "kind") != "sweep-progress") {
    return tl::unexpected(
        std::string("expected a part of a sweep, as --shard and --resume write it; name another file"));
  }
  if (!head->contains("schema_version") || head->at("schema_version") != kPartVersion) {
    return tl::unexpected(fmt::format(
        "expected schema_version {}, got {}: another penstock wrote it; name "
        "another file, or remove it",
        kPartVersion, head->contains("schema_version") ? shown_json(head->at("schema_version")) : "none"));
  }
  const auto points = number_at(*head, "points", 0, kMostPoints);
  const auto shards = number_at(*head, "shards", 1, kMostShards);
  const auto shard = number_at(*head, "shard", 1, shards.value_or(1));
  if (!points || !shards || !shard) {
    return tl::unexpected(
        fmt::format("points, shard, shards: expected a number of points up to {} and a shard of up to {}",
                    kMostPoints, kMostShards));
  }
  SweepHead read{
      .points = static_cast<std::size_t>(*points),
      .digest = text_at(*head, "digest"),
      .shard = {.index = static_cast<std::int32_t>(*shard - 1), .count = static_cast<std::int32_t>(*shards)},
      .title = text_at(*head, "title"),
      .notes = {},
      .usable_bytes = number_at(*head, "usable_bytes", 0, std::numeric_limits<std::int64_t>::max()),
      .chunks_note = text_at(*head, "chunks_note")};
  if (head->contains("notes") && head->at("notes").is_array()) {
    for (const Json& note : head->at("notes")) {
      if (note.is_string()) read.notes.push_back(note.get<std::string>());
    }
  }
  return read;
}

/// Returns the reason why a file with this head (first line) does not belong to the expected sweep and
/// shard. The text is empty if the file belongs to them.
std::string fault_of_head(const SweepHead& head, const SweepHead& expected) {
  if (head.points != expected.points) {
    return fmt::format("the file is of a sweep of {} points, this one has {}; name another file", head.points,
                       expected.points);
  }
  if (head.digest != expected.digest) {
    return "the file is of another sweep: the scenario, a file that it names, the flags or penstock have "
           "changed "
           "since it began; name another file, or remove it";
  }
  if (head.shard == expected.shard) return "";
  return fmt::format("the file is of shard {}, this one is {}; name another file", to_text(head.shard),
                     to_text(expected.shard));
}

/// The largest number of lines that a file may have for one point. A sweep writes one line for the point, and
/// may write one for its bill.
constexpr std::size_t kMostLinesOfAPoint = 2;

/// Reads a line like std::getline(), but stops one character after the longest allowed length. The caller can
/// then report that the line is too long.
bool next_line(std::istream& text, std::string& line) {
  line.clear();
  for (char c = 0; line.size() <= kLongestProgressLine && text.get(c) && c != '\n';) line += c;
  return !line.empty() || text.good();
}

/// Adds the bill of one line to `part`. Returns a description of the fault in the line, or an empty text if
/// there is none.
std::string add_bill(const Json& line, SweepPart& part) {
  const auto number = number_at(line, "bill_of", 0, kMostPoints);
  const auto makespan = number_at(line, "makespan_ns", 0, std::numeric_limits<std::int64_t>::max());
  if (!number || !part.points.contains(static_cast<std::size_t>(*number)))
    return "bill_of: expected the number of a point in a line above";
  const bool has_lines = makespan && line.contains("lines") && line.at("lines").is_array();
  const auto is_line = [](const Json& one) {
    return one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_number_integer();
  };
  if (!has_lines || !std::ranges::all_of(line.at("lines"), is_line))
    return "expected makespan_ns, and lines with a cause and a number of ns each";
  MeanBill bill{.makespan_ns = *makespan};
  for (const Json& one : line.at("lines"))
    bill.lines.push_back({.cause = one[0].get<std::string>(), .mean_ns = one[1].get<Ns>()});
  part.bills.insert_or_assign(static_cast<std::size_t>(*number), std::move(bill));
  return "";
}

/// Adds the point or the bill of one line to `part`. Returns a description of the fault in the line, or an
/// empty text if there is none.
std::string add_line(const std::string& line, SweepPart& part) {
  if (line.starts_with(R"({"bill_of")")) {
    const auto bill = json_of<Json>(line);
    return bill ? add_bill(*bill, part) : fmt::format("expected the bill of a point: {}", bill.error());
  }
  auto point = sweep_point_of_json(line);
  if (!point) return point.error();
  if (point->first >= part.head.points || !part.head.shard.has(point->first)) {
    return fmt::format("point {} is none of shard {} of {} points", point->first, to_text(part.head.shard),
                       part.head.points);
  }
  part.points.insert_or_assign(point->first, std::move(point->second));
  return "";
}

void add_once(std::vector<std::string>& notes, const std::vector<std::string>& added) {
  for (const std::string& note : added) {
    if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
  }
}

}  // namespace

std::string to_text(const SweepShard& shard) { return fmt::format("{}/{}", shard.index + 1, shard.count); }

std::string sweep_progress_head(const SweepHead& head) {
  const Json json = {{"schema_version", kPartVersion},
                     {"kind", "sweep-progress"},
                     {"points", head.points},
                     {"digest", head.digest},
                     {"shard", head.shard.index + 1},
                     {"shards", head.shard.count},
                     {"title", head.title},
                     {"notes", head.notes},
                     {"usable_bytes", head.usable_bytes ? Json(*head.usable_bytes) : Json(nullptr)},
                     {"chunks_note", head.chunks_note}};
  // File names may contain bytes that are not UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string sweep_bill_json(std::size_t number, const MeanBill& bill) {
  Json lines = Json::array();
  for (const MeanLine& line : bill.lines) lines.push_back({line.cause, line.mean_ns});
  const Json json = {{"bill_of", number}, {"makespan_ns", bill.makespan_ns}, {"lines", std::move(lines)}};
  return json.dump() + '\n';
}

tl::expected<SweepPart, std::string> read_sweep_part(std::istream& text, const std::string& file,
                                                     const SweepHead* expected) {
  SweepPart part;
  std::string line;
  std::size_t number = 1;
  const auto fault = [&](const std::string& what) {
    return tl::unexpected(fmt::format("{}:{}: {}", file, number, what));
  };
  for (; next_line(text, line); ++number) {
    if (line.size() > kLongestProgressLine)
      return fault("expected a line of at most 1 MiB; name another file");
    if (number == 1) {
      auto head = head_of(line);
      if (!head) return tl::unexpected(fmt::format("{}: {}", file, head.error()));
      const std::string other = expected == nullptr ? "" : fault_of_head(*head, *expected);
      if (!other.empty()) return tl::unexpected(fmt::format("{}: {}", file, other));
      part.head = *std::move(head);
      continue;
    }
    const std::size_t most_lines = 1 + kMostLinesOfAPoint * part.head.points;
    if (number > most_lines) {
      return fault(fmt::format("expected at most {} lines for {} points; name another file", most_lines,
                               part.head.points));
    }
    if (text.eof()) break;  // a crash can leave a last line without an end
    if (const std::string wrong = add_line(line, part); !wrong.empty()) return fault(wrong);
  }
  if (text.bad()) return tl::unexpected(fmt::format("{}: cannot be read", file));
  if (number == 1) return tl::unexpected(fmt::format("{}: expected a part of a sweep, got nothing", file));
  return part;
}

Sweep sweep_of_points(const SweepHead& head, std::vector<std::optional<SweepPoint>> points) {
  Sweep swept{.title = head.title, .rows = {}, .notes = head.notes, .usable_bytes = head.usable_bytes};
  for (std::optional<SweepPoint>& point : points) {
    if (!point) continue;
    add_once(swept.notes, point->notes);
    swept.rows.push_back(std::move(point->row));
  }
  const bool has_chunks =
      std::ranges::any_of(swept.rows, [](const SweepRow& row) { return row.virtual_stages > 1; });
  if (has_chunks && !head.chunks_note.empty()) swept.notes.push_back(head.chunks_note);
  const std::size_t wanted = head.shard.size(head.points);
  if (swept.rows.size() < wanted) {
    swept.interruption = fmt::format("interrupted: {} of {} points are done", swept.rows.size(), wanted);
    swept.notes.push_back(*swept.interruption);
  }
  return swept;
}

}  // namespace penstock
