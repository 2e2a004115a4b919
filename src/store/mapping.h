// Anonymous memory straight from the kernel: zeroed, page aligned, in huge pages where it grants
// them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/progress.h"
#include "base/units.h"

namespace ferry {

/// One private anonymous mapping, unmapped on destruction. Pages are backed on first touch.
class Mapping {
 public:
  /// Maps `size` bytes. Requires: size >= 0 (0 maps nothing).
  /// Throws ResourceError naming need and have when the machine refuses.
  explicit Mapping(Bytes size);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// The mapped memory, aligned to at least 4096 bytes.
  std::span<std::byte> bytes() const { return bytes_; }

  /// Has the kernel take pages that nobody has touched yet from the box's NUMA nodes `nodes`: from
  /// the one, and from others once that is full; from several in turn. Returns an empty text, or
  /// why the kernel refuses; then it chooses the nodes itself, as ever. Requires: some nodes, each
  /// from 0 to 1023.
  std::string lie_on(std::span<const int> nodes);

  /// Backs every page now, on `threads` threads, and keeps what is in them. From any thread.
  /// The listener hears of bytes, on the calling thread. Requires: threads > 0. Throws
  /// ResourceError when the machine has too little memory.
  void touch(int threads, PhaseListener& listener = nobody());

 private:
  std::span<std::byte> bytes_;
};

}  // namespace ferry
