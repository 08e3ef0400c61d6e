// Builds the tree from the events of yaml-cpp's parser. The events contain the line and column of every
// value. They also reveal two errors that yaml-cpp's own tree hides: a key that occurs twice, and aliases
// that expand to gigabytes.

#include "scenarios/read/document.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <ios>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>
#include <tl/expected.hpp>

#include "scenarios/read/quantities.hpp"
#include "schedules/text/text_cursor.hpp"

namespace penstock {
namespace {

/// The deepest nesting of lists and mappings that is accepted. Recursive functions on a tree need a limit,
/// and the schema needs far less.
constexpr std::size_t kDeepestNesting = 100;

/// A builder of the document tree. After the first unsupported element it ignores further events. The
/// parser still continues, because a later syntax error may be the real cause.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::shared_ptr<const Source>& source) : source_(source) {}

  Node take_root() { return std::move(root_); }
  /// Returns the error message for the first unsupported element, or an empty text.
  const std::string& complaint() const { return complaint_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, "", anchor, make(mark, Node::Kind::nothing));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    complain(mark, "aliases (*name) are not supported, write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = make(mark, Node::Kind::scalar);
    node.text = value;
    node.is_quoted = tag == "!";
    add(mark, tag, anchor, std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, make(mark, Node::Kind::list));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, make(mark, Node::Kind::mapping));
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or mapping whose end the parser has not reached.
  struct Open {
    Node node;
    Node key;
    bool has_key = false;
    std::unordered_map<std::string, std::int32_t> line_of_key;
  };

  Node make(const YAML::Mark& mark, Node::Kind kind) const {
    Node node;
    node.kind = kind;
    node.source = source_;
    // yaml-cpp counts lines and columns from 0, and editors from 1.
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void complain(const YAML::Mark& mark, std::string_view text) {
    // Only the first message is stored, because later ones often follow from it.
    if (complaint_.empty()) complaint_ = message_at(make(mark, Node::Kind::nothing), "", text);
  }

  void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) complain(mark, "anchors (&name) are not supported, write the value out");
    // yaml-cpp gives plain scalars the tag "?" and quoted scalars the tag "!". YAML's own tags do not change
    // the text.
    const bool ordinary = tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:");
    if (!ordinary) complain(mark, fmt::format("the tag {} is not supported, remove it", tag));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node node) {
    check_plain(mark, tag, anchor);
    refuse_as_key(mark);
    if (stack_.size() == kDeepestNesting) {
      complain(mark, fmt::format("nested deeper than {} levels", kDeepestNesting));
    }
    // After an error nothing is added to the stack, so close() must not remove anything.
    if (!complaint_.empty()) return;
    stack_.push_back({.node = std::move(node), .key = {}, .has_key = false, .line_of_key = {}});
  }

  void close() {
    if (!complaint_.empty()) return;
    Node node = std::move(stack_.back().node);
    stack_.pop_back();
    attach(std::move(node));
  }

  void add(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node node) {
    check_plain(mark, tag, anchor);
    if (node.kind == Node::Kind::nothing) refuse_as_key(mark);
    if (!complaint_.empty()) return;
    if (expects_key()) {
      attach_key(mark, std::move(node));
    } else {
      attach(std::move(node));
    }
  }

  /// Returns true if the next event must be a key of a mapping.
  bool expects_key() const {
    return !stack_.empty() && stack_.back().node.kind == Node::Kind::mapping && !stack_.back().has_key;
  }

  void refuse_as_key(const YAML::Mark& mark) {
    if (expects_key()) complain(mark, "expected a key, which is a word");
  }

