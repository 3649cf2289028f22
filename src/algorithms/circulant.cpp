#include "algorithms/circulant.hpp"

#include "algorithms/pairs.hpp"

namespace kolo::algorithms {

Circulant::Circulant(schedule::ScheduleBuilder& builder, const ScheduleSpec& spec,
                     schedule::BufferName chunks)
    : builder_(builder), spec_(spec), chunks_(chunks), skips_{spec.size}, turns_(builder, spec) {
  while (skips_.back() > 1) skips_.push_back((skips_.back() + 1) / 2);
  builder.lay_scratch_like({chunks, part_of(spec.rank), part_of(spec.size)});
}

schedule::ChunkRange Circulant::slots(int begin, int end) const {
  return schedule::scratch(part_of(begin),
                           {chunks_, part_of((spec_.rank + begin) % spec_.size), part_of(end - begin)});
}

void Circulant::load() {
  const int straight = spec_.size - spec_.rank;
  builder_.copy(slots(0, straight), schedule::input(part_of(spec_.rank), part_of(straight)));
  if (spec_.rank > 0) builder_.copy(slots(straight, spec_.size), schedule::input(0, part_of(spec_.rank)));
}

void Circulant::reduce_scatter(schedule::ChunkRange to) {
  for (std::size_t i = 1; i < skips_.size(); ++i) {
    const int skip = skips_[i];
    const int moved = skips_[i - 1] - skip;
    turns_.send(after(spec_, skip), slots(skip, skip + moved));
    const bool is_last = i + 1 == skips_.size();
    builder_.recv_reduce(before(spec_, skip), is_last ? to : slots(0, moved), slots(0, moved), is_last);
  }
}

void Circulant::all_gather() {
  for (std::size_t i = skips_.size(); i-- > 1;) {
    const int skip = skips_[i];
    const int moved = skips_[i - 1] - skip;
    turns_.send(before(spec_, skip), slots(0, moved));
    builder_.recv(after(spec_, skip), slots(skip, skip + moved));
  }
}

void Circulant::store() {
  const int straight = spec_.size - spec_.rank;
  builder_.copy(schedule::output(part_of(spec_.rank), part_of(straight)), slots(0, straight));
  if (spec_.rank > 0) builder_.copy(schedule::output(0, part_of(spec_.rank)), slots(straight, spec_.size));
}

}  // namespace kolo::algorithms
