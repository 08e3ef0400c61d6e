// Writes the frame of every page. The style sheet and the scripts are inside the file, so that the page
// works without a network. The scripts show timelines, sort and fold tables, and filter table rows; their
// files are in report/web. Without scripts, everything can still be read. Tested by html_report_test.cpp.
#include "report/print/html_page.hpp"

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <zconf.h>
#include <zlib.h>

#include "text/escaping.hpp"

namespace penstock {

std::string html_page(const HtmlPage& page) {
  std::string style(web_text("page.css"));
  std::string scripts(web_text("tables.js"));
  std::string body = page.body;
  if (page.has_filters) scripts += web_text("filter.js");
  if (page.has_viewer) {
    style += web_text("viewer.css");
    scripts += web_text("loader.js");
    body += fmt::format("<script type=\"text/plain\" id=\"viewer-script\">{}</script>\n",
                        base64(deflated(web_text("viewer.js"))));
  }
  // The scripts contain < and &, which are not allowed in XML. CDATA sections inside JavaScript comments make
  // the page valid XML nevertheless.
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>{0}</title>\n<style>{1}\n</style>\n</head>\n<body>\n"
      "<h1>{0}</h1>\n{2}<script>\n//<![CDATA[{3}\n//]]>\n</script>\n</body>\n</html>\n",
      xml_escaped(page.title), style, body, scripts);
}

std::string deflated(std::string_view bytes) {
  z_stream stream{};
  constexpr int kRaw = -MAX_WBITS;  // no header and no checksum
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kRaw, MAX_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  // zlib's interface requires both casts. zlib does not write to its input, and its counters are 32 bits wide
  // on some machines.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::length_error("the runs are too long to compress");
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve(bytes.size() / 3 * 4 + 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) {
      const bool is_filler = at + i > bytes.size();
      text += is_filler ? '=' : kLetters[bits >> (18 - 6 * i) & 63];
    }
  }
  return text;
}

}  // namespace penstock
