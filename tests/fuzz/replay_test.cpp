// Repeats the inputs that fuzzing has found. Every target reads its corpus and its seeds, unchanged and with
// changes that are the same in each run. It does not need libFuzzer.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fuzz/targets.hpp"
#include "tests/test_files.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Bytes8 = std::vector<std::uint8_t>;

constexpr std::size_t kMostSeedBytes = 20'000;
constexpr int kChangesOfEach = 60;

Bytes8 bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  Bytes8 bytes{std::istreambuf_iterator<char>(stream), {}};
  bytes.resize(std::min(bytes.size(), kMostSeedBytes));
  return bytes;
}

void add_files(std::vector<fs::path>& files, const fs::path& place, std::string_view suffix) {
  if (fs::is_regular_file(place)) files.push_back(place);
  if (!fs::is_directory(place)) return;
  for (const auto& entry : fs::directory_iterator(place)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(suffix)) files.push_back(entry.path());
  }
}

/// Returns the files of a target. Each named folder must exist. Otherwise a renamed folder would not be
/// tested.
std::vector<fs::path> files_of(const FuzzTarget& target) {
  std::vector<fs::path> files;
  for (const std::string_view seed : target.seeds) {
    const std::size_t before = files.size();
    add_files(files, source_path(seed), target.seed_suffix);
    EXPECT_GT(files.size(), before) << seed << " has no file " << target.seed_suffix;
  }
  add_files(files, source_path("tests/fuzz/corpus/" + std::string(target.name)), "");
  std::ranges::sort(files);
  return files;
}

std::vector<Bytes8> inputs_of(const FuzzTarget& target) {
  std::vector<Bytes8> inputs = {{}};
  for (const fs::path& file : files_of(target)) inputs.push_back(bytes_of(file));
  return inputs;
}

/// Changes one byte, removes or doubles a sequence of bytes, or cuts off the end.
void change(Bytes8& bytes, std::mt19937& random) {
  if (bytes.empty()) {
    bytes.push_back(static_cast<std::uint8_t>(random()));
    return;
  }
  const std::size_t at = random() % bytes.size();
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
  const auto end =
      place + static_cast<std::ptrdiff_t>(std::min<std::size_t>(random() % 16, bytes.size() - at));
  switch (random() % 5) {
    case 0:
      *place = static_cast<std::uint8_t>(random());
      break;
    case 1:
      *place = static_cast<std::uint8_t>(*place ^ (1U << random() % 8));
      break;
    case 2:
      bytes.erase(place, end);
      break;
    case 3: {
      const Bytes8 copy(place, end);
      bytes.insert(place, copy.begin(), copy.end());
      break;
    }
    default:
      bytes.resize(at);
  }
}

class FuzzReplay : public testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzReplay, ReadsItsCorpusAndChangesOfIt) {
  std::mt19937 random(11);
  const std::vector<Bytes8> inputs = inputs_of(GetParam());
  ASSERT_GT(inputs.size(), 1U) << "nothing to begin with: neither seeds nor tests/fuzz/corpus/"
                               << GetParam().name;
  for (const Bytes8& input : inputs) {
    EXPECT_NO_THROW(GetParam().read(input));
    for (int i = 0; i < kChangesOfEach; ++i) {
      Bytes8 changed = input;
      for (std::uint32_t changes = 1 + random() % 4; changes > 0; --changes) change(changed, random);
      EXPECT_NO_THROW(GetParam().read(changed)) << std::string(changed.begin(), changed.end());
    }
  }
}

TEST(FuzzCorpus, EachFolderIsOfATarget) {
  for (const auto& folder : fs::directory_iterator(source_path("tests/fuzz/corpus"))) {
    const std::string name = folder.path().filename().string();
    EXPECT_TRUE(std::ranges::count(fuzz_targets(), name, &FuzzTarget::name) == 1)
        << name << ": nobody reads what is in it";
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzReplay, testing::ValuesIn(fuzz_targets()), [](const auto& target) {
  std::string name(target.param.name);
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace penstock
