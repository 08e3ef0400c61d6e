#pragma once
// The JSON document of a Result, schema_version 1. `simulate --json` prints it, `run` writes it and `compare`
// reads it.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// The long parts of the document that are written.
struct ResultJsonOptions {
  /// True for `timeline`, with every span.
  bool timeline = false;
  /// True for `ranks[i].memory.samples`, the memory over time.
  bool memory = false;
};

/// Writes the document with two blanks of indentation, keys in a fixed order and a line break at the end. A
/// double has the shortest form that reads back the same, or null if it is not finite.
void write_result_json(const Result& result, const ResultJsonOptions& options, const TextSink& sink);
std::string result_to_json(const Result& result, const ResultJsonOptions& options = {});

/// Reads a document. If it has both long parts, the result equals the one that was written. Unknown keys are
/// skipped. Errors name `file`, the path of the key, what was expected and what was found.
tl::expected<Result, std::string> result_from_json(std::string_view text, std::string_view file);

}  // namespace penstock
