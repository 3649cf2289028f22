// The implementation of kolo/memory.hpp.
#include "kolo/memory.hpp"

#include "kolo/error.hpp"
#include "transport/shm/regions.hpp"

namespace kolo {

struct SharedMemory::Region {
  std::shared_ptr<transport::shm::Region> shared;
  std::size_t bytes;  // as requested; the region itself is rounded up to pages
};

SharedMemory::SharedMemory() noexcept = default;
SharedMemory::SharedMemory(std::size_t bytes)
    : region_(new Region{transport::shm::Regions::instance().make(bytes).value_or_throw(), bytes}) {
  region_->shared->commit(0, region_->shared->bytes()).throw_if_error();
}
SharedMemory::SharedMemory(SharedMemory&&) noexcept = default;
SharedMemory& SharedMemory::operator=(SharedMemory&&) noexcept = default;
SharedMemory::~SharedMemory() = default;

std::byte* SharedMemory::data() const noexcept {
  return region_ ? region_->shared->data() : nullptr;
}

std::size_t SharedMemory::size() const noexcept {
  return region_ ? region_->bytes : 0;
}

Buffer SharedMemory::buffer(std::uint64_t count, DType dtype) const {
  if (count > size() / size_of(dtype)) {
    throw InvalidArgumentError("shared memory of " + std::to_string(size()) + " bytes does not hold " +
                                   std::to_string(count) + " elements of " + std::string(name_of(dtype)),
                               {});
  }
  return Buffer(data(), count, dtype);
}

bool is_shared(const void* data, std::size_t bytes) {
  return transport::shm::Regions::instance().find(data, bytes) != nullptr;
}

}  // namespace kolo
