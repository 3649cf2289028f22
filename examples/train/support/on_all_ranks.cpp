#include "support/on_all_ranks.hpp"

#include <cstdint>
#include <stdexcept>

#include "kolo/kolo.hpp"

namespace support {

void throw_on_all_ranks(kolo::Communicator& communicator, std::string error) {
  std::int64_t first = error.empty() ? communicator.size() : communicator.rank();
  communicator.all_reduce(kolo::Buffer(&first, 1, kolo::DType::int64), kolo::ReduceOp::min);
  if (first == communicator.size()) return;
  const int rank = static_cast<int>(first);
  auto bytes = static_cast<std::int64_t>(error.size());
  communicator.broadcast(kolo::Buffer(&bytes, 1, kolo::DType::int64), rank);
  error.resize(static_cast<std::size_t>(bytes));
  communicator.broadcast(kolo::Buffer(error.data(), error.size(), kolo::DType::uint8), rank);
  throw std::runtime_error("rank " + std::to_string(rank) + ": " + error);
}

}  // namespace support
