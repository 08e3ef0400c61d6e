// The rows name the files of model configurations. These files are texts of the library, too.

#include "sim/published/library_runs.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

#include "sim/measured/measured_runs.hpp"
#include "sim/published/library_texts.hpp"

namespace penstock {
namespace {

/// Returns a text of the library. Requires that a text with this name exists.
std::string_view text_named(std::string_view name) {
  const auto text = std::ranges::find(library_texts(), name, &LibraryText::name);
  if (text == library_texts().end()) throw std::logic_error(fmt::format("the library has no {}", name));
  return text->text;
}

}  // namespace

MeasuredRuns library_runs() {
  auto runs = parse_measured_runs(text_named("training_steps"), "training_steps.csv",
                                  [](const std::string& model) -> tl::expected<std::string, std::string> {
                                    return std::string(text_named(model_name(model)));
                                  });
  if (!runs) throw std::logic_error(runs.error());
  return *std::move(runs);
}

}  // namespace penstock
