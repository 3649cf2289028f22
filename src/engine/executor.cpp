#include "engine/executor.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace kolo::engine {

std::shared_ptr<Operation> Executor::reuse() {
  constexpr std::size_t kLooks = 8;
  for (std::size_t look = 0; look < std::min(kLooks, retired_.size()); ++look) {
    const bool is_free = retired_.front().use_count() == 1;  // else a caller still holds its Work
    // A copy, not a move: only the count orders this thread behind the one that dropped the last Work.
    auto operation = retired_.front();
    retired_.pop_front();
    if (is_free) return operation;
    retired_.push_back(std::move(operation));
  }
  return nullptr;
}

void Executor::retire(std::shared_ptr<Operation> operation) {
  operation->give_back_memory();
  constexpr std::size_t kMostRetired = 256;
  if (retired_.size() < kMostRetired) retired_.push_back(std::move(operation));
}

void Executor::check_unexpected_messages(const OperationSpec& spec) {
  if (!peers_.may_hold_unexpected()) return;
  for (const int peer : spec.ranks()) {
    peers_[peer].link.for_each_unexpected_of(
        spec.group->context, spec.sequence, [&](const transport::Tag&, const transport::Signature& theirs) {
          if (!(theirs == spec.signature))
            listener_.on_disagreement(spec.sequence, spec.signature, peer, theirs);
        });
  }
}

}  // namespace kolo::engine
