#pragma once
// A small check that SVG and HTML pages are well-formed XML, and a function that counts words in them.

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock::sample {

/// Returns what is wrong with the text and where, or an empty text if it is well-formed. Elements must be
/// closed in order, attributes must be quoted and have different names, and no other '<' or '&' is allowed.
/// Comments, <!DOCTYPE> and CDATA are accepted.
std::string markup_fault(std::string_view text);

/// Returns how often `word` occurs in the text.
std::size_t occurrences(std::string_view text, std::string_view word);

}  // namespace penstock::sample
