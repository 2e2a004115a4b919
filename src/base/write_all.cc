#include "base/write_all.h"

#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace ferry {

void write_all(int descriptor, std::string_view text, const std::filesystem::path& path) {
  while (!text.empty()) {
    const ssize_t put = write(descriptor, text.data(), text.size());
    if (put > 0) {
      text.remove_prefix(static_cast<std::size_t>(put));
    } else if (put == 0 || errno != EINTR) {
      throw system_error("write failed: " + path.string(), put == 0 ? EIO : errno);
    }
  }
}

}  // namespace ferry
