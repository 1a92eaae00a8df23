#include "sites.h"

int in_other_file(int value) {
  return in_template(1) + in_template(2.0) + in_inline(value) - 3;
}
