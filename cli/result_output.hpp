#pragma once
// A Result in all the forms that `simulate` and `show` write.

#include <string>
#include <string_view>
#include <vector>

#include "cli/output.hpp"
#include "report/result.hpp"
#include "report/result_json.hpp"

namespace penstock {

inline constexpr std::string_view kResultSuffixes = ".json .csv .ranks.csv .svg .html .trace.json .txt";
std::vector<std::string_view> result_suffixes();

/// True when some file's form draws memory over time (.html, .trace.json).
bool wants_memory_samples(const std::vector<std::string>& files);

/// The writers of `result`, which must outlive them. `text` is the content of a .txt file.
std::vector<OutputForm> result_forms(const Result& result, const ResultJsonOptions& json, std::string text);

}  // namespace penstock
