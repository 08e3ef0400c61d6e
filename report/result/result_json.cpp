// Writes the JSON document of a Result; result_json_reader.cpp reads it. Scripts rely on its keys and
// units. Times and bytes are integers in nanoseconds and bytes, ratios are fractions of 1, and a figure
// that does not exist is null. Timelines and memory samples are very long, so they are written only if the
// user asks for them. Spans are written as text directly. A JSON tree of a million spans would take ten
// times as long and twenty times the memory. Tests: result_json_test.cpp.
#include "report/result/result_json.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/compile.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/memory_category.hpp"
#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/result/result_figures.hpp"
#include "report/timeline/timeline.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/channel.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

void append_categories(Json& object, const MemoryByCategory& memory, MemoryUnit unit) {
  for (std::size_t i = 0; i < kMemoryCategoryCount; ++i) {
    object[std::string(to_text(static_cast<MemoryCategory>(i)))] = amount_json<Json>(memory[i], unit);
  }
}

/// Returns the bytes of every memory category. Categories with 0 bytes are included, because scripts need
/// their keys.
Json categories_json(const MemoryByCategory& memory, MemoryUnit unit) {
  Json object = Json::object();
  append_categories(object, memory, unit);
  return object;
}

Json sample_json(const MemorySample& sample, MemoryUnit unit) {
  Json object = {{"time_ns", sample.time_ns}};
  append_categories(object, sample.bytes, unit);
  return object;
}

/// Returns the memory of a rank. The key "unit" is present only if amounts are not bytes. Older files lack
/// the key, and their amounts are bytes.
Json memory_json(const RankMemory& memory, const ResultJsonOptions& options) {
  Json object = {
      {"peak_time_ns", memory.peak_time_ns},
      {"peak_action", memory.peak_action},
      {"at_peak", categories_json(memory.at_peak, memory.unit)},
      {"peaks", categories_json(memory.peaks, memory.unit)},
      {"capacity_bytes", memory.capacity ? amount_json<Json>(*memory.capacity, memory.unit) : Json(nullptr)},
      {"usable_bytes", memory.capacity ? amount_json<Json>(*memory.usable(), memory.unit) : Json(nullptr)},
      {"out_of_memory", memory.out_of_memory()}};
  if (memory.unit == MemoryUnit::activations) object["unit"] = "activations";
  if (options.memory) {
    Json samples = Json::array();
    for (const MemorySample& sample : memory.samples) samples.push_back(sample_json(sample, memory.unit));
    object["samples"] = std::move(samples);
  }
  return object;
}

Json rank_json(const RankReport& rank, const ResultJsonOptions& options) {
  Json object = {{"rank", rank.rank}, {"device", rank.device}};
  for (const RankFigure& figure : figures_of_ranks()) {
    const std::int64_t value = figure.get(rank);
    object[std::string(figure.key)] =
        figure.unit == FigureUnit::memory ? amount_json<Json>(value, rank.memory.unit) : Json(value);
  }
  object["memory"] = memory_json(rank.memory, options);
  return object;
}

Json program_json(const ProgramReport& program) {
  Json object = {{"schedule", program.schedule},     {"ranks", program.ranks},
                 {"stages", program.stages},         {"microbatches", program.microbatches},
                 {"iterations", program.iterations}, {"copies", program.copies},
                 {"digest", program.digest}};
  if (program.pipeline_size > 0) object["pipeline_size"] = program.pipeline_size;
  return object;
}

/// Returns all figures of one section of the JSON document.
Json section_json(const Result& result, std::string_view section) {
  Json object = Json::object();
  for (const RunFigure& figure : figures_of_runs()) {
    if (figure.section != section) continue;
    const std::optional<double> value = figure.get(result);
    if (value || figure.absent == AbsentFigure::null)
      object[std::string(figure.key)] = value ? Json(*value) : Json(nullptr);
  }
  return object;
}

/// Appends a span as an element of the list `timeline`, with the document's indentation.
void append_span(std::string& text, const Span& span) {
  // The size of a buffer for one span. The keys take 240 characters, and the eight numbers and the action
  // take at most 220.
  constexpr std::size_t kLongest = 512;
  std::array<char, kLongest> room;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const Action& action = span.action;
  char* end = fmt::format_to(
      room.data(),
      FMT_COMPILE("    {{\n      \"rank\": {},\n      \"action\": \"{}\",\n      \"stage\": {},\n"
                  "      \"microbatch\": {},\n      \"replica\": {},\n      \"weight_version\": {},\n"
                  "      \"start_ns\": {},\n      \"end_ns\": {}"),
      span.rank, to_text(action), action.stage, action.microbatch, span.replica, action.weight_version,
      span.start_ns, span.end_ns);
  if (span.released_ns != kNotReleased)
    end = fmt::format_to(end, FMT_COMPILE(",\n      \"released_ns\": {}"), span.released_ns);
  end = fmt::format_to(end, FMT_COMPILE("{}\n    }}"),
                       action.overlaps_next ? ",\n      \"overlaps_next\": true" : "");
  text.append(room.data(), static_cast<std::size_t>(end - room.data()));
}

