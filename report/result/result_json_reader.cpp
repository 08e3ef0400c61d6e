// Reads the JSON document of a Result, which result_json.cpp writes. Only the first fault is reported.
// After a fault the reader continues with zeros. Therefore the functions below need no error handling.
// Tested by result_json_test.cpp.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "report/print/memory_category.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/result/result_json.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {
namespace {

using SortedJson = nlohmann::json;
constexpr std::int64_t kSchemaVersion = 1;

/// The first fault that the reader finds in the document. The message is empty if there is none.
struct FirstFault {
  std::string message;

  void set(const std::string& text) {
    if (message.empty()) message = text;
  }
};

/// A reader of one JSON object. It stores the object's path in the document for its error messages. The value
/// and the fault must outlive the reader.
class ObjectReader {
 public:
  ObjectReader(const SortedJson& value, std::string path, FirstFault& fault)
      : value_(&value), path_(std::move(path)), fault_(&fault) {
    if (!value.is_object()) {
      fault.set(fmt::format("{}: expected an object, got {}", path_, shown_json(value)));
    }
  }

  bool has(const char* key) const { return value_->is_object() && value_->contains(key); }

  std::int64_t integer_between(const char* key, std::int64_t least, std::int64_t most) const {
    const SortedJson& value = member(key);
    // The library would convert a number of 2^63 or more to a negative number.
    const bool too_large =
        value.is_number_unsigned() &&
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (value.is_number_integer() && !too_large) {
      const auto number = value.get<std::int64_t>();
      if (number >= least && number <= most) return number;
    }
    expected(key, least == std::numeric_limits<std::int64_t>::min()
                      ? std::string("an integer")
                      : fmt::format("an integer from {} to {}", least, most));
    return 0;
  }

  std::int64_t integer(const char* key) const {
    return integer_between(key, std::numeric_limits<std::int64_t>::min(),
                           std::numeric_limits<std::int64_t>::max());
  }

  /// Returns the value of the key: a time, a number of bytes or another count. Reports a fault if it is
  /// below 0.
  std::int64_t count(const char* key) const {
    return integer_between(key, 0, std::numeric_limits<std::int64_t>::max());
  }

  std::int32_t small(const char* key, std::int32_t least) const {
    return static_cast<std::int32_t>(integer_between(key, least, std::numeric_limits<std::int32_t>::max()));
  }

  std::optional<std::int64_t> count_or_null(const char* key) const {
    if (!has(key) || value_->at(key).is_null()) return std::nullopt;
    return count(key);
  }

  /// Returns the value of the key as a number. Null is read as NaN, because the writer uses null for
  /// numbers that are not finite.
  double number(const char* key) const {
    const SortedJson& value = member(key);
    if (value.is_null() && has(key)) return std::numeric_limits<double>::quiet_NaN();
    if (value.is_number()) return value.get<double>();
    expected(key, "a number");
    return 0;
  }

  std::optional<double> number_or_null(const char* key) const {
    if (!has(key) || value_->at(key).is_null()) return std::nullopt;
    return number(key);
  }

  std::string text(const char* key) const {
    const SortedJson& value = member(key);
    if (value.is_string()) return value.get<std::string>();
    expected(key, "a string");
    return {};
  }

  std::string text_if_any(const char* key) const { return has(key) ? text(key) : std::string(); }

  bool flag_if_any(const char* key) const {
    if (!has(key)) return false;
    if (!value_->at(key).is_boolean()) expected(key, "true or false");
    return value_->at(key) == true;
  }

  /// Reads the rule for blocking transfers: true, false or "batched".
  Blocking blocking_if_any(const char* key) const {
    if (!has(key)) return Blocking::none;
    const SortedJson& value = value_->at(key);
    if (value.is_boolean()) return value == true ? Blocking::each : Blocking::none;
    if (value == to_text(Blocking::batched)) return Blocking::batched;
    expected(key, "true, false or \"batched\"");
    return Blocking::none;
  }

  ObjectReader object(const char* key) const { return {member(key), child(key), *fault_}; }

  /// Returns the elements of the list of objects at the key. The result is empty if the list is missing.
  std::vector<ObjectReader> objects_if_any(const char* key) const {
    std::vector<ObjectReader> elements;
    if (!has(key)) return elements;
    const SortedJson& list = value_->at(key);
    if (!list.is_array()) expected(key, "a list");
    for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
      elements.emplace_back(list[i], fmt::format("{}[{}]", child(key), i), *fault_);
    }
    return elements;
  }

  std::vector<std::string> texts_if_any(const char* key) const {
    std::vector<std::string> texts;
    if (!has(key)) return texts;
    const SortedJson& list = value_->at(key);
    if (!list.is_array()) expected(key, "a list of strings");
    for (const SortedJson& element : list) {
      if (element.is_string()) {
        texts.push_back(element.get<std::string>());
      } else {
        expected(key, "a list of strings");
      }
    }
    return texts;
  }

