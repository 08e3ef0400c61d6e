// Reads and writes the baseline file:
//
//     {
//       "schema_version": 1,
//       "tolerance": {"makespan": 0.01, "bubble": 0.001, "peak_bytes": 0, "digest": false},
//       "programs": true,
//       "entries": [
//         {
//           "scenario": "pipedream-fig3-gpipe.yaml",
//           "valid": true,
//           "digest": "9f...",
//           "forwards": 16,
//           "hangs": {"rank": false, "pair": false, "direction": false, "directed": false, ...},
//           "crosses": ["pair"],       (left out if no messages cross)
//           "makespan_ns": 21000000,
//           "idle_over_total": 0.42857142857142855,
//           "peak_bytes": 0,
//           "tokens_per_second": 66888.9, "tokens_per_second_per_device": 1045.1, "mfu": 0.47,
//           "program": ["penstock program 1", "schedule gpipe", ...],   (only if "programs" is true)
//           "path": ["0 0F0 0 1000000", ...],                           (only if "programs" is true)
//           "bill": {"work": 24000000, "fill": 3000000, ...},
//           "peak": {"rank": 0, "action": "0F3", "weights": 1024, "activations": 4096}
//         },
//         {"scenario": "listed-but-not-measured.yaml"}
//       ]
//     }
//
// Tests: tests/sim/baseline_test.cpp.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/result/result_json.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/read/document.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "sim/hold/baseline.hpp"

namespace penstock {

namespace {

using Json = nlohmann::ordered_json;
constexpr std::int64_t kSchemaVersion = 1;

/// A reader of values in a JSON document. It stores the first problem. After a problem, it continues with
/// default values.
class BaselineReader {
 public:
  explicit BaselineReader(std::string name) : name_(std::move(name)) {}

  const std::string& problem() const { return problem_; }

  void note(std::string_view path, std::string_view expected, const Json* found) {
    if (!problem_.empty()) return;
    const std::string got = found == nullptr ? "nothing" : shown_json(*found);
    problem_ = fmt::format("{}: {}: expected {}, got {}", name_, path, expected, got);
  }

  /// Returns the value of `key` in the object if `fits` accepts it. Returns `otherwise` if the key is missing
  /// and the caller has given this value. In all other cases, records a problem and returns a default value.
  /// `expected` names the accepted values in the message.
  template <typename Value>
  Value member(const Json& object, const std::string& path, const char* key, std::string_view expected,
               bool (*fits)(const Json&), std::optional<Value> otherwise = std::nullopt) {
    const auto found = object.find(key);
    if (found == object.end() && otherwise) return *otherwise;
    if (found != object.end() && fits(*found)) return found->template get<Value>();
    note(path + key, expected, found == object.end() ? nullptr : &*found);
    return Value{};
  }

 private:
  std::string name_;
  std::string problem_;
};

bool is_list(const Json& value) { return value.is_array(); }
bool is_flag(const Json& value) { return value.is_boolean(); }
bool is_text(const Json& value) { return value.is_string(); }
bool is_name(const Json& value) { return value.is_string() && !value.get_ref<const std::string&>().empty(); }
bool is_ratio(const Json& value) { return value.is_number() && value.get<double>() >= 0; }
/// Returns true if the value is a number from 0 to 1.
bool is_part(const Json& value) { return is_ratio(value) && value.get<double>() <= 1; }
bool is_count(const Json& value) {
  // get<std::int64_t>() converts integers above 2^63 - 1 into negative values, which are refused.
  return value.is_number_integer() && value.get<std::int64_t>() >= 0;
}
bool is_rank(const Json& value) {
  return is_count(value) && value.get<std::int64_t>() <= std::numeric_limits<std::int32_t>::max();
}
/// Returns true if the value is a valid number of activations. The limit ensures that the sum of all memory
/// categories fits in 64 bits.
bool is_activations(const Json& value) {
  return is_ratio(value) &&
         value.get<double>() <= shown_amount(std::numeric_limits<Bytes>::max(), MemoryUnit::activations) /
                                    static_cast<double>(2 * kMemoryCategoryCount);
}
/// Returns true if the value is a valid number of bytes. The limit ensures that the sum of all memory
/// categories fits in 64 bits.
bool is_amount(const Json& value) {
  constexpr auto kMost = std::numeric_limits<Bytes>::max() / static_cast<Bytes>(kMemoryCategoryCount);
  return is_count(value) && value.get<Bytes>() <= kMost;
}

/// Reads the list "crosses", which names the channel models under which messages cross. Returns an empty
/// set if the file has no such list.
std::set<ChannelModel> read_crosses(BaselineReader& reader, const Json& entry, const std::string& path) {
  std::set<ChannelModel> crosses;
  const auto found = entry.find("crosses");
  if (found == entry.end()) return crosses;
  if (!found->is_array()) reader.note(path + "crosses", "a list of channel models", &*found);
  for (const Json& name : *found) {
    const auto model = name.is_string() ? enum_of_text<ChannelModel>(name.get<std::string>()) : std::nullopt;
    if (!model) {
      reader.note(path + "crosses", "a channel model", &name);
      return crosses;
    }
    crosses.insert(*model);
  }
  return crosses;
}

/// Records a problem for each key that is not in `known`. Otherwise a misspelt key would be ignored without a
/// message.
void refuse_others(BaselineReader& reader, const Json& object, const std::string& path,
                   std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end())
      reader.note(path + key, fmt::format("one of the keys {}", fmt::join(known, ", ")), &value);
  }
}

