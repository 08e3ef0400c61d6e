// The search retains the best configuration for each value of each choice. Each value has a number, so a
// configuration of thirteen choices has thirteen numbers:
//
//     tensor 8 -> 0, context 1 -> 1, .. sharding 1 -> 12;  the next one: tensor 4 -> 13, context 1 -> 1, ..

#include "sim/tuning/choice_values.hpp"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include <fmt/format.h>

#include "scenarios/pricing/layer_recompute.hpp"
#include "scenarios/pricing/layer_split.hpp"
#include "scenarios/pricing/parallel.hpp"
#include "schedules/rules/generators.hpp"
#include "sim/tuning/configuration.hpp"

namespace penstock {

ChoiceTexts choice_texts(const TuneRequest& request, const Configuration& of) {
  return {fmt::to_string(of.tensor),
          fmt::to_string(of.context),
          of.context == 1 ? "none" : std::string(to_text(of.context_exchange)),
          fmt::to_string(of.expert),
          fmt::to_string(of.data),
          std::string(to_text(of.order)),
          fmt::to_string(of.stages),
          fmt::to_string(of.virtual_stages),
          std::string(of.schedule),
          to_text(request.layer_splits[of.layer_split]),
          fmt::to_string(of.micro_batch_size),
          std::string(to_text(of.recompute)),
          fmt::to_string(of.sharding)};
}

// The search compares values as numbers, which is faster than as text. Texts are made only for what is
// printed.
ChoiceCodes choice_codes(const Configuration& of) {
  return {of.tensor,
          of.context,
          of.context == 1 ? 0 : 1 + static_cast<std::int64_t>(of.context_exchange),
          of.expert,
          of.data,
          static_cast<std::int64_t>(of.order),
          of.stages,
          of.virtual_stages,
          std::distance(schedule_table().data(), find_schedule(of.schedule)),
          static_cast<std::int64_t>(of.layer_split),
          of.micro_batch_size,
          static_cast<std::int64_t>(of.recompute),
          of.sharding};
}

ValueNumbers::Numbers ValueNumbers::of(const Configuration& configuration) {
  const ChoiceCodes codes = choice_codes(configuration);
  Numbers numbers{};
  for (std::size_t choice = 0; choice < codes.size(); ++choice) {
    const auto [entry, fresh] = known_[choice].try_emplace(codes[choice], static_cast<std::uint16_t>(count_));
    if (fresh) ++count_;
    numbers[choice] = entry->second;
  }
  return numbers;
}

}  // namespace penstock