  /// Reports the fault that `what` was expected as the value of `key`.
  void expected(const char* key, std::string_view what) const {
    if (has(key)) {
      fault_->set(fmt::format("{}: expected {}, got {}", child(key), what, shown_json(value_->at(key))));
    } else {
      fault_->set(fmt::format("{}: expected {}, but the key is missing", child(key), what));
    }
  }

 private:
  std::string child(const char* key) const { return path_.empty() ? key : path_ + '.' + key; }

  const SortedJson& member(const char* key) const {
    // A missing key is treated as null. Null has none of the expected types, so each caller reports the fault
    // with its own message.
    static const SortedJson missing;
    return has(key) ? value_->at(key) : missing;
  }

  const SortedJson* value_;
  std::string path_;
  FirstFault* fault_;
};

/// Reads an amount of memory, in bytes or in activations. A number of activations may have a fraction.
Bytes read_amount(const ObjectReader& object, const char* key, MemoryUnit unit) {
  if (unit == MemoryUnit::bytes) return object.count(key);
  const double shown = object.number(key);
  if (shown >= 0 && shown <= shown_amount(std::numeric_limits<Bytes>::max() / 2, unit))
    return amount_of_shown(shown, unit);
  object.expected(key, "a number of activations");
  return 0;
}

MemoryByCategory read_categories(const ObjectReader& object, MemoryUnit unit) {
  MemoryByCategory memory{};
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    memory[i] = read_amount(object, std::string(to_text(static_cast<MemoryCategory>(i))).c_str(), unit);
  }
  return memory;
}

/// Reads the memory figures of a rank, except its peak. read_rank() reads the peak.
RankMemory read_memory(const ObjectReader& object) {
  RankMemory memory;
  memory.peak_time_ns = object.count("peak_time_ns");
  memory.peak_action = object.text("peak_action");
  if (object.text_if_any("unit") == "activations") memory.unit = MemoryUnit::activations;
  memory.at_peak = read_categories(object.object("at_peak"), memory.unit);
  memory.peaks = read_categories(object.object("peaks"), memory.unit);
  if (object.number_or_null("capacity_bytes"))
    memory.capacity = read_amount(object, "capacity_bytes", memory.unit);
  // Older files lack this key. In those files, the whole capacity is usable.
  if (memory.capacity && object.number_or_null("usable_bytes")) {
    const Bytes usable = read_amount(object, "usable_bytes", memory.unit);
    memory.reserved = std::max<Bytes>(0, *memory.capacity - usable);
  }
  for (const ObjectReader& sample : object.objects_if_any("samples")) {
    memory.samples.push_back({sample.count("time_ns"), read_categories(sample, memory.unit)});
  }
  return memory;
}

RankReport read_rank(const ObjectReader& object) {
  RankReport rank;
  rank.rank = object.small("rank", 0);
  rank.device = object.text_if_any("device");
  if (object.has("memory")) rank.memory = read_memory(object.object("memory"));
  // In the document the peak is a key beside `memory`, so it is read after `memory` is complete.
  for (const RankFigure& figure : figures_of_ranks()) {
    const std::string key(figure.key);
    if (figure.absent == AbsentFigure::left_out && !object.has(key.c_str())) continue;
    figure.set(rank, figure.unit == FigureUnit::memory
                         ? read_amount(object, key.c_str(), rank.memory.unit)
                         : object.integer_between(key.c_str(), figure.least, figure.most));
  }
  return rank;
}

ProgramReport read_program(const ObjectReader& object) {
  ProgramReport program;
  program.schedule = object.text("schedule");
  program.ranks = object.small("ranks", 0);
  program.stages = object.small("stages", 0);
  program.microbatches = object.small("microbatches", 0);
  program.iterations = object.has("iterations") ? object.small("iterations", 0) : 1;
  if (object.has("copies")) program.copies = object.small("copies", 1);
  program.digest = object.text("digest");
  if (object.has("pipeline_size")) program.pipeline_size = object.small("pipeline_size", 1);
  return program;
}

ModelReport read_model(const ObjectReader& object, std::int64_t devices) {
  return {.parameters = object.count("parameters"),
          .active_parameters = object.count("active_parameters"),
          .flops_per_sample = object.number("flops_per_sample"),
          .devices = devices};
}

/// Reads all figures of one section of the JSON document.
void read_section(const ObjectReader& document, const char* section, Result& result) {
  const ObjectReader object = document.object(section);
  for (const RunFigure& figure : figures_of_runs()) {
    if (figure.section != section) continue;
    const std::string key(figure.key);
    const std::string companion(figure.comes_with.empty() ? figure.key : figure.comes_with);
    if (figure.absent == AbsentFigure::left_out && !object.has(companion.c_str())) continue;
    if (figure.absent == AbsentFigure::null && !object.number_or_null(key.c_str())) continue;
    figure.set(result, object.number(key.c_str()));
  }
}