  void attach(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
    } else if (stack_.back().node.kind == Node::Kind::list) {
      stack_.back().node.items.push_back(std::move(node));
    } else {
      stack_.back().node.entries.push_back({.key = std::move(stack_.back().key), .value = std::move(node)});
      stack_.back().has_key = false;
    }
  }

  void attach_key(const YAML::Mark& mark, Node key) {
    // Other programs that read YAML accept keys of up to 1024 bytes. A key of 200 bytes stays below this even
    // if each byte is escaped.
    constexpr std::size_t kLongest = 200;
    if (key.text.size() > kLongest) complain(mark, fmt::format("a key is longer than {} bytes", kLongest));
    const auto [first, is_new] = stack_.back().line_of_key.try_emplace(key.text, key.line);
    if (!is_new) {
      complain(mark, fmt::format("the key {} is given twice, first in line {}; remove one", key.text,
                                 first->second));
    }
    stack_.back().key = std::move(key);
    stack_.back().has_key = true;
  }

  std::shared_ptr<const Source> source_;
  Node root_;
  std::vector<Open> stack_;
  std::string complaint_;
};

/// Returns the text as a single line for a message. Control characters are escaped, such as "\x0a".
std::string in_a_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == 0x7f) {
      line += fmt::format("\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

/// Returns "PLACE: TEXT" for a line and column of `source`. Both are counted from 0.
std::string message_in(const Source& source, int line, int column, std::string_view text) {
  const std::string name = in_a_line(source.name);
  if (!source.override_key.empty()) return fmt::format("{}: {}", name, in_a_line(text));
  return fmt::format("{}:{}:{}: {}", name, line + 1, column + 1, in_a_line(text));
}

/// Returns the error message for the first control character, or an empty text if there is none. yaml-cpp
/// would treat one of these characters as the end of the file.
std::string control_character(std::string_view text, const Source& source) {
  int line = 0;
  int column = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' && c != '\t' && c != '\n' && c != '\r') {
      return message_in(source, line, column,
                        fmt::format("expected text, got the control character 0x{:02x}", byte));
    }
    column = c == '\n' ? 0 : column + 1;
    line += c == '\n' ? 1 : 0;
  }
  return "";
}

/// Returns true if the line's indentation has a tab. YAML forbids tabs in indentation, but yaml-cpp's message
/// for them names another error.
bool is_indented_with_tab(std::string_view text, int line) {
  // This function runs only after an error, so a pass over the text costs little.
  for (int skipped = 0; skipped < line && !text.empty(); ++skipped) {
    text.remove_prefix(std::min(text.find('\n') + 1, text.size()));
  }
  const std::string_view indentation = text.substr(0, text.find_first_not_of(" \t"));
  return indentation.find('\t') != std::string_view::npos;
}

std::string syntax_error(std::string_view text, const Source& source, const YAML::Exception& error) {
  if (error.mark.is_null()) return fmt::format("{}: not valid YAML: {}", in_a_line(source.name), error.msg);
  const bool has_tab = is_indented_with_tab(text, error.mark.line);
  return message_in(
      source, error.mark.line, error.mark.column,
      fmt::format("not valid YAML: {}{}", error.msg, has_tab ? "; indent with blanks, not with tabs" : ""));
}

/// Returns false for a text that yaml-cpp would read as one null document. For such a text, the message
/// "expected a mapping" would not help the user.
bool has_content(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  // Blanks, comments and the "---" line at the beginning of a document are not content.
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    // A line begins a document only if a blank or nothing follows "---". The line "---#a" is a scalar.
    const bool opens = line == "---" || (line.starts_with("---") && kBlanks.find(line[3]) != kBlanks.npos);
    const std::size_t first = line.find_first_not_of(kBlanks, opens ? 3 : 0);
    const bool is_blank = first == std::string_view::npos || line[first] == '#';
    if (!is_blank) return true;
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
  }
  return false;
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key.text == key) return &entry.value;
  }
  return nullptr;
}

Node* Node::find(std::string_view key) {
  for (Entry& entry : entries) {
    if (entry.key.text == key) return &entry.value;
  }
  return nullptr;
}

std::string place_of(const Node& node) {
  if (!node.source) return "scenario";
  const std::string name = in_a_line(node.source->name);
  return node.source->override_key.empty() ? fmt::format("{}:{}:{}", name, node.line, node.column) : name;
}

