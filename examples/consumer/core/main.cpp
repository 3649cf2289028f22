// Each rank has a vector; all ranks get the sum.
#include <cstdio>
#include <exception>
#include <kolo/kolo.hpp>
#include <vector>

int main() try {
  kolo::Communicator communicator =
      kolo::Communicator::create();  // finds the other ranks through the environment
  std::vector<float> values(1001, static_cast<float>(communicator.rank() + 1));
  communicator.all_reduce(values);

  const int ranks = communicator.size();
  const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
  for (const float value : values) {
    if (value == expected) continue;
    std::fprintf(stderr, "got %g and not %g\n", value, expected);
    return 1;
  }
  if (communicator.rank() == 0) std::printf("kolo %s: %d ranks have the sum\n", kolo::version(), ranks);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());  // names the rank to blame, and the call
  return 1;
}
