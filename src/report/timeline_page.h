// The page that to_html() fills: page/page.html with its scripts, compiled in.
#pragma once

#include <string_view>

namespace ferry {

extern const std::string_view kTimelinePageBeforeData;
extern const std::string_view kTimelinePageAfterData;

}  // namespace ferry
