#pragma once
// What a run takes or makes, part by part, added up where it cannot wrap: before anybody counts it in 64
// bits.

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

/// Of parts that belong to stages or edges. Remembers which comes to most in all.
class PartSum {
 public:
  /// `form` is what a message calls the part, with {} in the place of the number: "{}F", "kept of stage {}".
  /// A literal, since it is kept. What is no number comes to more than everything.
  void add(std::string_view form, std::size_t number, double each, double times) {
    const double all = each * times;
    sum_ += all;
    if (all <= most_ || std::isnan(most_)) return;
    most_ = all;
    largest_ = {.form = form, .number = number, .each = each, .times = times};
  }
  double sum() const { return sum_; }
  /// What the largest part comes to.
  double most() const { return most_; }
  /// "0F takes 3.6e+09 s, 20000 times", of nanoseconds.
  std::string longest() const;
  /// "kept of stage 0 has 1e+18 bytes, 8 times".
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
