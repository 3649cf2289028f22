// A program outside the project: four ranks as threads sum a vector, using only the installed files.
#include <cstdio>
#include <exception>
#include <kolo/kolo.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kRanks = 4;

// Returns the error, or an empty text.
std::string run_rank(const std::shared_ptr<kolo::Store>& store, int rank) try {
  kolo::Communicator communicator = kolo::Communicator::create(store, rank, kRanks);
  std::vector<float> values(1001, static_cast<float>(rank + 1));
  communicator.all_reduce(values);
  for (const float value : values) {
    if (value != 10.0f) return "got " + std::to_string(value) + " where 1 + 2 + 3 + 4 was expected";
  }
  return {};
} catch (const std::exception& error) {
  return error.what();
}

}  // namespace

int main() {
  if (std::string(kolo::version()) != KOLO_VERSION) {
    std::printf("headers %s, library %s\n", KOLO_VERSION, kolo::version());
    return 1;
  }
  const std::shared_ptr<kolo::Store> store = kolo::make_memory_store();
  std::vector<std::string> problems(kRanks);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] { problems[rank] = run_rank(store, rank); });
  }
  for (std::thread& rank : ranks) rank.join();

  int failed = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    if (problems[rank].empty()) continue;
    std::printf("rank %d: %s\n", rank, problems[rank].c_str());
    ++failed;
  }
  if (failed == 0) std::printf("kolo %s: %d ranks hold the sum\n", kolo::version(), kRanks);
  return failed;
}
