#pragma once
// Holds the style sheets and scripts of pages. The files are in report/web, and the build makes string
// literals of them.

#include <span>
#include <string_view>

namespace penstock {

/// The text of a file of report/web, without indentation and comments.
struct WebText {
  std::string_view name;
  std::string_view text;
};

std::span<const WebText> web_texts();

/// Returns the text of the file `name`, or an empty text if report/web has no such file.
inline std::string_view web_text(std::string_view name) {
  for (const WebText& file : web_texts()) {
    if (file.name == name) return file.text;
  }
  return {};
}

}  // namespace penstock