/// Returns the number of the memory category with this name, or nothing if there is none.
std::optional<std::size_t> category_named(std::string_view name) {
  const auto category = enum_of_text<MemoryCategory>(name);
  return category ? std::optional(static_cast<std::size_t>(*category)) : std::nullopt;
}

BaselineTolerance read_tolerance(BaselineReader& reader, const Json& document) {
  const auto found = document.find("tolerance");
  if (found == document.end()) return {};
  if (!found->is_object()) {
    reader.note("tolerance", "an object", &*found);
    return {};
  }
  refuse_others(reader, *found, "tolerance.", {"makespan", "bubble", "peak_bytes", "digest"});
  constexpr std::string_view kRatio = "a number of at least 0, such as 0.01";
  const auto ratio = [&](const char* key) {
    return reader.member<double>(*found, "tolerance.", key, kRatio, is_ratio, 0.0);
  };
  return {.makespan = ratio("makespan"),
          .bubble = ratio("bubble"),
          .peak_bytes = ratio("peak_bytes"),
          .digest = reader.member<bool>(*found, "tolerance.", "digest", "true or false", is_flag, false)};
}

std::map<ChannelModel, bool> read_hangs(BaselineReader& reader, const Json& entry, const std::string& path) {
  std::map<ChannelModel, bool> hangs;
  const auto found = entry.find("hangs");
  if (found == entry.end() || !found->is_object()) {
    reader.note(path + "hangs", "an object", found == entry.end() ? nullptr : &*found);
    return hangs;
  }
  for (const auto& [key, value] : found->items()) {
    const auto model = enum_of_text<ChannelModel>(key);
    if (!model || !value.is_boolean()) {
      reader.note(fmt::format("{}hangs.{}", path, key), "a channel model with true or false", &value);
      return hangs;
    }
    hangs[*model] = value.get<bool>();
  }
  // Every channel model must be listed. Otherwise, a new hang with a missing model would not be found.
  for (const ChannelModel model : kChannelModels) {
    if (!hangs.contains(model))
      reader.note(fmt::format("{}hangs.{}", path, to_text(model)), "true or false", nullptr);
  }
  return hangs;
}

BaselineFigures read_figures(BaselineReader& reader, const Json& entry, const std::string& path) {
  BaselineFigures figures;
  figures.valid = reader.member<bool>(entry, path, "valid", "true or false", is_flag);
  if (!figures.valid) return figures;
  figures.hangs = read_hangs(reader, entry, path);
  figures.crosses = read_crosses(reader, entry, path);
  figures.digest = reader.member<std::string>(entry, path, "digest", "a string", is_text);
  const auto count = [&](const char* key) {
    return reader.member<std::int64_t>(entry, path, key, "a whole number of at least 0", is_count);
  };
  // Files of older versions do not have this number.
  if (entry.contains("forwards")) figures.forwards = count("forwards");
  // If the program hangs, the entry has no figures of a run.
  if (!entry.contains("makespan_ns")) return figures;
  figures.run = StoredRun{
      .makespan_ns = count("makespan_ns"),
      .idle_over_total =
          reader.member<double>(entry, path, "idle_over_total", "a number from 0 to 1", is_part),
      .peak_bytes = reader.member<double>(entry, path, "peak_bytes", "a number of at least 0", is_ratio),
      .rates = {}};
  // Only models on named devices have rates. Files of older versions have none.
  if (!entry.contains("mfu")) return figures;
  const auto rate = [&](const char* key) {
    return reader.member<double>(entry, path, key, "a number of at least 0", is_ratio);
  };
  figures.run->rates = ReachedRates{.tokens_per_second = rate("tokens_per_second"),
                                    .tokens_per_second_per_device = rate("tokens_per_second_per_device"),
                                    .mfu = rate("mfu")};
  return figures;
}

