#include "kolo/train/grid.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/train/averages.hpp"

namespace kolo {
namespace {

std::string text_of(const GridOptions& options) {
  return "data " + std::to_string(options.data) + ", sharded " + std::to_string(options.sharded) +
         ", pipeline " + std::to_string(options.pipeline) + ", tensor " + std::to_string(options.tensor);
}

void require_sound(const GridOptions& options, int ranks) {
  for (const int parts : {options.data, options.sharded, options.pipeline, options.tensor}) {
    if (parts < 1)
      throw InvalidArgumentError("a grid of " + text_of(options) + ": each part is 1 or more", {});
  }
  const std::int64_t cells = std::int64_t{options.data} * options.sharded * options.pipeline * options.tensor;
  if (cells == ranks) return;
  throw InvalidArgumentError("a grid of " + text_of(options) + " takes " + std::to_string(cells) +
                                 " ranks, and there are " + std::to_string(ranks),
                             {});
}

}  // namespace

Grid::Grid(Communicator communicator, const GridOptions& options) : all_(std::move(communicator)) {
  if (!all_.valid()) throw InvalidArgumentError("the communicator is not valid", {});
  agree(all_, "Grid", text_of(options), [&] { require_sound(options, all_.size()); });
  const int rank = all_.rank();
  const int slice = rank % options.tensor;
  const int shard = rank / options.tensor % options.sharded;
  const int replica = rank / options.tensor / options.sharded % options.data;
  const int stage = rank / options.tensor / options.sharded / options.data;
  const auto color = [&](int a, int b, int c) {
    return (a * options.sharded * options.data + b) * options.tensor + c;
  };
  tensor_ = all_.split(rank / options.tensor);
  sharded_ = all_.split(color(stage, replica, slice));
  data_ = all_.split(color(stage, shard, slice));
  pipeline_ = all_.split(color(0, replica * options.sharded + shard, slice));
  replica_ = all_.split(replica);
}

int Grid::batch_part() const {
  return data_.rank() * sharded_.size() + sharded_.rank();
}

}  // namespace kolo
