// Divides layers among stages by a rule or by Megatron's layouts. With s stages, `even` gives n/s layers to
// each stage. `ends-one-less` gives (n + 2)/s, where embedding and head take the place of one layer each
// (Megatron's account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split). A layout is
// expanded, and then its layers are counted stage by stage. level_layers.cpp divides by price. Tested by
// pricing_test.cpp.

#include "scenarios/pricing/layer_split.hpp"
#include "text/numbers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <boost/algorithm/string/split.hpp>
#include <tl/expected.hpp>

namespace penstock {
namespace {

/// The largest number of letters in an expanded layout. It exceeds the layers of every model and takes 1 MiB.
constexpr std::size_t kLongestLayout = std::size_t{1} << 20;

using NamedRule = std::pair<std::string_view, LayerSplit::Rule>;
constexpr std::array<NamedRule, 3> kSplitRules = {{{"even", LayerSplit::Rule::even},
                                                   {"ends-one-less", LayerSplit::Rule::ends_one_less},
                                                   {"balanced", LayerSplit::Rule::balanced}}};

using Text = tl::expected<std::string, std::string>;

/// Expands the repetitions "x*n" and "(..)*n" of a layout.
class LayoutSpeller {
 public:
  explicit LayoutSpeller(std::string_view text) : text_(text) {}

  Text all() {
    auto spelt = sequence();
    if (spelt && at_ < text_.size()) return fault("the end or one of E t m L |");
    return spelt;
  }

 private:
  tl::unexpected<std::string> fault(std::string_view expected) const {
    const std::string found =
        at_ < text_.size() ? fmt::format("\"{}\"", text_.substr(at_, 8)) : std::string("nothing");
    return tl::unexpected(
        fmt::format("layout \"{}\", character {}: expected {}, got {}", text_, at_ + 1, expected, found));
  }

  /// Expands the text up to its end or to the closing bracket. group() reads the bracket.
  Text sequence() {
    std::string spelt;
    while (at_ < text_.size() && text_[at_] != ')') {
      auto part = text_[at_] == '(' ? group() : letter();
      if (!part) return part;
      const auto times = repetition();
      if (!times) return tl::unexpected(times.error());
      // The size is checked before the repetition, because nested brackets multiply it. Both factors are at
      // most 2^20, so their product fits in 64 bits.
      if (spelt.size() + part->size() * static_cast<std::size_t>(*times) > kLongestLayout) {
        return fault("fewer layers and stages");
      }
      for (std::int64_t i = 0; i < *times; ++i) spelt += *part;
    }
    return spelt;
  }

  Text group() {
    // Each bracket is a recursive call, so the depth is limited.
    if (++depth_ > 8) return fault("fewer brackets");
    ++at_;
    auto inner = sequence();
    if (!inner) return inner;
    if (at_ >= text_.size()) return fault("a closing bracket");
    ++at_;
    --depth_;
    return inner;
  }

  Text letter() {
    const char c = text_[at_];
    if (std::string_view("EtmL|,").find(c) == std::string_view::npos) return fault("one of E t m L | ( )");
    ++at_;
    // A comma only separates letters and has no other meaning.
    return c == ',' ? std::string() : std::string(1, c);
  }

