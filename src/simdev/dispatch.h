// The boxed fallback: every operator that is not in native_ops.cc runs asynchronously on the
// current stream, with its CPU kernel over the device's bytes. Internal to simdev/.
#pragma once

namespace ferry {

/// Registers it with torch's dispatcher for the life of the process. To be called once.
void register_fallback();

}  // namespace ferry
