#pragma once
// Computes the digest of a program. Results of sim/ and backend/ contain it, so that `penstock compare` can
// check whether two results belong to the same program.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "schedules/ir/action.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// Returns a 128-bit hash of the lowered lists, the placement and all other fields, as 32 lower-case hex
/// digits. Equal programs have equal digests on every machine. Takes time in proportion to the number of
/// actions.
std::string digest(const Program& lowered);

/// A calculator of a program's digest that gets one action after another, so that the lowered lists need
/// not be stored.
class DigestOfLists {
 public:
  /// Begins the digest of a program with the fields and the number of ranks of `program`. It does not read
  /// the lists of `program`, because add() gets the actions.
  explicit DigestOfLists(const Program& program);
  DigestOfLists(const DigestOfLists&) = delete;
  DigestOfLists& operator=(const DigestOfLists&) = delete;
  ~DigestOfLists();

  /// Begins the list of the next rank. Ranks come in ascending order. Exactly `actions` calls of add() must
  /// follow, in the order of the list.
  void begin_list(std::size_t actions);
  void add(const Action& action);
  /// Returns the digest, which equals the result of digest() for the whole program.
  std::string text() &&;

 private:
  struct Words;
  std::unique_ptr<Words> words_;
};

// A hash that makes random numbers. A random number depends only on a key and on `what`, a number that
// stands for its purpose. It does not depend on earlier random numbers.

/// Returns the splitmix64 hash of `bits` (Steele, Lea and Flood, OOPSLA 2014). Every output bit depends on
/// every input bit.
inline std::uint64_t mixed(std::uint64_t bits) {
  bits += 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

/// Returns a uniform random number in [0, 1) that depends only on `key` and `what`. It has 53 bits, which a
/// double stores exactly, so rounding never gives 1.
inline double even_draw(std::uint64_t key, std::uint64_t what) {
  return static_cast<double>(mixed(key ^ mixed(what)) >> 11) * 0x1p-53;
}

}  // namespace penstock