std::vector<std::string> read_lines(BaselineReader& reader, const Json& entry, const std::string& path,
                                    const char* key) {
  std::vector<std::string> lines;
  for (const Json& line : reader.member<Json>(entry, path, key, "a list of lines", is_list)) {
    if (line.is_string()) {
      lines.push_back(line.get<std::string>());
    } else {
      reader.note(path + key, "a list of lines", &line);
    }
  }
  return lines;
}

/// Reads an amount of memory, in bytes or in activations. Only a number of activations may be a fraction.
Bytes read_amount(BaselineReader& reader, const Json& object, const std::string& path, const char* key,
                  MemoryUnit unit) {
  if (unit == MemoryUnit::bytes)
    return reader.member<Bytes>(object, path, key, "a whole number of at least 0", is_amount);
  return amount_of_shown(reader.member<double>(object, path, key, "a number of activations", is_activations),
                         unit);
}

/// Reads the peak of a rank. A category that is missing has the amount 0. The key "unit" says if the
/// amounts are activations.
HeldPeak read_peak(BaselineReader& reader, const Json& object, const std::string& path) {
  if (!object.is_object()) {
    reader.note(path, "an object", &object);
    return {};
  }
  const std::string inside = path + ".";
  HeldPeak peak;
  peak.rank = reader.member<std::int32_t>(object, inside, "rank", "a rank", is_rank);
  peak.action = reader.member<std::string>(object, inside, "action", "a string", is_text);
  if (object.contains("unit") && object.at("unit") == "activations") peak.unit = MemoryUnit::activations;
  for (const auto& [key, value] : object.items()) {
    if (const auto category = category_named(key)) {
      peak.held[*category] = read_amount(reader, object, inside, key.c_str(), peak.unit);
    } else if (key != "rank" && key != "action" && !(key == "unit" && value == "activations")) {
      reader.note(inside + key, "rank, action, a category of memory or the unit activations", &value);
    }
  }
  return peak;
}

/// Reads a bill, which divides the makespan by cause. Its lines add up to the makespan.
MeanBill read_bill(BaselineReader& reader, const Json& object, const std::string& path) {
  MeanBill bill;
  if (!object.is_object()) {
    reader.note(path, "an object", &object);
    return bill;
  }
  for (const auto& [cause, value] : object.items()) {
    // The limits on a line and on the number of lines keep their sum within 64 bits.
    constexpr double kLongest = 1e16;
    if (!value.is_number_integer() || value.get<double>() > kLongest || value.get<double>() < -kLongest ||
        object.size() > 100) {
      reader.note(fmt::format("{}.{}", path, cause), "whole nanoseconds", &value);
      continue;
    }
    bill.lines.push_back({cause, value.get<Ns>()});
    bill.makespan_ns += bill.lines.back().mean_ns;
  }
  return bill;
}

HeldRun read_held(BaselineReader& reader, const Json& entry, const std::string& path) {
  HeldRun held;
  if (entry.contains("program")) {
    for (const std::string& line : read_lines(reader, entry, path, "program")) held.program += line + '\n';
  }
  if (entry.contains("peak")) held.peak = read_peak(reader, entry.at("peak"), path + "peak");
  if (entry.contains("bill")) held.bill = read_bill(reader, entry.at("bill"), path + "bill");
  if (!entry.contains("path")) return held;
  for (const std::string& line : read_lines(reader, entry, path, "path")) {
    const auto step = path_step_of_text(line);
    // An error message shows the found line as a JSON string, with its quotes.
    const Json shown = line;
    if (step) {
      held.path.push_back(*step);
    } else {
      reader.note(path + "path", step.error(), &shown);
    }
  }
  return held;
}

BaselineEntry read_entry(BaselineReader& reader, const Json& entry, std::size_t index) {
  const std::string path = fmt::format("entries[{}]", index);
  if (!entry.is_object()) {
    reader.note(path, "an object", &entry);
    return {};
  }
  BaselineEntry read{
      .scenario = reader.member<std::string>(entry, path + ".", "scenario", "the name of a file", is_name),
      .figures = std::nullopt};
  refuse_others(reader, entry, path + ".",
                {"scenario", "valid", "digest", "forwards", "hangs", "crosses", "makespan_ns",
                 "idle_over_total", "peak_bytes", "tokens_per_second", "tokens_per_second_per_device", "mfu",
                 "program", "path", "bill", "peak"});
  // An entry without this key is only listed, and --update will measure it.
  if (entry.contains("valid")) read.figures = read_figures(reader, entry, path + ".");
  if (entry.contains("program") || entry.contains("bill") || entry.contains("peak"))
    read.held = read_held(reader, entry, path + ".");
  return read;
}