/// Writes the document to the sink, and adds the timeline as its last key.
void write_with_timeline(std::string_view document, const Timeline& timeline, const TextSink& sink) {
  constexpr std::string_view kEnd = "\n}\n";
  LineBuffer lines(sink);
  // `document` is complete. Its closing bracket is cut off here and written again after the last span.
  lines.text() = document.substr(0, document.size() - kEnd.size());
  lines.text() += ",\n  \"timeline\": [";
  const char* separator = "\n";
  for (const Span& span : timeline.spans) {
    // A comma precedes every span except the first.
    lines.text() += std::exchange(separator, ",\n");
    if (!lines.end_line()) return;
    append_span(lines.text(), span);
  }
  lines.text() += timeline.spans.empty() ? "]" : "\n  ]";
  lines.text() += kEnd;
  lines.flush();
}

/// Returns the bytes per sample, or null if the number of samples is unknown.
Json per_sample(Bytes bytes, double samples) {
  return samples > 0 ? Json(static_cast<double>(bytes) / samples) : Json(nullptr);
}

/// Returns the text of the document without the timeline.
std::string document_text(const Result& result, const ResultJsonOptions& options) {
  Json document = {{"schema_version", 1},
                   {"kind", to_text(result.kind)},
                   {"scenario", result.scenario},
                   {"engine", result.engine},
                   {"channel", result.channel},
                   {"makespan_ns", result.makespan_ns},
                   {"program", program_json(result.program)},
                   {"bubble", section_json(result, "bubble")},
                   {"throughput", section_json(result, "throughput")}};
  if (const auto& model = result.model) {
    document["model"] = {{"parameters", model->parameters},
                         {"active_parameters", model->active_parameters},
                         {"flops_per_sample", model->flops_per_sample}};
    document["devices"] = model->devices;
  }
  if (result.transfers.blocking == Blocking::each) document["blocking"] = true;
  if (result.transfers.blocking == Blocking::batched)
    document["blocking"] = to_text(result.transfers.blocking);
  if (result.transfers.launch_order) document["launch_order"] = true;
  if (result.transfers.capacity > 0) document["capacity"] = result.transfers.capacity;
  if (result.transfers.eager_bytes > 0) document["eager_bytes"] = result.transfers.eager_bytes;
  if (result.link_sharing != LinkSharing::none) document["link_sharing"] = to_text(result.link_sharing);
  if (result.clock_error_ns) document["clock_error_ns"] = *result.clock_error_ns;
  document["ranks"] = Json::array();
  for (const RankReport& rank : result.ranks) document["ranks"].push_back(rank_json(rank, options));
  document["links"] = Json::array();
  for (const LinkTraffic& link : result.links) {
    document["links"].push_back({{"link", link.link},
                                 {"bytes", link.bytes},
                                 {"bytes_per_sample", per_sample(link.bytes, samples_of_copy(result))}});
  }
  document["notes"] = result.notes;
  // Names in users' files may contain bytes that are not UTF-8. The library would throw, so these bytes are
  // replaced.
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

void write_result_json(const Result& result, const ResultJsonOptions& options, const TextSink& sink) {
  const std::string document = document_text(result, options);
  if (!options.timeline) {
    sink(document);
    return;
  }
  write_with_timeline(document, result.timeline, sink);
}

std::string result_to_json(const Result& result, const ResultJsonOptions& options) {
  return whole_text([&](const TextSink& sink) { write_result_json(result, options, sink); });
}

// Limits the depth of JSON before it is parsed. nlohmann::json reads any depth without recursion, but it
// copies, prints and compares values recursively. A file of many brackets would therefore overflow the stack.
// The callback of the library reports the depth, but makes reading thirty times slower. Therefore a separate
// pass counts brackets first. Tests: result_json_test.cpp.

namespace {

/// Returns true if brackets outside strings are nested deeper than `most` levels. If the text is not JSON,
/// the result has no meaning.
bool nests_deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool is_quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') is_quoted = !is_quoted;
    if (is_quoted) {
      // An escaped quotation mark does not end the string.
      if (c == '\\') ++at;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// Returns the part of the JSON library's error message that describes the fault in the text.
std::string_view reason_in(std::string_view message) {
  const std::size_t at = std::min(message.find("at line"), message.find("number overflow"));
  return at == std::string_view::npos ? message : message.substr(at);
}

/// A parser that stops at the first key that occurs twice in one object. It stores no values, so it needs
/// little time.
class KeysOnce : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    open_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    twice = name;
    return false;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::optional<std::string> twice;

 private:
  // The keys of each object that is still open.
  std::vector<std::set<std::string>> open_;
};

}  // namespace

std::optional<std::string> key_given_twice(std::string_view text) {
  KeysOnce keys;
  nlohmann::json::sax_parse(text, &keys);
  return keys.twice;
}

template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text) {
  if (nests_deeper_than(text, kDeepestJson))
    return tl::unexpected(fmt::format("arrays and objects are nested more than {} deep", kDeepestJson));
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& error) {
    return tl::unexpected(std::string(reason_in(error.what())));
  }
}

template <typename Json>
std::string shown_json(const Json& value) {
  constexpr std::size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

template tl::expected<nlohmann::json, std::string> json_of(std::string_view text);
template tl::expected<nlohmann::ordered_json, std::string> json_of(std::string_view text);

template std::string shown_json(const nlohmann::json& value);
template std::string shown_json(const nlohmann::ordered_json& value);

}  // namespace penstock
