// A file that has no name, so that nothing is left of it however the process ends, and nothing that
// an earlier run wrote can be taken for states of this one.
#pragma once

#include <filesystem>
#include <functional>

#include "base/units.h"

namespace ferry {

/// A file descriptor that is closed with its owner.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();

  int number() const { return number_; }
  /// Another descriptor of the same open file. Throws ResourceError.
  Descriptor duplicate() const;

 private:
  int number_;  // -1 after a move
};

class SwapFile {
 public:
  /// How a file without a name is made: the second for file systems that know no O_TMPFILE.
  enum class Birth { nameless_where_possible, named_and_unlinked };

  /// Makes an empty file in `folder`, for direct I/O where the file system takes it. Throws
  /// UserError when there is no such folder, ResourceError when it refuses a file.
  explicit SwapFile(const std::filesystem::path& folder,
                    Birth birth = Birth::nameless_where_possible);

  /// Takes `size` bytes of the drive for this file. `reserved` hears how much was taken, now and
  /// then. `whose` begins the message of the ResourceError that names folder, need and have.
  void reserve(Bytes size, const std::string& whose,
               const std::function<void(Bytes more)>& reserved);

  /// Whether transfers bypass the page cache.
  bool direct() const { return direct_; }
  /// From now on they do not: some file systems accept O_DIRECT and fail then.
  void stop_direct();

  const std::filesystem::path& folder() const { return folder_; }
  const Descriptor& descriptor() const { return descriptor_; }

 private:
  std::filesystem::path folder_;
  Descriptor descriptor_;
  bool direct_;
};

}  // namespace ferry
