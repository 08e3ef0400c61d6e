#pragma once
// The frame of every HTML page: style, the script that sorts tables and zooms timelines, nothing external.

#include <string>

namespace penstock {

/// `body` is HTML; `title` is text.
struct HtmlPage {
  std::string title;
  std::string body;
  /// The body has <input class="filter"> before an element with a table whose rows it narrows down.
  bool has_filters = false;
};

/// A complete document that needs no other file.
std::string html_page(const HtmlPage& page);

}  // namespace penstock
