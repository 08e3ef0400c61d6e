// The rules from which a search starts, so that a short search already has good ones. The first part is a
// table of rules from long searches. The second part adapts them to the costs of a program. Tested by
// synthesis_test.cpp.

#include "schedules/search/synthesis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"
#include "schedules/search/order_builder.hpp"
#include "schedules/search/timed_lists.hpp"

namespace penstock {

/// An entry of the table: rules that a long search found for a number of chunks on each rank and a memory
/// limit. Members without a comment have the meaning that they have in OrderRules.
struct StartingRow {
  std::int32_t chunks = 1;
  /// The memory limit, divided by the memory that 1F1B needs on its first rank.
  double limit = 1;
  /// The idle budget, divided by a rank's work on p microbatches, where p is the number of ranks.
  double idle_budget = 0;
  /// The additional idle budget for each earlier rank, divided by a rank's work on one microbatch.
  double idle_budget_per_rank = 0;
  double forward_patience = 1;
  double weight_patience = 1;
  double in_flight = 0;
  double in_flight_per_rank = 0;
  double lead = 0;
  double lead_per_rank = 0;
  /// The values of OrderRules::more_in_flight, one letter for each rank: G is 0, H is 1, F is -1.
  std::string_view more_in_flight;
  std::string_view more_lead;
  Preference preference = Preference::input_first;
  ChunkChoice forward_choice = ChunkChoice::last_first;
  ChunkChoice input_choice = ChunkChoice::last_first;
  std::int32_t lag = 0;
  std::int32_t reserve = 1;
  bool one_forward_a_turn = false;
  bool one_input_a_turn = false;
  double turn_window = 1;
  std::int32_t most_owed = 0;
};

/// Returns the whole table of rules that long searches have found, in ascending order of chunks and limit.
std::span<const StartingRow> starting_rule_table();

/// Returns the rules of an entry. The idle budgets are not yet converted to ns.
OrderRules rules_of(const StartingRow& row);

// Rules from long searches, used as starting points for short ones. Each search took some minutes and began
// with the rules of the next lower limit. It had p = 16, 24 or 32 ranks, 4 p microbatches, and transformers
// of 9.6, 21 or 38.5 G parameters. In these models, I takes as long as F, and W takes three quarters of this
// time. I releases half of the memory of F. Two chunks are placed on a V. The values of single ranks are one
// letter each: G is 0, H is 1, F is -1. starting_rules() adapts the values to other costs.

namespace {

constexpr double kNone = OrderRules::kUnlimited;
constexpr std::int32_t kMany = OrderRules::kAnyNumber;
constexpr Preference kInput = Preference::input_first;
constexpr Preference kTurns = Preference::turn_about;
constexpr Preference kForward = Preference::forward_first;
constexpr ChunkChoice kLast = ChunkChoice::last_first;
constexpr ChunkChoice kFirst = ChunkChoice::first_first;
constexpr ChunkChoice kCount = ChunkChoice::by_turns;

// Each entry is one line. Its values are in the order of StartingRow's members.
// clang-format off
constexpr std::array<StartingRow, 54> kRows = {{
    {1, 1.125, 0.32, 0, 0.107, 0.88, 3.884, 0.961, kNone, 0, "FLMQJPJGEFFDEIEG", "", kTurns, kLast, kLast, 0, 1, true, true, 1.39, 3},
    {1, 1.125, 0.3352, 0.0586, 0.043, 0.71, 3.929, 1.575, kNone, 0, "NMIC?BD?HAFJHBKFJEDBFCDJ", "", kTurns, kLast, kLast, 0, 1, false, false, 0.05, 0},
    {1, 1.125, 0.3268, 0.0586, 0.223, 0.618, 4.066, 1.155, kNone, 0, "HJJJBCQFJHHKHCFMJPBHGFFFBCIJDEEP", "", kTurns, kLast, kLast, 0, 1, true, true, 1.13, kMany},
    {1, 1.25, 0.2821, -0.0395, 0.272, 0.828, 7.278, 1.262, kNone, 0, "HGKHJKIBACFC@CLF", "", kTurns, kLast, kLast, 0, 1, true, false, 0.58, 0},
    {1, 1.25, 0.2791, 0.0586, 0.074, 0.688, 4.232, 1.269, kNone, 0, "IJIBGDGEFCDHLCGGIDCEIECL", "", kTurns, kLast, kLast, 0, 1, true, true, 0.34, kMany},
    {1, 1.25, 0.2791, 0.0586, 0.074, 0.688, 4.232, 1.269, kNone, 0, "IIJIBBGDGGEFCCDHLLCGGGIDCCEIEECL", "", kTurns, kLast, kLast, 0, 1, true, true, 0.34, kMany},
    {1, 1.375, 0.2421, 0, 0.4, 1, 2.618, 1.364, kNone, 0, "GGHHHHGGGGGGHHHH", "", kTurns, kLast, kLast, 0, 1, false, false, 1.71, kMany},
    {1, 1.375, 0.2533, 0, 1, 0.81, 19.219, 0.903, kNone, 0, "FGGGGGGGGFHHHHIJIIHHIHIH", "", kTurns, kLast, kLast, 0, 1, false, false, 0.41, kMany},
    {1, 1.375, 0.226, 0.0531, 1, 0.555, 50.759, 0.059, kNone, 0, "IHGFHHGHIHJHHGHJKGHIIIFGGFIGJGFE", "", kTurns, kLast, kLast, 0, 1, false, false, 0.08, kMany},
    {1, 2, 0.0194, 0, 0.984, 0.029, 33.844, 0.053, kNone, 0, "GGGGGGFGGGGGGGGH", "", kInput, kLast, kLast, 0, 1, false, true, 1.45, kMany},
    {1, 2, 0.0206, 0, 1, 0.752, kNone, 0, kNone, 0, "", "", kTurns, kLast, kLast, 0, 1, false, false, 0.08, kMany},
    {1, 2, 0.0206, 0, 1, 0.752, kNone, 0, kNone, 0, "", "", kTurns, kLast, kLast, 0, 1, false, false, 0.08, kMany},
    {1, 2.125, 0.0092, 0, 0.581, 0.01, 23.071, 1.346, kNone, 0, "HHGHHGGGGFGHHIHI", "", kTurns, kLast, kLast, 0, 1, false, false, 0.44, 4},
    {1, 2.125, 0.0092, 0, 0.581, 0.01, 23.071, 1.346, kNone, 0, "HHHGGHHHGGGGGGFGGHHHIHHI", "", kTurns, kLast, kLast, 0, 1, false, false, 0.44, 4},
    {1, 2.125, 0.0071, 0, 1, 0.888, 60.755, 0.445, kNone, 0, "GGHFGGFFFGFEFEEFGGGHGGHHHHFGGGHH", "", kTurns, kLast, kLast, 0, 1, true, false, 1.63, kMany},
    {1, 2.25, 0.2034, 0.0003, 0.306, 0.026, 30.54, 0.431, kNone, 0, "GFGGGGGGGGHGGGFG", "", kTurns, kLast, kLast, 0, 1, true, false, 1.29, 2},
    {1, 2.25, 0.0059, 0.0005, 0.715, 0.469, 54.656, 0.244, kNone, 0, "HHHHIIIJKHJJHGIHIJIHHKJJ", "", kTurns, kLast, kLast, 0, 1, false, false, 0.65, kMany},
    {1, 2.25, 0.0048, -0.0017, 1, 1, 72, 0.241, kNone, 0, "GGFGGGGGGGGGGGGGGGGGFGGGGGFFFFGG", "", kTurns, kLast, kLast, 0, 1, true, true, 0.84, kMany},
    {1, 2.375, 1.0125, 0, 0.212, 0.116, kNone, 0, kNone, 0, "", "", kTurns, kLast, kLast, 0, 1, false, false, 1.59, kMany},
    {1, 2.375, 0.0037, 0.0016, 0.801, 0.637, 4.788, 2.869, kNone, 0, "FBCDEEIBBGLMLLHGACBCADGG", "", kInput, kLast, kLast, 0, 1, false, true, 0.14, kMany},
    {1, 2.375, 0.0024, 0.0007, 0.405, 0.133, 62.966, 1.084, kNone, 0, "GEGDEABCCEBEDGDEEEECCDEEDEFDFDEF", "", kInput, kLast, kLast, 0, 1, true, true, 0.26, kMany},
    {1, 2.5, 0.0028, 0, 0.211, 0.617, kNone, 0, kNone, 0, "", "", kTurns, kLast, kLast, 0, 1, false, false, 1.48, kMany},
    {1, 2.5, 0.0033, 0, 0.211, 0.617, kNone, 0, kNone, 0, "", "", kTurns, kLast, kLast, 0, 1, false, false, 1.48, kMany},
    {1, 2.5, 0.0022, 0, 0.211, 0.617, kNone, 0, kNone, 0, "", "", kTurns, kLast, kLast, 0, 1, false, false, 1.48, kMany},
    {1, 2.75, 0.003, 0, 0.63, 0.984, kNone, 0, kNone, 0, "", "", kInput, kLast, kLast, 0, 1, true, true, 1.77, kMany},
    {1, 2.75, 0.0018, -0.0004, 0.394, 0.469, 2.915, 2.504, kNone, 0, "GGGGGGGGGGGGHGGGGGGGFFFF", "", kInput, kLast, kLast, 0, 1, true, false, 0.48, kMany},
    {1, 2.75, 0.0015, 0, 1, 1, 88, 0, kNone, 0, "GGGGGGGGGGGGGGGHHHHIIIIIIJJJJIII", "", kInput, kLast, kLast, 0, 1, false, true, 1.57, kMany},
    {1, 2.875, 0, 0, 1, 1, 29.293, 1.665, kNone, 0, "", "", kInput, kLast, kLast, 0, 1, true, false, 1.39, 0},
    {1, 2.875, 0.0019, 0, 0.056, 0.825, 68.913, 0, kNone, 0, "GGGGGHHHGGFFFFGGHGGGGGGG", "", kTurns, kLast, kLast, 0, 1, false, true, 0.35, kMany},
    {1, 2.875, 0.0015, 0.0003, 0.785, 0.756, 93.236, 0, kNone, 0, "GGGGGGGGGGGFGHGGGGGGGGGGGGGGGGGG", "", kTurns, kLast, kLast, 0, 1, false, true, 0.3, 1},
    {2, 1, 0.2217, 0.0836, 0.542, 0.84, 37.955, 1.787, 0.421, 1.985, "HEK?B:B>9?H9DDDB", "MGPGHHGHGHHGGGGI", kForward, kLast, kFirst, 0, 1, false, true, 1.51, kMany},
    {2, 1, 0.1906, 0, 0.344, 0.917, 50.121, 1.32, 0.101, 2.04, "FBEDHJGEBF=IJHDIMMFJFGHL", "HGJGHHHHHHGHGGHGHHHGGGGG", kForward, kCount, kFirst, 1, 1, false, true, 0.96, kMany},
    {2, 1, 0.1798, -0.0244, 0.656, 0.82, 93.187, -0.88, 1.502, 1.952, "IIJFIHLKQPOXVUUSRONIHGAA@GCCFJIJ", "GHHGGGGHGIHGIGJGGJGHGFFFFGFFFFFG", kForward, kLast, kFirst, 0, 1, false, true, 1.23, kMany},
    {2, 1.125, 0.117, -0.0387, 0.592, 0.821, 22.6, 3.75, -0.072, 2.137, "H@DLKHKGVJIXNKOS", "FQEFFSHHGGGIGGGP", kTurns, kLast, kCount, 1, 1, false, true, 1.29, 2},
    {2, 1.125, 0.1008, 0, 0.074, 0.627, 70.468, 1.472, 2.743, 2.133, "DKOQRMGEEEGDB>AB?;=<@DEC", "GHGGGFHHHHGGGHGGGHFFFFKI", kForward, kCount, kLast, 0, 1, false, false, 0.39, kMany},
    {2, 1.125, 0.0915, 0, 0.042, 0.744, 78.272, 0.765, 5.225, 2.082, "IIGGHGHGEEEFGIIHJGEDGEFFBABDBDBB", "GGGGGGGGGGGGGGGGGFFEEEFFFFFEFCCC", kTurns, kCount, kCount, 1, 1, false, false, 0.1, kMany},
    {2, 1.25, 0.0794, 0.0051, 0.094, 0.754, 38.317, 1.154, 4.577, 2.114, "FECEFGFFDFGFHHHI", "GGGGGGGFFFFFHHIK", kTurns, kCount, kFirst, 0, 1, false, false, 1.46, kMany},
    {2, 1.25, 0.0395, 0.0125, 0.076, 0.723, 69.514, 6.267, 5.102, 2.128, "F?C<8:99>:F<DKF9:?;F9:==", "FFGGGGGHOHHHJGGNIFEEDNMK", kTurns, kLast, kCount, 0, 1, true, false, 1.4, 6},
    {2, 1.25, 0.0342, 0.014, 0.084, 0.765, 109.563, 4.091, 1.383, 2.349, "JILIHFENMQLQOUOOJOHHGJAFFG=DDLHE", "IIFGGKGGGGHGGHGGIIGFFGIIIFGFFFJG", kTurns, kLast, kFirst, 0, 1, false, false, 1.11, 5},
    {2, 1.375, 0.0431, 0.0101, 0.284, 0.584, 39.121, 0.549, 2.407, 2.15, "MLWTZPSMMJGGKGHM", "GGGGGHGGGGMFGKHF", kTurns, kLast, kFirst, 0, 1, false, true, 0.69, 4},
    {2, 1.375, 0.0032, 0, 0.843, 0.468, 62.083, 1.671, 3.494, 2.4, "FDJKL@HKJITTQWOSQRRVQUTN", "JIMGIGGIJFGFGJJHEFHJMPDD", kTurns, kLast, kLast, 0, 1, false, false, 0.41, kMany},
    {2, 1.375, 0.0019, 0, 0.4, 0.87, 112.788, -0.394, 3.276, 2.475, "IFEHGGDJGHGEFEDFEGJKKGJMOOOLNKML", "HGGHHGGGGJHJFGFGHGIGJFGGGHJMKLIF", kTurns, kLast, kLast, 0, 1, false, false, 0.9, kMany},
    {2, 1.5, 0.0045, 0, 0.098, 0.152, 43.787, 1.125, 0.362, 2.335, "IKDNNIKKCGIFPOKP", "GGGGGGGGGGGGGGGG", kTurns, kCount, kLast, 0, 1, false, false, 0.59, kMany},
    {2, 1.5, 0.0012, 0, 0.131, 0.895, 71.379, 1.603, 2.067, 2.509, "HJIKKIIIDBBHIKKIMLHIILJG", "HGGHGHGGGHGGGGHFGGEGEGEE", kInput, kCount, kLast, 1, 1, false, false, 0.28, kMany},
    {2, 1.5, 0.0008, 0, 0.535, 0.432, 99.593, 1.235, 2.032, 2.523, "EHKIJHCMJJMMNOJHHGFEDHOFLLLRTSQQ", "IGGGIGIGHGGGHIGGGHGGGJGHHGFFFHMH", kTurns, kCount, kFirst, 0, 1, false, false, 0.86, kMany},
    {2, 1.625, 0.0008, 0, 0.741, 0.641, 51.933, 0.428, 53.472, 1.456, "GGGFGFGGIHHJIIJH", "FFGCDEFEGIHHHGHK", kTurns, kLast, kCount, 1, 1, false, false, 0.89, kMany},
    {2, 1.625, 0.0009, 0, 0.706, 0.3, 74.612, -0.042, 76.721, -0.333, "GGFGHGGGHHIIIHHHGGGGGGGG", "GGGFFFFFHGGGGGFFFFFFFGGG", kTurns, kLast, kCount, 0, 1, true, false, 0.16, kMany},
    {2, 1.625, 0.0008, -0.0003, 0.775, 0.863, kNone, 0.073, kNone, -0.122, "", "", kTurns, kLast, kCount, 0, 1, false, true, 0.91, kMany},
    {2, 1.75, 0.0002, 0, 0.137, 0.14, 55.214, 0.319, 55.812, -0.336, "GGGGHHHHGGGGGFFF", "GGGHHGGGFFFFGGHG", kTurns, kCount, kCount, 1, 3, false, false, 1.5, kMany},
    {2, 1.75, 0.0003, 0, 0.662, 0.059, 84, -0.177, 84, -0.175, "GGGGGGGGHGGGGGGGGGGGGGGG", "GFFFFFFGGGGGGFFFGGGGGGGG", kTurns, kLast, kCount, 1, 3, true, false, 0.32, kMany},
    {2, 1.75, 0.0021, 0, 1, 0.282, 113.079, 0, 113.692, -0.035, "GGGGGGGFGGGGGGGGGGGGGGGFFFEFFFFF", "GGGGGGGGGGGHIHHHHHHHHHHGGGGGGGGG", kTurns, kLast, kCount, 0, 3, true, false, 0.8, kMany},
    {2, 2, 0.0002, 0, 0.137, 0.14, 55.214, 0.319, 55.812, -0.336, "GGGGHHHHGGGGGFFF", "GGGHHGGGFFFFGGHG", kTurns, kCount, kCount, 1, 3, false, false, 1.5, kMany},
    {2, 2, 0.0002, 0, 0.662, 0.198, 84, -0.146, 85.844, -0.308, "GGGGGGGGHGGGGGGGGGGGGGGG", "GFFFFFFGHHHHHGGGHHHHGGGG", kTurns, kCount, kCount, 1, 3, false, false, 1.78, 0},
    {2, 2, 0, 0, 0.212, 0.844, 128.17, 0.228, 128, 0, "GGGGGGGHHGGGGGGGGGGGGGGGGGGGGGGG", "GGFFFFFFGGGGGGGFGGGGGGGGGGGGGGGG", kTurns, kLast, kFirst, 1, 3, true, false, 0.14, 6},
}};
// clang-format on

std::vector<std::int8_t> numbers_of(std::string_view letters) {
  std::vector<std::int8_t> numbers;
  for (const char letter : letters) numbers.push_back(static_cast<std::int8_t>(letter - 'G'));
  return numbers;
}

}  // namespace

std::span<const StartingRow> starting_rule_table() { return kRows; }

OrderRules rules_of(const StartingRow& row) {
  OrderRules rules;
  rules.idle_budget = row.idle_budget;
  rules.idle_budget_per_rank = row.idle_budget_per_rank;
  rules.forward_patience = row.forward_patience;
  rules.weight_patience = row.weight_patience;
  rules.in_flight = row.in_flight;
  rules.in_flight_per_rank = row.in_flight_per_rank;
  rules.lead = row.lead;
  rules.lead_per_rank = row.lead_per_rank;
  rules.more_in_flight = numbers_of(row.more_in_flight);
  rules.more_lead = numbers_of(row.more_lead);
  rules.preference = row.preference;
  rules.forward_choice = row.forward_choice;
  rules.input_choice = row.input_choice;
  rules.lag = row.lag;
  rules.reserve = row.reserve;
  rules.one_forward_a_turn = row.one_forward_a_turn;
  rules.one_input_a_turn = row.one_input_a_turn;
  rules.turn_window = row.turn_window;
  rules.most_owed = row.most_owed;
  return rules;
}

// Chooses the rules from which a search starts. In an order that reaches the bound, the rank that determines
// the bound pauses only as long as it must. It pauses at the beginning, because its memory allows no further
// F before its first I arrives. With an idle budget of this length, the rank waits for the more urgent action
// and fills later gaps with Ws. If several ranks pause, a slightly smaller budget is better.
//
// Entries of the table are adapted to the costs. A cap increases with the number of later ranks, so it needs
// no change. The value of a single rank is taken from the rank at the same relative position in the pipeline.
// Tested by synthesis_test.cpp.

namespace {

/// The limits within which an entry's memory limit must lie to be used, in multiples of 1F1B's memory. It may
/// exceed the given limit by at most kAbove, and be below it by at most kBelow. The limits of entries are an
/// eighth of 1F1B's memory apart. So one entry above and two entries below are used.
constexpr double kAbove = 0.13;
constexpr double kBelow = 0.3;

/// The quantities of a program to which the entries of the table are adapted.
struct Fitting {
  std::size_t ranks = 1;
  std::int32_t chunks = 1;
  double limit = 0;       // divided by the memory of 1F1B, on the rank with least memory
  double microbatch = 0;  // work of the busiest rank on one microbatch, in ns
};

/// Returns the quantities to which entries are adapted, for these costs. A rank without activations does
/// not limit the memory.
Fitting fitting_of(const OrderCosts& costs) {
  Fitting fitting{.ranks = costs.memory_limit.size()};
  fitting.chunks = static_cast<std::int32_t>(costs.stages.size() / fitting.ranks);
  const std::vector<MicrobatchShare> shares = microbatch_shares(costs);
  fitting.limit = std::numeric_limits<double>::max();
  for (std::size_t rank = 0; rank < fitting.ranks; ++rank) {
    fitting.microbatch = std::max(fitting.microbatch, static_cast<double>(shares[rank].work_ns));
    if (shares[rank].kept == 0) continue;
    const double microbatches =
        static_cast<double>(costs.memory_limit[rank]) / static_cast<double>(shares[rank].kept);
    fitting.limit = std::min(fitting.limit, microbatches / static_cast<double>(fitting.ranks));
  }
  return fitting;
}

/// Returns the values of single ranks for another number of ranks. Rank r gets the value of rank r x size /
/// ranks. An empty vector stays empty.
std::vector<std::int8_t> stretched(const std::vector<std::int8_t>& own, std::size_t ranks) {
  std::vector<std::int8_t> fitted;
  for (std::size_t rank = 0; rank < ranks && !own.empty(); ++rank)
    fitted.push_back(own[rank * own.size() / ranks]);
  return fitted;
}

OrderRules fitted(OrderRules rules, const Fitting& fitting) {
  rules.idle_budget *= fitting.microbatch * static_cast<double>(fitting.ranks);
  rules.idle_budget_per_rank *= fitting.microbatch;
  rules.more_in_flight = stretched(rules.more_in_flight, fitting.ranks);
  rules.more_lead = stretched(rules.more_lead, fitting.ranks);
  return rules;
}

}  // namespace

std::vector<OrderRules> rules_aimed_at(Ns bound, const OrderCosts& costs) {
  const auto pause = static_cast<double>(bound - busiest_work_ns(costs));
  std::vector<OrderRules> starts;
  if (pause <= 0) return starts;
  // The most promising rules come first, because a short search does not try all of them.
  for (const double part : {0.8, 1.0, 0.9, 0.7, 0.5, 1.1}) {
    for (const bool one_input_a_turn : {false, true}) {
      OrderRules rules;
      rules.idle_budget = part * pause;
      rules.preference = Preference::turn_about;
      rules.one_input_a_turn = one_input_a_turn;
      starts.push_back(rules);
    }
  }
  return starts;
}

std::vector<OrderRules> starting_rules(const OrderCosts& costs) {
  const Fitting fitting = fitting_of(costs);
  std::vector<StartingRow> rows;
  for (const StartingRow& row : starting_rule_table()) {
    // For more than two chunks, the entries for two chunks are used. Entries for slightly more memory are
    // also tried, because the builder never exceeds the limit.
    const bool suits = std::min(2, fitting.chunks) == row.chunks && row.limit <= fitting.limit + kAbove;
    if (suits) rows.push_back(row);
  }
  std::ranges::stable_sort(rows, {},
                           [&](const StartingRow& row) { return std::abs(row.limit - fitting.limit); });
  std::vector<OrderRules> starts;
  for (const StartingRow& row : rows) {
    OrderRules rules = fitted(rules_of(row), fitting);
    const double budget = rules.idle_budget;
    // An entry far below the limit is used only with the memory limit for which it was found (see below).
    for (const double part : {1.0, 0.8, 1.2}) {
      if (row.limit < fitting.limit - kBelow) break;
      rules.idle_budget = part * budget;
      starts.push_back(rules);
    }
    rules.idle_budget = budget;
    // The rules are also tried with the memory limit for which they were found. Therefore a larger limit
    // never starts from worse rules than a smaller one.
    rules.memory_share = std::min(1.0, row.limit / fitting.limit);
    if (rules.memory_share < 1) starts.push_back(rules);
  }
  return starts;
}

}  // namespace penstock
