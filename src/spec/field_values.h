// One field's value: what may stand for it, and what it is now. For fields.cc, which says where
// fields stand.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/document.h"
#include "spec/fields.h"
#include "spec/quantity.h"

namespace ferry {

/// For std::visit: a function per kind of member.
template <typename... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Match(Cases...) -> Match<Cases...>;

using Wholes = std::optional<std::vector<int>>;
using MaybeSizes = std::optional<Sizes>;
using Texts = std::optional<std::vector<std::string>>;

/// The units that a number counts in; none for a plain one.
std::span<const Unit> units_of(Dimension dimension);

/// Whether null stands for the number 0.
bool zero_is_unknown(const Field& field);

bool is_nullable(const Field& field);

/// Sets the field's member. Returns false, and may leave the member changed, when `node` is not
/// what expectation() says.
bool set_node(const Field& field, const Node& node);

/// What `value`, of an override, says for the field.
Node override_node(const Field& field, std::string_view value);

}  // namespace ferry
