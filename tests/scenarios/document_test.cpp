// Tests documents and the edits of --set.

#include "scenarios/read/document.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <ios>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tests/test_files.hpp"

namespace penstock {
namespace {

tl::expected<Node, std::string> parsed(std::string_view text) {
  return parse_document(text, std::make_shared<const Source>(
                                  Source{.name = "a.yaml", .directory = "/dir", .override_key = ""}));
}

TEST(Document, ValuesKnowTheirLineAndColumn) {
  const auto root = parsed("model:\n  stages: {forward: 1 ms,\n           backward: [2 ms, 3 ms]}\n");
  ASSERT_TRUE(root) << root.error();
  const Node& stages = *root->find("model")->find("stages");
  EXPECT_EQ(place_of(*stages.find("forward")), "a.yaml:2:21");
  EXPECT_EQ(place_of(stages.find("backward")->items[1]), "a.yaml:3:29");
  EXPECT_EQ(stages.find("backward")->items[1].text, "3 ms");
  EXPECT_EQ(stages.find("sideways"), nullptr);
}

TEST(Document, SyntaxErrorsHaveTheirPlace) {
  EXPECT_EQ(parsed("a: 1\nb: c: d\n").error(), "a.yaml:2:5: not valid YAML: illegal map value");
  EXPECT_EQ(parsed("a:\n\tb: 1\n").error(),
            "a.yaml:2:3: not valid YAML: illegal map value; indent with blanks, not with tabs");
  EXPECT_EQ(parsed("[1").error(), "a.yaml:1:1: not valid YAML: end of sequence flow not found");
}

TEST(Document, MayStartWithAMarker) { EXPECT_EQ(parsed("--- {a: 1}")->find("a")->text, "1"); }

TEST(Document, JsonIsYaml) {
  const auto root = parsed(R"({"model": {"stages": {"forward": "1 ms"}}, "list": [1, null]})");
  ASSERT_TRUE(root) << root.error();
  EXPECT_EQ(root->find("model")->find("stages")->find("forward")->text, "1 ms");
  EXPECT_EQ(root->find("list")->items[1].kind, Node::Kind::nothing);
}

TEST(Document, AByteOrderMarkIsSkipped) {
  const auto root = parsed("\xEF\xBB\xBF{a: 1, a: 2}");
  EXPECT_EQ(root.error(), "a.yaml:1:8: the key a is given twice, first in line 1; remove one");
  EXPECT_EQ(parsed("\xEF\xBB\xBF{\"a\": 1}")->find("a")->text, "1");
}

TEST(Document, WithoutContentItIsCalledEmpty) {
  for (const std::string_view text : {"", " \n\t\n", "# a comment\n", "---\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(parsed(text).error(), "a.yaml: the file is empty") << text;
  }
  EXPECT_TRUE(parsed("---#a: 1")) << "neither an opening nor a comment";
}

TEST(Document, BracketsWithoutEndAreRefusedBeforeTheStackEnds) {
  EXPECT_EQ(parsed(std::string(100'000, '[')).error(),
            "a.yaml: too many lists and mappings stand in each other");
}

TEST(Document, AKeyTwiceIsAnErrorAlsoDeepInside) {
  EXPECT_EQ(parsed("a: {b: [{c: 1,\n c: 2}]}").error(),
            "a.yaml:2:2: the key c is given twice, first in line 1; remove one");
  EXPECT_TRUE(parsed("a: {c: 1}\nb: {c: 1}"));
}

TEST(Document, KeysAreWords) {
  EXPECT_EQ(parsed("[a, b]: 1").error(), "a.yaml:1:1: expected a key, which is a word");
  EXPECT_EQ(parsed("{a: {{b: 1}: 2}}").error(), "a.yaml:1:6: expected a key, which is a word");
}

TEST(Document, NestingHasALimit) {
  const std::size_t deep = 100;
  EXPECT_TRUE(parsed(std::string(deep, '[') + std::string(deep, ']')));
  EXPECT_EQ(parsed(std::string(deep + 1, '[') + std::string(deep + 1, ']')).error(),
            "a.yaml:1:101: nested deeper than 100 levels");
  EXPECT_EQ(parsed(std::string(100'000, '[')).error(),
            "a.yaml: too many lists and mappings stand in each other")
      << "they are not followed that deep";
}

TEST(Document, BytesThatAreNoTextAreAnError) {
  for (char byte = 1; byte < ' '; ++byte) {
    const bool is_blank = byte == '\t' || byte == '\n' || byte == '\r';
    EXPECT_EQ(parsed(std::string("a:\n  b: c") + byte + "\n").has_value(), is_blank) << int{byte};
  }
  EXPECT_EQ(parsed(std::string_view("a:\n b\0", 6)).error(),
            "a.yaml:2:3: expected text, got the control character 0x00");
  EXPECT_FALSE(parsed("a: \"\\xZZ\""));
}

TEST(Document, ControlCharactersAreWrittenAsTheyAreRead) {
  const auto document = parsed(R"({a: "x\e[31m\n\r\ty", "k\e": [it's, "\b"]})");
  const std::string text = document_to_yaml(*document);
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  const auto again = parsed(text);
  EXPECT_EQ(again->find("a")->text, "x\x1b[31m\n\r\ty");
  EXPECT_EQ(again->find("k\x1b")->items[1].text, "\b");
}

// Without quotes, YAML would read each of these names as the beginning or end of a document, or as UTF-16.
TEST(Document, NamesThatLookLikeMarksAreWrittenAsTheyAreRead) {
  for (const std::string name : {"---", "---a", "...", "\xFE\xFF-a", "\xFF\xFE"}) {
    const auto again = parsed(document_to_yaml(*parsed("{\"" + name + "\": 1}")));
    ASSERT_TRUE(again) << again.error();
    EXPECT_EQ(again->entries.front().key.text, name);
  }
}

TEST(Document, KeysAreSoShortThatEachIsReadAsItIsWritten) {
  const std::string key(200, '\b');
  Node document = *parsed("{a: {k: 1}}");
  document.entries[0].key.text = key;
  const auto again = parsed(document_to_yaml(document));
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->find(key)->find("k")->text, "1");
  EXPECT_EQ(parsed(std::string(201, 'k') + ": 1").error(), "a.yaml:1:1: a key is longer than 200 bytes");
}

TEST(Document, AMessageIsOneLineWhateverTheFileHolds) {
  const auto source =
      std::make_shared<const Source>(Source{.name = "a\nb\x1b[8m.yaml", .directory = "", .override_key = ""});
  const auto document = parse_document(R"("k\n::error": "x\n\e[31m")", source);
  ASSERT_TRUE(document);
  const Node::Entry& entry = document->entries.front();
  EXPECT_EQ(message_at(entry.value, entry.key.text, "got " + describe(entry.value)),
            R"(a\x0ab\x1b[8m.yaml:1:15: k\x0a::error: got "x\x0a\x1b[31m")");
  EXPECT_EQ(parse_document("", source).error(), R"(a\x0ab\x1b[8m.yaml: the file is empty)");
  EXPECT_EQ(parse_document("a: [", source).error().find('\n'), std::string::npos);
}

TEST(Document, ManyKeysAreReadInTime) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "key" + std::to_string(i) + ": 1\n";
  const auto root = parsed(text);
  ASSERT_TRUE(root) << root.error();
  EXPECT_EQ(root->entries.size(), 20'000U);
}

TEST(Document, MessagesLeaveOutAPathThatThePlaceNames) {
  Node node;
  node.source =
      std::make_shared<const Source>(Source{.name = "--set a.b", .directory = "", .override_key = "a.b"});
  EXPECT_EQ(message_at(node, "a.b", "is wrong"), "--set a.b: is wrong");
  EXPECT_EQ(message_at(node, "a", "is wrong"), "--set a.b: a: is wrong");
}

TEST(TextFile, SaysWhatKeepsItFromBeingRead) {
  const ScratchFolder scratch;
  const std::filesystem::path& folder = scratch.path();
  EXPECT_EQ(read_text_file(folder / "nowhere", "nowhere").error(), "nowhere: the file does not exist");
  EXPECT_EQ(read_text_file(folder, "folder").error(), "folder: expected a file, got a directory");
  scratch.write("some", "a\tb\r\n");
  EXPECT_EQ(read_text_file(folder / "some", "some"), "a\tb\r\n");
  scratch.write("zero", std::string("a\0b\r\n", 5));
  EXPECT_EQ(read_text_file(folder / "zero", "zero").error(), "zero: expected text, got a binary file");
  scratch.write("packed", "\x1f\x8b\x08 and so on");
  EXPECT_EQ(read_text_file(folder / "packed", "packed").error(),
            "packed: expected text, got a file that gzip has compressed; unpack it first (gunzip)");
  EXPECT_EQ(read_text_file("/dev/zero", "zero").error(), "zero: the file is larger than 64 MiB");
}

// A user may pass the content of a whole file instead of the file's name.
TEST(TextFile, ANameThatIsAWholeFileIsNotReadOut) {
  for (const std::string& name :
       {std::string(5'000, '0'), std::string(5'000, '0') + "\n1\n", "0\n" + std::string(5'000, '1')}) {
    const std::string refused = read_text_file("nowhere", name).error();
    EXPECT_LT(refused.size(), 300U);
    EXPECT_TRUE(refused.starts_with("0") && refused.ends_with("...: the file does not exist")) << refused;
  }
}

Node changed(std::string_view text, const Override& change) {
  auto node = apply_override(*parsed(text), change);
  EXPECT_TRUE(node) << node.error();
  return node.value_or(Node{});
}

std::string refused_change(std::string_view text, const Override& change) {
  const auto node = apply_override(*parsed(text), change);
  return node ? "no error" : node.error();
}

TEST(Override, IsKeyAndValueAroundTheFirstEqualsSign) {
  EXPECT_EQ(parse_override("a.b=c=d"), (Override{.key = "a.b", .value = "c=d"}));
  EXPECT_EQ(parse_override("a.b").error(),
            "--set: expected KEY=VALUE such as cluster.latency=4us, got \"a.b\"");
  EXPECT_EQ(parse_override("=4us").error(),
            "--set: expected KEY=VALUE such as cluster.latency=4us, got \"=4us\"");
}

TEST(Override, ReplacesAValue) {
  const Node root = changed("a: {b: 1}", {.key = "a.b", .value = "2"});
  EXPECT_EQ(root.find("a")->find("b")->text, "2");
  EXPECT_EQ(place_of(*root.find("a")->find("b")), "--set a.b");
}

TEST(Override, AddsMissingKeysOnItsWay) {
  const Node root = changed("a: {b: 1}\nn:", {.key = "c.d.e", .value = "[1, {f: 2}]"});
  EXPECT_EQ(root.find("c")->find("d")->find("e")->items[1].find("f")->text, "2");
  EXPECT_EQ(changed("n:", {.key = "n.x", .value = "1"}).find("n")->find("x")->text, "1");
}

TEST(Override, ReachesListElementsByIndex) {
  EXPECT_EQ(changed("a: [1, 2, 3]", {.key = "a.2", .value = "9"}).find("a")->items[2].text, "9");
  EXPECT_EQ(refused_change("a: [1, 2, 3]", {.key = "a.3", .value = "9"}),
            "--set a.3: a is a list of 3: expected an index from 0 to 2, got \"3\"");
  EXPECT_EQ(refused_change("a: [1, 2, 3]", {.key = "a.-1", .value = "9"}),
            "--set a.-1: a is a list of 3: expected an index from 0 to 2, got \"-1\"");
}

TEST(Override, DoesNotPassThroughScalars) {
  EXPECT_EQ(refused_change("a: 1", {.key = "a.b", .value = "9"}),
            "--set a.b: a is \"1\", which has no key b");
}

TEST(Override, NeedsAValueThatIsYaml) {
  EXPECT_EQ(refused_change("a: 1", {.key = "a", .value = " "}),
            "--set a: expected a value after '=', got nothing");
  EXPECT_EQ(refused_change("a: 1", {.key = "a", .value = "[1"}),
            "--set a: not valid YAML: end of sequence flow not found");
  EXPECT_EQ(refused_change("c: 1", {.key = "a..b", .value = "1"}),
            "--set a..b: expected keys joined by single dots");
}

}  // namespace
}  // namespace penstock
