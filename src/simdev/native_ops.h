// Operators that a sim device implements itself: allocation, views, copies. Internal to simdev/.
#pragma once

namespace ferry {

/// Registers them with torch's dispatcher for the life of the process. To be called once.
void register_native_operators();

}  // namespace ferry
