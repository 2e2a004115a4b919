// What the bytes of a place are for: the rows of tables and of messages about memory.
#pragma once

#include <array>
#include <map>

#include "plan/plan.h"

namespace ferry {

/// In the order in which tables list them and shared bytes count.
enum class Purpose { weights, optimizer, gradients, activations, tokens, workspace };

inline constexpr std::array<Purpose, 6> kPurposes = {Purpose::weights,   Purpose::optimizer,
                                                     Purpose::gradients, Purpose::activations,
                                                     Purpose::tokens,    Purpose::workspace};

/// "weights", "optimizer state", "gradients", "activations", "tokens, scalars", "workspace".
const char* to_string(Purpose purpose);

/// The bytes of one place by purpose. Slots that share bytes at different times count once, for the
/// first purpose that uses them; so the sum is the place's peak.
std::map<Purpose, Bytes> bytes_by_purpose(const Plan& plan, PlaceId place);

}  // namespace ferry