Baseline read_document(BaselineReader& reader, const Json& document) {
  Baseline baseline;
  const auto version = reader.member<std::int64_t>(document, "", "schema_version", "1", is_count);
  if (reader.problem().empty() && version != kSchemaVersion) {
    reader.note("schema_version", "1", &document.at("schema_version"));
  }
  refuse_others(reader, document, "", {"schema_version", "tolerance", "programs", "entries"});
  baseline.tolerance = read_tolerance(reader, document);
  baseline.holds_programs = reader.member<bool>(document, "", "programs", "true or false", is_flag, false);
  const auto entries = document.find("entries");
  if (entries == document.end() || !entries->is_array()) {
    reader.note("entries", "a list", entries == document.end() ? nullptr : &*entries);
    return baseline;
  }
  for (std::size_t i = 0; i < entries->size(); ++i)
    baseline.entries.push_back(read_entry(reader, (*entries)[i], i));
  return baseline;
}

Json lines_of(const std::string& text) {
  // The text is written as a list of lines, so that a diff of two files shows which lines of a program have
  // changed.
  Json lines = Json::array();
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(std::move(line));
  return lines;
}

Json json_of(const HeldPeak& peak) {
  Json json = {{"rank", peak.rank}, {"action", peak.action}};
  if (peak.unit == MemoryUnit::activations) json["unit"] = "activations";
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    if (peak.held[i] == 0) continue;
    json[std::string(to_text(static_cast<MemoryCategory>(i)))] = amount_json<Json>(peak.held[i], peak.unit);
  }
  return json;
}

void add_held(Json& json, const HeldRun& held) {
  if (!held.program.empty()) json["program"] = lines_of(held.program);
  for (const PathStep& step : held.path) json["path"].push_back(to_text(step));
  if (held.bill) {
    for (const MeanLine& line : held.bill->lines) json["bill"][line.cause] = line.mean_ns;
  }
  if (held.peak) json["peak"] = json_of(*held.peak);
}

void add_run(Json& json, const StoredRun& run) {
  json["makespan_ns"] = run.makespan_ns;
  json["idle_over_total"] = run.idle_over_total;
  const bool is_whole = run.peak_bytes == std::floor(run.peak_bytes);
  json["peak_bytes"] = is_whole ? Json(std::llround(run.peak_bytes)) : Json(run.peak_bytes);
  if (!run.rates) return;
  json["tokens_per_second"] = run.rates->tokens_per_second;
  json["tokens_per_second_per_device"] = run.rates->tokens_per_second_per_device;
  json["mfu"] = run.rates->mfu;
}

Json json_of(const BaselineEntry& entry) {
  Json json = {{"scenario", entry.scenario}};
  if (!entry.figures) return json;
  json["valid"] = entry.figures->valid;
  if (!entry.figures->valid) return json;
  json["digest"] = entry.figures->digest;
  json["forwards"] = entry.figures->forwards;
  json["hangs"] = Json::object();
  for (const auto& [model, hangs] : entry.figures->hangs) json["hangs"][std::string(to_text(model))] = hangs;
  for (const ChannelModel model : entry.figures->crosses) json["crosses"].push_back(to_text(model));
  if (entry.figures->run) add_run(json, *entry.figures->run);
  if (entry.held) add_held(json, *entry.held);
  return json;
}

}  // namespace

tl::expected<Baseline, std::string> parse_baseline(const std::string& text, const std::string& name) {
  const auto document = json_of<Json>(text);
  if (!document) return tl::unexpected(fmt::format("{}: is no JSON: {}", name, document.error()));
  if (!document->is_object())
    return tl::unexpected(fmt::format("{}: expected a baseline, a JSON object", name));
  if (const auto key = key_given_twice(text)) {
    return tl::unexpected(
        fmt::format("{}: the key {} stands twice in one object, as after a merge: keep one of them", name,
                    shown_json(Json(*key))));
  }
  BaselineReader reader(name);
  Baseline baseline = read_document(reader, *document);
  if (!reader.problem().empty()) return tl::unexpected(reader.problem());
  return baseline;
}

tl::expected<Baseline, std::string> read_baseline(const std::filesystem::path& file) {
  const auto text = read_text_file(file, file.string());
  if (!text) return tl::unexpected(text.error());
  if (text->empty())
    return tl::unexpected(file.string() + ": the file is empty: expected a baseline (--update makes one)");
  return parse_baseline(*text, file.string());
}

std::string to_json(const Baseline& baseline) {
  Json entries = Json::array();
  for (const BaselineEntry& entry : baseline.entries) entries.push_back(json_of(entry));
  Json document = {{"schema_version", kSchemaVersion},
                   {"tolerance",
                    {{"makespan", baseline.tolerance.makespan},
                     {"bubble", baseline.tolerance.bubble},
                     {"peak_bytes", baseline.tolerance.peak_bytes},
                     {"digest", baseline.tolerance.digest}}}};
  if (baseline.holds_programs) document["programs"] = true;
  document["entries"] = std::move(entries);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace penstock
