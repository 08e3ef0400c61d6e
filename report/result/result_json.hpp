#pragma once
// The JSON document of a Result, schema_version 1: what `simulate --json` prints, `run` writes and
// `compare` reads.

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "report/print/text_sink.hpp"
#include "report/result/result.hpp"

namespace penstock {

/// Which of the long parts are written.
struct ResultJsonOptions {
  bool timeline = false;  ///< `timeline`: every span
  bool memory = false;    ///< `ranks[i].memory.samples`: memory over time
};

/// Indented by two blanks, keys in a fixed order, a line break at the end. Doubles have the shortest form
/// that reads back the same, and null where they are not finite.
void write_result_json(const Result& result, const ResultJsonOptions& options, const TextSink& sink);
std::string result_to_json(const Result& result, const ResultJsonOptions& options = {});

/// Reads the document back; with both long parts in it the Result is the one that was written. Keys that
/// it does not know are skipped. Errors name `file`, the path of the key, what was expected and what was
/// found.
tl::expected<Result, std::string> result_from_json(std::string_view text, std::string_view file);

}  // namespace penstock
