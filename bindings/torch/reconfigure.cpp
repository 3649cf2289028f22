// Group::reconfigure(): a group whose ranks change, for the versions of PyTorch that ask for it.
#include "group.hpp"

#ifdef C10D_BACKEND_HAS_RECONFIGURE
#include <algorithm>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "interrupt.hpp"
#include "kolo/trouble.hpp"

namespace kolo::pytorch {
namespace {

using Handle = c10d::ReconfigureHandle;

[[noreturn]] void refuse(const std::string& why) {
  throw std::invalid_argument(with_code("reconfigure: " + why));
}

/// By rank. The order of a set, which PyTorch leaves to the backend, is that of the texts.
std::vector<Handle> in_order(const c10d::ReconfigureOptions& options) {
  return std::visit(
      [](const auto& handles) {
        std::vector<Handle> ranks(handles.begin(), handles.end());
        if constexpr (!std::is_same_v<std::decay_t<decltype(handles)>, std::vector<Handle>>)
          std::sort(ranks.begin(), ranks.end());
        return ranks;
      },
      options.handles);
}

}  // namespace

Handle Group::get_reconfigure_handle() const {
  const std::lock_guard lock(mutex_);
  if (handle_.empty()) {
    std::random_device source;
    std::ostringstream text;
    for (int i = 0; i < 4; ++i) text << std::hex << source() << '.';
    handle_ = "kolo." + text.str();
  }
  return handle_;
}

Group::Started Group::reconfigure(const c10d::ReconfigureOptions& options) {
  const WithoutLock unlocked;
  const std::vector<Handle> handles = in_order(options);
  const auto own = std::find(handles.begin(), handles.end(), get_reconfigure_handle());
  if (store_ == nullptr) refuse("this group is a part of another one, which has the store");
  if (own == handles.end()) refuse("this group's own handle is not among the handles");
  if (std::set(handles.begin(), handles.end()).size() != handles.size()) refuse("a handle comes twice");
  if (!uuids_.insert(options.uuid).second)
    refuse("uuid " + std::to_string(options.uuid) + " was used before");
  end_calls(Timeout(0));
  closed_ = std::make_shared<std::atomic<bool>>(false);
  sequence_ = 0;
  rank_ = static_cast<int>(own - handles.begin());
  size_ = static_cast<int>(handles.size());
  meet(c10::make_intrusive<c10d::PrefixStore>("reconfigure/" + std::to_string(options.uuid), store_),
       options.timeout.value_or(options_->timeout));
  return barrier(c10d::BarrierOptions());
}

}  // namespace kolo::pytorch
#endif
