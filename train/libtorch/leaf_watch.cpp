#include "libtorch/leaf_watch.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace kolo::train {
namespace {

thread_local std::uint64_t seen = 0;

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& node) {
  if (std::string_view(node.name()).ends_with("AccumulateGrad")) ++seen;
  return nullptr;
}

}  // namespace

void LeafWatch::start() {
  stop();
  seen_before_ = seen;
  thread_ = std::this_thread::get_id();
  handle_ = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&before).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

void LeafWatch::stop() noexcept {
  const at::CallbackHandle handle = std::exchange(handle_, at::INVALID_CALLBACK_HANDLE);
  // The callback of another thread stays with it, and does no harm.
  if (handle != at::INVALID_CALLBACK_HANDLE && thread_ == std::this_thread::get_id())
    at::removeCallback(handle);
}

bool LeafWatch::has_seen() const noexcept {
  return seen != seen_before_;
}

}  // namespace kolo::train
