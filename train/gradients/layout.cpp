// Reducer: gradients that are laid out anew, by what a backward has shown or as a checkpoint says.
#include <algorithm>
#include <numeric>
#include <utility>

#include "gradients/bucket_assignment.hpp"
#include "gradients/reducer.hpp"
#include "gradients/slice_plan.hpp"
#include "kolo/train/tensor.hpp"

namespace kolo::train {

void Reducer::build(std::span<const std::size_t> order, std::span<const std::size_t> ends) {
  std::vector<ParameterSize> sizes;
  for (const NamedTensor& parameter : parameters_)
    sizes.push_back({parameter.tensor.nbytes(), dtype_of_tensor(parameter.tensor.scalar_type())});
  std::vector<std::size_t> dense;
  std::ranges::copy_if(order, std::back_inserter(dense), [&](std::size_t i) { return !states_[i].is_table; });
  if (tables_) tables_->set_order(order);
  order_.assign(order.begin(), order.end());
  if (!ends.empty()) {
    lay_out(assign_buckets(sizes, dense, ends));
    return;
  }
  // What travels in slices is not to be waited for in larger units.
  const std::uint64_t most = options_.overlap_forward ? kSliceBytes : options_.bucket_bytes;
  lay_out(assign_buckets(sizes, dense, std::min(options_.first_bucket_bytes, most),
                         std::min(options_.bucket_bytes, most)));
}

bool Reducer::may_rebuild() const {
  return options_.rebuild_buckets && !options_.find_unused_parameters && !forward_;
}

void Reducer::rebuild_if_better() {
  if (!may_rebuild()) return;
  if (!std::exchange(rebuilt_, true)) {
    // Ranks may have seen different orders; they must all follow one.
    std::vector<std::uint64_t> order(ready_order_.begin(), ready_order_.end());
    communicator_.broadcast(Buffer(order), share_.root);
    rebuild([&] { build(std::vector<std::size_t>(order.begin(), order.end())); });
  } else if (search_ && !search_->is_over()) {
    if (const auto layout = search_->end_step(communicator_, buckets_, ready_order_, share_.root))
      rebuild([&] { lay_out(*layout); });
  }
}

void Reducer::rebuild(const std::function<void()>& lay_out_anew) {
  const std::vector<Bucket> old = std::move(buckets_);  // keeps the gradients readable
  lay_out_anew();
  for (Parameter& state : states_) {
    if (!state.is_table && state.tensor.grad().defined())
      buckets_[state.bucket].collect(state.slot, state.tensor);
  }
}

Reducer::Layout Reducer::layout() const {
  Layout layout{rebuilt_, order_, {}};
  if (!search_ || !search_->is_over()) return layout;
  std::erase_if(layout.order, [&](std::size_t i) { return !states_[i].is_table; });
  const std::size_t tables = layout.order.size();
  for (const Bucket& bucket : buckets_) {
    for (const Bucket::Slot& slot : bucket.slots()) layout.order.push_back(slot.parameter);
    layout.ends.push_back(layout.order.size() - tables);
  }
  return layout;
}

void Reducer::restore(const Layout& layout) {
  std::vector<std::size_t> all(states_.size()), sorted = layout.order;
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::ranges::sort(sorted);
  if (!may_rebuild() || sorted != all) return;
  rebuilt_ = layout.is_rebuilt;
  const auto dense = std::ranges::count(states_, false, &Parameter::is_table);
  const bool is_measured = search_ && !layout.ends.empty() && std::cmp_equal(layout.ends.back(), dense);
  rebuild([&] { build(layout.order, is_measured ? layout.ends : std::vector<std::size_t>{}); });
  if (is_measured) search_->stop();
}

}  // namespace kolo::train
