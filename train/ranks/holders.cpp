#include "ranks/holders.hpp"

#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

struct HeldEntry {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  ///< as long as it is held, no other one has the address
  std::vector<Holding> holdings;                    ///< the newest last
};

struct HeldTensors {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, HeldEntry> entries;
  std::size_t limit = 64;  ///< of entries, until those of tensors that are gone are removed
};

HeldTensors& held_tensors() {
  static auto* const one = new HeldTensors;  // never destroyed: a static object may hold a model
  return *one;
}

/// The newest holding that `is_wanted`, if there is one.
template <typename IsWanted>
std::optional<Holding> newest(const at::Tensor& tensor, const IsWanted& is_wanted) {
  const std::lock_guard lock(held_tensors().mutex);
  const auto found = held_tensors().entries.find(tensor.unsafeGetTensorImpl());
  if (found == held_tensors().entries.end()) return {};
  const auto& holdings = found->second.holdings;
  const auto one = std::find_if(holdings.rbegin(), holdings.rend(), is_wanted);
  return one == holdings.rend() ? std::nullopt : std::optional(*one);
}

[[noreturn]] void refuse_part(const at::Tensor& tensor, const std::string& what, const std::string& name,
                              const std::string& instead) {
  throw InvalidArgumentError(name + ": a tensor of shape " + c10::str(tensor.sizes()) + " is " + what +
                                 ", and each rank would get another norm: " + instead,
                             {});
}

}  // namespace

std::optional<Holding> part_of_group(const Communicator& group, const std::string& of,
                                     const std::string& instead, bool is_divided) {
  if (group.size() == 1) return {};
  const std::string number = std::to_string(group.rank()) + " of " + std::to_string(group.size());
  return Holding{
      .what = "part " + number + " of " + of, .instead = instead, .is_part = true, .is_divided = is_divided};
}

void hold(const at::Tensor& tensor, Holding holding) {
  HeldTensors& held = held_tensors();
  const std::lock_guard lock(held.mutex);
  if (held.entries.size() >= held.limit) {
    std::erase_if(held.entries, [](const auto& entry) { return entry.second.tensor.expired(); });
    held.limit = 64 + 2 * held.entries.size();
  }
  const c10::weak_intrusive_ptr<c10::TensorImpl> weak(tensor.getIntrusivePtr());
  const auto found = held.entries.try_emplace(tensor.unsafeGetTensorImpl(), HeldEntry{weak, {}}).first;
  found->second.holdings.push_back(std::move(holding));
}

void Held::add(const at::Tensor& tensor, Holding holding) {
  holding.holder = this;
  hold(tensor, std::move(holding));
  tensors_.push_back(tensor);
}

Held::~Held() {
  const std::lock_guard lock(held_tensors().mutex);
  for (const at::Tensor& tensor : tensors_) {
    const auto found = held_tensors().entries.find(tensor.unsafeGetTensorImpl());
    std::erase_if(found->second.holdings, [this](const Holding& one) { return one.holder == this; });
    if (found->second.holdings.empty()) held_tensors().entries.erase(found);
  }
}

std::string part_text_of(const at::Tensor& tensor) {
  const auto part = newest(tensor, [](const Holding& one) { return one.is_part; });
  return part ? part->what : "";
}

std::shared_ptr<const PlacedParameter> shard_of(const at::Tensor& tensor) {
  const auto holding = newest(tensor, [](const Holding& one) { return one.shard != nullptr; });
  return holding ? holding->shard : nullptr;
}

void require_norm(const at::Tensor& tensor, const std::string& name) {
  if (const auto holding = newest(tensor, [](const Holding& one) { return one.instead.empty(); }))
    throw InvalidArgumentError(name + ": " + holding->what, {});
}

void require_no_part(const at::Tensor& tensor, const std::string& name) {
  require_norm(tensor, name);
  if (const auto holding = newest(tensor, [](const Holding&) { return true; }))
    refuse_part(tensor, holding->what, name, holding->instead);
}

void require_undivided(const at::Tensor& tensor, const std::string& name) {
  if (const auto holding = newest(tensor, [](const Holding& one) { return one.is_divided || one.shard; }))
    refuse_part(tensor, holding->what, name, "give it kolo::sum_over_ranks() of the placed() model");
}

}  // namespace kolo::train
