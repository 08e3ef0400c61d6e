#pragma once
// The frame of every HTML page: its style, and the scripts that sort tables, filter rows and zoom timelines.
// A page needs no other file.

#include <string>

namespace penstock {

/// A page. `title` is plain text; `body` is HTML.
struct HtmlPage {
  std::string title;
  std::string body;
  /// True if the body has <input class="filter"> before an element with a table whose rows it filters.
  bool has_filters = false;
};

/// Returns a complete document that needs no other file.
std::string html_page(const HtmlPage& page);

}  // namespace penstock
