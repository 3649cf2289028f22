// Each rank contributes a vector; all end with the sum. Start it with: kolo run -n 4 -- all_reduce
#include <kolo/kolo.hpp>

#include <cstdio>
#include <vector>

int main() {
  try {
    kolo::Communicator communicator = kolo::Communicator::create();
    std::vector<float> gradient(1000, static_cast<float>(communicator.rank() + 1));
    communicator.all_reduce(gradient);
    std::printf("rank %d of %d: the sum is %g\n", communicator.rank(), communicator.size(), gradient.front());
    const float expected = static_cast<float>(communicator.size() * (communicator.size() + 1)) / 2;
    return gradient.front() == expected && gradient.back() == expected ? 0 : 1;
  } catch (const kolo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());  // says which rank is to blame, in which call
    return 1;
  }
}
