// Reads the text once, with a stack of the elements that are open, and stops at the first fault:
//
//   <a><b></a>     open: a b; </a> finds b on top     "</a> closes nothing at `...`"
//
// Names of elements and attributes are compared as they are written. The pages are written as XML, so an
// unclosed <br> of HTML is a fault.

#include "tests/report/markup.hpp"

#include <cctype>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::sample {
namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == ':' || c == '_';
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string fault() {
    while (at_ < text_.size() && fault_.empty()) {
      if (text_[at_] == '<') {
        scan_markup();
      } else {
        scan_character();
      }
    }
    if (fault_.empty() && !open_.empty()) fail("<" + open_.back() + "> is never closed");
    return fault_;
  }

 private:
  /// Records the first fault, with the 40 characters before it and the 40 after it.
  void fail(const std::string& what) {
    if (fault_.empty())
      fault_ = what + " at `" + std::string(text_.substr(at_ < 40 ? 0 : at_ - 40, 80)) + "`";
  }

  /// If the text begins with `begin` here, moves past the next `end`. The text between the two is not
  /// checked.
  bool skip_if(std::string_view begin, std::string_view end) {
    if (!text_.substr(at_).starts_with(begin)) return false;
    const std::size_t stop = text_.find(end, at_ + begin.size());
    if (stop == std::string_view::npos) fail("no end of " + std::string(begin));
    at_ = stop == std::string_view::npos ? text_.size() : stop + end.size();
    return true;
  }

  std::string take_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }

  /// Reads one character of text or of a value. An & must begin an entity that ends with ; at most 8
  /// characters later.
  void scan_character() {
    if (text_[at_] == '&') {
      const std::size_t end = text_.find(';', at_);
      if (end == std::string_view::npos || end - at_ > 8) fail("a stray &");
    }
    ++at_;
  }

  /// Reads from a < to the position after its >, or to the position after the comment.
  void scan_markup() {
    if (skip_if("<!--", "-->") || skip_if("<![CDATA[", "]]>") || skip_if("<!DOCTYPE", ">")) return;
    ++at_;
    const bool closing = at_ < text_.size() && text_[at_] == '/';
    if (closing) ++at_;
    const std::string name = take_name();
    if (name.empty()) fail("a stray <");
    if (closing) {
      close(name);
    } else {
      scan_attributes(name);
    }
  }

  void close(const std::string& name) {
    if (open_.empty() || open_.back() != name) fail("</" + name + "> closes nothing");
    if (!open_.empty()) open_.pop_back();
    if (at_ >= text_.size() || text_[at_] != '>') fail("no > after </" + name);
    ++at_;
  }

  /// Reads from the end of an opened element's name to the position after its > or />.
  void scan_attributes(const std::string& element) {
    std::set<std::string> seen;
    for (skip_blanks(); fault_.empty() && at_ < text_.size() && is_name(text_[at_]); skip_blanks()) {
      const std::string name = take_name();
      if (!seen.insert(name).second) fail("attribute " + name + " twice");
      if (!text_.substr(at_).starts_with("=\"")) fail("attribute " + name + " without a quoted value");
      at_ += 2;
      while (at_ < text_.size() && text_[at_] != '"' && fault_.empty()) {
        if (text_[at_] == '<') fail("a < in a value");
        scan_character();
      }
      ++at_;
    }
    const bool empty = text_.substr(at_ < text_.size() ? at_ : 0).starts_with("/>");
    if (!empty) open_.push_back(element);
    at_ += empty ? 2 : 1;
    if (at_ > text_.size() || text_[at_ - 1] != '>') fail("no > after <" + element);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  std::string fault_;
};

}  // namespace

std::string markup_fault(std::string_view text) { return Scanner(text).fault(); }

std::size_t occurrences(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size()))
    ++count;
  return count;
}

}  // namespace penstock::sample
