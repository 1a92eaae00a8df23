// A C++ program: it maps libstdc++, and with it an unwinder.
#include <iostream>
#include <locale>

int main() {
  std::cout.imbue(std::locale::classic());
  std::cout << 42 << '\n';
}
