#include "image/names/frame_name.h"

namespace pinprick::image {

std::string_view function_of_frame(std::string_view frame) {
  const size_t distance = frame.rfind("+0x");
  const bool is_object = distance != frame.npos && frame.find(".so") < distance;
  return distance == frame.npos || is_object ? frame : frame.substr(0, distance);
}

}  // namespace pinprick::image
