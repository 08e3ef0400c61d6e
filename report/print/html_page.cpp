// Writes the frame of every page. The style sheet and the scripts are inside the file, so that the page
// works without a network. The scripts show timelines, sort and fold tables, and filter table rows; their
// files are in report/web. Without scripts, everything can still be read. Tested by html_report_test.cpp.

#include "report/print/html_page.hpp"

#include <fmt/format.h>

#include <string>

#include "report/print/packed_text.hpp"
#include "report/print/web_texts.hpp"
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

}  // namespace penstock
