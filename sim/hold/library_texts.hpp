#pragma once
// The texts of scenarios/library: models, measured stages and measured steps, by the names of their files
// without extension. CMake generates their definitions from the files.

#include <span>
#include <string_view>

namespace penstock {

struct LibraryText {
  std::string_view name;
  std::string_view text;
};
std::span<const LibraryText> library_texts();

}  // namespace penstock
