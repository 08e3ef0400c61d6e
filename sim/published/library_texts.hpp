#pragma once
// Texts of scenarios/library: models, measured stages and steps, by the stems of their files. CMake writes
// their definitions from the files.

#include <span>
#include <string_view>

namespace penstock {

struct LibraryText {
  std::string_view name;
  std::string_view text;
};
std::span<const LibraryText> library_texts();

}  // namespace penstock
