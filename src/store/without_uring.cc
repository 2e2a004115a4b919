#include "base/error.h"
#include "store/uring_engine.h"

namespace ferry {

std::unique_ptr<IoEngine> make_uring_engine(const SwapFile& /*file*/, int /*in_flight*/) {
  throw ResourceError("io_uring: built without liburing (FERRY_URING=OFF)");
}

}  // namespace ferry
