// The pages that are filled with data: page/frame.html around their parts, compiled in.
#pragma once

#include <string_view>

namespace ferry {

/// A page, cut where its data goes: JSON, in which `</` does not occur.
struct PageFrame {
  std::string_view before_data;
  std::string_view after_data;
};

extern const PageFrame kTimelinePage;
extern const PageFrame kRunPage;

}  // namespace ferry
