// Settings of torch's allocators for accelerators, beside those of the user.
#pragma once

#include <string>

namespace ferry {

/// Sets one, as PYTORCH_ALLOC_CONF would: "expandable_segments", "True". Other settings stay as
/// they are, and what the user has set by that variable (or PYTORCH_CUDA_ALLOC_CONF) wins. Throws
/// c10::Error where torch's part for the device does not know the name or refuses the value. One
/// thread.
void set_allocator(const std::string& name, const std::string& value);

}  // namespace ferry
