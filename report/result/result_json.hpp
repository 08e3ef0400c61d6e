#pragma once
// Writes and reads the JSON document of a Result, schema_version 1. `simulate --json` and `run` write it, and
// `compare` reads it.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// The options that say which of the long parts are written into the JSON document.
struct ResultJsonOptions {
  /// True to write `timeline`, which has every span.
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

}  // namespace penstock