std::string message_at(const Node& node, std::string_view path, std::string_view text) {
  const bool place_says_it = node.source && node.source->override_key == path;
  if (path.empty() || place_says_it) return fmt::format("{}: {}", place_of(node), in_a_line(text));
  return fmt::format("{}: {}: {}", place_of(node), in_a_line(path), in_a_line(text));
}

std::string describe(const Node& node) {
  constexpr std::size_t kMost = 40;
  switch (node.kind) {
    case Node::Kind::nothing:
      return "nothing";
    case Node::Kind::scalar:
      return node.text.size() <= kMost ? fmt::format("\"{}\"", node.text)
                                       : fmt::format("\"{}...\"", node.text.substr(0, kMost));
    case Node::Kind::list:
      return "a list";
    case Node::Kind::mapping:
      return "a mapping";
  }
  return "";
}

bool looks_like_a_figure(std::string_view text) {
  return text.find_first_not_of("+-.0123456789") == std::string_view::npos;
}

namespace {

tl::expected<Node, std::string> parse_yaml(std::string_view text,
                                           const std::shared_ptr<const Source>& source) {
  if (!has_content(text))
    return tl::unexpected(fmt::format("{}: the file is empty", in_a_line(source->name)));
  if (std::string found = control_character(text, *source); !found.empty()) return tl::unexpected(found);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(source);
    if (!parser.HandleNextDocument(builder))
      return tl::unexpected(fmt::format("{}: the file is empty", in_a_line(source->name)));
    if (!builder.complaint().empty()) return tl::unexpected(builder.complaint());
    // The check is necessary because yaml-cpp would silently ignore a second document.
    TreeBuilder second(source);
    if (parser.HandleNextDocument(second)) {
      return tl::unexpected(
          fmt::format("{}: expected one document, got a second one after \"---\"", in_a_line(source->name)));
    }
    return builder.take_root();
  } catch (const YAML::DeepRecursion&) {  // its own message is "bad file"
    return tl::unexpected(
        fmt::format("{}: too many lists and mappings stand in each other", in_a_line(source->name)));
  } catch (const YAML::Exception& error) {
    return tl::unexpected(syntax_error(text, *source, error));
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{}: not readable as YAML: {}", in_a_line(source->name), error.what()));
  }
}

/// Writes a text, in quotes if yaml-cpp's emitter would write it wrongly. Control characters are not
/// allowed in a document. An unquoted "---" or "..." would begin or end a document.
void emit_text(YAML::Emitter& out, const std::string& text) {
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' '; }) ||
      text.starts_with("---") || text.starts_with("..."))
    out << YAML::DoubleQuoted;
  out << text;
}

/// Writes a node. If `is_part` is true and the node is a mapping, each of its keys gets a line of its own.
/// Otherwise the mapping is written in braces on one line. The whole document and the mappings of its
/// top-level keys are written with `is_part`.
void emit(YAML::Emitter& out, const Node& node, bool is_part) {
  switch (node.kind) {
    case Node::Kind::nothing:
      out << YAML::Null;
      return;
    case Node::Kind::scalar:
      // Quotes around a number mean that it is a name. Other text has the same meaning without quotes.
      if (node.is_quoted && looks_like_a_figure(node.text)) out << YAML::DoubleQuoted;
      emit_text(out, node.text);
      return;
    case Node::Kind::list:
      out << YAML::Flow << YAML::BeginSeq;
      for (const Node& item : node.items) emit(out, item, false);
      out << YAML::EndSeq;
      return;
    case Node::Kind::mapping:
      // The document and its top-level mappings have one key in each line. Deeper mappings are in braces.
      if (!is_part) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const Node::Entry& entry : node.entries) {
        out << YAML::Key;
        emit_text(out, entry.key.text);
        out << YAML::Value;
        const bool has_parts = is_part && entry.value.kind == Node::Kind::mapping &&
                               std::ranges::none_of(entry.value.entries, [](const Node::Entry& inner) {
                                 return inner.value.kind == Node::Kind::mapping;
                               });
        emit(out, entry.value, has_parts);
      }
      out << YAML::EndMap;
      return;
  }
}

}  // namespace

