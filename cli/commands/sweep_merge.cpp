// The parts of one sweep have the same head but for the number of their shard, and shard I of N has the
// points I-1, I-1+N, I-1+2N, ...:
//
//   shard 1/3: points 0 3 6      shard 2/3: points 1 4 7      shard 3/3: points 2 5      rows 0 1 2 ... 7
//
// SweepMerge (tests/cli/sweep_merge_test.cpp) holds the bytes of merged sweeps and what is refused.

#include "cli/commands/sweep_merge.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tl/expected.hpp>

#include "cli/outcome.hpp"
#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

struct PartFile {
  std::string name;  ///< as messages show it
  SweepPart part;
};

tl::expected<PartFile, UserError> part_of(const std::string& file) {
  const std::string name = shown_name(file);
  std::error_code ignored;
  std::ifstream stream;
  // A pipe or a device may have no end.
  if (std::filesystem::is_regular_file(file, ignored)) stream.open(file);
  if (!stream.is_open()) return bad_input(fmt::format("{}: cannot be read: expected a file", name));
  auto part = read_sweep_part(stream, name);
  if (!part) return bad_input(part.error());
  return PartFile{.name = name, .part = *std::move(part)};
}

/// Error: the two are not parts of one sweep, in as many shards.
tl::expected<void, UserError> check_same_sweep(const PartFile& first, const PartFile& other) {
  const SweepHead& one = first.part.head;
  const SweepHead& two = other.part.head;
  if (one.points != two.points || one.digest != two.digest) {
    return bad_input(
        fmt::format("{} and {} are parts of different sweeps: the scenario, the flags or penstock "
                    "differ; name the parts of one sweep",
                    first.name, other.name));
  }
  if (one.shard.count == two.shard.count) return {};
  return bad_input(fmt::format("{} is shard {} and {} is shard {}: name the parts of one N", first.name,
                               to_text(one.shard), other.name, to_text(two.shard)));
}

/// Error: a point that its shard does not have, or points that are missing.
tl::expected<void, UserError> check_complete(const PartFile& file) {
  const SweepHead& head = file.part.head;
  const std::size_t expected = head.shard.size(head.points);
  const std::size_t found = file.part.points.size();
  if (found == expected) return {};
  return bad_input(
      fmt::format("{}: {} of the {} points of shard {} are missing: run the command of that shard "
                  "again, which goes on from there",
                  file.name, expected - found, expected, to_text(head.shard)));
}

/// Error: shards that no file has. Requires that no two files have the same one.
tl::expected<void, UserError> check_all_there(const std::map<std::int32_t, std::string>& names,
                                              std::int32_t count) {
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> missing;
  for (std::int32_t i = 0; i < count && missing.size() < kMostNamed; ++i) {
    if (!names.contains(i)) missing.push_back(to_text(SweepShard{.index = i, .count = count}));
  }
  if (missing.empty()) return {};
  const std::size_t all = static_cast<std::size_t>(count) - names.size();
  const std::string more = all > missing.size() ? fmt::format(" and {} more", all - missing.size()) : "";
  return bad_input(
      fmt::format("no part has shard {}{}: name their parts, too", fmt::join(missing, ", "), more));
}

}  // namespace

tl::expected<Sweep, UserError> merged_sweep(const std::vector<std::string>& files) {
  std::optional<PartFile> first;
  std::map<std::int32_t, std::string> names;  // by shard
  std::map<std::size_t, SweepPoint> points;
  for (const std::string& file : files) {
    auto read = part_of(file);
    if (!read) return tl::unexpected(read.error());
    if (!first) first = PartFile{.name = read->name, .part = {.head = read->part.head, .points = {}}};
    if (auto same = check_same_sweep(*first, *read); !same) return tl::unexpected(same.error());
    const auto [named, is_new] = names.emplace(read->part.head.shard.index, read->name);
    if (!is_new) {
      return bad_input(fmt::format("{} and {} both have shard {}: name one of them", named->second,
                                   read->name, to_text(read->part.head.shard)));
    }
    if (auto complete = check_complete(*read); !complete) return tl::unexpected(complete.error());
    points.merge(read->part.points);
  }
  SweepHead head = std::move(first->part.head);
  if (auto all = check_all_there(names, head.shard.count); !all) return tl::unexpected(all.error());
  head.shard = {};
  std::vector<std::optional<SweepPoint>> rows(head.points);
  for (auto& [number, point] : points) rows[number] = std::move(point);
  return sweep_of_points(head, std::move(rows));
}

}  // namespace penstock
