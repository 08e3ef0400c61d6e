#pragma once
// Numbers with units, as scenario files and flags write them: "5 us", "16 MiB", "25 GB/s", "15.7 TFLOP/s".
// Read by reader.hpp and by the command line.

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "schedules/ir/action.hpp"

namespace penstock {

/// Without blanks and line ends at either end.
std::string_view trimmed(std::string_view text);

/// All that follow: decimal numbers are exact ("0.1 ms" is 100000 ns), blanks around the number and the
/// unit do not count, "0" needs no unit. Errors say what was expected and what was found, without a place.
/// `B` is a byte, `b` or `bit` a bit; k M G T P are powers of 1000, Ki Mi Gi Ti Pi of 1024.

/// ns, us, ms, s, min, h; rounded to the nearest nanosecond.
tl::expected<Ns, std::string> parse_duration(std::string_view text);
/// B, kB, KiB, ...; rounded to the nearest byte.
tl::expected<Bytes, std::string> parse_bytes(std::string_view text);
/// Bytes a second from B/s, kB/s, KiB/s, b/s, Gbit/s, ...; positive; "unlimited" is infinity.
tl::expected<double, std::string> parse_bandwidth(std::string_view text);
/// Floating-point operations a second from FLOP/s, GFLOP/s, TFLOP/s, ...
tl::expected<double, std::string> parse_flops(std::string_view text);

/// "1.5 ms", "20 us", "7 ns": the largest unit that needs at most three decimals.
std::string duration_text(Ns duration_ns);

}  // namespace penstock
