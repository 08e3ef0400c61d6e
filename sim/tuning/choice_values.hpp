#pragma once
// The choices of a configuration and their values.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "sim/tuning/configuration.hpp"

namespace penstock {

/// The members of a Configuration that are choices, by the names that users see.
inline constexpr std::array<std::string_view, 13> kChoices = {
    "tensor",         "context",  "context_exchange", "expert",           "data",      "order",   "stages",
    "virtual_stages", "schedule", "layer_split",      "micro_batch_size", "recompute", "sharding"};

/// The value of each choice as text.
using ChoiceTexts = std::array<std::string, kChoices.size()>;
ChoiceTexts choice_texts(const TuneRequest& request, const Configuration& of);

/// The value of each choice as a number that orders the values.
using ChoiceCodes = std::array<std::int64_t, kChoices.size()>;
ChoiceCodes choice_codes(const Configuration& of);

/// Numbers the values of all choices from 0 on in the order of their appearance. Every configuration has one
/// value for each choice.
class ValueNumbers {
 public:
  using Numbers = std::array<std::uint16_t, kChoices.size()>;

  Numbers of(const Configuration& configuration);
  std::size_t count() const { return count_; }

 private:
  std::array<std::map<std::int64_t, std::uint16_t>, kChoices.size()> known_;
  std::size_t count_ = 0;
};

}  // namespace penstock
