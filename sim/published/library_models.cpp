// The profiles of the library are compiled in as text and read by the usual loaders. So a published figure
// needs no file and uses the same loader as every scenario.

#include "sim/published/library_models.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "scenarios/model/model.hpp"
#include "scenarios/read/load.hpp"
#include "sim/published/library_texts.hpp"

namespace penstock {
namespace {

/// Returns the text of a scenario with the file as its model.
std::string as_scenario(std::string_view model) {
  // Two spaces before each line make the file the value of `model`.
  std::string text = "model:\n";
  while (!model.empty()) {
    const std::size_t end = std::min(model.find('\n'), model.size());
    text.append("  ").append(model.substr(0, end)).append("\n");
    model.remove_prefix(std::min(end + 1, model.size()));
  }
  return text;
}

}  // namespace

LibraryModel library_model(std::string_view name) {
  for (const LibraryText& model : library_texts()) {
    if (model.name != name) continue;
    auto scenario = parse_scenario(as_scenario(model.text), name, std::filesystem::path(), {});
    if (!scenario) throw std::logic_error(scenario.error());
    return {.graph = std::get<LayerGraph>(std::move(scenario->model)),
            .batch = scenario->batch.own_micro_batch_size};
  }
  throw std::logic_error("no such model in the library: " + std::string(name));
}

}  // namespace penstock
