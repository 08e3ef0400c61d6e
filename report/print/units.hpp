#pragma once
// Figures as a person reads them: "138.522 ms", "1.50 GiB", "27.27 %". Used by the tables and pictures;
// JSON and CSV print plain numbers with shortest_number.

#include <cstdint>
#include <string>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Three decimals in ns, us, ms or s, whole numbers below 1 us: "999 ns", "138.522 ms", "2.000 s".
std::string format_duration(Ns duration_ns);
/// The same without trailing zeros: "5 ms", "2.5 ms", "0".
std::string format_duration_short(Ns duration_ns);
/// A tick of an axis that ends at `last_ns`, in the unit in which that is read: 200 ms of 1.4 s is "0.2 s".
std::string format_tick(Ns tick_ns, Ns last_ns);
/// Two decimals in KiB to EiB, whole numbers below 1 KiB: "512 B", "1.50 GiB".
std::string format_bytes(Bytes bytes);
/// The same without trailing zeros: "2 GiB", "1.5 GiB", "0".
std::string format_bytes_short(Bytes bytes);
/// The unit of an amount of memory: bytes or, where no bytes are known, activations. One activation is what a
/// microbatch leaves on a rank's share of the model; an amount counts kActivationParts of it.
enum class MemoryUnit : std::uint8_t { bytes, activations };
/// "1.50 GiB", "8 activations", "5.5 activations".
std::string format_memory(std::int64_t amount, MemoryUnit unit);
/// Returns an amount as tables and files show it: in bytes, or in activations, of which there may be a part.
double shown_amount(std::int64_t amount, MemoryUnit unit);
/// Returns the amount that is shown so. Requires one that 64 bits hold.
std::int64_t amount_of_shown(double shown, MemoryUnit unit);
/// 0.2727 is "27.27 %"; "n/a" when not finite.
std::string format_percent(double ratio);
/// Six significant digits, trailing zeros too, so that columns line up: "242.424", "16.0000"; "n/a" when not
/// finite.
std::string format_rate(double rate);
/// A number of things that may be a fraction: "32", "0.5"; "n/a" when not finite.
std::string format_quantity(double quantity);
/// The shortest decimal that reads back as the same double; empty when not finite.
std::string shortest_number(double value);
/// "1 rank", "2 ranks": `noun` takes an s unless `count` is 1.
std::string format_count(std::int64_t count, const char* noun);

}  // namespace penstock
