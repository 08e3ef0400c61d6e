#pragma once
// Formats figures for people: "138.522 ms", "1.50 GiB", "27.27 %". Tables and pictures use these functions.
// JSON and CSV use shortest_number().

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns a duration with three decimals in us, ms or s, or a whole number below 1 us: "999 ns", "138.522
/// ms", "2.000 s".
std::string format_duration(Ns duration_ns);
/// Returns a duration without trailing zeros: "5 ms", "2.5 ms", "0".
std::string format_duration_short(Ns duration_ns);
/// Returns the label of a tick in the unit that fits the last tick of the axis. For example, on an axis up
/// to 1.4 s, the tick at 200 ms is "0.2 s".
std::string format_tick(Ns tick_ns, Ns last_ns);
/// Returns bytes with two decimals in KiB to EiB, or a whole number below 1 KiB: "512 B", "1.50 GiB".
std::string format_bytes(Bytes bytes);
/// Returns bytes without trailing zeros: "2 GiB", "1.5 GiB", "0".
std::string format_bytes_short(Bytes bytes);
/// The unit of amounts of memory: bytes, or activations if the sizes are unknown. One activation is the data
/// that the forward pass F of one microbatch stores for a rank's part of the model. Amounts in activations
/// are stored as whole parts, of which kActivationParts make one activation.
enum class MemoryUnit : std::uint8_t { bytes, activations };
/// Returns an amount with its unit: "1.50 GiB", "8 activations", "5.5 activations".
std::string format_memory(std::int64_t amount, MemoryUnit unit);
/// Returns an amount of memory as tables and files show it: in bytes, or in activations, possibly with a
/// fraction.
double shown_amount(std::int64_t amount, MemoryUnit unit);
/// Returns the amount for which shown_amount() returns `shown`, in the same unit. Requires that the amount
/// fits into 64 bits.
std::int64_t amount_of_shown(double shown, MemoryUnit unit);
/// Returns an error message if `bytes` bytes do not fit into the available memory `within_reach`. An
/// example is "100 processes take at least 4.00 GiB of memory, and 1.00 GiB are within reach: take fewer
/// ranks". `what` is a plural noun, and `remedy` says what the user can do. Returns nothing if the bytes
/// fit or if the available memory is unknown.
std::optional<std::string> lack_of_memory(std::string_view what, double bytes,
                                          std::optional<Bytes> within_reach, std::string_view remedy);
/// Returns a ratio in percent: "27.27 %" for 0.2727, and "n/a" for a ratio that is not finite.
std::string format_percent(double ratio);
/// Returns a rate with six significant digits. Trailing zeros remain, so that columns are aligned: "242.424",
/// "16.0000". A rate that is not finite is "n/a".
std::string format_rate(double rate);
/// Returns a count that may have a fraction: "32", "0.5". A number that is not finite is "n/a".
std::string format_quantity(double quantity);
/// Returns the shortest decimal text from which the same double is read. The text is empty if the number is
/// not finite.
std::string shortest_number(double value);
/// Returns a number and a noun. The noun gets a plural s unless `count` is 1: "1 rank", "2 ranks".
std::string format_count(std::int64_t count, const char* noun);

// Computes the ticks of an axis. Their distance is a "nice" step: 1, 2 or 5 times a power of ten.

/// Returns the smallest nice step that is at least `span / most`. Nice steps are 1, 2 and 5 times a power
/// of ten. Requires span > 0 and most >= 1.
double nice_step(double span, int most);

/// Returns the ticks of a time axis. They are the multiples of a nice step (see nice_step()) from 0 to
/// `makespan_ns`, with at most `most` ticks above 0. If the makespan is 0, the only tick is 0.
std::vector<Ns> time_ticks(Ns makespan_ns, int most);

/// Returns the multiples of a nice step (see nice_step()) from 0 up to the first multiple that is not below
/// `highest`. If `highest` is not a positive number, the result is {0, 1}.
std::vector<double> value_ticks(double highest, int most);

/// Returns ticks like value_ticks(), but for bytes. The step is nice in the binary unit (KiB, MiB, ...) that
/// is used for `highest`.
std::vector<double> byte_ticks(double highest, int most);

}  // namespace penstock
