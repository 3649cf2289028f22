// How ranks announce a call and learn that all have announced the same one; and the calls that are over then,
// because their data has come with the descriptors.
#include <cstring>
#include <optional>

#include "engine/executor.hpp"
#include "engine/shared_memory/team.hpp"

namespace kolo::engine::shared_memory {
namespace {

/// The call's place in the slot and, as far as it fits, its number in the communicator. Ranks that have made
/// the same calls agree on both.
std::uint64_t note_number(std::uint64_t place, std::uint64_t call) {
  return (call << 32 | ((place + 1) & 0xffffffff)) & ~CallDescriptor::kBehindOthers;
}

/// Whether private data longer than `kShortBytes` travels beside the descriptor: between such calls no rank
/// waits. A call that its caller waits for, and to which all ranks contribute, is faster in slices.
bool is_eager(const Running& running, bool behind_others) {
  const bool is_from_one = running.call.shape->form.input == schedule::Held::all_at_root;
  return running.shown <= kDescriptorBytes && (behind_others || is_from_one);
}

}  // namespace

void Team::announce(const OperationSpec& spec, bool behind_others) {
  if (finished_ == announced_) first_ = announced_;  // calls made one at a time stay in the nearest cache
  Running& running = this->running(announced_);
  running.state = Running::State::announced;
  running.call.place = announced_++;
  running.number = note_number(running.call.place, spec.call);
  running.shown = spec.prepared->shape.most_shown;
  running.losses = transport::shared_memory_losses();
  running.announced_ranks = 0;
  running.works_for_all = running.is_agreed = false;
  Call& call = running.call;
  call.shape = &spec.prepared->shape;
  call.input = static_cast<const std::byte*>(spec.input);
  call.output = static_cast<std::byte*>(spec.output);
  call.listed = spec.listed;
  call.fold = call.shape->fold;
  CallDescriptor& descriptor = running.descriptor_of(rank_);
  descriptor.signature = spec.signature;
  running.signature = spec.signature;  // a copy to compare with: other cores have the descriptor's line
  const std::uint64_t bytes = call.shape->shown_bytes(rank_);
  bool is_shared = false;
  if (running.shown > arrival_->always_short) {
    // All local peers use one name. Memory that cannot be shared with one of them counts as private.
    const auto name = [&](const void* data, std::uint64_t length) {
      std::optional<transport::RemoteRange> range;
      for (transport::LocalPeer* local_peer : local_peers_) {
        if (local_peer == nullptr) continue;
        range = local_peer->share(data, length);
        if (!range) return transport::RemoteRange{};
      }
      return *range;
    };
    descriptor.memory[0] = descriptor.memory[1] =
        bytes > 0 && !call.is_input_listed() ? name(call.input, bytes) : transport::RemoteRange{};
    if (call.shape->form.writes_to_others() && call.output != call.input)
      descriptor.memory[1] = name(call.output, bytes);
    is_shared = descriptor.memory[0].region != 0 && descriptor.memory[1].region != 0;
    if (!is_shared) descriptor.memory[0] = descriptor.memory[1] = {};
  }
  const bool is_beside =
      running.shown <= arrival_->always_short || (!is_shared && is_eager(running, behind_others));
  if (bytes > 0 && is_beside) {
    std::byte* content = running.content_of(rank_);
    if (bytes > CallDescriptor::kInline) prefault_short();
    if (call.is_input_listed()) [[unlikely]] {
      for (int r = 0; r < size(); ++r) {
        const std::size_t part =
            call.shape->parts[static_cast<std::size_t>(r)].count * call.shape->element_bytes;
        if (part > 0) std::memcpy(content, call.input_of(r), part);
        content += part;
      }
    } else if (bytes > arrival_->always_short && size() > 2) {
      kernels::copy_for_others(content, call.input, bytes);
    } else {
      std::memcpy(content, call.input, bytes);
    }
  }
  descriptor.number.store(running.number | (behind_others ? CallDescriptor::kBehindOthers : 0),
                          std::memory_order_release);
  arrival_->announced(running);
  if (bytes == 0 || is_beside || is_shared || finished_ + 1 != announced_) return;
  // This rank's data must pass through the segments, so it puts the first piece down before its peers
  // need it: that saves a wait.
  call.inputs.clear();
  call.outputs.clear();
  call.owner = -1;
  begin_algorithm(running);
}

/// Whether all ranks have announced this call. If one has announced another call, the call fails.
bool Team::is_agreed(Running& running, Operation* operation, bool& moved) {
  const int announced = running.announced_ranks;
  const Arrival::Announced found = arrival_->poll(running);
  if (found == Arrival::Announced::by_all) return running.is_agreed = true;
  moved = moved || running.announced_ranks > announced;
  if (found == Arrival::Announced::not_yet || operation == nullptr) return false;
  failed_ = true;
  const OperationSpec& spec = operation->spec();
  const int rank = running.announced_ranks;
  listener_.on_disagreement(spec.call, spec.signature, spec.ranks()[static_cast<std::size_t>(rank)],
                            running.descriptor_of(rank).signature);
  return false;
}

/// Whether each rank has put its contribution beside its descriptor. All ranks get the same result, because
/// all see the same descriptors.
bool Team::is_short(const Running& running) const {
  if (running.shown <= arrival_->always_short) return true;
  for (int r = 0; r < size(); ++r) {
    const CallDescriptor& descriptor = running.descriptor_of(r);
    // Relaxed: Arrival::poll() has acquired it.
    const std::uint64_t number = descriptor.number.load(std::memory_order_relaxed);
    const bool is_beside =
        descriptor.memory[0].region == 0 && is_eager(running, (number & CallDescriptor::kBehindOthers) != 0);
    if (running.call.shape->shown_bytes(r) > 0 && !is_beside) return false;
  }
  return true;
}

}  // namespace kolo::engine::shared_memory
