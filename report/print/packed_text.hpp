#pragma once
// Compresses the large texts inside an HTML page: the runs of a viewer, and its script.
// report/web/loader.js unpacks them.

#include <string>
#include <string_view>

namespace penstock {

/// Returns the bytes compressed by raw deflate (RFC 1951).
std::string deflated(std::string_view bytes);

/// Returns the bytes in base64 (RFC 4648). Such a text can stand in any element of an HTML page.
std::string base64(std::string_view bytes);

}  // namespace penstock
