#pragma once
// A tiny check that SVG and HTML pages are well-formed XML, and counts of what is in them.

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::sample {

/// Empty when every element that is opened is closed in order, attributes are quoted and named once, and no
/// stray '<' or '&' is left; otherwise what is wrong and where. Knows comments, <!DOCTYPE> and CDATA.
std::string markup_fault(std::string_view text);

/// How often `word` occurs.
std::size_t occurrences(std::string_view text, std::string_view word);

}  // namespace penstock::sample
