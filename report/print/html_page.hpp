#pragma once
// Writes the frame of every HTML page: its style, and the scripts that sort tables, filter rows and show
// timelines. A page needs no other file.

#include <span>
#include <string>
#include <string_view>

namespace penstock {

/// A page. `title` is plain text; `body` is HTML.
struct HtmlPage {
  std::string title;
  std::string body;
  /// True if the body has an <input class="filter"> before a table. With it, the user can filter the rows
  /// of the table.
  bool has_filters = false;
  /// True if the body has viewers (report/pages/html_report.hpp).
  bool has_viewer = false;
};

/// Returns the complete HTML document.
std::string html_page(const HtmlPage& page);

// Compresses the large texts inside an HTML page: the runs of a viewer, and its script.
// report/web/loader.js unpacks them.

/// Returns the bytes compressed by raw deflate (RFC 1951).
std::string deflated(std::string_view bytes);

/// Returns the bytes in base64 (RFC 4648). Such a text can stand in any element of an HTML page.
std::string base64(std::string_view bytes);

// Holds the style sheets and scripts of pages. The files are in report/web, and the build makes string
// literals of them.

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
