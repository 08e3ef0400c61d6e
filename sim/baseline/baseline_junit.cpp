// Writes JUnit XML that GitHub, GitLab and Jenkins can read. A scenario that exceeds its tolerance is a
// failure; one that cannot be read is an error.

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <pugixml.hpp>

#include "sim/baseline/baseline.hpp"
#include "text/escaping.hpp"

namespace penstock {
namespace {

std::string lines_of(const BaselineVerdict& verdict) {
  std::string lines;
  for (const BaselineFinding& finding : verdict.findings) {
    lines += fmt::format("{}: {}: expected {}, is {}\n", finding.failed ? "FAIL" : "note", finding.figure,
                         finding.expected, finding.actual);
  }
  for (const std::string& reason : verdict.reasons) lines += reason + '\n';
  return lines;
}

/// Describes the first finding that fails.
std::string summary_of(const BaselineVerdict& verdict) {
  const auto failed = std::ranges::find_if(verdict.findings, &BaselineFinding::failed);
  return fmt::format("{}: expected {}, is {}", failed->figure, failed->expected, failed->actual);
}

void add_case(pugi::xml_node suite, const BaselineVerdict& verdict) {
  pugi::xml_node test = suite.append_child("testcase");
  test.append_attribute("classname") = "penstock.check";
  test.append_attribute("name") = xml_text(verdict.scenario).c_str();
  const auto add = [&](const char* kind, const std::string& message, const std::string& text) {
    pugi::xml_node node = test.append_child(kind);
    if (!message.empty()) node.append_attribute("message") = xml_text(message).c_str();
    node.append_child(pugi::node_pcdata).set_value(xml_text(text).c_str());
  };
  if (verdict.error) {
    add("error", "the scenario cannot be measured", *verdict.error);
  } else if (verdict.failed()) {
    add("failure", summary_of(verdict), lines_of(verdict));
  } else if (!verdict.findings.empty()) {
    add("system-out", "", lines_of(verdict));
  }
}

}  // namespace

std::string to_junit(const std::vector<BaselineVerdict>& verdicts) {
  const auto errors =
      std::ranges::count_if(verdicts, [](const auto& verdict) { return verdict.error.has_value(); });
  const auto failed = std::ranges::count_if(verdicts, &BaselineVerdict::failed);
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  declaration.append_attribute("encoding") = "UTF-8";
  pugi::xml_node suite = document.append_child("testsuites").append_child("testsuite");
  suite.append_attribute("name") = "penstock check";
  suite.append_attribute("tests") = static_cast<unsigned>(verdicts.size());
  // failed() also counts errors, which have an attribute of their own.
  suite.append_attribute("failures") = static_cast<unsigned>(failed - errors);
  suite.append_attribute("errors") = static_cast<unsigned>(errors);
  for (const BaselineVerdict& verdict : verdicts) add_case(suite, verdict);
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

}  // namespace penstock