  /// Returns the n of "*n", or 1 if there is no repetition. The n may be 0.
  tl::expected<std::int64_t, std::string> repetition() {
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    ++at_;
    const auto times = leading_number<std::int64_t>(text_.substr(at_));
    const bool fits =
        times.value && *times.value >= 0 && *times.value <= static_cast<std::int64_t>(kLongestLayout);
    if (!fits) return fault("a number behind *");
    at_ += times.spelling.size();
    return *times.value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

std::vector<std::string> stages_of(std::string_view layout) {
  std::vector<std::string> stages;
  boost::algorithm::split(stages, layout, [](char c) { return c == '|'; });
  return stages;
}

tl::expected<LayerSplit, std::string> parse_layout(std::string_view text) {
  const auto spelt = LayoutSpeller(text).all();
  if (!spelt) return tl::unexpected(spelt.error());
  const std::vector<std::string> stages = stages_of(*spelt);
  LayerSplit split{.rule = LayerSplit::Rule::listed};
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const auto count = [&](char c) { return std::ranges::count(stages[i], c); };
    const bool is_first = i == 0;
    const bool is_last = i + 1 == stages.size();
    if (count('E') != (is_first ? 1 : 0) || (is_first && stages[i].front() != 'E')) {
      return tl::unexpected(
          fmt::format("layout \"{}\": expected E once, at the front of the first stage", text));
    }
    if (count('L') != (is_last ? 1 : 0) || (is_last && stages[i].back() != 'L')) {
      return tl::unexpected(
          fmt::format("layout \"{}\": expected L once, at the end of the last stage", text));
    }
    if (count('m') > 0 && !is_last) {
      return tl::unexpected(fmt::format(
          "layout \"{}\": expected multi-token-prediction layers (m) on the last stage, got stage {}", text,
          i));
    }
    // Embedding, head and multi-token-prediction layers are priced separately.
    split.counts.push_back(count('t'));
  }
  return split;
}

}  // namespace

tl::expected<LayerSplit, std::string> parse_layer_split(std::string_view text) {
  for (const auto& [name, rule] : kSplitRules) {
    if (text == name) return LayerSplit{.rule = rule};
  }
  // Every layout has an L for the loss, while the names of rules have no capital letter.
  if (text.find('L') != std::string_view::npos) return parse_layout(text);
  return tl::unexpected(
      fmt::format("expected even, ends-one-less, balanced, a Megatron layout such as \"Et*3|t*4|t*3L\" or a "
                  "list of layers a stage, got \"{}\"",
                  text));
}

std::string to_text(const LayerSplit& split) {
  if (split.rule == LayerSplit::Rule::listed) return fmt::format("[{}]", fmt::join(split.counts, ", "));
  const auto named = std::ranges::find(kSplitRules, split.rule, &NamedRule::second);
  return named == kSplitRules.end() ? "even, or balanced where the layers do not divide"
                                    : std::string(named->first);
}

LayerSplit::Rule rule_in_force(const LayerSplit& split, std::int64_t layers, std::int32_t stages) {
  if (split.rule != LayerSplit::Rule::unstated) return split.rule;
  return layers % stages == 0 ? LayerSplit::Rule::even : LayerSplit::Rule::balanced;
}

tl::expected<std::vector<std::int64_t>, std::string> split_layers(const LayerSplit& split,
                                                                  std::int64_t layers, std::int32_t stages) {
  const LayerSplit::Rule rule = rule_in_force(split, layers, stages);
  if (rule == LayerSplit::Rule::balanced) throw std::logic_error("layers are balanced without their prices");
  const std::int64_t ends = rule == LayerSplit::Rule::ends_one_less ? 1 : 0;
  if (rule == LayerSplit::Rule::listed) {
    if (split.counts.size() != static_cast<std::size_t>(stages)) {
      return tl::unexpected(
          fmt::format("layer_split lists {} stages, the schedule has {}", split.counts.size(), stages));
    }
    const std::int64_t sum = std::accumulate(split.counts.begin(), split.counts.end(), std::int64_t{0});
    if (sum != layers) {
      return tl::unexpected(fmt::format("layer_split lists {} layers, the model has {}", sum, layers));
    }
    return split.counts;
  }
  // Embedding and head each count as one layer.
  const std::int64_t all = layers + 2 * ends;
  if (all % stages != 0) {
    // The message suggests the other rule if the layers divide under it.
    const std::int64_t others = ends > 0 ? layers : layers + 2;
    const std::string_view other = ends > 0 ? "even" : "ends-one-less";
    const std::string hint =
        others % stages == 0
            ? fmt::format("take {}, which divides ({})", other,
                          ends > 0 ? fmt::format("{} = {} x {}", layers, layers / stages, stages)
                                   : fmt::format("{} + 2 = {}", layers, others))
            : std::string("choose other stages or virtual stages");
    return tl::unexpected(
        fmt::format("{} layers{} do not divide over {} stages (layer_split: {}); {}, take balanced, or list "
                    "the layers of each stage",
                    layers, ends > 0 ? " and the two ends" : "", stages, to_text(split), hint));
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), all / stages);
  counts.front() -= ends;
  counts.back() -= ends;
  // No count is negative. With both ends, each stage has at least one layer, and a single stage has both
  // ends.
  return counts;
}

}  // namespace penstock
