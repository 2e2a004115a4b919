#include "device/simulation.h"

namespace ferry {

void open_simulated(const SimOptions& options) { simdev_open(options); }

void close_simulated() { simdev_close(); }

}  // namespace ferry
