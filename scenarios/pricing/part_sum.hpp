#pragma once
// Adds up times or bytes in floating point, so that the sum cannot overflow. The sum is checked before the
// parts are counted in 64 bits.

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// A sum over parts of stages or edges. It stores the part with the largest total.
class PartSum {
 public:
  /// Adds a part of `times` times `each`. `form` is the part's name in messages, with {} for the number, such
  /// as "{}F" or "kept of stage {}". It must be a literal, because only a view is stored. NaN counts as the
  /// largest value.
  void add(std::string_view form, std::size_t number, double each, double times) {
    const double all = each * times;
    sum_ += all;
    if (all <= most_ || std::isnan(most_)) return;
    most_ = all;
    largest_ = {.form = form, .number = number, .each = each, .times = times};
  }
  double sum() const { return sum_; }
  /// Returns the total of the part with the largest total.
  double most() const { return most_; }
  /// Returns a text about the largest part of a sum of nanoseconds, such as "0F takes 3.6e+09 s, 20000
  /// times".
  std::string longest() const;
  /// Returns a text about the largest part of a sum of bytes, such as "kept of stage 0 has 1e+18 bytes, 8
  /// times".
  std::string largest() const;

 private:
  struct Part {
    std::string_view form{};
    std::size_t number = 0;
    double each = 0;
    double times = 0;
  };
  std::string name() const;
  std::string how_often() const;

  double sum_ = 0;
  double most_ = -1;
  Part largest_;
};

}  // namespace penstock
