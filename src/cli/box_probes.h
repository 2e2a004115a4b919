// How this box is asked for its rates. In the program with torch only (torch_part.h).
#pragma once

#include <functional>
#include <string>

#include "base/units.h"
#include "cli/examination.h"

namespace ferry {

/// This box, with the GPUs that torch can use here; a drive is measured with `drive_size` bytes.
/// `say` hears what takes time.
Probes probes_of_this_box(Bytes drive_size, std::function<void(const std::string&)> say);

}  // namespace ferry
