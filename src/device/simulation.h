// Simulated devices for those who may not see simdev/: simdev/simdev.h opens them and tells about
// them (SimOptions, simdev_stats, simdev_hazards, names for reports, faults).
//
// On machines without simulated devices simdev_set_label, simdev_name_range and simdev_host_access
// do nothing, so callers need not ask which kind of device they drive.
#pragma once

#include "simdev/simdev.h"
