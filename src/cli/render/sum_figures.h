// Which figures of what is added up (--sum and its like) a table shows. A plain value.
#pragma once

namespace pinprick::cli {

struct SumFigures {
  bool sum = false;  // and the mean beside it
  bool average = false;
  bool least = false;
  bool greatest = false;

  // Are the least and the greatest number to be kept?
  bool has_extremes() const { return least || greatest; }
};

}  // namespace pinprick::cli
