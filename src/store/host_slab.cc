#include "store/host_slab.h"

#include <string>

#include "base/check.h"

namespace ferry {

std::span<std::byte> HostSlab::at(Bytes offset, Bytes size) const {
  const Bytes whole = this->size();
  // Written without offset + size, which could overflow.
  const bool inside = offset >= 0_B && size >= 0_B && offset <= whole && size <= whole - offset;
  FERRY_CHECK(inside, "slot at " + std::to_string(offset.count) + " of " +
                          std::to_string(size.count) + " B leaves a slab of " +
                          std::to_string(whole.count) + " B");
  return mapping_.bytes().subspan(static_cast<std::size_t>(offset.count),
                                  static_cast<std::size_t>(size.count));
}

}  // namespace ferry