/// Reads a span. The document also has the stage and the microbatch of the action as separate keys, for
/// scripts. They must agree with the text of the action.
Span read_span(const ObjectReader& object, std::int32_t ranks) {
  Span span;
  const std::string text = object.text("action");
  // read_actions() reads program lists, and accepts every action name that Penstock writes.
  const auto actions = read_actions(text, {});
  if (!actions || actions->size() != 1) {
    object.expected("action", "one action such as \"0F3\"");
    return span;
  }
  span.action = actions->front();
  span.action.weight_version = object.small("weight_version", 0);
  span.action.overlaps_next = object.flag_if_any("overlaps_next");
  span.rank = object.small("rank", 0);
  span.replica = object.small("replica", -1);
  span.start_ns = object.count("start_ns");
  span.end_ns = object.count("end_ns");
  if (span.rank >= ranks) object.expected("rank", fmt::format("a rank below program.ranks, {}", ranks));
  if (span.end_ns < span.start_ns) object.expected("end_ns", "a time that is not before start_ns");
  span.released_ns = object.count_or_null("released_ns").value_or(kNotReleased);
  if (span.released_ns != kNotReleased &&
      (span.released_ns < span.start_ns || span.released_ns > span.end_ns))
    object.expected("released_ns", "a time from start_ns to end_ns");
  if (object.small("stage", 0) != span.action.stage) object.expected("stage", "the stage of `action`");
  if (object.small("microbatch", kNoMicrobatch) != span.action.microbatch) {
    object.expected("microbatch", "the microbatch of `action`");
  }
  return span;
}

Timeline read_timeline(const ObjectReader& document, std::int32_t ranks) {
  Timeline timeline;
  timeline.rank_count = ranks;
  for (const ObjectReader& object : document.objects_if_any("timeline")) {
    timeline.spans.push_back(read_span(object, ranks));
    timeline.makespan_ns = std::max(timeline.makespan_ns, timeline.spans.back().end_ns);
  }
  return timeline;
}

ResultKind read_kind(const ObjectReader& document) {
  const auto kind = enum_of_text<ResultKind>(document.text("kind"));
  if (!kind) document.expected("kind", "\"predicted\" or \"measured\"");
  return kind.value_or(ResultKind::predicted);
}

LinkSharing read_link_sharing(const ObjectReader& document) {
  if (!document.has("link_sharing")) return LinkSharing::none;
  const auto sharing = enum_of_text<LinkSharing>(document.text("link_sharing"));
  if (!sharing) document.expected("link_sharing", "\"none\", \"counted\" or \"left out\"");
  return sharing.value_or(LinkSharing::none);
}

Result read_result(const ObjectReader& document) {
  Result result;
  if (document.integer("schema_version") != kSchemaVersion) {
    document.expected("schema_version", fmt::format("{}, which this penstock reads", kSchemaVersion));
  }
  // Files of version 1 may lack keys that were added later. The functions "..._if_any" and "..._or_null"
  // accept this.
  result.kind = read_kind(document);
  result.scenario = document.text_if_any("scenario");
  result.engine = document.text_if_any("engine");
  result.channel = document.text_if_any("channel");
  result.transfers = {.blocking = document.blocking_if_any("blocking"),
                      .launch_order = document.flag_if_any("launch_order"),
                      .capacity = document.count_or_null("capacity").value_or(0),
                      .eager_bytes = document.count_or_null("eager_bytes").value_or(0)};
  result.link_sharing = read_link_sharing(document);
  result.clock_error_ns = document.count_or_null("clock_error_ns");
  result.makespan_ns = document.count("makespan_ns");
  result.program = read_program(document.object("program"));
  read_section(document, "bubble", result);
  read_section(document, "throughput", result);
  if (document.has("model")) result.model = read_model(document.object("model"), document.count("devices"));
  if (!document.has("ranks")) document.expected("ranks", "a list");
  for (const ObjectReader& rank : document.objects_if_any("ranks")) result.ranks.push_back(read_rank(rank));
  for (const ObjectReader& link : document.objects_if_any("links")) {
    result.links.push_back({link.text("link"), link.count("bytes")});
  }
  result.notes = document.texts_if_any("notes");
  if (document.has("timeline")) result.timeline = read_timeline(document, result.program.ranks);
  return result;
}

}  // namespace

tl::expected<Result, std::string> result_from_json(std::string_view text, std::string_view file) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return tl::unexpected(
        fmt::format("{}: the file is empty; expected a result as `simulate --json` prints it", file));
  }
  const auto document = json_of<SortedJson>(text);
  if (!document) return tl::unexpected(fmt::format("{}: not JSON: {}", file, document.error()));
  FirstFault fault;
  if (!document->is_object()) {
    return tl::unexpected(
        fmt::format("{}: expected a result, which is a JSON object, got {}", file, shown_json(*document)));
  }
  Result result = read_result(ObjectReader(*document, "", fault));
  if (!fault.message.empty()) return tl::unexpected(fmt::format("{}: {}", file, fault.message));
  if (const auto broken = broken_invariant(result)) {
    return tl::unexpected(fmt::format("{}: {}; no run can have such a result; make it again", file, *broken));
  }
  return result;
}

}  // namespace penstock
