#include "elastic/held_state.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/transfer.hpp"
#include "placement/placement.hpp"
#include "ranks/agreement.hpp"
#include "ranks/model.hpp"

namespace kolo::train {
namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

Sizes sizes_of(const PlacedParameter& one) {
  return one.region.range ? Sizes{one.region.range->length} : cut_sizes(one.whole, one.region);
}

/// The elements of a part, as they are sent.
at::Tensor sent_form(const at::Tensor& tensor) {
  return tensor.detach().cpu().contiguous();
}

Buffer bytes_of(const at::Tensor& tensor) {
  return {tensor.data_ptr(), tensor.nbytes(), DType::uint8};
}

}  // namespace

HeldState::HeldState(std::vector<PlacedParameter> held, Communicator ranks) : ranks_(std::move(ranks)) {
  const bool is_alone = !ranks_.valid();
  const std::string text = describe(held);
  const auto texts = is_alone ? std::vector<std::string>{text} : texts_of_all(ranks_, text);
  index_.files.resize(1);  // each rank reads as if there were no other
  for (std::size_t r = 0; r < texts.size(); ++r) {
    const int rank = static_cast<int>(r);
    for (const PlacedParameter& one : described(texts[r])) {
      StoredTensor& tensor = index_.tensors[one.name];
      if (tensor.dtype.empty() || (!is_alone && rank == ranks_.rank())) {  // what is own may have other sizes
        tensor.dtype = dtype_name(one.tensor.scalar_type());
        tensor.shape = one.whole;
      }
      if (!one.order.empty()) tensor.order = one.order;
      if (range_of(one.whole, one.region).length == 0) continue;
      const auto same = std::ranges::find(tensor.parts, one.region, &HeldRegion::region);
      HeldRegion& part =
          same == tensor.parts.end() ? tensor.parts.emplace_back(HeldRegion{one.region}) : *same;
      if (part.ranks.empty() || part.ranks.back() != rank) part.ranks.push_back(rank);
    }
  }
  for (auto& [name, tensor] : index_.tensors) order_regions(name, tensor.shape, tensor.parts);
  for (PlacedParameter& one : held) {
    one.region = shortest_region(one);
    if (find(one.name, one.region) == nullptr) held_.emplace(one.name, std::move(one));
  }
  std::map<std::string, PlacedParameter> read_first;  // before it is known what is wanted
  for (const auto& [name, tensor] : index_.tensors) {
    if ((tensor.dtype == "U8" || name.starts_with(of_rank(0))) && find(name, {}) == nullptr)
      read_first[name] = whole_tensor(name, at::empty(tensor.shape, scalar_type(tensor.dtype)));
  }
  fetch(read_first);
}

const at::Tensor* HeldState::find(const std::string& name, const Region& region) const {
  for (auto [at, end] = held_.equal_range(name); at != end; ++at)
    if (at->second.region == region) return &at->second.tensor;
  return nullptr;
}

void HeldState::fetch(const std::map<std::string, PlacedParameter>& wanted) {
  if (!ranks_.valid()) return;
  std::vector<PlacedParameter> mine;
  for (const auto& [name, one] : wanted) mine.push_back(one);
  const std::vector<std::string> texts = texts_of_all(ranks_, describe(mine));
  std::vector<at::Tensor> sent;
  std::vector<Work> works;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    for (const PlacedParameter& one : described(texts[static_cast<std::size_t>(rank)])) {
      const StoredTensor& tensor = index_.tensors.at(one.name);
      for (const auto& [region, holders] : tensor.parts) {
        if (std::ranges::count(holders, rank) > 0 || !is_needed(tensor, region, one)) continue;
        if (holders.front() == ranks_.rank()) {
          sent.push_back(sent_form(*find(one.name, region)));
          works.push_back(ranks_.send_async(bytes_of(sent.back()), rank));
        } else if (rank == ranks_.rank()) {
          PlacedParameter part{.name = one.name, .tensor = {}, .whole = tensor.shape, .region = region};
          part.tensor = at::empty(sizes_of(part), scalar_type(tensor.dtype));
          works.push_back(ranks_.recv_async(bytes_of(part.tensor), holders.front()));
          held_.emplace(one.name, std::move(part));
        }
      }
    }
  }
  kolo::wait_all(works);
}

at::Tensor HeldState::read(const PlacedParameter& here) {
  const at::Tensor* const own = find(here.name, shortest_region(here));
  return own != nullptr ? own->detach() : StateReader::read(here);
}

void HeldState::read_part(const std::string& name, const HeldRegion& part, void* to) {
  const at::Tensor from = sent_form(*find(name, part.region));
  std::memcpy(to, from.data_ptr(), from.nbytes());
}

std::vector<PlacedParameter> HeldState::from(Communicator& communicator,
                                             const std::vector<PlacedParameter>& mine, int root) {
  const c10::NoGradGuard no_grad;
  const bool is_root = communicator.rank() == root;
  std::vector<PlacedParameter> held = described(text_from(communicator, is_root ? describe(mine) : "", root));
  NamedTensors tensors;
  for (std::size_t i = 0; i < held.size(); ++i) {
    PlacedParameter& one = held[i];
    one.tensor = is_root ? sent_form(mine[i].tensor) : at::empty(sizes_of(one), one.tensor.scalar_type());
    tensors.push_back({one.name, one.tensor});
  }
  Replicator(tensors).run(communicator, root);
  return held;
}

at::Tensor pack(const std::vector<PlacedParameter>& held) {
  const c10::NoGradGuard no_grad;
  const std::string text = describe(held);
  const std::size_t length = text.size();
  std::size_t total = aligned(sizeof length + length);
  for (const PlacedParameter& one : held) total += aligned(one.tensor.nbytes());
  const at::Tensor bytes = at::empty({static_cast<std::int64_t>(total)}, at::kByte);
  auto* const begin = static_cast<char*>(bytes.data_ptr());
  std::memcpy(begin, &length, sizeof length);
  std::memcpy(begin + sizeof length, text.data(), length);
  const std::vector<PlacedParameter> copies = unpack(bytes);
  for (std::size_t i = 0; i < held.size(); ++i)
    copies[i].tensor.copy_(held[i].tensor.detach().reshape(copies[i].tensor.sizes()));
  return bytes;
}

std::vector<PlacedParameter> unpack(const at::Tensor& bytes) {
  auto* at = static_cast<char*>(bytes.data_ptr());
  std::size_t length = 0;
  std::memcpy(&length, at, sizeof length);
  std::vector<PlacedParameter> held = described({at + sizeof length, length});
  at += aligned(sizeof length + length);
  for (PlacedParameter& one : held) {
    one.tensor = at::from_blob(
        at, sizes_of(one), [bytes](void*) {}, one.tensor.scalar_type());
    at += aligned(one.tensor.nbytes());
  }
  return held;
}

}  // namespace kolo::train
