#pragma once
// A table of fields. Each field connects a key of a mapping to the member that receives its value. The
// load_*.cpp files use it for all keys whose value is stored unchanged.
//
//   constexpr auto kHostFields = std::to_array<Field<LaunchCost>>({
//       field<&LaunchCost::overhead_ns>({.name = "launch_overhead", .kind = KeyKind::duration, ..}),
//       ..});
//   read_fields(reader, kHostFields, launch);

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "scenarios/model/model.hpp"
#include "scenarios/read/reader.hpp"
#include "text/enum_words.hpp"

namespace penstock {

/// An entry in a table of keys.
template <typename Target>
struct Field {
  Key key;
  /// The function that reads the key's value into the member. It is null for keys that have no member and
  /// are read by other code.
  void (*read)(const MappingReader& reader, const Key& key, Target& target) = nullptr;
};

/// The class and the value type of a pointer to a member.
template <typename Member>
struct MemberTypes;
template <typename Owner, typename Type>
struct MemberTypes<Type Owner::*> {
  using Class = Owner;
  using Value = Type;
};

template <typename Value>
struct OptionalTypes {
  using Inner = Value;
};
template <typename Value>
struct OptionalTypes<std::optional<Value>> {
  using Inner = Value;
};

/// Returns the value of a key, converted to the type of the key's member. Returns nothing if the key is
/// absent or its value is wrong.
template <typename Value>
std::optional<Value> value_of_key(const MappingReader& reader, const Key& key) {
  if constexpr (std::same_as<Value, bool>) {
    return reader.flag(key.name);
  } else if constexpr (EnumWithWords<Value>) {
    return reader.choice<Value>(key.name);
  } else if constexpr (std::same_as<Value, std::string>) {
    return reader.word(key.name);
  } else if constexpr (std::same_as<Value, PerStage<std::int64_t>>) {
    return reader.has(key.name) ? std::optional(reader.figures(key)) : std::nullopt;
  } else if constexpr (std::same_as<Value, std::vector<std::int64_t>>) {
    return reader.has(key.name) ? std::optional(reader.figures(key).values) : std::nullopt;
  } else if constexpr (std::same_as<Value, std::vector<std::int32_t>>) {
    return reader.has(key.name) ? std::optional(reader.integers(key.name, key.range)) : std::nullopt;
  } else if constexpr (std::same_as<Value, double>) {
    return reader.real(key);
  } else {
    static_assert(std::integral<Value>);
    const auto whole = reader.whole(key);
    return whole ? std::optional(static_cast<Value>(*whole)) : std::nullopt;
  }
}

/// Returns an entry for a key whose value is stored in a member. `members` is the path to the member, such
/// as <&Partition::plan, &PlanOptions::form>.
template <auto... members>
consteval auto field(Key key) {
  using Members = std::tuple<decltype(members)...>;
  using Target = typename MemberTypes<std::tuple_element_t<0, Members>>::Class;
  using Stored = typename MemberTypes<std::tuple_element_t<sizeof...(members) - 1, Members>>::Value;
  using Value = typename OptionalTypes<Stored>::Inner;
  if constexpr (EnumWithWords<Value>) {
    if (key.words.empty()) key.words = words_of<Value>();
  }
  const auto read = [](const MappingReader& reader, const Key& row, Target& target) {
    auto& member = (target.*....*members);
    if constexpr (std::same_as<Stored, std::optional<std::int64_t>>) {
      // The word "unlimited" is a stated value. It sets the member to "no value".
      if (row.kind == KeyKind::limit && reader.has(row.name)) {
        member = reader.limit(row.name);
        return;
      }
    }
    const std::optional<Value> value = value_of_key<Value>(reader, row);
    if (!value) return;
    if constexpr (std::same_as<Stored, Value>) {
      member = *value;
    } else {
      member = value;
    }
  };
  return Field<Target>{.key = key, .read = read};
}

/// Returns an entry for a key that has no member and is read by other code.
template <typename Target>
consteval Field<Target> unbound(Key key) {
  return {.key = key};
}

/// Reads all keys that have a member. If a key is absent or its value is wrong, its member does not change.
template <typename Target, std::size_t count>
void read_fields(const MappingReader& reader, const std::array<Field<Target>, count>& fields,
                 Target& target) {
  for (const Field<Target>& row : fields) {
    if (row.read != nullptr) row.read(reader, row.key, target);
  }
}

/// Returns the keys of a table of fields.
template <typename Target, std::size_t count>
constexpr std::array<Key, count> keys_of(const std::array<Field<Target>, count>& fields) {
  std::array<Key, count> keys{};
  std::ranges::transform(fields, keys.begin(), &Field<Target>::key);
  return keys;
}

}  // namespace penstock
