#include "ranks/parts.hpp"

#include <c10/util/intrusive_ptr.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::train {
namespace {

struct PartEntry {
  c10::weak_intrusive_ptr<c10::TensorImpl> tensor;  ///< as long as it is held, no other one has the address
  ModelPart part;
};

struct PartTable {
  std::mutex mutex;
  std::unordered_map<const c10::TensorImpl*, PartEntry> entries;
};

PartTable& part_table() {
  static auto* const one = new PartTable;  // never destroyed: a static object may hold a model
  return *one;
}

[[noreturn]] void refuse_part(const at::Tensor& tensor, const ModelPart& part, const std::string& who,
                              const std::string& instead) {
  throw InvalidArgumentError(who + ": a tensor of shape " + c10::str(tensor.sizes()) + " is " + part.text() +
                                 ", and each rank would get another norm: " + instead,
                             {});
}

}  // namespace

std::string ModelPart::text() const {
  return "part " + std::to_string(index) + " of " + std::to_string(count) + " of " + of;
}

void mark_parts(std::span<const at::Tensor> tensors, const Communicator& group, ModelPart part) {
  part.index = group.rank();
  part.count = group.size();
  if (part.count == 1) return;
  const std::lock_guard lock(part_table().mutex);
  std::erase_if(part_table().entries, [](const auto& entry) { return entry.second.tensor.expired(); });
  for (const at::Tensor& tensor : tensors) {
    part_table().entries.insert_or_assign(
        tensor.unsafeGetTensorImpl(),
        PartEntry{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), part});
  }
}

void unmark_parts(std::span<const at::Tensor> tensors) {
  const std::lock_guard lock(part_table().mutex);
  for (const at::Tensor& tensor : tensors) part_table().entries.erase(tensor.unsafeGetTensorImpl());
}

std::optional<ModelPart> part_of(const at::Tensor& tensor) {
  const std::lock_guard lock(part_table().mutex);
  const auto found = part_table().entries.find(tensor.unsafeGetTensorImpl());
  if (found == part_table().entries.end()) return {};
  return found->second.part;
}

void require_no_part(const at::Tensor& tensor, const std::string& who) {
  if (const auto part = part_of(tensor)) refuse_part(tensor, *part, who, "call " + part->for_norms);
}

void require_undivided(const at::Tensor& tensor, const std::string& who) {
  if (const auto part = part_of(tensor); part && part->is_divided)
    refuse_part(tensor, *part, who, "give it a SumOverRanks, such as ShardedDataParallel::sum_over_ranks()");
}

}  // namespace kolo::train
