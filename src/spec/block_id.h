// The id of a block of the model's chain: an index of ModelSpec::blocks and of Plan::blocks.
#pragma once

#include "base/ids.h"

namespace ferry {

using BlockId = Id<struct BlockTag>;

}  // namespace ferry
