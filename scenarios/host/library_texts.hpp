#pragma once
// The texts of the files in scenarios/library: models, measured stages and measured steps. `name` is the
// file's name without extension. CMake generates library_texts() from the files.

#include <span>
#include <string_view>

namespace penstock {

struct LibraryText {
  std::string_view name;
  std::string_view text;
};
std::span<const LibraryText> library_texts();

}  // namespace penstock
