#pragma once
// Writes the frame of every HTML page: its style, and the scripts that sort tables, filter rows and zoom
// timelines. A page needs no other file.

#include <string>

namespace penstock {

/// A page. `title` is plain text; `body` is HTML.
struct HtmlPage {
  std::string title;
  std::string body;
  /// True if the body has an <input class="filter"> before a table, so that the user can filter its rows.
  bool has_filters = false;
};

/// Returns the complete HTML document.
std::string html_page(const HtmlPage& page);

}  // namespace penstock
