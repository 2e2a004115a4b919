// Before a run trusts peer-to-peer: do bytes that go straight between its devices arrive?
#pragma once

#include <span>

#include "plan/plan.h"
#include "train/places.h"

namespace ferry {

/// Sends patterns between every two devices that the plans copy between, into the slots of the
/// largest of those copies, and compares what arrives. Overwrites these slots: for a run that has
/// not filled its places yet. Throws ResourceError that names the two where bytes are wrong or a
/// device fails.
void check_peers(std::span<const Plan* const> plans, Places& places);

}  // namespace ferry
