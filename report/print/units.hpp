#pragma once
// Figures as people read them: "138.522 ms", "1.50 GiB", "27.27 %". Tables and pictures use them; JSON and
// CSV use shortest_number().

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Returns three decimals in us, ms or s, and a whole number below 1 us: "999 ns", "138.522 ms", "2.000 s".
std::string format_duration(Ns duration_ns);
/// Returns a duration without trailing zeros: "5 ms", "2.5 ms", "0".
std::string format_duration_short(Ns duration_ns);
/// Returns the text of a tick. The unit is the one in which the end of the axis is shown: 200 ms on an axis
/// up to 1.4 s is "0.2 s".
std::string format_tick(Ns tick_ns, Ns last_ns);
/// Returns two decimals in KiB to EiB, and a whole number below 1 KiB: "512 B", "1.50 GiB".
std::string format_bytes(Bytes bytes);
/// Returns bytes without trailing zeros: "2 GiB", "1.5 GiB", "0".
std::string format_bytes_short(Bytes bytes);
/// The unit of an amount of memory: bytes, or activations if no bytes are known. One activation is the data
/// that the F of a microbatch leaves on a rank's part of the model. An amount counts it as kActivationParts
/// parts.
enum class MemoryUnit : std::uint8_t { bytes, activations };
/// Returns an amount with its unit: "1.50 GiB", "8 activations", "5.5 activations".
std::string format_memory(std::int64_t amount, MemoryUnit unit);
/// Returns an amount as tables and files show it: in bytes, or in activations, which may be a fraction.
double shown_amount(std::int64_t amount, MemoryUnit unit);
/// Returns the amount that shown_amount() shows as `shown`. Requires that it fits into 64 bits.
std::int64_t amount_of_shown(double shown, MemoryUnit unit);
/// Returns why something that the user asked for does not fit into memory: "100 processes take at least 4.00
/// GiB of memory, and 1.00 GiB are within reach: take fewer ranks". `what` is a plural, and `remedy` is what
/// the user can do. Returns nothing if it fits, or if the machine does not say how much is within reach.
std::optional<std::string> lack_of_memory(std::string_view what, double bytes,
                                          std::optional<Bytes> within_reach, std::string_view remedy);
/// Returns a ratio in per cent: 0.2727 is "27.27 %". A ratio that is not finite is "n/a".
std::string format_percent(double ratio);
/// Returns six significant digits with trailing zeros, so that columns line up: "242.424", "16.0000". A rate
/// that is not finite is "n/a".
std::string format_rate(double rate);
/// Returns a number of things that may be a fraction: "32", "0.5". A number that is not finite is "n/a".
std::string format_quantity(double quantity);
/// Returns the shortest decimal that reads back as the same double; empty if it is not finite.
std::string shortest_number(double value);
/// Returns a number with a noun, which takes an s unless `count` is 1: "1 rank", "2 ranks".
std::string format_count(std::int64_t count, const char* noun);

// Computes the tick positions of an axis. The distance of ticks is 1, 2 or 5 times a power of ten (a "nice"
// step).

/// Returns the smallest step of the form 1, 2 or 5 x 10^k that is at least `span / most`. Requires span > 0
/// and most >= 1.
double nice_step(double span, int most);

/// Returns the ticks of a time axis: multiples of a nice step from 0 to `makespan_ns`. There are at most
/// `most` ticks above 0. If the makespan is 0, the result is {0}.
std::vector<Ns> time_ticks(Ns makespan_ns, int most);

/// Returns multiples of a nice step. The first is 0, and the last is the first multiple that reaches
/// `highest`. If `highest` is not a positive number, the result is {0, 1}.
std::vector<double> value_ticks(double highest, int most);

/// Returns ticks like value_ticks(), but for bytes. The step is nice in the binary unit (KiB, MiB, ...) in
/// which `highest` is shown.
std::vector<double> byte_ticks(double highest, int most);

}  // namespace penstock
