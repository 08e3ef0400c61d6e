#pragma once
// Writes the frame of every HTML page: its style, and the scripts that sort tables, filter rows and show
// timelines. A page needs no other file.

#include <string>

namespace penstock {

/// A page. `title` is plain text; `body` is HTML.
struct HtmlPage {
  std::string title;
  std::string body;
  /// True if the body has an <input class="filter"> before a table. With it, the user can filter the rows
  /// of the table.
  bool has_filters = false;
  /// True if the body has viewers (report/pages/viewer.hpp).
  bool has_viewer = false;
};

/// Returns the complete HTML document.
std::string html_page(const HtmlPage& page);

}  // namespace penstock