tl::expected<Node, std::string> parse_document(std::string_view text,
                                               const std::shared_ptr<const Source>& source) {
  text = without_byte_order_mark(text);
  auto document = parse_yaml(text, source);
  if (document) return document;
  // The parser's message does not say that the text has another format, so the text is checked for known
  // formats.
  const std::string form = foreign_text(text);
  return form.empty() ? document : tl::unexpected(fmt::format("{}: {}", in_a_line(source->name), form));
}

std::string document_to_yaml(const Node& document) {
  YAML::Emitter out;
  emit(out, document, true);
  const std::string_view text = out.c_str();
  // yaml-cpp would read a file that begins with one of these bytes as UTF-16. UTF-8 text never contains these
  // bytes.
  const bool looks_like_a_mark = text.starts_with('\xFE') || text.starts_with('\xFF');
  return fmt::format("{}{}\n", looks_like_a_mark ? "---\n" : "", text);
}

namespace {

/// The largest number of bytes of a text file.
constexpr std::uintmax_t kLargestText = 64U << 20U;

/// Returns the rest of a stream, or its first bytes if it has more than kLargestText. A pipe has no size and
/// a file may grow, so the stream is read in blocks.
std::string blocks_of(std::istream& stream) {
  std::string text;
  std::vector<char> block(1U << 16U);
  while (text.size() <= kLargestText &&
         (stream.read(block.data(), static_cast<std::streamsize>(block.size())) || stream.gcount() > 0))
    text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
  return text;
}

/// The text that replaces standard input for this thread, or nothing if standard input is not replaced.
std::optional<std::string_view>& replaced_standard_input() {
  thread_local std::optional<std::string_view> text;
  return text;
}

/// Returns the text of standard input, or nothing if it has not been read yet.
std::optional<std::string>& consumed_standard_input() {
  static std::optional<std::string> text;
  return text;
}

std::string text_of_standard_input() {
  if (replaced_standard_input()) return std::string(*replaced_standard_input());
  std::optional<std::string>& text = consumed_standard_input();
  if (!text) text = blocks_of(std::cin);
  return *text;
}

}  // namespace

StandardInputText::StandardInputText(std::string_view text) { replaced_standard_input() = text; }
StandardInputText::~StandardInputText() { replaced_standard_input().reset(); }

const std::optional<std::string>& standard_input_already_read() { return consumed_standard_input(); }

tl::expected<std::string, std::string> read_text_file(const std::filesystem::path& path,
                                                      std::string_view name) {
  // A user may pass the text of a whole file as its name, so the message shows only the beginning.
  constexpr std::size_t kLongestName = 255;
  const auto failed = [&](std::string_view why) {
    const std::string_view line = name.substr(0, std::min(name.find('\n'), kLongestName));
    return tl::unexpected(fmt::format("{}{}: {}", line, line.size() < name.size() ? "..." : "", why));
  };
  std::string text;
  if (path == kStandardInput) {
    text = text_of_standard_input();
  } else {
    std::error_code error;
    const std::filesystem::file_status status = std::filesystem::status(path, error);
    if (status.type() == std::filesystem::file_type::not_found) return failed("the file does not exist");
    if (error) return failed(fmt::format("the file cannot be read: {}", error.message()));
    if (std::filesystem::is_directory(status)) return failed("expected a file, got a directory");
    std::ifstream stream(path, std::ios::binary);
    if (!stream) return failed("the file cannot be read: check its permissions");
    text = blocks_of(stream);
    if (stream.bad()) return failed("the file cannot be read");
  }
  if (text.size() > kLargestText) return failed("the file is larger than 64 MiB");
  if (const std::string_view form = binary_form(text); !form.empty())
    return failed(fmt::format("expected text, got {}", form));
  return std::string(without_byte_order_mark(text));
}

}  // namespace penstock
