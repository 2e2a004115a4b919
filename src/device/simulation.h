// Simulated devices for those who may not see simdev/: opens them, and passes on what
// simdev/simdev.h tells about them (SimOptions, simdev_stats, simdev_hazards, names for reports,
// faults).
//
// On machines without simulated devices simdev_set_label, simdev_name_range and simdev_host_access
// do nothing, so callers need not ask which kind of device they drive.
#pragma once

#include "simdev/simdev.h"

namespace ferry {

/// Opens sim:0 ... sim:n-1; the devices of an earlier call are closed first. See simdev_open().
void open_simulated(const SimOptions& options);

/// Closes them; does nothing when none is open. See simdev_close().
void close_simulated();

}  // namespace ferry
