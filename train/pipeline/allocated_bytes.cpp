#include "pipeline/allocated_bytes.hpp"

#include <c10/core/Allocator.h>

namespace kolo::train {
namespace {

/// The type of totals, which differs between versions of libtorch.
template <typename Function>
struct TotalOf;
template <typename Class, typename Total>
struct TotalOf<void (Class::*)(void*, std::int64_t, Total, Total, c10::Device)> {
  using Type = Total;
};
using Total = TotalOf<decltype(&c10::MemoryReportingInfoBase::reportMemoryUsage)>::Type;

}  // namespace

class AllocatedBytes::Counter final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*memory*/, std::int64_t bytes, Total /*allocated*/, Total /*reserved*/,
                         c10::Device device) override {
    if (device.is_cpu()) bytes_ += bytes;
  }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

AllocatedBytes::AllocatedBytes()
    : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

std::int64_t AllocatedBytes::bytes() const noexcept {
  return counter_->bytes();
}

}  // namespace kolo::train
