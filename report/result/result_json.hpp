#pragma once
// Writes and reads the JSON document of a Result, schema_version 1. `simulate --json` and `run` write it, and
// `compare` reads it.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include "report/print/table.hpp"
#include "report/print/units.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"

namespace penstock {

/// The options that say which of the long parts are written into the JSON document.
struct ResultJsonOptions {
  /// True to write `timeline`, which has the start and end of every action.
  bool timeline = false;
  /// True to write `ranks[i].memory.samples`, the memory over time.
  bool memory = false;
};

/// Writes the result as a JSON document, indented by two blanks, with keys in a fixed order. A double is
/// written as the shortest text from which the same number is read. A double that is not finite is written
/// as null.
void write_result_json(const Result& result, const ResultJsonOptions& options, const TextSink& sink);
std::string result_to_json(const Result& result, const ResultJsonOptions& options = {});

/// Reads a result from a JSON document. If the document has both long parts, the result equals the result
/// that was written. Unknown keys are skipped. An error names `file`, the path of the key, the expected
/// value and the value found.
tl::expected<Result, std::string> result_from_json(std::string_view text, std::string_view file);

// Reads JSON safely, because the files may have been written by other programs or by users. It refuses
// deep nesting and finds repeated keys, which the JSON library accepts.

/// The deepest nesting of arrays and objects that is accepted. Penstock's own documents have fewer than ten
/// levels.
inline constexpr int kDeepestJson = 100;

/// Parses a JSON text. `Json` is one of nlohmann's two types, sorted or ordered. Returns a one-line error
/// with the position if the text is not JSON. A number that does not fit into a double is also an error, and
/// so is a nesting that is too deep.
template <typename Json>
tl::expected<Json, std::string> json_of(std::string_view text);

extern template tl::expected<nlohmann::json, std::string> json_of(std::string_view text);
extern template tl::expected<nlohmann::ordered_json, std::string> json_of(std::string_view text);

/// Returns a key that appears twice in the same object of `text`, or nothing if there is none. JSON parsers
/// would silently drop one of its two values. Requires valid JSON.
std::optional<std::string> key_given_twice(std::string_view text);

/// Returns an amount of memory as a JSON number, in bytes or activations (see shown_amount()). The number
/// is an integer unless it contains a part of an activation.
template <typename Json>
Json amount_json(std::int64_t amount, MemoryUnit unit) {
  const double shown = shown_amount(amount, unit);
  const bool is_whole = unit == MemoryUnit::bytes || shown == std::floor(shown);
  return is_whole ? Json(unit == MemoryUnit::bytes ? amount : std::llround(shown)) : Json(shown);
}

/// Returns a JSON value as text for an error message. The text has one line, and a long value is shortened.
template <typename Json>
std::string shown_json(const Json& value);

extern template std::string shown_json(const nlohmann::json& value);
extern template std::string shown_json(const nlohmann::ordered_json& value);

// Writes a Result for other programs: as CSV (RFC 4180, with a heading and \n line ends) for spreadsheets and
// scripts, and as a trace for Perfetto (ui.perfetto.dev) and chrome://tracing. Penstock reads only the JSON
// form again.

/// Writes a CSV with one line for each span:
/// rank,action,stage,microbatch,replica,weight_version,start_ns,end_ns. The microbatch is empty if the
/// action belongs to a whole stage.
void write_timeline_csv(const Timeline& timeline, const TextSink& sink);

/// Returns a CSV with one line for each rank. The columns are the keys of `ranks` in the JSON document,
/// then capacity_bytes and out_of_memory. The peak of each category follows as peak_CATEGORY.
std::string ranks_to_csv(const Result& result);

/// Writes the trace in the JSON "Trace Event Format". Each rank is a process with the rows compute, send,
/// receive and collective. Spans that overlap in time get further rows, for example "compute 2" for the
/// second action of an overlapped pair. Times are in microseconds with three decimals, so that no
/// nanosecond is lost. An arrow goes from each SEND to its RECV. The memory of a rank is a counter with one
/// series for each category. Its unit is bytes, or activations if the scenario states no sizes.
void write_chrome_trace(const Result& result, const TextSink& sink);

}  // namespace penstock
